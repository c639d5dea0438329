"""Chapters 5.1 and 26.4: seeds, initial values, files of data, events."""

import numpy
import pytest

import tensorflow as tf
from tensorflow.python import ipu

v1 = tf.compat.v1


@pytest.mark.shows("ipu.utils.move_variable_initialization_to_cpu")
def test_initial_values_are_computed_by_the_host():
    with tf.Graph().as_default() as graph:
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            variable = v1.get_variable("v", initializer=tf.random.uniform([2, 3]) * 2.0)
            copy = v1.get_variable("w", initializer=variable.read_value() + 1.0)
            outside = variable + 1.0
        value, read = variable.initializer.inputs[1].op, copy.initializer.inputs[1].op
        compiled = {"_ipu_device"}
        assert compiled <= set(outside.op.node_def.attr)
        assert compiled <= set(value.node_def.attr) and compiled <= set(read.node_def.attr)
        ipu.utils.move_variable_initialization_to_cpu()
        ipu.utils.move_variable_initialization_to_cpu(graph)
        for op in (value, value.inputs[0].op, read):
            assert op.device == "/device:CPU:0" and not compiled & set(op.node_def.attr)
        kept = [op for op in graph.get_operations() if op.type == "ReadVariableOp"]
        assert kept and all(op.device == "" for op in kept) and compiled <= set(outside.op.node_def.attr)
        with v1.Session() as session:
            session.run(variable.initializer)
            assert session.run(outside).shape == (2, 3)


@pytest.mark.shows("ipu.utils.reset_ipu_seed")
def test_a_seed_reaches_the_device(recorder):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = [1, 1]
    config.configure_ipu_system()
    assert ipu.utils.reset_ipu_seed(7) is None
    ipu.utils.reset_ipu_seed(numpy.int64(-1), device="/device:IPU:1", cpu_device="cpu")
    assert recorder.seeds == [(7, 0), (2**64 - 1, 1)]
    with pytest.raises(TypeError):
        ipu.utils.reset_ipu_seed(1.5)
    with pytest.raises(ValueError, match="'/device:IPU:2' is not there"):
        ipu.utils.reset_ipu_seed(1, "/device:IPU:2")
    with pytest.raises(NotImplementedError, match="experimental_identical_replicas is not in this version"):
        ipu.utils.reset_ipu_seed(1, experimental_identical_replicas=True)


@pytest.mark.shows("ipu.utils.export_dataset_to_file")
def test_elements_of_a_dataset_are_written_by_component(tmp_path):
    numbers = numpy.arange(12, dtype=numpy.float32).reshape(4, 3)
    labels = numpy.arange(4, dtype=numpy.int32)
    structures = {
        "one": (numbers, {"d.npy": numbers}),
        "pair": ((numbers, labels), {"d.0.npy": numbers, "d.1.npy": labels}),
        "dict": ({"x": numbers, "y": labels}, {"d.x.npy": numbers, "d.y.npy": labels}),
        "deep": ((labels, {"x": numbers}), {"d.0.npy": labels, "d.1.x.npy": numbers}),
    }
    with tf.Graph().as_default():
        for name, (structure, wanted) in structures.items():
            (tmp_path / name).mkdir()
            dataset = tf.data.Dataset.from_tensor_slices(structure)
            ipu.utils.export_dataset_to_file(dataset, str(tmp_path / name / "d.npy"), 3)
            files = {file.name: numpy.load(file) for file in (tmp_path / name).iterdir()}
            assert files.keys() == wanted.keys()
            for file, values in wanted.items():
                assert files[file].dtype == values.dtype and numpy.array_equal(files[file], values[:3])
        with pytest.raises(tf.errors.OutOfRangeError):
            ipu.utils.export_dataset_to_file(dataset, str(tmp_path / "more.npy"), 5)
        with pytest.raises(AssertionError, match="must be a dataset or an IPUInfeedQueue, and is 3"):
            ipu.utils.export_dataset_to_file(3, str(tmp_path / "no.npy"), 1)


@pytest.mark.shows("ipu.utils.export_inputs_to_file")
def test_inputs_of_a_graph_are_written_by_name(tmp_path):
    with tf.Graph().as_default():
        a = v1.placeholder(tf.float32, [2], "a")
        b = tf.identity(a * 2.0, "b")
        ipu.utils.export_inputs_to_file([a, b], str(tmp_path / "inputs.bin"), {a: [1.0, 2.0]})
    with numpy.load(tmp_path / "inputs.bin") as found:
        assert {name: list(value) for name, value in found.items()} == {"a:0": [1.0, 2.0], "b:0": [2.0, 4.0]}
    with pytest.raises(ValueError, match="inputs is empty"):
        ipu.utils.export_inputs_to_file([], str(tmp_path / "none.bin"), {})


@pytest.mark.shows("ipu.utils.extract_all_events", "ipu.utils.extract_all_types_from_event_trace")
@pytest.mark.shows("ipu.utils.extract_all_strings_from_event_trace")
def test_events_are_read_back_and_there_are_none():
    from tensorflow.compiler.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
    from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops

    assert IpuTraceEvent.EXECUTE == 5 and IpuTraceEvent.COMPILE_BEGIN == 0
    event = IpuTraceEvent(type=IpuTraceEvent.COMPILE_END, timestamp=2.5)
    event.compile_end.module_name = "cluster_1"
    events = numpy.array([event.SerializeToString()], dtype=object)
    assert ipu.utils.extract_all_events(events) == [event]
    assert ipu.utils.extract_all_types_from_event_trace(events) == [1]
    text = ipu.utils.extract_all_strings_from_event_trace(events)
    assert text.startswith("COMPILE_END ") and "cluster_1" in text
    for name in ("extract_compile_reports", "extract_execute_reports", "extract_poplar_serialized_graphs"):
        assert getattr(ipu.utils, name)(events) == []
    with tf.Graph().as_default(), v1.Session() as session:
        none = session.run(gen_ipu_ops.ipu_event_trace())
    assert none.dtype == object and ipu.utils.extract_all_events(none) == []
