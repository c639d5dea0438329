"""popart._internal.ir: ids, scopes, optionals, groups, regions, and 8-bit floats."""

import numpy
import pytest

import popart
import popart._internal.ir as _ir
import popxl


def test_graph_ids_compare_with_texts():
    a = _ir.GraphId("a")
    assert a == "a" and a == _ir.GraphId("a") and a != "b" and a < _ir.GraphId("b") and str(a) == a.str() == "a"
    assert {a: 1}["a"] == 1 and sorted([_ir.GraphId("b"), a])[0] is a


def test_scopes_nest():
    empty = _ir.Scope()
    inner = empty / "a" / "b"
    assert empty.empty() and inner.depth() == 2 and inner.str() == str(inner) == "a/b" and _ir.Scope.delimiter() == "/"
    assert inner.getCommonParent(empty / "a" / "c") == empty / "a" != inner
    assert inner.isSubscope(empty / "a") and not inner.isSubscope(inner) and not inner.isSubscope(empty / "b")
    inner.pop()
    assert inner == empty / "a"
    inner.pop()
    with pytest.raises(popart.popart_exception, match="no name"):
        inner.pop()


def test_ids_get_and_lose_the_scope_of_a_graph():
    ir = _ir.Ir()
    g = ir.createGraph("g1")
    assert _ir.addScope(g, "x") == "g1/x" and _ir.removeScope(g, "g1/x") == "x"
    assert _ir.addScope(ir.getMainGraph(), "x") == "x"
    with pytest.raises(popart.popart_exception, match="'h/x' is not in the scope of graph 'g1'"):
        _ir.removeScope(g, "h/x")


def test_identifiers_compare_by_value():
    a = _ir.OperatorIdentifier("d", "T", 2, _ir.NumInputs(1, -1), 3)
    assert (a.domain, a.type, a.version, a.numInputs.max, a.numOutputs) == ("d", "T", 2, -1, 3)
    assert a == _ir.OperatorIdentifier("d", "T", 2) < _ir.OperatorIdentifier("d", "T", 3)
    assert (_ir.NumInputs().min, _ir.NumInputs(4).max) == (0, 4)
    with pytest.raises(AttributeError):
        a.version = 5


@pytest.mark.parametrize("name", ["OptionalVGraphId", "OptionalFloat", "OptionalInt64Vector", "OptionalTensors"])
def test_an_optional_is_false_until_it_has_a_value(name):
    kind = getattr(_ir, name)
    empty, full = kind(), kind([1] if "Vector" in name or "Tensors" in name else 0)
    assert not empty and full and empty == kind() != full
    empty.reset(full.value)
    assert empty == full


def test_optimizer_values():
    assert (
        _ir.OptimizerValue().val(),
        _ir.OptimizerValue(0.5).isConst(),
        _ir.OptimizerValue(0.5, False).isConst(),
    ) == (0, True, False)


def test_replicas_are_grouped_with_a_stride():
    grouping = _ir.ReplicaGrouping(8, 2, 4)
    assert str(grouping) == "ReplicaGrouping(numReplicas=8, stride=2, groupSize=4)"
    assert (grouping.getNumReplicas(), grouping.getStride(), grouping.getGroupSize(), grouping.getNumGroups()) == (
        8,
        2,
        4,
        2,
    )
    assert [grouping.getGroupAt(r) for r in range(8)] == [0, 1] * 4
    assert (
        grouping.getReplicasAt(1) == [1, 3, 5, 7]
        and grouping.getReplicaAt(1, 2) == 5
        and grouping.getIndexInGroupAt(5) == 2
    )
    assert grouping.getTranspose() == _ir.ReplicaGrouping(8, 1, 2)
    assert _ir.ReplicaGrouping(4).getNumGroups() == 1
    with pytest.raises(popart.popart_exception, match="stride 3"):
        _ir.ReplicaGrouping(8, 3, 2)
    with pytest.raises(popart.popart_exception, match="replica 8"):
        grouping.getGroupAt(8)
    with pytest.raises(popart.popart_exception, match="no single stride"):
        _ir.ReplicaGrouping(8, 2, 2).getTranspose()


