"""Jobs of several processes: one compiles while the others wait, gradients are exchanged, random numbers differ."""

import gc
import hashlib
import json
import os
import subprocess
import sys
import weakref

import pytest
import torch
from ports import reserved_port

import poptorch
from poptorch._impl.session import job


def distributed(process, processes, options=None):
    options = options or poptorch.Options()
    options.Distributed.configureProcessId(process, processes)
    return options


def lock_of(folder, model):
    return os.path.join(folder, hashlib.md5(repr(model).encode()).hexdigest() + ".lock")


def start(code, processes, *arguments, environment=()):
    """One process per id, with the variables that a launcher sets; (exit code, stdout, stderr) of each."""
    with reserved_port() as port:
        running = [
            subprocess.Popen(
                [sys.executable, "-c", "import sys\n" + code, *map(str, arguments)],
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(sys.path),
                    "OMPI_COMM_WORLD_SIZE": str(processes),
                    "OMPI_COMM_WORLD_RANK": str(process),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    **dict(environment),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for process in range(processes)
        ]
        return [(*process.communicate(timeout=300), process.returncode) for process in running]


def results(code, processes, *arguments, **keywords):
    ended = start(code, processes, *arguments, **keywords)
    assert [returned for _, _, returned in ended] == [0] * processes, ended
    return [json.loads(out) for out, _, _ in ended]


# --- compiling ---

COMPILE = """
import json, torch, poptorch
options = poptorch.Options().enableExecutableCaching(sys.argv[1])
executor = poptorch.inferenceModel(torch.nn.Linear(2, 3), options)
executor(torch.ones(1, 2))
print(json.dumps(executor._executable.from_cache))
"""


def test_one_process_compiles_while_the_others_wait_and_the_last_removes_the_lock(tmp_path):
    cache = tmp_path / "made" / "cache"
    ended = start(COMPILE, 3, cache, environment={"POPTORCH_LOG_LEVEL": "INFO"})
    assert sorted(out.strip() for out, _, _ in ended) == ["false", "true", "true"], ended
    (entry,) = os.listdir(cache)
    assert entry.endswith(".poptorch")


def test_the_lock_is_named_after_the_model_and_stays_until_every_process_was_there(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    lock = lock_of(tmp_path, model)
    for process in (0, 2, 1):
        options = distributed(process, 3).enableExecutableCaching(str(tmp_path))
        executor = poptorch.inferenceModel(model, options)
        executor.compile(torch.ones(1, 2))
        assert executor._executable.from_cache == (process != 0)
        assert os.path.exists(lock) == (process != 1)


def test_two_models_of_one_text_share_the_lock(tmp_path):
    model = torch.nn.Linear(2, 3)
    for process in (0, 1):
        for rows in (1, 2):  # two wrappers in each process
            options = distributed(process, 2).enableExecutableCaching(str(tmp_path))
            poptorch.inferenceModel(model, options).compile(torch.ones(rows, 2))
    assert [name for name in os.listdir(tmp_path) if name.endswith(".lock")] == []


def test_a_process_that_fails_to_compile_lets_the_others_go_on(tmp_path):
    class Fails(torch.nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    for process in (0, 1):
        options = distributed(process, 2).enableExecutableCaching(str(tmp_path))
        with pytest.raises(KeyError, match="mine"):
            poptorch.inferenceModel(Fails(), options).compile(torch.ones(1, 2))
    assert os.listdir(tmp_path) == []


def test_without_a_cache_folder_every_process_compiles_and_a_warning_says_so(caplog):
    poptorch.logger.warning("another line")  # what is said of repeated lines before it comes now
    caplog.clear()
    executor = poptorch.inferenceModel(torch.nn.Linear(2, 3), distributed(1, 4))
    assert executor(torch.ones(1, 2)).shape == (1, 3)
    assert [record.getMessage() for record in caplog.records] == [
        "There is no cache folder: each of the 4 processes compiles the model. Use Options.enableExecutableCaching or "
        "POPTORCH_CACHE_DIR."
    ]


def test_one_process_takes_no_lock(tmp_path, monkeypatch):
    monkeypatch.setattr("poptorch._impl.session.job._locked", None)
    poptorch.inferenceModel(torch.nn.Linear(2, 3), poptorch.Options().enableExecutableCaching(str(tmp_path))).compile(
        torch.ones(1, 2)
    )


# --- training ---

MODEL = """
import json, torch, poptorch
import torch.nn.functional as F


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)

    def forward(self, x, y):
        poptorch.Block.start("front", ipu_id=0)
        h = F.dropout(torch.relu(self.a(x)), 0.3)
        poptorch.Block.start("back", ipu_id=int(sys.argv[2]))
        out = self.b(h)
        return F.mse_loss(out, y)


def train(options, rows):
    options.randomSeed(5).outputMode(poptorch.OutputMode.All).deviceIterations(2)
    options.Training.gradientAccumulation(3)
    net = Net()
    optimizer = poptorch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, max_grad_norm=0.5)
    trainer = poptorch.trainingModel(net, options, optimizer)
    generator = torch.Generator().manual_seed(2)
    losses = []
    for _ in range(3):
        x, y = torch.randn(24, 4, generator=generator), torch.randn(24, 2, generator=generator)
        losses.append(trainer(x[rows], y[rows]).tolist())
    return losses, [p.tolist() for p in net.parameters()]
"""
# 24 rows are (2 iterations, 3 steps, 4 replicas, 1 row).
JOB = (
    MODEL
    + """
options = poptorch.Options().replicationFactor(2)
process, processes = options.Distributed.processId, options.Distributed.numProcesses
torch.distributed.init_process_group("gloo", rank=process, world_size=processes)
rows = [row for row in range(24) if row % 4 // 2 == process]
print(json.dumps(train(options, rows)))
torch.distributed.destroy_process_group()
"""
)
ALONE = (
    MODEL
    + """
print(json.dumps(train(poptorch.Options().replicationFactor(4), list(range(24)))))
"""
)


@pytest.mark.parametrize("second_ipu", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_job_trains_with_the_bits_of_one_process_with_all_replicas(tmp_path, second_ipu):
    (losses, weights) = results(ALONE, 1, tmp_path, second_ipu)[0]
    (first, first_weights), (second, second_weights) = results(JOB, 2, tmp_path, second_ipu)
    assert first_weights == second_weights == weights
    for call in range(3):  # outputs: (iteration, step, replica)
        alone = torch.tensor(losses[call]).reshape(6, 4)
        assert torch.equal(alone[:, :2], torch.tensor(first[call]).reshape(6, 2))
        assert torch.equal(alone[:, 2:], torch.tensor(second[call]).reshape(6, 2))


DIFFERENT = """
import json, os, torch, poptorch
process = int(os.environ["OMPI_COMM_WORLD_RANK"])
torch.distributed.init_process_group("gloo", rank=process, world_size=2)

class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(3, width)
    def forward(self, x):
        return poptorch.identity_loss(self.layer(x).square(), "mean")

net = Net(4 + process)
options = poptorch.Options()
options.Distributed.configureProcessId(process, 2)
try:
    poptorch.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))(torch.ones(2, 3))
except poptorch.Error as error:
    print(json.dumps(str(error)))
"""


def test_processes_that_train_different_programs_both_name_the_first_difference():
    first, second = results(DIFFERENT, 2)
    for text in (first, second):
        assert "the programs of instances 0 and 1 differ, first in line" in text
        assert "f32[4" in text and "f32[5" in text


class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 1)

    def forward(self, x):
        return poptorch.identity_loss(self.fc(x), "mean")


def test_training_in_a_job_needs_a_process_group_when_it_runs():
    trainer = poptorch.trainingModel(Trained(), distributed(0, 2))
    trainer.compile(torch.ones(1, 2))
    with pytest.raises(poptorch.Error) as raised:
        trainer(torch.ones(1, 2))
    assert raised.value.message == (
        "Training in a job of 2 processes exchanges gradients through torch.distributed, which is not set up. Call "
        'torch.distributed.init_process_group("gloo", ...) in every process before the first call, or start the program '
        "through poprun."
    )
    trainer.destroy()


def test_a_trainer_of_a_job_is_collected():
    class Net(torch.nn.Linear):
        def forward(self, x):
            return poptorch.identity_loss(super().forward(x), "sum")

    trainer = poptorch.trainingModel(Net(2, 2), distributed(0, 2))
    trainer.compile(torch.ones(1, 2))
    executable = weakref.ref(trainer._executable)
    del trainer
    gc.collect()
    assert executable() is None


def test_a_process_group_that_says_otherwise_is_refused(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        trainer = poptorch.trainingModel(Trained(), distributed(1, 2))
        with pytest.raises(poptorch.Error) as raised:
            trainer(torch.ones(1, 2))
        assert raised.value.message == ("Options.Distributed says process 1 of 2, torch.distributed says 0 of 1.")
        trainer.destroy()
    finally:
        torch.distributed.destroy_process_group()


def test_a_process_that_is_gone_stops_the_run_with_one_error(tmp_path, monkeypatch):
    def gather(parts, mine, async_op):
        if lost:
            raise RuntimeError("Connection closed by peer")
        for part in parts:
            part.copy_(mine)

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_gather", gather)
    trainer = poptorch.trainingModel(Trained(), distributed(0, 2))
    lost = True
    with pytest.raises(poptorch.Error) as raised:
        trainer(torch.ones(1, 2))
    assert raised.value.message.startswith(
        "exchange between processes failed [IPU-E407]: RuntimeError: Connection closed by peer\n  at: IPU 0, instruction "
    )
    assert raised.value.type == "poptorch_cpp_error"
    lost = False
    assert trainer(torch.ones(1, 2)).shape == ()
    trainer.destroy()


# --- groups of replicas ---

GROUPED = """
import json, torch, poptorch

kind, shards, mode = poptorch.CommGroupType[sys.argv[1]], int(sys.argv[2]), poptorch.VariableRetrievalMode[sys.argv[3]]
groups = {"All": 1, "NoGrouping": 4}.get(kind.name, 4 // max(shards, 1))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.w = torch.nn.Parameter(torch.randn(groups, 4, 2, generator=generator))
        self.b = torch.nn.Parameter(torch.randn(2, generator=generator))

    def forward(self, x, y):
        return torch.nn.functional.mse_loss(x @ self.w + self.b, y)


def train(options, rows):
    options.outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(2)
    net = Net()
    optimizer = poptorch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, use_combined_accum=False)
    trainer = poptorch.trainingModel(net, options, optimizer)
    trainer.w.replicaGrouping(kind, shards, mode)
    generator = torch.Generator().manual_seed(2)
    losses = []
    for step in range(3):
        x, y = torch.randn(8, 4, generator=generator), torch.randn(8, 2, generator=generator)
        losses.append(trainer(x[rows], y[rows]).tolist())
        if step == 1:  # back to the device from the host
            trainer.copyWeightsToHost()
            with torch.no_grad():
                net.w.mul_(2.0)
            trainer.copyWeightsToDevice()
    state = optimizer.state_dict()["ipu_state"]
    return losses, net.w.tolist(), net.b.tolist(), {name: value.tolist() for name, value in sorted(state.items())}
"""
# 8 rows are (2 steps, 4 replicas, 1 row).
GROUPED_JOB = (
    GROUPED
    + """
options = poptorch.Options().replicationFactor(2)
process, processes = options.Distributed.processId, options.Distributed.numProcesses
torch.distributed.init_process_group("gloo", rank=process, world_size=processes)
print(json.dumps(train(options, [row for row in range(8) if row % 4 // 2 == process])))
torch.distributed.destroy_process_group()
"""
)
GROUPED_ALONE = (
    GROUPED
    + """
print(json.dumps(train(poptorch.Options().replicationFactor(4), list(range(8)))))
"""
)


@pytest.mark.parametrize(
    "kind, shards, mode",
    [
        pytest.param("NoGrouping", 0, "OnePerGroup", marks=pytest.mark.slow),
        pytest.param("Consecutive", 2, "OnePerGroup", marks=pytest.mark.slow),  # each group in one process
        ("Orthogonal", 2, "OnePerGroup"),  # each group over both
        pytest.param("Orthogonal", 2, "AllReplicas", marks=pytest.mark.slow),
        pytest.param("All", 0, "OnePerGroup", marks=pytest.mark.slow),
    ],
)
def test_parameters_that_differ_between_groups_train_with_the_bits_of_one_process(kind, shards, mode):
    (losses, *weights) = results(GROUPED_ALONE, 1, kind, shards, mode)[0]
    (first, *first_weights), (second, *second_weights) = results(GROUPED_JOB, 2, kind, shards, mode)
    assert first_weights == second_weights == weights
    for call in range(3):  # outputs: (step, replica)
        alone = torch.tensor(losses[call]).reshape(2, 4)
        assert torch.equal(alone[:, :2], torch.tensor(first[call]).reshape(2, 2))
        assert torch.equal(alone[:, 2:], torch.tensor(second[call]).reshape(2, 2))
    if kind == "NoGrouping":
        values = torch.tensor(weights[0])
        assert not any(torch.equal(values[i], values[j]) for i in range(4) for j in range(i))


def test_groups_are_those_of_all_replicas_of_the_job():
    executor = poptorch.inferenceModel(torch.nn.Linear(2, 2), distributed(0, 2).replicationFactor(2))
    with pytest.raises(poptorch.Error) as raised:
        executor.weight.replicaGrouping(
            poptorch.CommGroupType.NoGrouping, 0, poptorch.VariableRetrievalMode.OnePerGroup
        )
    assert raised.value.message == (
        "replicaGrouping of 'weight': the first dimension must be the number of groups, 4; the parameter has shape [2, 2]."
    )


def test_an_executable_is_loaded_in_a_job_of_the_same_size(tmp_path):
    path = str(tmp_path / "a.poptorch")
    poptorch.inferenceModel(torch.nn.Linear(2, 3), distributed(0, 2)).compileAndExport(path, torch.ones(1, 2))
    with pytest.raises(poptorch.Error) as raised:
        poptorch.load(path, lambda options: options.Distributed.disable())
    assert raised.value.message == (
        f"{path} was compiled for a job of 2 process(es), and Options.Distributed says 1. Compile and save it again."
    )
    loaded = poptorch.load(path, lambda options: options.Distributed.configureProcessId(1, 2))
    assert loaded(torch.ones(1, 2)).shape == (1, 3)


# --- random numbers ---


def test_random_numbers_are_those_of_the_replica_within_the_job():
    def draw(process, processes, replicas):
        options = distributed(process, processes).replicationFactor(replicas).randomSeed(7)
        executor = poptorch.inferenceModel(lambda x: x + torch.rand(3, device="ipu"), options)
        values = executor(torch.zeros(replicas, 3))
        executor.destroy()
        return values

    alone = draw(0, 1, 4)
    assert torch.equal(torch.cat([draw(0, 2, 2), draw(1, 2, 2)]), alone)
    assert torch.equal(torch.cat([draw(process, 4, 1) for process in range(4)]), alone)
    assert len({tuple(row) for row in alone.tolist()}) == 4


# --- waiting ---


@pytest.fixture
def logged(caplog):
    return caplog


class ClockOfSleeps:
    """Stands for the module time: it is as late as all sleeps so far say, and the last of them is interrupted."""

    def __init__(self, until):
        self.now, self.until = 0.0, until

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        if self.now > self.until:
            raise KeyboardInterrupt


def test_waiting_for_the_lock_says_whom_it_waits_for_and_can_be_interrupted(tmp_path, monkeypatch, logged):
    path = str(tmp_path / "a.lock")
    held = job._locked(path, "process 2 of 3 (pid 7 on here)")
    with monkeypatch.context() as patched:
        patched.setattr(job, "time", ClockOfSleeps(until=job._FIRST_WARNING + 5))
        with pytest.raises(KeyboardInterrupt):
            job._locked(path, "me")
    assert [record.getMessage() for record in logged.records] == [
        f"Waiting for {job._FIRST_WARNING:.0f} s: process 2 of 3 (pid 7 on here) holds {path}"
    ]
    held.close()
    job._locked(path, "me").close()


def test_a_lock_whose_owner_died_is_free(tmp_path):
    path = str(tmp_path / "a.lock")
    code = "import sys, time\nfrom poptorch._impl.session import job\nheld = job._locked(sys.argv[1], 'dead')\nprint(1, flush=True)\ntime.sleep(99)"
    owner = subprocess.Popen(
        [sys.executable, "-c", code, path],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert owner.stdout.readline() == b"1\n"
    owner.kill()
    owner.wait()
    job._locked(path, "me").close()


def test_a_pipe_in_the_place_of_the_lock_is_an_error(tmp_path):
    path = str(tmp_path / "a.lock")
    os.mkfifo(path)
    with pytest.raises(poptorch.Error) as raised:
        job._locked(path, "me")
    assert raised.value.message == (
        f"the lock file {path} of the job cannot be used: {path} is not a regular file of this user"
    )


class NeverDone:
    def is_completed(self):
        return False


def test_waiting_for_a_peer_that_does_not_come_is_logged_and_can_be_interrupted(monkeypatch, logged):
    monkeypatch.setattr(job, "time", ClockOfSleeps(until=job._FIRST_WARNING + 5))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_gather", lambda *_, **__: NeverDone())
    trainer = poptorch.trainingModel(Trained(), distributed(0, 2))
    trainer.compile(torch.ones(1, 2))
    with pytest.raises(KeyboardInterrupt):
        trainer(torch.ones(1, 2))
    assert [record.getMessage() for record in logged.records if "Waiting" in record.getMessage()] == [
        f"Waiting for {job._FIRST_WARNING:.0f} s: not all 2 processes of the job have come to the same exchange of gradients"
    ]
    trainer.destroy()
