"""poprun starts the instances, and the job ends as it should: well, or soon and with a clear error."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from ports import reserved_port

POPRUN = [sys.executable, "-m", "popdist"]
SEEN = """
import json, os, popdist, sys
print(json.dumps([popdist.getInstanceIndex(), popdist.getNumInstances(), popdist.getNumLocalReplicas(),
                  popdist.getReplicaIndexOffset(), os.environ["OMPI_COMM_WORLD_RANK"], os.environ.get("POPTORCH_CACHE_DIR"),
                  sys.argv[1:]]) + chr(10), end="", flush=True)
"""


def start(tmp_path, code, *options, arguments=(), instances=2):
    program = tmp_path / "program.py"
    program.write_text(code)
    return subprocess.Popen(
        [*POPRUN, "-n", str(instances), *options, sys.executable, str(program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def run(tmp_path, code, *options, **keywords):
    """(lines printed, lines on standard error, exit code)."""
    job = start(tmp_path, code, *options, **keywords)
    out, errors = job.communicate(timeout=120)
    return out.splitlines(), errors.splitlines(), job.returncode


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_each_instance_knows_its_place_and_gets_the_arguments(tmp_path):
    out, errors, code = run(
        tmp_path,
        SEEN,
        "--num-replicas",
        "6",
        "--executable-cache-path",
        str(tmp_path / "cache"),
        arguments=["--epochs", "3", "-v"],
    )
    assert (code, errors) == (0, [])
    cache = str(tmp_path / "cache")
    assert sorted(map(json.loads, out)) == [
        [0, 2, 3, 0, "0", cache, ["--epochs", "3", "-v"]],
        [1, 2, 3, 3, "1", cache, ["--epochs", "3", "-v"]],
    ]


def test_one_instance_may_be_heard_alone_and_the_topology_be_said(tmp_path):
    options = ["--only-output-from-instance", "1", "--print-topology", "yes", "--vipu-partition", "p"]
    out, errors, code = run(tmp_path, SEEN, *options)
    assert code == 0 and json.loads(out[-1])[0] == 1
    assert [line.split()[0] for line in out[:-1]] == ["instance", "0", "1"]
    assert errors == [
        "poprun: --vipu-partition has no effect: each instance has an emulated system of its own, so nothing is reserved"
    ]


WAITS = """
import os, popdist, signal, sys, time
os.write(1, f"{{os.getpid()}}\\n".encode())
if popdist.getInstanceIndex() == 1:
    {then}
time.sleep(1000)
"""


@pytest.mark.parametrize(
    "then, how, exit_code",
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL", 137),
        pytest.param("raise KeyError('mine')", "ended with exit code 1: KeyError: 'mine'", 1, marks=pytest.mark.slow),
        ("sys.exit(7)", "ended with exit code 7: its error is above", 7),
    ],
)
def test_an_instance_that_ends_badly_ends_the_job(tmp_path, then, how, exit_code):
    out, errors, code = run(tmp_path, WAITS.format(then=then))
    assert code == exit_code
    said = [line for line in errors if line.startswith("poprun: ")]
    assert len(said) == 2 and said[0].startswith("poprun: instance 1 of 2 (pid ") and said[0].endswith(f") {how}")
    assert said[1] == "poprun: the job has ended; the other instances were stopped"
    assert ("KeyError: 'mine'" in errors) == ("KeyError" in then)
    assert not any(is_alive(process) for process in out)


FOLLOWS = """
import atexit, os, pathlib, sys, time
left = pathlib.Path(sys.argv[1])
atexit.register(lambda: (left.touch(), time.sleep(1)))  # called behind what popdist registers
import popdist
if popdist.getInstanceIndex() == 1:
    {then}
while not left.exists():
    time.sleep(0.01)
