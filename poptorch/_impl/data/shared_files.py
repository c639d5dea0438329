"""Shared memory that ended processes left behind.

torch gives a shared tensor a file `torch_<process id>_...` and unlinks it as soon as it is mapped. A process that ends
between the two (a data worker does, when its queue thread is still sharing a tensor) leaves the file, and with it the
memory, until the machine restarts. Only files of processes that the caller started, and that are gone, are touched.
"""

import multiprocessing.util
import pathlib

_FOLDER = pathlib.Path("/dev/shm")


def make_folder_of_sockets():
    """Makes the temporary folder by whose sockets processes pass shared tensors to each other.

    Processes started later use that of the program, which removes it when it ends. Each would make its own otherwise, and
    one that is ended by a signal, as workers are that wait for the next epoch, would leave it behind.
    """
    multiprocessing.util.get_temp_dir()


def is_running(process_id):
    """Whether the process exists and has not ended; one that only waits to be collected has."""
    try:
        state = pathlib.Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def remove_left_by(process_ids):
    """Unlinks the files of those of these processes that have ended; 0 stands for none."""
    for number in filter(None, process_ids):
        if not is_running(number):
            remove_of(number)


def remove_of(process_id):
    """Unlinks the files of this process, for one that ends now."""
    for file in _FOLDER.glob(f"torch_{process_id}_*"):
        file.unlink(missing_ok=True)