@pytest.mark.shows(
    "popxl.ops.collectives.CommGroup",
    "popxl.ops.collectives.CommGroup.type",
    "popxl.ops.collectives.CommGroup.replicaGroupSize",
    "popxl.ops.collectives.CommGroup.toReplicaGrouping",
    "popxl.ops.collectives.CommGroupType",
)
def test_the_older_groups_are_groupings():
    kinds = popxl.ops.collectives.CommGroupType
    cases = {
        (kinds.All, 0): (1, 8),
        (kinds.Consecutive, 2): (1, 2),
        (kinds.Orthogonal, 2): (4, 2),
        (kinds.Ungrouped, 0): (1, 1),
    }
    for (kind, size), (stride, members) in cases.items():
        group = _ir.CommGroup(kind, size)
        grouping = group.toReplicaGrouping(8)
        assert (grouping.getStride(), grouping.getGroupSize()) == (stride, members)
        assert _ir.CommGroup(grouping) == group
    with pytest.raises(popart.popart_exception, match="is no CommGroup"):
        _ir.CommGroup(_ir.ReplicaGrouping(8, 2, 2))
    with pytest.raises(popart.popart_exception, match="groups of 0"):
        _ir.CommGroup(kinds.Consecutive, 0).toReplicaGrouping(8)


def test_a_region_is_full_or_empty():
    full, empty = _ir.view.Region.getFull([2, 3]), _ir.view.Region.getEmpty(2)
    assert not full.isEmpty() and empty.isEmpty() and full != empty and "2, 3" in str(full)


@pytest.mark.shows("popart.DataType")
def test_types_are_those_of_popart():
    assert _ir.DataType is popart.DataType and _ir.DataType.FLOAT16.name == "FLOAT16"
    names = "UINT8 INT8 UINT16 INT16 INT32 INT64 UINT32 UINT64 BOOL FLOAT FLOAT16 BFLOAT16 FLOAT8_143 FLOAT8_152 DOUBLE"
    assert set(names.split()) < set(_ir.DataType.__members__)


MEMBERS = {
    "TensorType": "ActGrad Const Stream Unknown Variable N",
    "VariableUpdateType": "None_ Gradient Copy",
    "ExecutionContext": "Normal AccumulateOuterFragment WeightsFromHostFragment WeightsToHostFragment "
    "OptimizerFromHostFragment Subgraph",
    "TileSet": "Compute IO Undefined N",
    "CodeLocation": "ExecutableMemory Buffer N",
    "InitType": "NoInit Zero",
    "ReductionType": "Sum Mean NoReduction N",
    "CollectiveOperator": "Add Mean Mul Min Max LogicalAnd LogicalOr SquareAdd Local",
    "AccumulationType": "Add DampenedAdd DampenedAddSquare DecayAdd DecayAddSquare MovingAverage MovingAverageSquare "
    "Infinity Mean",
    "AdamMode": "Adam AdamNoBias AdaMax Lamb LambNoBias",
    "FloatFormat": "Auto Fixed Scientific None_",
    "ExpectedConnectionType": "Fwd FwdGrad",
    "op.AutoPad": "NOTSET SAME_UPPER SAME_LOWER VALID",
    "op.SerialiseSettingsMode": "NoSerialisation InputChannels ReducingDim OutputChannels",
    "transforms.AutodiffStitchStrategy": "RecomputeMinimal RecomputeAllNonInputs AddFwdOutputs SafeAddFwdOutputs N",
    "patterns.PatternsLevel": "NoPatterns Minimal Default All",
}


def test_members_of_enumerations():
    for name, members in MEMBERS.items():
        owner = _ir
        for part in name.split("."):
            owner = getattr(owner, part)
        assert set(members.split()) <= set(owner.__members__), name


