"""What happens once, when a program imports the API."""

from ipu_tensorflow.legacy_keras import use_legacy_keras

use_legacy_keras()
