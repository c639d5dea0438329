"""Published signatures of the methods of ai.onnx and ai.graphcore (5 to 7), and which Python values they take."""

import inspect

import numpy as np
import onnx
import pytest

import popart
import popart.builder

# Without debugContext, which is last. "version method": signature.
ONNX = {
    "6 add": "(args, axis=None, broadcast=0)",
    "7 add": "(args)",
    "6 clip": "(args, max=3.4028235e+38, min=-3.4028235e+38)",
    "11 clip": "(args)",
    "6 selu": "(args, alpha=1.6732632, gamma=1.050701)",
    "10 isinf": "(args, detect_negative=1, detect_positive=1)",
    "6 reducesum": "(args, axes=None, keepdims=1)",
    "6 topk": "(args, k, axis=-1)",
    "10 topk": "(args, axis=-1)",
    "11 topk": "(args, axis=-1, largest=1, sorted=1)",
    "11 unique": "(args, num_outputs, axis=None, sorted=1)",
    "7 multinomial": "(args, dtype=6, sample_size=1, seed=None)",
    "6 squeeze": "(args, axes=[])",
    "6 unsqueeze": "(args, axes)",
    "6 transpose": "(args, perm=[])",
    "6 split": "(args, num_outputs, axis=0, split=[])",
    "6 slice": "(args, ends, starts, axes=[])",
    "10 slice": "(args)",
    "6 pad": "(args, pads, mode='constant', value=0.0)",
    "11 pad": "(args, mode='constant')",
    "10 depthtospace": "(args, blocksize)",
    "11 depthtospace": "(args, blocksize, mode='DCR')",
    "6 upsample": "(args, height_scale, width_scale, mode='nearest')",
    "7 upsample": "(args, scales, mode='nearest')",
    "9 upsample": "(args, mode='nearest')",
    "10 resize": "(args, mode='nearest')",
    "11 resize": "(args, coordinate_transformation_mode='half_pixel', cubic_coeff_a=-0.75, exclude_outside=0, extrapolation_value=0.0,"
    " mode='nearest', nearest_mode='round_prefer_floor')",
    "10 constant": "(value)",
    "11 constant": "(value, is_value_sparse=False)",
    "9 constantofshape": "(args, value)",
    "9 eyelike": "(args, dtype=None, k=0)",
    "6 cast": "(args, to)",
    "11 concatfromsequence": "(args, axis, new_axis=0)",
    "11 splittosequence": "(args, axis=0, keepdims=1)",
    "11 sequenceempty": "(dtype=None)",
    "10 stringnormalizer": "(args, case_change_action='NONE', is_case_sensitive=0, locale='', stopwords=[])",
    "9 tfidfvectorizer": "(args, max_gram_length, max_skip_count, min_gram_length, mode, ngram_counts, ngram_indexes, pool_int64s=[],"
    " pool_strings=[], weights=[])",
    "6 gemm": "(args, alpha=1.0, beta=1.0, broadcast=0, transA=0, transB=0)",
    "7 gemm": "(args, alpha=1.0, beta=1.0, transA=0, transB=0)",
    "6 conv": "(args, dilations=[], group=1, kernel_shape=[], pads=[], strides=[])",
    "11 convtranspose": "(args, dilations=[], group=1, kernel_shape=[], output_padding=[], output_shape=[], pads=[], strides=[])",
    "6 averagepool": "(args, kernel_shape, pads=[], strides=[])",
    "7 averagepool": "(args, kernel_shape, count_include_pad=0, pads=[], strides=[])",
    "10 averagepool": "(args, kernel_shape, ceil_mode=0, count_include_pad=0, pads=[], strides=[])",
    "6 maxpool": "(args, kernel_shape, pads=[], strides=[])",
    "8 maxpool": "(args, num_outputs, kernel_shape, pads=[], storage_order=0, strides=[])",
    "10 maxpool": "(args, num_outputs, kernel_shape, ceil_mode=0, dilations=[], pads=[], storage_order=0, strides=[])",
    "6 lppool": "(args, kernel_shape, p=2, pads=[], strides=[])",
    "10 roialign": "(args, mode='avg', output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0)",
    "6 batchnormalization": "(args, num_outputs, epsilon=1e-05, is_test=0, momentum=0.9, spatial=1)",
    "7 batchnormalization": "(args, num_outputs, epsilon=1e-05, momentum=0.9, spatial=1)",
    "9 batchnormalization": "(args, num_outputs, epsilon=1e-05, momentum=0.9)",
    "6 lrn": "(args, size, alpha=0.0001, beta=0.75, bias=1.0)",
    "9 meanvariancenormalization": "(args, axes=[])",
    "6 softmax": "(args, axis=1)",
    "6 dropout": "(args, num_outputs, is_test=0, ratio=0.5)",
    "7 dropout": "(args, num_outputs, ratio=0.5)",
    "6 randomnormal": "(shape, dtype=1, mean=0.0, scale=1.0, seed=None)",
    "6 randomuniformlike": "(args, dtype=None, high=1.0, low=0.0, seed=None)",
    "6 lstm": "(args, num_outputs, activation_alpha=[], activation_beta=[], activations=[], clip=None, direction='forward',"
    " hidden_size=None, input_forget=0, output_sequence=0)",
    "7 gru": "(args, num_outputs, activation_alpha=[], activation_beta=[], activations=[], clip=None, direction='forward',"
    " hidden_size=None, linear_before_reset=0)",
    "6 loop": "(args, num_outputs, body)",
    "8 scan": "(args, num_outputs, body, num_scan_inputs, directions=[])",
    "9 scan": "(args, num_outputs, body, num_scan_inputs, scan_input_axes=[], scan_input_directions=[], scan_output_axes=[],"
    " scan_output_directions=[])",
    "11 bitshift": "(args, direction)",
    "10 mod": "(args, fmod=0)",
    "11 cumsum": "(args, exclusive=0, reverse=0)",
}
_MEAN, _SUM = "<ReductionType.Mean: 1>", "<ScatterReduction.Sum: 0>"
GRAPHCORE = {
    "abort": "(args=[])",
    "batchnormalization": "(args, num_outputs, epsilon=1e-05, momentum=0.9)",
    "bitwisexnor": "(args=[])",
    "bucketize": "(args, right=0)",
    "ctcloss": f"(args, reduction={_MEAN}, blank=0, outDataType='UNDEFINED', zeroInfinity=False)",
    "depthtospace": "(args, blocksize, mode)",
    "dynamicslice": "(args, axes, sizes, noOverlap=0)",
    "groupedscatterreduce": f"(args, axis_size, axis=-1, reduction={_SUM}, group_size=1, enable_index_broadcast=1)",
    "groupnormalization": "(args, num_groups, epsilon=1e-05)",
    "incrementmod": "(args, increment, modulus)",
    "l1loss": f"(args, lambda, reduction={_MEAN})",
    "lstm": "(args, outputFullSequence=1)",
    "multiconv": "(args, dilations=[], inDilations=[], pads=[], outPads=[], strides=[], availableMemoryProportions=[], partialsTypes=[],"
    " planType=None, perConvReservedTiles=None, cycleBackOff=None, enableConvDithering=[])",
    "nllloss": f"(args, reduction={_MEAN}, ignoreIndex=None, inputIsLogProbability=False)",
    "normalize_image": "(args, scale=1.0)",
    "reducemedian": "(args, axes=None, keepdims=1)",
    "replicatedallreduce": "(args, collectiveOperator=None, commGroup=None)",
    "reshape": "(args, shape)",
    "scaledadd": "(args, scale0=1.0, scale1=1.0)",
    "scatterreduce": f"(args, axis_size, axis=-1, reduction={_SUM}, enable_index_broadcast=1)",
    "shapeddropout": "(args, shape, ratio=0.5)",
    "slice": "(args, ends, starts, axes)",
    "sort": "(args, axis=-1, descending=0, stable=0)",
}


