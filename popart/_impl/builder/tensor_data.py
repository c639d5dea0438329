"""Where the elements of initialisers lie in the bytes of a model: read there without a copy, and written without parsing them.

A message of protobuf is a row of fields, each a tag (number of the field and kind) and a value. The elements of a tensor are one
such value, little endian, if they are raw data or 32- or 64-bit reals. `split` takes these out of a model, `join` puts others in
their places. Whatever is unusual stays where it is, for protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_GRAPH, _INITIALIZER = 7, 5  # of ModelProto, of GraphProto
_DATA_TYPE, FLOATS, _RAW, DOUBLES = 2, 4, 9, 10  # of TensorProto
_FLOAT, _DOUBLE = 1, 11
_PLAIN = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13}  # element types whose raw data NumPy reads as they are
_OTHER_DATA = {3, 5, 6, 7, 11, 13, 14}  # a segment, other fields of elements, data in a file
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class Place(NamedTuple):
    """Where the elements of a tensor lie: number of their field, first byte, byte behind the last."""

    field: int
    begin: int
    end: int


class _Field(NamedTuple):
    number: int
    kind: int
    start: int  # of the tag
    begin: int  # of the value; of what is as long as it says, behind the length
    end: int


def split(data: bytes) -> tuple[bytes, dict[int, Place]]:
    """A model without the elements of its initialisers, and where these lie, by number of the initialiser.

    Bytes that are no model, or an unusual one, are given back as they are.
    """
    try:
        graphs = [field for field in _fields(data, 0, len(data)) if field.number == _GRAPH]
        if len(graphs) != 1 or graphs[0].kind != _LENGTH:
            return data, {}
        return _split_graph(data, graphs[0])
    except (IndexError, ValueError):
        return data, {}


def join(rest: bytes, parts: Mapping[int, tuple[int, Any]]) -> list[Any]:
    """The model of `rest`, a model without elements, as a row of buffers.

    Args:
        parts: field and elements, a contiguous buffer of bytes, by number of the initialiser.
    """
    if not parts:
        return [rest]
    (graph,) = (field for field in _fields(rest, 0, len(rest)) if field.number == _GRAPH)
    pieces: list[Any] = []
    written, number = graph.begin, 0
    for tensor in _fields(rest, graph.begin, graph.end):
        if tensor.number != _INITIALIZER:
            continue
        if (part := parts.get(number)) is not None:
            field, elements = part
            after = (f.start for f in _fields(rest, tensor.begin, tensor.end) if f.number > field)
            at = next(after, tensor.end)
            added = [_varint(field << 3 | _LENGTH), _varint(len(elements)), elements]
            size = tensor.end - tensor.begin + sum(map(len, added))
            pieces += [rest[written : tensor.start], _tag(_INITIALIZER, size), rest[tensor.begin : at], *added]
            written = at
        number += 1
    pieces.append(rest[written : graph.end])
    size = sum(map(len, pieces))
    return [rest[: graph.start], _tag(_GRAPH, size), *pieces, rest[graph.end :]]


def _split_graph(data: bytes, graph: _Field) -> tuple[bytes, dict[int, Place]]:
    places: dict[int, Place] = {}
    pieces: list[bytes] = []
    written, number = graph.begin, 0
    for tensor in _fields(data, graph.begin, graph.end):
        if tensor.number != _INITIALIZER:
            continue
        if tensor.kind == _LENGTH and (found := _elements(data, tensor)) is not None:
            places[number] = Place(found.number, found.begin, found.end)
            pieces += [
                data[written : tensor.start],
                _tag(_INITIALIZER, tensor.end - tensor.begin - (found.end - found.start)),
                data[tensor.begin : found.start],
            ]
            written = found.end
        number += 1
    pieces.append(data[written : graph.end])
    size = sum(map(len, pieces))
    return b"".join([data[: graph.start], _tag(_GRAPH, size), *pieces, data[graph.end :]]), places


def _elements(data: bytes, tensor: _Field) -> _Field | None:
    """The field with all elements of a tensor; None where there is none, or more than one."""
    found: list[_Field] = []
    dtype = 0
    for field in _fields(data, tensor.begin, tensor.end):
        if field.number in _OTHER_DATA:
            return None
        if field.number in (FLOATS, _RAW, DOUBLES):
            found.append(field)
        elif field.number == _DATA_TYPE and field.kind == _VARINT:
            dtype, _ = _read_varint(data, field.begin)
    wanted = {FLOATS: {_FLOAT}, _RAW: _PLAIN, DOUBLES: {_DOUBLE}}
    is_usual = len(found) == 1 and found[0].kind == _LENGTH and dtype in wanted[found[0].number]
    return found[0] if is_usual else None


def _fields(data: bytes, begin: int, end: int) -> Iterator[_Field]:
    """Raises ValueError or IndexError for what is no message."""
    at = begin
    while at < end:
        start = at
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value = at
            _, at = _read_varint(data, at)
        elif kind == _LENGTH:
            size, value = _read_varint(data, at)
            at = value + size
        elif kind in (_FIXED64, _FIXED32):
            value, at = at, at + (8 if kind == _FIXED64 else 4)
        else:
            raise ValueError(f"a field of kind {kind}")
        if at > end:
            raise ValueError("a field that goes on behind its message")
        yield _Field(tag >> 3, kind, start, value, at)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number of more than 64 bits")


def _varint(value: int) -> bytes:
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def _tag(field: int, size: int) -> bytes:
    return _varint(field << 3 | _LENGTH) + _varint(size)
