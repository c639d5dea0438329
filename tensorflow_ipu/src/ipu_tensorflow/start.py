"""What happens once, when a program imports the API."""

import ipu_tensorflow.scopes  # noqa: F401  (from here on TensorFlow takes names of IPUs as devices)
from ipu_tensorflow import core, flags
from ipu_tensorflow.legacy_keras import use_legacy_keras

core.check()
flags.check()
use_legacy_keras()
