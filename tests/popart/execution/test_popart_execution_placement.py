"""Virtual graphs, pipeline stages and phases: what is refused, and where operators go."""

import numpy
import popart
import pytest
from popart_execution_models import batches, device, infer, layers, model, node, options_of, train, weights

MANUAL, AUTO, PHASES = (popart.VirtualGraphMode[name] for name in ("Manual", "Auto", "ExecutionPhases"))
TWO = [{"ipu": 0}, {"ipu": 0}, {"ipu": 1}]


def build(proto, ipus=2, steps=8, anchors=("loss",), training=False, **options):
    flow = popart.DataFlow(steps, list(anchors))
    if training:
        return popart.TrainingSession(
            proto, flow, "loss", popart.ConstSGD(0.1), device(ipus), userOptions=options_of(**options)
        )
    return popart.InferenceSession(proto, flow, device(ipus), userOptions=options_of(**options))


def refused(message, proto, **given):
    # The headline of an error ends with its code.
    with pytest.raises(popart.popart_exception, match=message.replace(": ", "[^:]*: ", 1)):
        build(proto, **given)


def phased(count):
    settings = popart.ExecutionPhaseSettings()
    settings.phases = count
    return {"virtualGraphMode": PHASES, "executionPhaseSettings": settings}


PIPELINE = {"virtualGraphMode": MANUAL, "enablePipelining": True}


@pytest.mark.shows("popart.VirtualGraphMode")
def test_manual_mode_needs_a_virtual_graph_for_each_operator():
    values = weights()
    refused(
        "no virtual graph: virtualGraphMode is Manual, and none of 7 operators", layers(values), virtualGraphMode=MANUAL
    )
    refused("ops without a virtual graph: 2 of 7", layers(values, [{"ipu": 0}, {}, {}]), virtualGraphMode=MANUAL)


def test_annotations_do_not_count_while_the_mode_is_off():
    x, values = batches(1)[0], weights()
    there = infer(layers(values, [{"ipu": 5}, {"ipu": 7}, {}]), x, ["loss"])
    numpy.testing.assert_array_equal(there["loss"], infer(layers(values), x, ["loss"])["loss"])


def test_virtual_graphs_beyond_the_last_ipu_are_refused_when_the_device_is_prepared():
    session = build(layers(weights(), [{"ipu": 0}, {"ipu": 0}, {"ipu": 3}]), virtualGraphMode=MANUAL)
    with pytest.raises(popart.popart_exception, match="needs 4 IPUs for each of 1 replicas, and the device has 2"):
        session.prepareDevice()


@pytest.mark.parametrize(
    ("message", "places"),
    [
        ("missing pipeline stage: no operator is in stage 1, and .* is in stage 2", [(0, 0), (0, 0), (1, 2)]),
        ("a pipeline stage on two virtual graphs: in stage 0", [(0, 0), (1, 0), (1, 1)]),
        ("pipeline stage going back: .* on pipeline stage 0, and reads 'h0'", [(0, 1), (1, 0), (1, 0)]),
        ("a pipeline of one stage: .* all 3 stages are on virtual graph 0", [(0, 0), (0, 1), (0, 2)]),
    ],
)
def test_stages_follow_the_rules(message, places):
    places = [{"ipu": ipu, "stage": stage} for ipu, stage in places]
    refused(message, layers(weights(), places), **PIPELINE)


def test_stages_are_for_all_operators_or_none():
    places = [{"ipu": 0, "stage": 0}, {"ipu": 0, "stage": 0}, {"ipu": 1}]
    refused("ops without a pipeline stage: 4 of 7", layers(weights(), places), **PIPELINE)


def test_inferred_stages_go_up():
    refused("virtual graph going back", layers(weights(), [{"ipu": 1}, {"ipu": 0}, {"ipu": 0}]), **PIPELINE)


def test_a_variable_is_on_one_ipu_of_a_pipeline():
    values = weights()
    shared = {"w0": values["w0"]}
    nodes = [
        node("MatMul", ["x", "w0"], "a", ipu=0),
        node("MatMul", ["a", "w0"], "b", ipu=1),
        node("ReduceMean", ["b"], "loss", ipu=1, axes=[0, 1], keepdims=0),
    ]
    message = "two virtual graphs of a pipeline: the variable 'w0'"
    refused(message, model(nodes, {"x": (2, 4)}, shared), training=True, **PIPELINE, accumulationFactor=4)


@pytest.mark.parametrize(("training", "given", "needed"), [(False, 1, 2), (True, 2, 3)])
def test_a_pipeline_needs_enough_micro_batches(training, given, needed):
    name = "accumulationFactor" if training else "batchesPerStep"
    sizes = {"accumulationFactor": given, "steps": 1} if training else {"steps": given}
    refused(
        f"{name} is {given}, and a pipeline of 2 stages.* needs {needed} or more. Set {name} to {needed}",
        layers(weights(), TWO),
        training=training,
        **PIPELINE,
        **sizes,
    )
    sizes["accumulationFactor" if training else "steps"] = needed
    build(layers(weights(), TWO), training=training, **PIPELINE, **sizes)


def test_a_pipeline_refuses_annotations_of_recomputation():
    places = [{"ipu": 0, "__recompute_output_in_backward_pass": 2}, {"ipu": 0}, {"ipu": 1}]
    refused("recompute annotation in a pipeline", layers(weights(), places), **PIPELINE)


def test_automatic_and_manual_recomputation_do_not_mix():
    places = [{"__recompute_output_in_backward_pass": 2}, {}, {}]
    standard = popart.RecomputationType.Standard
    refused("mixture of auto and manual", layers(weights(), places), training=True, autoRecomputation=standard)


