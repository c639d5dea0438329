"""What popdist tells a program, without poprun and within one instance of a job."""

import os
import subprocess
import sys

import pytest
import torch

import popdist
import popdist.collectives
import popdist.poptorch
import poptorch


@pytest.fixture
def instance(monkeypatch):
    """Makes this process one of a job, as far as the environment says."""

    def make(index=1, instances=2, replicas=4, ipus=2, **more):
        told = {
            "POPDIST_INSTANCE_INDEX": index,
            "POPDIST_NUM_INSTANCES": instances,
            "POPDIST_NUM_TOTAL_REPLICAS": replicas,
            "POPDIST_NUM_IPUS_PER_REPLICA": ipus,
            **more,
        }
        for name, value in told.items():
            monkeypatch.setenv(name, str(value))

    return make


@pytest.fixture
def alone():
    """The backend of a program that poprun did not start."""
    popdist.init()
    yield
    popdist.finalizeBackend()


def test_without_poprun_there_is_one_instance_with_one_replica():
    assert not popdist.isPopdistEnvSet()
    assert (popdist.getInstanceIndex(), popdist.getNumInstances(), popdist.getLocalInstanceIndex()) == (0, 1, 0)
    assert (popdist.getNumTotalReplicas(), popdist.getNumLocalReplicas(), popdist.getReplicaIndexOffset()) == (1, 1, 0)
    assert (popdist.getNumIpusPerReplica(), popdist.getDeviceId(), popdist.isOfflineMode()) == (1, 0, False)
    assert popdist.checkNumIpusPerReplica(4) and not popdist.checkNumIpusPerReplica(0)


def test_an_instance_knows_its_place(instance):
    instance(index=1, instances=2, replicas=6, ipus=2, POPDIST_LOCAL_INSTANCE_INDEX=1)
    assert popdist.isPopdistEnvSet()
    assert (popdist.getInstanceIndex(), popdist.getNumInstances(), popdist.getLocalInstanceIndex()) == (1, 2, 1)
    assert (popdist.getNumTotalReplicas(), popdist.getNumLocalReplicas(), popdist.getReplicaIndexOffset()) == (6, 3, 3)
    assert popdist.getNumIpusPerReplica() == 2
    assert popdist.checkNumIpusPerReplica(2) and not popdist.checkNumIpusPerReplica(1)


def test_variables_that_poprun_does_not_set_so_are_errors(instance, monkeypatch):
    instance(replicas=5)
    with pytest.raises(RuntimeError) as raised:
        popdist.getNumLocalReplicas()
    assert str(raised.value) == (
        "5 replicas (POPDIST_NUM_TOTAL_REPLICAS) cannot be divided among 2 instances (POPDIST_NUM_INSTANCES). Start the "
        "program through poprun, which checks that."
    )
    instance(replicas="many")
    with pytest.raises(RuntimeError) as raised:
        popdist.getNumTotalReplicas()
    assert str(raised.value) == (
        "The environment variable POPDIST_NUM_TOTAL_REPLICAS is 'many' and must be an integer of at least 1. Start the "
        "program through poprun, which sets it, or unset it."
    )
    monkeypatch.delenv("POPDIST_NUM_INSTANCES")
    with pytest.raises(RuntimeError) as raised:
        popdist.isPopdistEnvSet()
    assert str(raised.value) == (
        "POPDIST_INSTANCE_INDEX, POPDIST_NUM_TOTAL_REPLICAS, POPDIST_NUM_IPUS_PER_REPLICA without POPDIST_NUM_INSTANCES: "
        "poprun sets all of them. Start the program through poprun, or unset them."
    )