def published(method):
    """The signature as programs see it, without types and the name at the end."""
    parameters = [p.replace(annotation=inspect.Parameter.empty) if p.name != "lambda" else p for p in signature(method)]
    assert parameters[-1].name == "debugContext" and parameters[-1].default == ""
    shown = [p.name + ("" if p.default is inspect.Parameter.empty else f"={p.default!r}") for p in parameters[:-1]]
    return f"({', '.join(shown)})"


def signature(method):
    return [p for p in inspect.signature(method).parameters.values() if p.name != "self"]


@pytest.mark.parametrize("row", ONNX)
def test_signatures_of_ai_onnx(row):
    version, name = row.split()
    for kind in (getattr(popart, f"AiOnnxOpset{version}"), getattr(popart.builder, f"AiOnnx{version}")):
        assert published(getattr(kind, name)) == ONNX[row]
        assert "onnx.ai/onnx/operators" in getattr(kind, name).__doc__


@pytest.mark.parametrize("name", GRAPHCORE)
@pytest.mark.shows("popart.AiGraphcoreOpset1")
def test_signatures_of_ai_graphcore(name):
    assert published(getattr(popart.AiGraphcoreOpset1, name)) == GRAPHCORE[name]


def test_signatures_whose_last_name_differs():
    last = {
        "call": "debugName",
        "packedDataBlock": "debugName",
        "ctcbeamsearchdecoder": "debug_context",
        "tensorremap": "debugPrefix",
    }
    for name, wanted in last.items():
        assert signature(getattr(popart.AiGraphcoreOpset1, name))[-1].name == wanted
    names = [p.name for p in signature(popart.builder.AiOnnx11.logical_if)]
    assert names == ["args", "num_outputs", "else_branch", "then_branch", "name"]


