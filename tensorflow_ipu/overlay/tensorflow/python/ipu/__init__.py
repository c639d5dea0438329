"""The API for IPUs: `from tensorflow.python import ipu`."""
