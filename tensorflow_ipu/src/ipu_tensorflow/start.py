"""What happens once, when a program imports the API."""

from ipu_tensorflow import flags
from ipu_tensorflow.legacy_keras import use_legacy_keras

flags.check()
use_legacy_keras()
