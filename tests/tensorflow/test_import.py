"""Chapter 1: where programs find the API."""


def test_the_api_is_found_below_tensorflow_python():
    from tensorflow.python import ipu

    assert ipu.__name__ == "tensorflow.python.ipu"