FORMATS = {
    popart.DataType.FLOAT8_143: [
        (0.75, 0, 0b00111100),
        (0.75, 1, 0b01000100),
        (0.75, -2, 0b00101100),
        (-240.0, 0, 0xFF),
    ],
    popart.DataType.FLOAT8_152: [(0.25, 0, 0b00111000), (0.25, -3, 0b00101100), (2.0**-17, 0, 1), (57344.0, 0, 0x7F)],
}


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_codes_of_8_bit_floats(bits):
    encode = getattr(_ir, f"convertFromFloat{bits}ToFloat8AsUInt8")
    decode = getattr(_ir, f"convertFromFloat8AsUInt8ToFloat{bits}")
    for format, rows in FORMATS.items():
        for value, scale, code in rows:
            if bits == 16 and abs(value) < 2**-14:
                continue
            array = numpy.full((2, 2), value, f"float{bits}")
            assert encode(format, array, scale, True).tolist() == [code] * 4
            back = decode(format, numpy.uint8([code]), numpy.dtype(f"float{bits}"), -scale)
            assert back.dtype == f"float{bits}" and back.tolist() == [value]


@pytest.mark.parametrize("format", list(FORMATS))
def test_each_code_comes_back(format):
    codes = numpy.arange(256).astype(numpy.uint8)
    values = _ir.convertFromFloat8AsUInt8ToFloat32(format, codes, numpy.dtype("float32"), 0)
    assert numpy.flatnonzero(numpy.isnan(values)).tolist() == [0x80]
    assert (_ir.convertFromFloat32ToFloat8AsUInt8(format, values, 0, True) == codes).all()
    # Between two neighbours the nearer one is taken, of two equally near ones the even.
    positive = values[:128].astype(numpy.float64)
    middle = (positive[:-1] + positive[1:]) / 2
    rounded = _ir.convertFromFloat64ToFloat8AsUInt8(format, middle, 0, True)
    assert (rounded % 2 == 0).all()
    assert (
        _ir.convertFromFloat64ToFloat8AsUInt8(format, numpy.nextafter(middle, 1e9), 0, True) == numpy.arange(1, 128)
    ).all()


def test_too_large_numbers_become_nan_or_the_largest():
    format = popart.DataType.FLOAT8_143
    array = numpy.float32([1000, -1000, numpy.inf, numpy.nan])
    assert _ir.convertFromFloat32ToFloat8AsUInt8(format, array, 0, True).tolist() == [0x80] * 4
    assert _ir.convertFromFloat32ToFloat8AsUInt8(format, array, 0, False).tolist() == [0x7F, 0xFF, 0x80, 0x80]


def test_arrays_in_another_order_are_copied():
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    format = popart.DataType.FLOAT8_152
    straight = _ir.convertFromFloat32ToFloat8AsUInt8(format, array.T.copy(), 0, True)
    assert (_ir.convertFromFloat32ToFloat8AsUInt8(format, array.T, 0, True) == straight).all()


def test_scales_are_those_with_the_least_error():
    format = popart.DataType.FLOAT8_143
    array = numpy.float32([2.0**-30, 2.0**-29])
    scale = _ir.calculateScaleFromFloat32ToFloat8(array, format)
    codes = _ir.convertFromFloat32ToFloat8AsUInt8(format, array, scale, False)
    assert (_ir.convertFromFloat8AsUInt8ToFloat32(format, codes, numpy.dtype("float32"), -scale) == array).all()
    assert isinstance(scale, int) and -31 <= scale <= 31
    assert _ir.calculateScaleFromFloat16ToFloat8(numpy.float16([1.0]), format) == 0


def test_other_types_are_no_8_bit_floats():
    with pytest.raises(popart.popart_exception, match="FLOAT is no 8-bit float"):
        _ir.convertFromFloat32ToFloat8AsUInt8(popart.DataType.FLOAT, numpy.float32([1]), 0, True)
    with pytest.raises(popart.popart_exception, match="no 8-bit float"):
        _ir.calculateScaleFromFloat32ToFloat8(numpy.float32([1]), popart.DataType.FLOAT16)
    with pytest.raises(popart.popart_exception, match="float64, not of float32"):
        _ir.convertFromFloat32ToFloat8AsUInt8(popart.DataType.FLOAT8_143, numpy.float64([1]), 0, True)
