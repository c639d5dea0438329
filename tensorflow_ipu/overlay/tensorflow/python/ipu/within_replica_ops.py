"""`ipu.within_replica_ops`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

raise ImportError("ipu.within_replica_ops is of a later generation of the API than the one of IPUConfig and utils.create_ipu_config")
