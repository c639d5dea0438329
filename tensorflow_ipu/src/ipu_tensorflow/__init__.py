"""TensorFlow programs on IPUs. Users import it as `from tensorflow.python import ipu`."""

__version__ = "3.4.0-open.1"  # that of the core
