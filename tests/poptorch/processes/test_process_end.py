"""However a program ends, the processes that load for it end too, within seconds, and leave nothing in shared memory."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from poptorch import SharingStrategy

pytestmark = pytest.mark.xdist_group("loading")

PROGRAM = """
import os, sys, time, torch, poptorch

BUSY = "{folder}/busy"  # a file: from now on rows do not come

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        if os.path.exists(BUSY):
            {busy}
        return torch.full((1000,), float(index)), index

def main():
    torch.multiprocessing.set_sharing_strategy("{sharing}")
    data = poptorch.DataLoader(
        poptorch.Options(), Rows(), batch_size=4, num_workers={workers}, mode=poptorch.DataLoaderMode.Async,
        async_options=dict(sharing_strategy=poptorch.SharingStrategy.{strategy}),
    )
    rows = iter(data)
    next(rows)
    print(data._accessor._process.pid, flush=True)
    {then}

if __name__ == "__main__":
    main()
"""


def members(session):
    """Living processes of a session."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(entry))
    return found


def started(tmp_path, strategy, workers, busy="pass", sharing="file_descriptor", then="time.sleep(1000)", **environment):
    """(the program after its first item, id of its loading process, what shared memory held before)."""
    path = tmp_path / "program.py"
    path.write_text(
        PROGRAM.format(strategy=strategy.name, workers=workers, busy=busy, sharing=sharing, then=then, folder=tmp_path)
    )
    before = set(os.listdir("/dev/shm"))
    program = subprocess.Popen(
        [sys.executable, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )
    return program, int(program.stdout.readline()), before


def assert_all_end(program, before, seconds=80):
    program.wait()
    deadline = time.monotonic() + seconds
    while members(program.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = members(program.pid)
    for number in left:
        os.kill(number, signal.SIGKILL)
    assert left == []
    mine = {name for name in set(os.listdir("/dev/shm")) - before if name.startswith(("torch_", "sem.mp-"))}
    # Memory of torch has the number of its process in its name: one that runs is of another test.
    others = {name for name in mine if name.startswith("torch_") and os.path.exists(f"/proc/{name.split('_')[1]}")}
    assert mine - others == set()


@pytest.fixture
def temporary():
    """A folder with a short name: sockets are made below it."""
    with tempfile.TemporaryDirectory(prefix="end") as folder:
        yield folder


NEVER_COMES = "open(BUSY, 'w').close(); [next(rows) for _ in range(99)]"
BUSY = {"sleeping": "time.sleep(1000)", "holding the interpreter": "sum(iter(int, 1))"}


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(
            s, marks=() if s in (SharingStrategy.ForkServer, SharingStrategy.SharedMemory) else pytest.mark.slow
        )
        for s in SharingStrategy
    ],
)
def test_the_loading_process_and_its_workers_end_with_a_killed_program(tmp_path, strategy, workers):
    program, _, before = started(tmp_path, strategy, workers)
    program.kill()
    assert_all_end(program, before)


EVERY_WAY = [(s, workers, busy) for s in SharingStrategy for workers in (0, 2) for busy in BUSY]
QUICK = [(SharingStrategy.ForkServer, 2, "holding the interpreter")]


@pytest.mark.parametrize(
    "strategy, workers, busy",
    [*QUICK, *(pytest.param(*way, marks=pytest.mark.slow) for way in EVERY_WAY if way not in QUICK)],
)
def test_also_when_the_data_set_does_not_come_back(tmp_path, strategy, workers, busy):
    program, _, before = started(tmp_path, strategy, workers, BUSY[busy], then=NEVER_COMES)
    time.sleep(1)
    program.kill()
    assert_all_end(program, before)


@pytest.mark.parametrize(
    "strategy", [SharingStrategy.ForkServer, pytest.param(SharingStrategy.Fork, marks=pytest.mark.slow)]
)
def test_workers_end_with_a_loading_process_that_is_killed_together_with_the_program(tmp_path, strategy):
    program, loading, before = started(tmp_path, strategy, 2, BUSY["sleeping"], then=NEVER_COMES)
    time.sleep(1)
    program.send_signal(signal.SIGSTOP)
    os.kill(loading, signal.SIGKILL)
    program.kill()
    assert_all_end(program, before)


