"""How the processes of a job exchange values: torch.distributed, which popdist.init() sets up."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

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


def exchange_of(native: Any) -> Callable[[bytes], bytes]:
    """`exchange_bytes` for a compiled program. The first call raises popart_exception in all processes unless all have the same."""
    is_checked = False
    program = weakref.ref(native)  # which keeps what is returned: a circle through it would never be collected

    def gather(mine: bytes) -> list[bytes]:
        parts, size = exchange_bytes(mine), len(mine)
        return [parts[at : at + size] for at in range(0, len(parts), size)]

    def exchange(mine: bytes) -> bytes:
        nonlocal is_checked
        if not is_checked:
            from popdist._impl import same_programs

            running = program()
            assert running is not None  # it calls this
            difference = same_programs.first_difference(running.machine_text(), gather)
            if difference is not None:
                raise popart_exception(f"the processes of the job do not run the same program: {difference}")
            is_checked = True
        return exchange_bytes(mine)

    return exchange
