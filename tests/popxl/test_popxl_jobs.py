"""PopXL programs that poprun starts several times as one job."""

import os
import subprocess
import sys
import textwrap

import pytest

import popart
import popdist
import popdist.popart
import popxl

PROGRAM = """
    import numpy as np, popxl, popdist
    from popxl import ops
    ir = popxl.Ir("popdist")
    me = popdist.getInstanceIndex()
    assert (ir.replication_factor, ir.instance_replication_factor) == (4, 2)
    with ir.main_graph, popxl.in_sequence():
        x, y = popxl.h2d_stream((), popxl.float32, "x"), popxl.d2h_stream((), popxl.float32, "y")
        each = ir.replica_grouping(1, 1)
        v = popxl.variable(np.arange(4.0), name="v", replica_grouping=each)
        v += ops.host_load(x)
        ops.host_store(y, ops.collectives.replicated_all_reduce(v))
    with popxl.Session(ir, "ipu_model") as session:
        out = session.run({x: np.float32([10 * me, 10 * me])})[y]
        assert out.tolist() == [26, 26], out
    assert session.get_tensor_data(v).tolist() == [0, 1, 12, 13]
    print(f"instance {me} is right\\n", end="", flush=True)
"""
# What the second of two instances of a job of 8 replicas on 2 IPUs each is told.
JOB = {
    "getNumTotalReplicas": 8,
    "getNumLocalReplicas": 4,
    "getNumInstances": 2,
    "getReplicaIndexOffset": 4,
    "getNumIpusPerReplica": 2,
}


@pytest.mark.shows("popxl.Ir.instance_replication_factor")
def test_two_instances_share_variables_and_meet_in_collectives(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    command = [
        sys.executable,
        "-m",
        "popdist",
        "--num-replicas",
        "4",
        "--num-instances",
        "2",
        sys.executable,
        str(path),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "instance 0 is right" in done.stdout and "instance 1 is right" in done.stdout


def test_one_process_is_a_job_of_one():
    assert popxl.Ir("popdist").replication_factor == 1
    assert popdist.popart.getDevice().numIpus == 1


@pytest.mark.shows("popdist.popart.configureSessionOptions", "popxl.Ir.instance_replication_factor")
def test_options_of_the_second_of_two_instances(monkeypatch):
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 3
    popdist.popart.configureSessionOptions(options)
    assert (options.enableReplicatedGraphs, options.replicatedGraphCount) == (False, 1)
    assert not options.enableDistributedReplicatedGraphs
    for name, number in JOB.items():
        monkeypatch.setattr(popdist, name, lambda number=number: number)
    popdist.popart.configureSessionOptions(options)
    assert options.enableReplicatedGraphs and options.replicatedGraphCount == 4
    assert options.enableDistributedReplicatedGraphs
    assert (options.globalReplicationFactor, options.globalReplicaOffset) == (8, 4)
    ir = popxl.Ir("popdist")
    assert (ir.replication_factor, ir.instance_replication_factor) == (8, 4)


@pytest.mark.shows("popdist.popart.getDevice")
def test_devices_of_an_instance(monkeypatch):
    connection = popart.DeviceConnectionType
    device = popdist.popart.getDevice()
    assert isinstance(device, popart.DeviceInfo) and device.isAttached
    assert not popdist.popart.getDevice(connectionType=connection.OnDemand).isAttached
    assert popdist.popart.getDevice(numIpus=3).numIpus == 4  # devices have a power of two
    for name, number in JOB.items():
        monkeypatch.setattr(popdist, name, lambda number=number: number)
    assert popdist.popart.getDevice().numIpus == 8
    monkeypatch.setattr(popart.DeviceManager, "tryAcquireAvailableDevice", lambda *arguments, **named: None)
    with pytest.raises(RuntimeError, match="8 IPUs"):
        popdist.popart.getDevice()
