"""What stages of a pipeline share: inputs, restored values, kept results, callees."""

import contextlib
import itertools
import json

import numpy as np
import onnx
import pytest

import popart

RNG = np.random.default_rng(11)
COUNT = 7  # micro-batches, enough for four stages in training
X = RNG.normal(size=(COUNT, 2, 4)).astype(np.float32)
NONE, RECOMPUTED = popart.RecomputationType.NoRecompute, popart.RecomputationType.Pipeline


class Pipeline:
    """A builder whose ops stand on virtual graphs and in stages, of a model that is built with a pipeline and without."""

    def __init__(self, is_pipelined=True):
        self.builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
        self.onnx, self.graphcore, self.is_pipelined = self.builder.aiOnnx, self.builder.aiGraphcore, is_pipelined
        self.x = self.builder.addInputTensor("FLOAT", [2, 4], "x")
        self.ipus, self.generator = 1, np.random.default_rng(3)

    @contextlib.contextmanager
    def stage(self, stage, ipu=None, builder=None):
        ipu = stage if ipu is None else ipu
        self.ipus = max(self.ipus, ipu + 1)
        builder = builder or self.builder
        with builder.virtualGraph(ipu), builder.pipelineStage(stage):
            yield

    def weight(self, name):
        return self.builder.addInitializedInputTensor(self.generator.normal(size=(4, 4)).astype(np.float32), name)

    def call(self, operands, stage, ipu):
        """A call of tanh of a sum."""
        body = self.builder.createSubgraphBuilder()
        ids = [body.addUntypedInputTensor(f"i{n}") for n in range(len(operands))]
        with body.virtualGraph(ipu):
            body.addOutputTensor(body.aiOnnx.tanh([body.aiOnnx.sum(ids)]))
        return self.graphcore.call(operands, 1, body)[0]

    def session(self, anchors, loss=None, explicit=False, recomputation=NONE, **fields):
        options = popart.SessionOptions()
        if loss is not None:
            options.enableGradientAccumulation, options.accumulationFactor = True, COUNT
        if self.is_pipelined:
            options.enablePipelining, options.virtualGraphMode = True, popart.VirtualGraphMode.Manual
            options.autoRecomputation = recomputation
            if explicit:
                options.enableExplicitIR(True)
        for name, value in fields.items():
            setattr(options, name, value)
        device = popart.DeviceManager().createIpuModelDevice({"numIPUs": self.ipus})
        flow = popart.DataFlow(1 if loss is not None else COUNT, list(anchors))
        data = self.builder.getModelProto()
        if loss is None:
            return popart.InferenceSession(data, flow, device, userOptions=options)
        return popart.TrainingSession(data, flow, loss, popart.ConstSGD(0.1), device, userOptions=options)


def run(session):
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": X}, anchors))
    return anchors


def stashed(session):
    ops = [op for graph in json.loads(session._serializeIr()).values() for op in graph]
    return [op["inputs"][0]["name"].split("/")[-1] for op in ops if op["type"] == "Stash"]


def test_an_input_goes_on_to_the_next_stage():
    p = Pipeline()
    with p.stage(0):
        a = p.onnx.sin([p.x])
    with p.stage(1):
        y = p.onnx.mul([a, p.x])
    for explicit in (False, True):
        np.testing.assert_allclose(run(p.session([y], explicit=explicit))[y], X * np.sin(X), rtol=1e-5, atol=1e-6)


READERS = [(0, 1), (0, 3), (1, 2), (0, 2, 3)]
ALL_READERS = [stages for n in (1, 2, 3) for stages in itertools.combinations(range(4), n)]


def layers(p, readers, calls):
    """Four stages, some of which add the input; the loss is in the last. IPUs 0, 1, 0, 2."""
    value = p.x if 0 not in readers else None
    for stage, ipu in enumerate((0, 1, 0, 2)):
        with p.stage(stage, ipu):
            operands = [id for id in (value, p.x if stage in readers else None) if id is not None]
            summed = p.call(operands, stage, ipu) if calls else p.onnx.tanh([p.onnx.sum(operands)])
            value = p.onnx.matmul([summed, p.weight(f"w{stage}")])
            if stage == 3:
                return value, p.graphcore.l1loss([value], 0.1, popart.ReductionType.Mean)


