"""How the processes of a job exchange values: torch.distributed, which popdist.init() sets up."""

from __future__ import annotations

from popart._impl.exceptions import popart_exception


def exchange_bytes(mine: bytes) -> bytes:
    """The bytes of all processes, one after another in their order, for those of this one.

    Raises:
        popart_exception: torch.distributed is not set up.
    """
    import popdist

    if popdist.isPopdistEnvSet() and not popdist.isBackendInitialized():
        popdist.init()
    from popdist._impl import backend
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        raise popart_exception(
            "the processes of the job cannot exchange values: torch.distributed is not set up. Start the program through "
            "poprun, or call torch.distributed.init_process_group in every process."
        )
    return backend.exchange_bytes(mine)
