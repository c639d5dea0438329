"""Gathers that read the table of a matrix product (patterns TiedGather and TiedGatherAccumulate)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from popart._impl.listing.records import GRADIENT, Listing, Op, attributes_of
from popart._impl.option_values import accumulation_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import onnx


@dataclasses.dataclass
class Tied:
    table: str  # as the gather reads it
    pieces: int


def find(listing: Listing, nodes: Iterable[onnx.NodeProto]) -> dict[str, Tied]:
    """Result of each gather that is tied to a product -> its table and the number of pieces of the product."""
    nodes = list(nodes)
    if not listing.enabled("TiedGather") or listing.is_training and accumulation_of(listing.options) == 1:
        return {}
    turned = {node.output[0]: node.input[0] for node in listing.graph.node if node.op_type == "Transpose"}
    products = {}
    for node in nodes:
        if node.op_type == "MatMul":
            variable = turned.get(node.input[1], node.input[1])
            if variable in listing.values:
                products[variable] = (node, node.input[1] in turned)
    found = {}
    for node in nodes:
        if node.op_type != "Gather" or attributes_of(node).get("axis", 0) != 0:
            continue
        variable = turned.get(node.input[0], node.input[0])
        product, is_turned = products.get(variable, (None, False))
        if product is None or is_turned == (node.input[0] in turned):
            continue
        given = attributes_of(product)
        mode, factor = given.get("__serialize_matmul_mode", b"none").decode(), given.get("__serialize_matmul_factor", 1)
        if mode in ("none", "output_channels"):
            listing.tied.add(product.output[0])
            found[node.output[0]] = Tied(node.input[0], 1 if mode == "none" else factor)
    return found


def lower(listing: Listing, node: onnx.NodeProto, tied: Tied) -> None:
    """One gather for each piece: of its slice of the table, with indices from the begin of the slice; the rows are added."""
    begin = len(listing.ops)
    result, indices = node.output[0], node.input[1]
    if tied.pieces == 1:
        listing.add("PopartTiedGather", [tied.table, indices], [result], node, own={"axis": "0"})
    else:
        rows = listing.shape(tied.table)[0]
        step, total = rows // tied.pieces, ""
        for i in range(tied.pieces):
            part = listing.make(
                f"{tied.table}__s{i * step}_{(i + 1) * step}_{listing.number()}",
                tied.table,
                (step, *listing.shape(tied.table)[1:]),
            )
            bounds = {"starts": f"[{i * step}]", "ends": f"[{(i + 1) * step}]", "axes": "[0]"}
            listing.add("Slice", [tied.table], [part], node, own=bounds)
            shifted, rows_of = listing.between(indices, indices), listing.between(result, result)
            listing.add("Sub", [indices], [shifted], node)
            listing.add("PopartTiedGather", [part, shifted], [rows_of], node, own={"axis": "0"})
            if i:
                added = result if i == tied.pieces - 1 else listing.between(result, result)
                listing.add("Add", [total, rows_of], [added], node)
                rows_of = added
            total = rows_of
    for op in listing.ops[begin:]:
        op.is_forward = True
        if result in listing.graded:
            listing.graded.update(
                id for id in op.outputs if op.type != "Sub" and (op.type != "Slice" or tied.table in listing.graded)
            )


def accumulate(listing: Listing) -> None:
    """The gather's gradient adds its rows to the accumulator of the table."""
    if not listing.enabled("TiedGatherAccumulate") or accumulation_of(listing.options) == 1:
        return
    found = [op for op in listing.ops if op.type == "TiedGatherGrad"]
    for op in found:
        op.type = "PopartSparseAccumulate"
    if found and listing.source.optimizer is not None and _counts(listing):
        at = listing.ops.index(found[0])
        listing.ops.insert(at, Op("Div", ["Counter___"], [GRADIENT + "mean"], name="mean_accumulate_inverse"))


def _counts(listing: Listing) -> bool:
    """Whether accumulators hold the mean so far, which needs a counter."""
    from popart._impl.enums import MeanReductionStrategy, ReductionType
    from popart._impl.optimizers.sgd import SGD

    optimizer, options = listing.source.optimizer, listing.options
    running = options.meanAccumulationAndReplicationReductionStrategy is MeanReductionStrategy["Running"]
    mean = options.accumulationAndReplicationReductionType is ReductionType["Mean"]
    return mean and running and not (isinstance(optimizer, SGD) and optimizer.is_combined())
