"""`ipu.serving`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

raise ImportError("ipu.serving is of a later generation of the API than the one of IPUConfig and utils.create_ipu_config")
