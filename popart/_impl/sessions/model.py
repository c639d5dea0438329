"""A model as a session takes it: read, completed with shapes, and turned into node records."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

import ipu_core
from popart._impl.builder import tensor_data
from popart._impl.exceptions import popart_exception
from popart._impl.core_errors import as_popart

if TYPE_CHECKING:
    import onnx

    from popart._impl.data_flow import InputShapeInfo


class Model(NamedTuple):
    """A model whose initialisers were decoded, each once.

    proto: the model, without the elements of those whose `places` are known; data: its bytes as they were given; values: of
    all initialisers by name, views of `data` where a place is known; places: by number of the initialiser.
    """

    proto: onnx.ModelProto
    data: bytes
    values: dict[str, numpy.ndarray]
    places: dict[int, tensor_data.Place]


def read_model(source: Any) -> Model:
    """A model from bytes or from a file.

    Raises:
        popart_exception: neither is a model; its opset of ai.onnx is none of 6 to 11; a tensor has more or fewer elements than
            its shape; two initialisers have one name.
        RuntimeError: a tensor lies in a file that is not there.
    """
    from popart._impl.builder import model_files

    given = source if isinstance(source, (bytes, str, os.PathLike)) else bytes(source)
    data, what, folder = model_files.bytes_of(given)
    rest, places = tensor_data.split(data)
    proto = model_files.parsed(rest, what, folder, checked=False)
    values: dict[str, numpy.ndarray] = {}
    for number, tensor in enumerate(proto.graph.initializer):
        if tensor.name in values:
            raise popart_exception(f"duplicate name: two initialisers of <model> are called '{tensor.name}'")
        values[tensor.name] = _decoded(tensor, data, places.get(number))
    return Model(proto, data, values, places)


def _decoded(tensor: onnx.TensorProto, data: bytes, place: tensor_data.Place | None) -> numpy.ndarray:
    """Raises popart_exception where the number of elements is not that of the shape, or the tensor's file cannot be read."""
    from popart._impl.builder import protos

    if place is not None:
        return protos.to_array(tensor, memoryview(data)[place.begin : place.end])
    array = protos.to_array(tensor)
    if tensor.data_type == protos.Tensor.BFLOAT16:  # which no program has: it is refused by its name
        import onnx.numpy_helper

        return onnx.numpy_helper.to_array(tensor)
    return array


def set_input_shapes(model: onnx.ModelProto, shapes: InputShapeInfo) -> None:
    """What a session is told of the inputs' shapes and types wins over what the model says."""
    import onnx

    for value in model.graph.input:
        if not shapes.has(value.name):
            continue
        info = shapes.get(value.name)
        value.type.tensor_type.elem_type = onnx.TensorProto.DataType.Value(info.data_type())
        value.type.tensor_type.shape.ClearField("dim")
        for size in info.shape():
            value.type.tensor_type.shape.dim.add().dim_value = size


def _narrow(graph: dict[str, Any]) -> None:
    """UINT64 becomes UINT32, as INT64 becomes INT32 where the records are read.

    Raises popart_exception for a number that does not fit.
    """

    def narrowed(value: Any) -> Any:
        if not isinstance(value, numpy.ndarray) or value.dtype != numpy.uint64:
            return value
        if (value > numpy.iinfo(numpy.uint32).max).any():
            raise popart_exception(
                f"value out of range: a tensor of UINT64 has {value.max()}; the IPU has 32-bit integers"
            )
        return value.astype(numpy.uint32)

    graph["initialisers"] = {name: narrowed(value) for name, value in graph["initialisers"].items()}
    graph["inputs"] = [
        (value[0], numpy.dtype(numpy.uint32), value[2])
        if not isinstance(value, str) and value[1] == numpy.uint64
        else value
        for value in graph["inputs"]
    ]
    for node in graph["nodes"]:
        node["attributes"] = {name: narrowed(value) for name, value in node["attributes"].items()}
        for inner in node["subgraphs"].values():
            _narrow(inner)


def _feed(graph: dict[str, Any], names: Collection[str]) -> None:
    """The host sends these initialisers: the program has their types, and the values only of those that may stand for shapes."""
    graph["fed"] = sorted(names)
    for name in names:
        value = graph["initialisers"][name]
        if value.dtype in (numpy.float32, numpy.float16):
            graph["initialisers"][name] = (value.dtype, value.shape)


def as_declared(model: onnx.ModelProto, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of a program by name, where inputs of UINT64 are so again: the host gives them as the model says."""
    import onnx

    wide = {v.name for v in model.graph.input if v.type.tensor_type.elem_type == onnx.TensorProto.UINT64}
    return {
        id: (numpy.dtype(numpy.uint64), *rest) if id in wide else (dtype, *rest)
        for id, (dtype, *rest) in tensors.items()
    }


def records(
    model: onnx.ModelProto,
    values: Mapping[str, numpy.ndarray],
    trained: Collection[str],
    variables: Collection[str],
    groupings: Mapping[str, tuple[int, int, bool, bool]],
    has_strided_groups: bool = False,
) -> dict[str, Any]:
    """The node records of a model.

    Args:
        values: of its initialisers.
        trained: initialisers that an optimizer updates.
        variables: initialisers that only the host changes.
        groupings: stride, group size, whether all replicas are read, whether the value has one part for each group.
        has_strided_groups: groups of a group normalisation are channels at a distance.
    """
    try:
        read = ipu_core.read_onnx(model, trained=trained, values=values)
    except ipu_core.Error as error:
        raise as_popart(error) from error
    read["dialect"] = "popart"
    _narrow(read["graph"])
    read["graph"]["variables"] = sorted(variables)
    _feed(read["graph"], {*trained, *variables})
    read["graph"]["groupings"] = dict(groupings)
    for node in read["graph"]["nodes"] if has_strided_groups else ():
        if node["type"] == "GroupNormalization":
            node["attributes"]["__strided_groups"] = 1
    return read
