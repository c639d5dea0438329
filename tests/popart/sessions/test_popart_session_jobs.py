"""Sessions of models in programs that poprun starts several times as one job."""

import gc
import os
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest

import popart

# A digits-like network; what its weights are after two steps of four replicas does not depend on how many processes have them.
PROGRAM = """
    import sys
    import numpy as np, onnx, popart, popdist, popdist.popart
    rng = np.random.default_rng(3)
    w0 = rng.standard_normal((6, 5)).astype(np.float32)
    data = rng.standard_normal((2, 2, 4, 3, 6)).astype(np.float32)  # steps, micro-batches, replicas, batch
    labels = rng.integers(0, 5, (2, 2, 4, 3)).astype(np.int32)
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [3, 6]))
    l = builder.addInputTensor(popart.TensorInfo("INT32", [3]))
    w = builder.addInitializedInputTensor(w0, "w")
    y = builder.aiOnnx.softmax([builder.aiOnnx.matmul([x, w])], axis=1)
    loss = builder.aiGraphcore.nllloss([y, l], popart.ReductionType.Mean)
    options = popart.SessionOptions()
    if {in_job}:
        popdist.popart.configureSessionOptions(options)
        first, local = options.globalReplicaOffset, options.replicatedGraphCount
        device = popdist.popart.getDevice()
    else:
        options.enableReplicatedGraphs, options.replicatedGraphCount = True, 4
        first, local = 0, 4
        device = popart.DeviceManager().createIpuModelDevice({{"numIPUs": 4}})
    options.enableGradientAccumulation, options.accumulationFactor = True, 2
    {extra}
    session = popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1, [loss]), loss,
        popart.Adam({{"defaultLearningRate": (0.1, False)}}), device, userOptions=options)
    session.prepareDevice()
    session.weightsFromHost()
    losses = session.initAnchorArrays()
    assert losses[loss].shape == (2, local), losses[loss].shape
    mine, seen = slice(first, first + local), []
    for step in range(2):
        stepio = popart.PyStepIO({{x: data[step][:, mine].copy(), l: labels[step][:, mine].copy()}}, losses)
        session.run(stepio)
        seen.append(losses[loss].copy())
    session.modelToHost("{folder}/" + str(first) + ".onnx")
    np.save("{folder}/" + str(first) + ".npy", np.array(seen))
    if {in_job}:
        session.writeWeights(popart.PyWeightsIO({{"w": np.full(w0.shape, first, np.float32)}}))
        session.broadcastWeights(1)
        held = {{"w": np.zeros(w0.shape, np.float32)}}
        session.readWeights(popart.PyWeightsIO(held))
        assert (held["w"] == 2).all(), held  # those of the second process, whose first replica is 2
"""


def started(tmp_path, in_job, extra=""):
    folder = tmp_path / ("job" if in_job else "one")
    folder.mkdir()
    path = folder / "program.py"
    path.write_text(textwrap.dedent(PROGRAM).format(in_job=in_job, folder=folder, extra=extra))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    job = [sys.executable, "-m", "popdist", "--num-replicas", "4", "--num-instances", "2"] if in_job else []
    done = subprocess.run(
        [*job, sys.executable, str(path)], capture_output=True, text=True, timeout=120, env=environment
    )
    return folder, done


def weight(path):
    import onnx.numpy_helper

    (tensor,) = [tensor for tensor in onnx.load(path).graph.initializer if tensor.name == "w"]
    return onnx.numpy_helper.to_array(tensor)


@pytest.mark.slow
@pytest.mark.shows(
    "popart.SessionOptions.enableDistributedReplicatedGraphs",
    "popart.SessionOptions.globalReplicationFactor",
    "popart.SessionOptions.globalReplicaOffset",
    "popart.TrainingSession.broadcastWeights",
)
@pytest.mark.parametrize("is_sharded", [False, True])
def test_two_processes_train_as_one_does(tmp_path, is_sharded):
    pytest.importorskip("torch")
    sharded = "popart.TensorLocation(popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On)"
    extra = f"options.optimizerStateTensorLocationSettings.location = {sharded}" if is_sharded else ""
    one, done = started(tmp_path, False, extra)
    assert done.returncode == 0, done.stdout + done.stderr
    job, done = started(tmp_path, True, extra)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = np.load(one / "0.npy")
    np.testing.assert_array_equal(np.load(job / "0.npy"), expected[:, :, :2])
    np.testing.assert_array_equal(np.load(job / "2.npy"), expected[:, :, 2:])
    for first in (0, 2):
        np.testing.assert_array_equal(weight(job / f"{first}.onnx"), weight(one / "0.onnx"))


def test_processes_that_were_not_started_as_a_job(small_training):
    """A run in a process that stands alone says how to start a job."""
    session, stepio = small_training(total=4, local=2)
    with pytest.raises(popart.popart_exception, match="poprun"):
        session.run(stepio)


def test_a_session_of_a_job_is_collected(small_training):
    native = weakref.ref(small_training(total=4, local=2)[0]._native)
    gc.collect()
    assert native() is None


@pytest.fixture
def small_training():
    def make(total, local):
        builder = popart.Builder()
        x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2, 3]))
        w = builder.addInitializedInputTensor(np.ones((3, 4), np.float32), "w")
        loss = builder.aiGraphcore.l1loss([builder.aiOnnx.matmul([x, w])], 1.0)
        options = popart.SessionOptions()
        options.enableReplicatedGraphs, options.replicatedGraphCount = True, local
        options.enableDistributedReplicatedGraphs = True
        options.globalReplicationFactor, options.globalReplicaOffset = total, 0
        device = popart.DeviceManager().acquireAvailableDevice(local)
        session = popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(1, [loss]),
            loss,
            popart.ConstSGD(0.1),
            device,
            userOptions=options,
        )
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        return session, popart.PyStepIO({x: np.ones((local, 2, 3), np.float32)}, anchors)

    return make