@pytest.mark.parametrize(
    "strategy", [SharingStrategy.Fork, pytest.param(SharingStrategy.ForkServer, marks=pytest.mark.slow)]
)
def test_memory_shared_by_name_is_removed_too(tmp_path, strategy):
    program, _, before = started(tmp_path, strategy, 2, sharing="file_system")
    program.kill()
    assert_all_end(program, before)


@pytest.mark.parametrize("then", [pytest.param("data.terminate()", marks=pytest.mark.slow), "pass"])
@pytest.mark.parametrize(
    "strategy", [SharingStrategy.ForkServer, pytest.param(SharingStrategy.SharedMemory, marks=pytest.mark.slow)]
)
def test_an_ordinary_end_leaks_no_semaphores_and_no_temporary_folders(tmp_path, temporary, strategy, then):
    program, _, before = started(tmp_path, strategy, 2, then=then, TMPDIR=temporary)
    _, said = program.communicate()
    assert (program.returncode, said) == (0, "")
    assert_all_end(program, before)
    assert os.listdir(temporary) == []


SYNC = """
import torch, poptorch
rows = torch.utils.data.TensorDataset(torch.arange(24.0).view(12, 2))
for _ in poptorch.DataLoader(poptorch.Options(), rows, batch_size=2, num_workers=2):
    pass
"""


def test_workers_of_the_program_leave_no_temporary_folders(temporary):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": temporary}
    subprocess.run([sys.executable, "-c", SYNC], check=True, env=environment)
    assert os.listdir(temporary) == []


def test_the_end_of_a_forked_child_does_not_stop_the_loading_process_of_its_parent(tmp_path):
    program, _, before = started(
        tmp_path,
        SharingStrategy.Fork,
        0,
        then="""
    import os
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert sum(len(index) for _, index in data) == 24
    data.terminate()
    print("all")""",
    )
    said, errors = program.communicate()
    assert (program.returncode, said) == (0, "all\n"), errors
    assert_all_end(program, before)


def test_a_loading_process_that_was_interrupted_alone_is_an_error(tmp_path):
    program, loading, before = started(
        tmp_path,
        SharingStrategy.Fork,
        0,
        then="""
    sys.stdin.readline()
    try:
        for _ in range(100):
            for _ in data:
                pass
    except poptorch.Error as error:
        print(error.message)""",
    )
    os.kill(loading, signal.SIGINT)
    said, errors = program.communicate("\n")
    assert said == "The data loading process was interrupted and has ended: make a new loader.\n", errors
    assert_all_end(program, before)


