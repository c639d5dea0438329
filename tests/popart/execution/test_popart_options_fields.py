"""SessionOptions: types of fields, older names."""

import numpy
import popart
import pytest


@pytest.mark.shows("popart.SessionOptions")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enablePipelining", 1),
        ("accumulationFactor", 1.5),
        ("virtualGraphMode", 1),
        ("kahnTieBreaker", 3),
        ("outlineThreshold", "1"),
        ("batchSerializationSettings", 2),
        ("weightTensorLocationSettings", popart.TensorLocation()),
        ("engineOptions", ["debug.instrument"]),
        ("engineOptions", {"debug.instrument": True}),
        ("bufferingDepthMap", {"x": "2"}),
        ("tensorLocationSettingsOverride", {"w": popart.TensorStorage.OffChip}),
        ("dotChecks", "FINAL"),
        ("hardwareInstrumentations", {"Outer"}),
        ("customCodelets", "codelet.cpp"),
        ("virtualGraphSplitRatios", ["half"]),
    ],
)
def test_a_value_of_another_type_is_refused(name, value):
    options = popart.SessionOptions()
    with pytest.raises(TypeError, match=name):
        setattr(options, name, value)


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ("executionPhaseSettings", "phases", "2"),
        ("executionPhaseSettings", "schedule", 1),
        ("batchSerializationSettings", "factor", 2.5),
        ("batchSerializationSettings", "concatOnVirtualGraphChange", 1),
        ("automaticLossScalingSettings", "binEdgeLocation", "0.5"),
        ("automaticLossScalingSettings", "toTrackTensors", "weight"),
        ("accumulateOuterFragmentSettings", "excludedVirtualGraphs", ["0"]),
        ("replicatedCollectivesSettings", "mergeAllReduceCollectives", None),
    ],
)
def test_a_value_of_another_type_in_settings_is_refused(settings, field, value):
    options = popart.SessionOptions()
    with pytest.raises(TypeError, match=field):
        setattr(getattr(options, settings), field, value)
    with pytest.raises(TypeError, match=field):
        type(getattr(options, settings))(**{field: value})


def test_entries_of_maps_have_the_type_of_the_map():
    options = popart.SessionOptions()
    options.engineOptions["debug.instrument"] = "true"
    options.tensorLocationSettingsOverride["w"] = popart.TensorLocation()
    assert options.engineOptions == {"debug.instrument": "true"}
    with pytest.raises(TypeError, match="debug.instrument"):
        options.engineOptions["debug.instrument"] = True
    with pytest.raises(TypeError, match="keys"):
        options.engineOptions[1] = "true"


def test_settings_take_what_their_fields_take():
    tracked = popart.AutomaticLossScalingSettings(True, ["y"], binEdgeLocation=1)
    assert (tracked.toTrackTensors, tracked.binEdgeLocation, type(tracked.binEdgeLocation)) == (["y"], 1.0, float)
    tracked.toTrackTensors = None
    assert tracked.toTrackTensors is None
    with pytest.raises(TypeError, match="has 7 fields, not 8"):
        popart.BatchSerializationSettings(*range(8))


def test_numbers_of_numpy_are_numbers():
    options = popart.SessionOptions()
    options.accumulationFactor = numpy.int64(4)
    options.outlineThreshold = 2
    options.enablePipelining = numpy.bool_(True)
    assert (options.accumulationFactor, options.outlineThreshold, options.enablePipelining) == (4, 2.0, True)
    assert type(options.accumulationFactor) is int


def test_updatable_buffers_is_another_name_of_updatable_named_buffers():
    options = popart.SessionOptions()
    options.updatableBuffers = ["mean"]
    assert options.updatableNamedBuffers == ["mean"]


@pytest.mark.shows(
    "popart.SessionOptions.defaultPrefetchBufferingDepth",
    "popart.SessionOptions.prefetchBufferingDepthMap",
)
@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("defaultPrefetchBufferingDepth", "defaultBufferingDepth", 2),
        ("prefetchBufferingDepthMap", "bufferingDepthMap", {"x": 2}),
    ],
)
def test_deprecated_names_work_and_say_so(old, new, value, capfd):
    options = popart.SessionOptions()
    setattr(options, old, value)
    assert getattr(options, new) == value
    assert f"SessionOptions.{old} is deprecated; use {new}" in capfd.readouterr().err


@pytest.mark.shows("popart.SessionOptions.enableExplicitIR")
def test_explicit_ir_sets_and_resets_its_three_options():
    options = popart.SessionOptions()
    for value in (True, False):
        options.enableExplicitIR(value)
        assert {options.useHostCopyOps, options.enableExplicitMainLoops, options.explicitRecomputation} == {value}


@pytest.mark.shows("popart.TensorLocation", "popart.TensorLocationSettings")
def test_locations_are_made_by_position_and_by_name():
    off, on, io = popart.TensorStorage.OffChip, popart.ReplicatedTensorSharding.On, popart.TileSet.IO
    pairs = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
    compute = popart.TileSet.Compute
    names = ("storage", "loadTileSet", "storageTileSet", "replicatedTensorSharding", "shardingDomain")
    for made, expected in (
        (popart.TensorLocation(off, on, pairs), (off, compute, compute, on, pairs)),
        (popart.TensorLocation(storage=off, replicatedTensorSharding=on), (off, compute, compute, on, None)),
        (popart.TensorLocation(off, io, compute, on, pairs), (off, io, compute, on, pairs)),
        (popart.TensorLocation(off, loadTileSet=io, storageTileSet=io), (off, io, io, None, None)),
    ):
        for name, value in zip(names, expected):
            assert value is None or getattr(made, name) is value
    settings = popart.TensorLocationSettings(storage=off, minElementsForOffChip=5)
    assert settings.location.storage is off and settings.minElementsForOffChip == 5
    assert popart.TensorLocationSettings(off, 5, 6).minElementsForReplicatedTensorSharding == 6
    # Nothing is shared between two objects.
    settings.location.shardingDomain.replicaGroupSize = 4
    assert popart.TensorLocationSettings().location.storage is popart.TensorStorage.OnChip
    assert popart.TensorLocation().shardingDomain.replicaGroupSize == 0


def test_locations_refuse_values_of_another_type():
    for make in (
        lambda: popart.TensorLocation(1),
        lambda: popart.TensorLocation(popart.ReplicatedTensorSharding.On),
        lambda: popart.TensorLocation(popart.TensorStorage.OffChip, 1),
        lambda: popart.TensorLocation(place=popart.TensorStorage.OffChip),
        lambda: popart.TensorLocationSettings(1),
        lambda: popart.TensorLocationSettings(popart.TensorStorage.OffChip, "5"),
        lambda: setattr(popart.TensorLocation(), "storage", 1),
    ):
        with pytest.raises(TypeError, match="incompatible arguments: TensorLocation"):
            make()
    with pytest.raises(AttributeError, match="'place'"):
        popart.TensorLocation().place = 1


@pytest.mark.shows("popart.InputSettings")
def test_settings_of_inputs_of_one_argument_are_of_the_stream_mode():
    broadcast = popart.ReplicatedStreamMode.Broadcast
    for made in (
        popart.InputSettings(broadcast),
        popart.InputSettings(relicatedStreamMode=broadcast),
        popart.InputSettings(replicatedStreamMode=broadcast),
    ):
        assert (made.tileSet(), made.replicatedStreamMode()) == (popart.TileSet.Compute, broadcast)
    assert popart.InputSettings().replicatedStreamMode() is popart.ReplicatedStreamMode.Replicate
    with pytest.raises(TypeError, match="tileSet of InputSettings"):
        popart.InputSettings(1)