@pytest.mark.shows("popart.builder")
def test_versions_have_the_methods_of_those_before_and_new_ones():
    since = {
        "acos": 7,
        "expand": 8,
        "where": 9,
        "thresholdedrelu": 10,
        "round": 11,
        "upsample": 6,
        "logical_xor": 6,
        "sequenceat": 11,
    }
    for name, first in since.items():
        for version in range(6, 12):
            assert hasattr(getattr(popart, f"AiOnnxOpset{version}"), name) == (version >= first)
    kinds = [getattr(popart.builder, f"AiOnnx{version}") for version in range(6, 12)]
    assert all(issubclass(later, earlier) for earlier, later in zip(kinds, kinds[1:]))
    assert not hasattr(popart.AiOnnxOpset11, "celu")


def made(call, version=11):
    builder = popart.Builder(opsets={"ai.onnx": version, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [2, 4], "x")
    outputs = call(builder, x)
    node = onnx.load_from_string(builder.getModelProto()).graph.node[-1]
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if a.name != "__debug_info_id"}
    return outputs, node, values


def test_one_output_is_a_name_and_several_are_a_list():
    assert made(lambda b, x: b.aiOnnx.relu([x]))[0] == "Relu:0"
    assert made(lambda b, x: b.aiOnnx.topk([x, b.aiOnnx.constant(np.array([2]))]))[0] == ["TopK:0", "TopK:1"]
    assert made(lambda b, x: b.aiOnnx.dynamicquantizelinear([x]))[0] == [f"DynamicQuantizeLinear:{i}" for i in range(3)]
    assert made(lambda b, x: b.aiOnnx.dropout([x], 1))[0] == ["Dropout:0"]
    assert made(lambda b, x: b.aiGraphcore.sort([x]))[0] == ["Sort:0", "Sort:1"]
    assert made(lambda b, x: b.aiGraphcore.abort([x]))[0] is None


def test_attributes_that_say_nothing_new_are_left_out():
    assert made(lambda b, x: b.aiOnnx.leakyrelu([x]))[2] == {}
    assert made(lambda b, x: b.aiOnnx.leakyrelu([x], 0.5))[2] == {"alpha": 0.5}
    assert made(lambda b, x: b.aiOnnx.softmax([x]))[2] == {"axis": 1}
    assert made(lambda b, x: b.aiOnnx.reducesum([x]))[2] == {"keepdims": 1}
    assert made(lambda b, x: b.aiOnnx.reducesum([x], axes=[]))[2] == {"axes": [], "keepdims": 1}
    assert made(lambda b, x: b.aiOnnx.transpose([x]))[2] == {}
    assert made(lambda b, x: b.aiOnnx.cast([x], "FLOAT16"))[2] == {"to": 10}