INTERRUPTED = """
import sys, time, torch, poptorch

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        {row}
        return torch.full((1000,), float(index))

def main():
    print("making", flush=True)
    data = poptorch.DataLoader(
        poptorch.Options(), Rows(), batch_size=4, num_workers={workers}, mode=poptorch.DataLoaderMode.Async,
        async_options=dict(sharing_strategy=poptorch.SharingStrategy.{strategy}),
    )
    print(data._accessor._process.pid, flush=True)
    while True:
        for item in data:
            pass

if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def interrupted_program(tmp_path, strategy, workers, row="pass"):
    path = tmp_path / "program.py"
    path.write_text(INTERRUPTED.format(strategy=strategy.name, workers=workers, row=row))
    return subprocess.Popen(
        [sys.executable, path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "POPTORCH_LOG_LEVEL": "DEBUG"},
    )


def assert_ended_quietly(program, before):
    said, errors = program.communicate(timeout=240)
    assert (program.returncode, said.splitlines()[-1]) == (0, "interrupted"), errors
    others = [
        line for line in errors.splitlines() if "[debug]" not in line and "This DataLoader will create" not in line
    ]
    assert [line for line in others if "warnings.warn" not in line and "super().__init__" not in line] == []
    assert_all_end(program, before)
    return errors


@pytest.mark.parametrize("row", ["pass", "time.sleep(0.05)"], ids=["ring full", "loading"])
@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    "strategy",
    [
        SharingStrategy.ForkServer,
        *(pytest.param(s, marks=pytest.mark.slow) for s in SharingStrategy if s != SharingStrategy.ForkServer),
    ],
)
def test_sigint_to_both_processes_ends_them_without_a_word(tmp_path, strategy, workers, row):
    before = set(os.listdir("/dev/shm"))
    program = interrupted_program(tmp_path, strategy, workers, row)
    assert program.stdout.readline() == "making\n"
    loading = int(program.stdout.readline())
    time.sleep(0.3)
    os.kill(loading, signal.SIGINT)
    os.kill(program.pid, signal.SIGINT)
    errors = assert_ended_quietly(program, before)
    said = re.findall(r"AsynchronousDataAccessor worker process: (\d+)$", errors, re.M)
    assert said == [str(loading)]


@pytest.mark.parametrize("seconds", [0.3, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.0, 1.0, 1.5))])
def test_ctrl_c_while_the_loader_is_made_reaches_the_program_alone(tmp_path, seconds):
    """The whole process group gets the signal: the fork server, in the middle of its import, too."""
    before = set(os.listdir("/dev/shm"))
    program = interrupted_program(tmp_path, SharingStrategy.ForkServer, 2)
    assert program.stdout.readline() == "making\n"
    time.sleep(seconds)
    os.killpg(program.pid, signal.SIGINT)
    assert_ended_quietly(program, before)


MANY = """
import os, poptorch, torch, warnings
warnings.filterwarnings("ignore", message="This DataLoader will create")

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.tensor(index), torch.tensor(os.getppid())

def main():
    made = [
        poptorch.DataLoader(poptorch.Options(), Rows(), batch_size=4, num_workers=40, mode=poptorch.DataLoaderMode.Async)
        for _ in range(2)
    ]
    for data in made:
        parents, rows = set(), []
        for index, parent in data:
            rows += index.tolist()
            parents |= set(parent.tolist())
        assert rows == list(range(400))
        loading = data._accessor._process.pid
        assert parents == {loading}, "workers are forked by the loading process"
        with open(f"/proc/{loading}/stat") as file:
            server = int(file.read().rsplit(")", 1)[1].split()[1])
        assert server != os.getpid() and "libtorch" in open(f"/proc/{server}/maps").read(), "the fork server has torch"
        data.terminate()

if __name__ == "__main__":
    main()
"""


def test_forty_workers_start_without_an_interpreter_each_and_leak_nothing(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(MANY)
    before = set(os.listdir("/dev/shm"))
    program = subprocess.Popen(
        [sys.executable, path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    said, errors = program.communicate(timeout=240)
    assert (program.returncode, said, errors) == (0, "", "")
    assert_all_end(program, before)


def test_importing_poptorch_does_not_settle_how_processes_start():
    result = subprocess.run(
        [sys.executable, "-c", "import multiprocessing, poptorch; multiprocessing.set_start_method('spawn')"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (result.returncode, result.stderr) == (0, "")


LEAVING = """
import sys, threading, time, torch, poptorch
poptorch.logger.setLevel("CRITICAL")

class Net(torch.nn.Linear):
    def forward(self, x):
        for _ in range(20):
            x = torch.tanh(super().forward(x))
        return x

quiet = poptorch.Options().showCompilationProgressBar(False)
x = torch.rand(4000, 8)
runs = poptorch.inferenceModel(Net(8, 8), quiet)
runs(x)

def forever(work):
    def loop():
        while True:
            work()
    threading.Thread(target=loop, daemon=True).start()

for work in (runs.copyWeightsToHost, runs.copyWeightsToDevice, runs.copyWeightsToHost, runs.getPerfCounters):
    forever(work)
time.sleep(0.1 + 0.05 * {number})
print("done")
sys.exit(3)
"""


def test_a_program_may_end_while_daemon_threads_use_a_device():
    """Python ends daemon threads in the middle of native code, which must not end the process with an abort."""
    for number in range(6):
        done = subprocess.run(
            [sys.executable, "-c", LEAVING.format(number=number)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert (done.returncode, done.stdout, done.stderr) == (3, "done\n", "")
