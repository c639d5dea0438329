"""TensorFlow programs on IPUs. Users import it as `from tensorflow.python import ipu`."""
