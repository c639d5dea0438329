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
    ],
)
def test_a_value_of_another_type_is_refused(name, value):
    options = popart.SessionOptions()
    with pytest.raises(TypeError, match=name):
        setattr(options, name, value)


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