KINDS = ["implicit", "explicit", "implicit with recomputation", "explicit with recomputation"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("calls", [False, True])
def test_every_micro_batch_meets_its_own_input(kind, calls):
    check_readers(READERS, kind, calls)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("calls", [False, True])
def test_every_micro_batch_meets_its_own_input_in_all_stages(kind, calls):
    check_readers(ALL_READERS, kind, calls)


def check_readers(readers_of_models, kind, calls):
    """Whatever stages read the input, results and weights are those of the model without a pipeline."""
    for readers in readers_of_models:
        results = []
        for is_pipelined in (False, True):
            p = Pipeline(is_pipelined)
            y, loss = layers(p, readers, calls)
            recomputation = RECOMPUTED if "recomputation" in kind else NONE
            more = {"explicit": "explicit" in kind, "recomputation": recomputation}
            gradient = popart.reservedGradientPrefix() + p.x
            session = p.session([y, loss, gradient], loss, **more)
            anchors = run(session)
            session.weightsToHost()
            weights = {f"w{stage}": np.empty((4, 4), np.float32) for stage in range(4)}
            session.readWeights(popart.PyWeightsIO(weights))
            inference = run(p.session([y], explicit="explicit" in kind))
            results.append([*anchors.values(), *weights.values(), inference[y]])
        for plain, pipelined in zip(*results, strict=True):
            np.testing.assert_allclose(pipelined, plain, rtol=1e-4, atol=1e-6, err_msg=str(readers))


def trained(p, stages, checkpoint=False):
    """One trained product for each (virtual graph, stage)."""
    value, kept = p.x, None
    for i, (ipu, stage) in enumerate(stages):
        with p.stage(stage, ipu):
            value = p.onnx.matmul([value, p.weight(f"w{i}")])
            if checkpoint and stage == 0 and kept is None:
                value = p.onnx.tanh([value])
                (value,) = (kept,) = p.builder.checkpointOutput([value])
                value = p.onnx.matmul([value, p.weight("more")])
            if i + 1 == len(stages):
                return p.graphcore.l1loss([value], 0.1), kept


@pytest.mark.parametrize("recomputation", [NONE, RECOMPUTED])
def test_an_input_that_is_restored_is_that_of_its_micro_batch(recomputation):
    p = Pipeline()
    loss, _ = trained(p, [(0, 0), (1, 1)])
    anchor = "Restored___" + p.x
    session = p.session([anchor, loss], loss, recomputation=recomputation)
    assert p.x in stashed(session)
    np.testing.assert_array_equal(run(session)[anchor], X)


def test_consecutive_stages_on_one_graph_run_together():
    p = Pipeline()
    loss, _ = trained(p, [(0, 0), (0, 1), (1, 2)])
    assert stashed(p.session([loss], loss, recomputation=RECOMPUTED)) == [p.x]
    without = stashed(p.session([loss], loss))
    assert without[0] == p.x and not any(id.startswith("Gradient___") for id in without)


@pytest.mark.parametrize("recomputation", popart.RecomputationType.__members__.values())
def test_a_kept_result_changes_no_results(recomputation):
    results = []
    for checkpoint in (False, True):
        p = Pipeline()
        loss, kept = trained(p, [(0, 0), (1, 1)], checkpoint=True)
        if not checkpoint:
            for node in (made := onnx.load_from_string(p.builder.getModelProto())).graph.node:
                for attribute in [a for a in node.attribute if a.name == "__recompute_output_in_backward_pass"]:
                    node.attribute.remove(attribute)
            p.builder = popart.Builder(made.SerializeToString())
        session = p.session([loss, "Gradient___" + p.x], loss, recomputation=recomputation)
        results.append(run(session))
        if checkpoint and recomputation is RECOMPUTED:
            assert stashed(session) == [p.x, kept]
    for id, value in results[0].items():
        np.testing.assert_array_equal(results[1][id], value)


def test_recompute_with_an_automatic_mode_stays_an_error():
    p = Pipeline()
    with p.stage(0):
        y = p.onnx.matmul([p.x, p.weight("w0")])
    p.builder.recomputeOutputInBackwardPass(y, popart.RecomputeType.Recompute)
    with p.stage(1):
        loss = p.graphcore.l1loss([y], 0.1)
    with pytest.raises(popart.popart_exception, match="recompute annotation in a pipeline"):
        p.session([loss], loss, recomputation=RECOMPUTED)


@pytest.mark.parametrize("ipu, message", [(None, "of its callee on none"), (1, "of its callee is on 1")])
def test_what_a_callee_holds_stands_where_the_call_does(ipu, message):
    p = Pipeline()
    body = p.builder.createSubgraphBuilder()
    inside = body.addUntypedInputTensor("i")
    with body.virtualGraph(ipu) if ipu is not None else contextlib.nullcontext():
        body.addOutputTensor(body.aiOnnx.tanh([inside]))
    with p.stage(0):
        (a,) = p.graphcore.call([p.x], 1, body)
    with p.stage(1):
        y = p.onnx.neg([a])
    with pytest.raises(popart.popart_exception, match=message):
        p.session([y])
    p.is_pipelined = False
    np.testing.assert_allclose(run(p.session([y]))[y], -np.tanh(X), rtol=1e-5, atol=1e-6)


def test_one_callee_does_not_serve_two_graphs():
    p = Pipeline()
    body = p.builder.createSubgraphBuilder()
    inside = body.addUntypedInputTensor("i")
    with body.virtualGraph(0):
        body.addOutputTensor(body.aiOnnx.tanh([inside]))
    with p.stage(0):
        (a,) = p.graphcore.call([p.x], 1, body)
    with p.stage(1):
        (y,) = p.graphcore.call([a], 1, body)
    with pytest.raises(popart.popart_exception, match="Call.* is on virtual graph 1, and .*Tanh.* is on 0"):
        p.session([y])


def test_clones_are_made_on_the_stages_before_the_last():
    p = Pipeline()
    value = p.x
    for stage in range(2):
        with p.stage(stage):
            for i in range(2):
                bias = p.builder.addInitializedInputTensor(np.ones(4, np.float32), f"b{stage}{i}")
                value = p.onnx.relu([p.onnx.gemm([value, p.weight(f"w{stage}{i}"), bias])])
            if stage == 1:
                loss = p.graphcore.l1loss([value], 0.1)
    session = p.session([loss], loss, explicit=True, recomputation=RECOMPUTED, enableOutlining=False)
    ops = [op for graph in json.loads(session._serializeIr()).values() for op in graph]
    clones = [op for op in ops if op["attributes"]["recomputetype"] == "Recomputed"]
    buffers = [op for op in ops if op["type"].startswith("DynamicUpdate")]
    assert len(clones) == 6 and len(buffers) == 1