def test_whole_numbers_may_be_bools_and_floats():
    assert made(lambda b, x: b.aiOnnx.argmax([x], True, False))[2] == {"axis": 1, "keepdims": 0}
    assert made(lambda b, x: b.aiOnnx.argmax([x], np.int32(1), 0.0))[2] == {"axis": 1, "keepdims": 0}
    assert made(lambda b, x: b.aiGraphcore.scale([x], 2))[2] == {"scale": 2.0}
    assert made(lambda b, x: b.aiGraphcore.sequenceslice([x] * 5, zeroUnused=True))[2] == {"zeroUnused": 1}


def test_the_name_of_a_node_may_follow_positionally():
    calls = (
        lambda b, x: b.aiOnnx.relu([x], "mine"),
        lambda b, x: b.aiGraphcore.scale([x], 2.0, "mine"),
        lambda b, x: b.aiGraphcore.gelu([x], debugPrefix="mine"),
        lambda b, x: b.aiGraphcore.init([2], popart.DataType.FLOAT, popart.InitType.Zero, "mine"),
        lambda b, x: b.aiGraphcore.gelu([x], popart.DebugContext("mine")),
    )
    assert all(made(call)[1].name == "mine" for call in calls)
    _, node, values = made(lambda b, x: b.aiOnnx.add([x, x], 0, 1, "mine"), 6)
    assert node.name == "mine" and values == {"axis": 0, "broadcast": 1}


def test_enumerations_are_written_as_text_or_number():
    kinds = popart.ReductionType
    for kind, word in ((kinds.Sum, b"Sum"), (kinds.Mean, b"Mean"), (kinds.NoReduction, b"None")):
        assert made(lambda b, x, k=kind: b.aiGraphcore.l1loss([x], 0.5, k))[2] == {"lambda": 0.5, "reduction": word}
    assert made(lambda b, x: b.aiGraphcore.l1loss([x], **{"lambda": 1}))[2]["lambda"] == 1.0
    scatter = lambda kind: made(lambda b, x: b.aiGraphcore.scatterreduce([x, x], 3, 0, kind))[2]["reduction"]
    assert [scatter(kind) for kind in popart.ScatterReduction] == [b"sum", b"max", b"min", b"mul", b"none"]
    for value in (popart.DataType.FLOAT16, 12):
        values = made(lambda b, x, v=value: b.aiGraphcore.init([2, 3], v, 1, 0))[2]
        assert values == {"shape": [2, 3], "data_type": 12, "init_type": 1, "batch_axis": 0}
    group = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
    values = made(
        lambda b, x: b.aiGraphcore.replicatedallreduce(
            [x], popart.CollectiveOperator.Max if hasattr(popart, "CollectiveOperator") else 4, group
        )
    )[2]
    assert values == {"__collectiveOperator": 4, "__collectiveCommGroup": [1, 2]}
    assert made(lambda b, x: b.aiGraphcore.replicatedallreduce([x]))[2] == {}


@pytest.mark.parametrize(
    "call",
    [
        lambda b, x: b.aiOnnx.add(x),
        lambda b, x: b.aiOnnx.add([x, 1]),
        lambda b, x: b.aiOnnx.add(),
        lambda b, x: b.aiOnnx.add([x, x], "name", 3),
        lambda b, x: b.aiOnnx.relu([x], alpha=1),
        lambda b, x: b.aiOnnx.softmax([x], axis="1"),
        lambda b, x: b.aiOnnx.softmax([x], axis=0.5),
        lambda b, x: b.aiOnnx.cast([x], 10),
        lambda b, x: b.aiOnnx.constant([1, 2]),
        lambda b, x: b.aiOnnx.transpose([x], perm=1),
        lambda b, x: b.aiOnnx.loop([x, x], 1, "body"),
        lambda b, x: b.aiGraphcore.identityloss([x], "Sum"),
        lambda b, x: b.aiGraphcore.reshape([x], [8]),
        lambda b, x: b.aiOnnx.relu([x], debugContext=3),
    ],
)
def test_values_of_other_types_are_type_errors_that_list_the_signature(call):
    with pytest.raises(TypeError, match=r"incompatible function arguments.*\n    1\. \(.*\) -> .*\n\nInvoked with: "):
        made(call)
