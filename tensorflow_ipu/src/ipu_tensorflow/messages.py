"""Records of operations that have words in them: assertions and prints."""

from __future__ import annotations

import tensorflow as tf

from ipu_tensorflow import host
from ipu_tensorflow.record_tables import Constant, Place


def write_assert(place: Place, op: host.Operation) -> None:
    pieces, operands = [], [place.operand(op.inputs[0])]
    for tensor in list(op.inputs)[1:]:
        value = place.value(tensor)
        if tensor.dtype == tf.string and isinstance(value, Constant):
            pieces.append(" ".join(text.decode() for text in value.array.ravel()))
        else:
            place.writer.check_type(tensor)
            pieces.append("{}")
            operands.append(place.named(value))
    place.emit(op, operands, {"message": " ".join(pieces), "summarize": op.get_attr("summarize")})


def write_print(place: Place, op: host.Operation) -> None:
    """The tensors that are printed, each with the words in front of it."""
    if op.type == "Print":
        operands, titles = [place.operand(op.inputs[0])], [op.get_attr("message").decode()]
        tensors = list(op.inputs)[1:]
        titles += [""] * (len(tensors) - 1)
        given = {"first_n": op.get_attr("first_n"), "summarize": op.get_attr("summarize")}
    else:
        operands, text = [], op.inputs[0].op
        if text.type != "StringFormat":
            place.writer.refuse(op, "prints a string that is not known while the graph is built: print tensors")
            return
        pieces = text.get_attr("template").decode().split(text.get_attr("placeholder").decode())
        tensors, titles = list(text.inputs), [*pieces[:-1]]
        given = {"summarize": text.get_attr("summarize")}
    shown = []
    words = ""
    for tensor, title in zip(tensors, titles):
        words += title
        if tensor.dtype == tf.string:
            value = place.values.get(tensor.name)
            if not isinstance(value, Constant):
                place.writer.check_type(tensor)
                continue
            words += " ".join(piece.decode() for piece in value.array.ravel())
            continue
        shown.append(words.strip().rstrip(":="))
        operands.append(place.operand(tensor))
        words = ""
    place.emit(op, operands, given | {"titles": shown})


def is_printed(op: host.Operation) -> bool:
    readers = op.outputs[0].consumers()
    return bool(readers) and all(reader.type == "PrintV2" for reader in readers)