def test_phases_are_numbered_below_their_count_and_go_up():
    values = weights()
    there = [{"phase": 0}, {"phase": 1}, {"phase": 2}]
    refused("execution phase out of range: .* in phase 2.*phases is 2", layers(values, there), **phased(2))
    refused("execution phase going back", layers(values, [{"phase": 1}, {"phase": 0}, {"phase": 0}]), **phased(2))
    refused("no execution phase", layers(values), **phased(2))


def chain(count, size=4):
    """x through `count` layers with a weight each, then their mean."""
    rng = numpy.random.default_rng(3)
    values = {f"w{i}": (rng.normal(size=(size, size)) / 2).astype(numpy.float32) for i in range(count)}
    nodes = [node("MatMul", ["x" if i == 0 else f"h{i - 1}", f"w{i}"], f"h{i}") for i in range(count)]
    nodes.append(node("ReduceMean", [f"h{count - 1}"], "loss", axes=[0, 1], keepdims=0))
    return model(nodes, {"x": (2, size)}, values), list(values)


def places_of(session):
    """IPU of each matmul, in the order of the program."""
    import re

    text = session._program.text()
    return [int(block) for block in re.findall(r"matmul[^\n]*block=\"stage \d+, ipu (\d+)", text)]


@pytest.mark.shows("popart.SessionOptions.virtualGraphSplitRatios")
@pytest.mark.parametrize(
    ("ratios", "expected"), [([], [0, 0, 0, 0, 1, 1, 1, 1]), ([0.25, 0.75], [0, 0, 1, 1, 1, 1, 1, 1])]
)
def test_auto_mode_shares_out_the_bytes_of_variables(ratios, expected):
    proto, _ = chain(8)
    session = build(proto, virtualGraphMode=AUTO, virtualGraphSplitRatios=ratios, constantWeights=False)
    assert places_of(session)[:8] == expected


def test_auto_mode_needs_places_to_cut():
    nodes = [node("Relu", ["x"], "y"), node("ReduceMean", ["y"], "loss", axes=[0, 1], keepdims=0)]
    refused(
        "too few places to cut: .* 4 IPUs, .* in 1 places",
        model(nodes, {"x": (2, 4)}, {}),
        ipus=4,
        virtualGraphMode=AUTO,
    )


def test_auto_mode_with_a_pipeline_gives_the_numbers_of_one_ipu():
    proto, names = chain(6)
    x = batches(8).reshape(2, 4, 2, 4)
    plain = train(proto, names, x, steps=2, accumulationFactor=4)
    auto = train(proto, names, x, steps=2, ipus=2, accumulationFactor=4, virtualGraphMode=AUTO, enablePipelining=True)
    for name in ("loss", *names):
        numpy.testing.assert_allclose(auto[name], plain[name], rtol=1e-5, atol=1e-6)


def test_an_inference_session_computes_something():
    refused("nothing to compute", layers(weights()), anchors=["x"])


@pytest.mark.parametrize("is_training", [True, False])
def test_operators_of_stages_may_be_written_in_any_order(is_training):
    """Two stages need three micro-batches in training and two in inference, however often the order goes between them."""
    first, second = {"ipu": 0, "stage": 0}, {"ipu": 1, "stage": 1}
    values = weights()

    def proto(first, second):
        nodes = [
            node("MatMul", ["x", "w0"], "a", **first),
            node("Tanh", ["a"], "b", **second),
            node("MatMul", ["x", "w1"], "c", **first),
            node("MatMul", ["b", "w2"], "d", **second),
            node("Sin", ["c"], "e", **first),
            node("Add", ["d", "e"], "y", **second),
            node("ReduceMean", ["y"], "loss", axes=[0, 1], keepdims=0, **second),
        ]
        return model(nodes, {"x": (2, 4)}, values)

    anchors = {"y": popart.AnchorReturnType("All")}
    pipeline = {"ipus": 2, "virtualGraphMode": popart.VirtualGraphMode.Manual, "enablePipelining": True}
    if is_training:
        x = batches(3)
        expected = train(proto({}, {}), list(values), x, anchors=anchors, accumulationFactor=3)
        got = train(proto(first, second), list(values), x, anchors=anchors, accumulationFactor=3, **pipeline)
    else:
        x = batches(2)
        expected = infer(proto({}, {}), x, anchors, steps=2)
        got = infer(proto(first, second), x, anchors, steps=2, **pipeline)
    for name, value in expected.items():
        numpy.testing.assert_allclose(got[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.shows("popart.SessionOptions.enablePipelining")
@pytest.mark.parametrize("batches_of_step, cycles", [(5, 7), (3, 5)])
def test_batches_of_a_step_flow_through_a_pipeline_of_inference(batches_of_step, cycles):
    """Three stages: stage s works on batch c - s in cycle c; all work at once in the cycles between filling and flushing."""
    places = [{"ipu": i, "stage": i} for i in range(3)]
    pipeline = {"virtualGraphMode": MANUAL, "enablePipelining": True}
    session = build(layers(weights(), places), 4, batches_of_step, ("y",), **pipeline)
    session.prepareDevice()
    text = session._native.program_text()
    assert text.count(f"loop counter 0 trip {cycles} ") == 3
    for stage in range(3):
        assert f"branch_unless_counter counter 0 in [{stage},{stage + batches_of_step})" in text
    with pytest.raises(popart.popart_exception, match="batchesPerStep is 2, and a pipeline of 3 stages needs 3"):
        build(layers(weights(), places), 4, 2, ("y",), **pipeline)
