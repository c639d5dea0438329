"""Becomes the program of an instance: says in its environment which instance it is, and gives the process to it.

A script of its own (`poprun` starts it by its path): it needs no package, and takes 20 ms.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def _environment(own):
    """The variables of an instance, from those that torch.distributed.run has set."""
    return {
        "POPDIST_INSTANCE_INDEX": own["RANK"],
        "POPDIST_NUM_INSTANCES": own["WORLD_SIZE"],
        "POPDIST_LOCAL_INSTANCE_INDEX": own["LOCAL_RANK"],
        # What launchers through MPI set; programs and poptorch.Options read it.
        "OMPI_COMM_WORLD_RANK": own["RANK"],
        "OMPI_COMM_WORLD_SIZE": own["WORLD_SIZE"],
        "OMPI_COMM_WORLD_LOCAL_RANK": own["LOCAL_RANK"],
        "OMPI_COMM_WORLD_LOCAL_SIZE": own["LOCAL_WORLD_SIZE"],
    }


def main():
    shown, program = sys.argv[1], sys.argv[2:]
    # However poprun ends, its instances do not stay.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    os.environ.update(_environment(os.environ))
    if shown not in ("all", os.environ["RANK"]):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    try:
        os.execvp(program[0], program)
    except OSError as error:
        sys.exit(f"poprun: {program[0]} cannot be started: {error.strerror}")


main()