def test_importing_popdist_does_not_import_torch():
    result = subprocess.run(
        [sys.executable, "-c", "import popdist, sys; print('torch' in sys.modules)"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert result.stdout == "False\n", result.stderr


# --- options ---


def test_options_of_an_instance_are_what_poprun_says(instance):
    instance(index=1, instances=2, replicas=6, ipus=2)
    options = popdist.poptorch.Options(ipus_per_replica=2)
    assert isinstance(options, poptorch.Options)
    assert options.replication_factor == 3
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (1, 2)
    assert isinstance(options.Distributed, poptorch.options._DistributedOptions)
    twin = options.clone()
    assert twin == options and type(twin) is popdist.poptorch.Options


@pytest.mark.parametrize(
    "call",
    [
        lambda options: options.replicationFactor(2),
        lambda options: options.useIpuId(0),
        lambda options: options.Distributed.disable(),
        lambda options: options.Distributed.configureProcessId(0, 2),
        lambda options: options.Distributed.setEnvVarNames("A", "B"),
        lambda options: options.clone().replicationFactor(2),
        lambda options: options.clone().Distributed.disable(),
    ],
)
def test_what_poprun_decides_cannot_be_set(call):
    options = popdist.poptorch.Options()
    with pytest.raises(RuntimeError, match="is decided by poprun, not by the program: "):
        call(options)
    assert (options.replication_factor, options.Distributed.numProcesses) == (1, 1)


def test_another_number_of_ipus_than_poprun_says_is_an_error(instance):
    instance(ipus=2)
    with pytest.raises(RuntimeError) as raised:
        popdist.poptorch.Options(ipus_per_replica=4)
    assert str(raised.value) == (
        "The program asks for 4 IPU(s) per replica, and poprun was told --ipus-per-replica 2: give both the same number."
    )
    with pytest.raises(RuntimeError, match="asks for 1 IPU"):
        popdist.getDeviceId(1)


def test_options_of_offline_mode_compile_without_a_device(instance):
    instance(index=0, instances=1, replicas=1, ipus=1, POPDIST_OFFLINE_MODE=1)
    assert popdist.poptorch.Options().connection_type == poptorch.ConnectionType.Never.value


def test_a_model_is_saved_and_loaded_with_such_options(tmp_path):
    path = str(tmp_path / "model.poptorch")
    poptorch.inferenceModel(torch.nn.Linear(2, 3), popdist.poptorch.Options()).compileAndExport(path, torch.ones(1, 2))
    assert poptorch.load(path)(torch.ones(1, 2)).shape == (1, 3)


# --- meeting the others ---


def test_what_needs_the_others_says_that_init_is_missing():
    assert not popdist.isBackendInitialized()
    with pytest.raises(RuntimeError) as raised:
        popdist.synchronize()
    assert str(raised.value) == (
        "popdist.synchronize needs the other instances: call popdist.init() in every instance first."
    )
    with pytest.raises(RuntimeError, match="all_reduce needs the other instances"):
        popdist.collectives.all_reduce(1.0)


def test_one_instance_meets_itself(alone):
    assert popdist.isBackendInitialized()
    popdist.initializeBackend()
    popdist.synchronize()
    value = torch.tensor([1, 2])
    result = popdist.collectives.all_reduce(value)
    assert result.tolist() == [1, 2] and result.data_ptr() != value.data_ptr()
    assert popdist.collectives.all_gather(3).tolist() == [3]
    assert popdist.collectives.broadcast(2.5).item() == 2.5
    assert popdist.collectives.all_reduce(4.0, "mean").item() == 4.0


def test_bad_arguments_of_collectives(alone):
    with pytest.raises(ValueError, match="unknown operation 'product'; use one of sum, mean, min, max"):
        popdist.collectives.all_reduce(1, "product")
    with pytest.raises(TypeError, match="the mean of torch.int64 is no torch.int64"):
        popdist.collectives.all_reduce(1, "mean")
    with pytest.raises(ValueError, match=r"instance 1 takes no part; \[0\] do"):
        popdist.collectives.broadcast(1, root=1)


def test_functions_run_on_the_instances_that_are_named(instance):
    assert popdist.execute_on_instances({0}, lambda a, b=0: a + b, 1, b=2) == 3
    instance(index=1, instances=2)
    assert popdist.execute_on_instances({0}, lambda: 1) is None
    assert popdist.execute_on_instances([1], lambda: 1) == 1
    with pytest.raises(ValueError) as raised:
        popdist.execute_on_instances({2}, print)
    assert str(raised.value) == "execute_on_instances: [2] are not instances; the job has 0 to 1."
    with pytest.raises(RuntimeError, match="on several instances needs the other instances"):
        popdist.execute_on_instances({0, 1}, print)


def test_a_backend_that_torch_does_not_have_is_an_error(instance, monkeypatch):
    instance()
    monkeypatch.setenv("POPDIST_BACKEND", "pigeons")
    with pytest.raises(RuntimeError, match="POPDIST_BACKEND is 'pigeons', which this torch does not have: use gloo"):
        popdist.init()
    assert not popdist.isBackendInitialized()
