"""Where a model may have its data outside of itself: a session reads these files, and `modelToHost` writes them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import onnx

from popart._impl.builder import protos
from popart._impl.exceptions import popart_exception

_named_by_program: set[str] = set()


def name(filename: str) -> None:
    """The program itself says that data of a model lie in this file."""
    _named_by_program.add(os.path.realpath(filename))


def check(graph: onnx.GraphProto, folder: str | None) -> None:
    """Checks where the tensors of a graph, and of those inside it, have their data.

    Args:
        folder: that of the file with the model, if it comes from one.

    Raises:
        popart_exception: no location is given, or it leads out of `folder` and of the working directory, symbolic links followed;
            files that the program named are good wherever they are.
        RuntimeError: there is no such file.
    """
    for tensor in _external_tensors(graph):
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), None)
        if location is None:
            raise popart_exception(f"the data of tensor '{tensor.name}' are external, but no location is given")
        if "\0" in location or not os.path.isfile(location):
            raise RuntimeError(
                f"the file '{location}' with the data of tensor '{tensor.name}' is not there; it is looked up from the "
                f"working directory, {os.getcwd()}"
            )
        file = os.path.realpath(location)
        folders = [os.path.realpath(one) for one in (folder, os.getcwd()) if one is not None]
        if file not in _named_by_program and not any(_is_below(file, one) for one in folders):
            raise popart_exception(
                f"the data of tensor '{tensor.name}' lie in '{file}', which is outside of {' and of '.join(map(repr, folders))}: a "
                "model names files of its own folder or of the working directory. Move the file there, or start the program in a "
                "folder that has both"
            )


def _is_below(file: str, folder: str) -> bool:
    return os.path.commonpath([file, folder]) == folder


def _external_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from filter(protos.is_external, graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            yield from filter(protos.is_external, [attribute.t, *attribute.tensors])
            for inner in (attribute.g, *attribute.graphs):
                yield from _external_tensors(inner)