os.abort()  # as a thread of torch.distributed does that finds the other instance gone
"""


@pytest.mark.parametrize(
    "then, how, exit_code",
    [
        ("sys.exit(7)", "ended with exit code 7: its error is above", 7),
        pytest.param("raise KeyError('mine')", "ended with exit code 1: KeyError: 'mine'", 1, marks=pytest.mark.slow),
    ],
)
def test_the_instance_that_failed_first_is_named_first_and_gives_the_exit_code(tmp_path, then, how, exit_code):
    _, errors, code = run(tmp_path, FOLLOWS.format(then=then), arguments=[str(tmp_path / "left")])
    said = [line for line in errors if line.startswith("poprun: ")]
    assert code == exit_code, said
    assert said[0].startswith("poprun: instance 1 of 2 (pid ") and said[0].endswith(f") {how}")
    assert said[1].startswith("poprun: also, instance 0 of 2 (pid ") and said[1].endswith(") was killed by SIGABRT")


def test_an_instance_that_somebody_else_stops_ends_the_job_too(tmp_path):
    out, errors, code = run(tmp_path, WAITS.format(then="os.kill(os.getpid(), signal.SIGTERM)"))
    assert code == 143 and any("instance 1 of 2" in line and line.endswith("was killed by SIGTERM") for line in errors)
    assert not any(is_alive(process) for process in out)


def instances_of(job):
    return [int(job.stdout.readline()) for _ in range(2)]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_to_poprun_ends_all_instances(tmp_path, number):
    job = start(tmp_path, WAITS.format(then="pass"))
    processes = instances_of(job)
    job.send_signal(number)
    _, errors = job.communicate(timeout=120)
    assert job.returncode == 128 + number
    said = [line for line in errors.splitlines() if line.startswith("poprun: ")]
    assert said == [f"poprun: stopped by {number.name}; all instances were stopped"]
    assert not any(map(is_alive, processes))


def test_instances_do_not_outlive_a_killed_poprun(tmp_path):
    job = start(tmp_path, WAITS.format(then="pass"))
    processes = instances_of(job)
    job.kill()
    job.communicate(timeout=120)
    deadline = time.monotonic() + 60
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_alive, processes))


def test_a_program_that_cannot_be_started(tmp_path):
    program = tmp_path / "not_for_running"
    program.write_text("no program")
    program.chmod(0o755)
    ended = subprocess.run(
        [*POPRUN, "-n", "1", str(program)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ended.returncode == 1
    assert f"poprun: {program} cannot be started: Exec format error" in ended.stderr.splitlines()


MEETING = """
import json, popdist, popdist.collectives as collectives
popdist.init()
index, said = popdist.getInstanceIndex(), {}
said["sum"] = collectives.all_reduce(index + 1).item()
said["mean"] = collectives.all_reduce([1.0 + index, 4.0], "mean").tolist()
said["max"] = collectives.all_reduce(index, "max").item()
said["gather"] = collectives.all_gather([index, 7]).tolist()
said["root"] = collectives.broadcast(index * 1.5, root=1).item()
popdist.synchronize()
said["some"] = popdist.execute_on_instances({0, 2}, lambda: collectives.all_reduce(index + 1).item())
said["inner"] = popdist.execute_on_instances({0, 1}, lambda: collectives.all_gather(index).tolist())
print(json.dumps(said) + chr(10), end="", flush=True)
"""


def test_instances_meet_in_collectives_all_of_them_or_some(tmp_path):
    out, errors, code = run(tmp_path, MEETING, instances=3)
    assert code == 0, errors
    common = {
        "sum": 6,
        "mean": [2.0, 4.0],
        "max": 2,
        "gather": [[0, 7], [1, 7], [2, 7]],
        "root": 1.5,
    }
    expected = [
        {**common, "some": 4, "inner": [0, 1]},
        {**common, "some": None, "inner": [0, 1]},
        {**common, "some": 4, "inner": None},
    ]
    assert sorted(map(json.loads, out), key=str) == sorted(expected, key=str)


def test_two_hosts_meet_each_with_a_poprun_of_its_own(tmp_path):
    with reserved_port() as port:
        hosts = ["--host", "127.0.0.1,localhost", "--rendezvous-port", str(port), "--host-index"]
        jobs = [start(tmp_path, SEEN, *hosts, str(host)) for host in range(2)]
        ended = [(*job.communicate(timeout=120), job.returncode) for job in jobs]
    assert [code for _, _, code in ended] == [0, 0], ended
    assert [json.loads(out)[:2] for out, _, _ in ended] == [[0, 2], [1, 2]]


TRAINS = """
import json, os, popdist, popdist.poptorch, poptorch, signal, sys, time, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.fc = torch.nn.Linear(2, 2)

    def forward(self, x):
        return poptorch.identity_loss((self.fc(x) ** 2).sum(1), "mean")

options = popdist.poptorch.Options().showCompilationProgressBar(False)
net = Net()
trainer = poptorch.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))
index = popdist.getInstanceIndex()
rows = torch.arange(8.0).reshape(4, 2)[index * 2 : index * 2 + 2]
for step in range(3):
    trainer(rows)
{then}
"""
PRINTS = "print(json.dumps([p.tolist() for p in net.parameters()]) + chr(10), end='', flush=True)"


@pytest.mark.slow
def test_a_program_with_popdists_options_trains_with_the_weights_of_all_replicas(tmp_path):
    out, errors, code = run(tmp_path, TRAINS.format(then=PRINTS), "--num-replicas", "4")
    assert code == 0, errors
    (alone,), errors, code = run(
        tmp_path,
        TRAINS.format(then=PRINTS).replace("[index * 2 : index * 2 + 2]", ""),
        "--num-replicas",
        "4",
        instances=1,
    )
    assert code == 0, errors
    assert out == [alone] * 2


GOES_ON = """
while True:
    trainer(rows)
    if index == 1:
        {then}
"""


@pytest.mark.parametrize(
    "then, how, exit_code",
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL", 137),
        pytest.param("raise KeyError('mine')", "ended with exit code 1: KeyError: 'mine'", 1, marks=pytest.mark.slow),
    ],
)
def test_a_job_in_training_ends_when_an_instance_is_gone(tmp_path, then, how, exit_code):
    job = start(
        tmp_path,
        TRAINS.format(then='os.write(1, f"{os.getpid()}\\n".encode())' + GOES_ON.format(then=then)),
        "--num-replicas",
        "4",
    )
    processes = instances_of(job)
    _, errors = job.communicate(timeout=120)
    assert job.returncode == exit_code
    said = [line for line in errors.splitlines() if line.startswith("poprun: ")]
    assert said[0].startswith("poprun: instance 1 of 2 (pid ") and said[0].endswith(f") {how}")
    assert said[-1] == "poprun: the job has ended; the other instances were stopped"
    assert ("KeyError: 'mine'" in errors) == ("KeyError" in then)
    assert not any(map(is_alive, processes))
