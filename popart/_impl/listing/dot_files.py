"""Graphs of a listing as DOT files, at checkpoints that the options select."""

from __future__ import annotations

from typing import TYPE_CHECKING

from popart._impl.facade.dot import file_name, is_chosen, quoted, write
from popart._impl.session_options import SessionOptions

if TYPE_CHECKING:
    from popart._impl.listing.records import Op


def _edges(ops: list[Op], prefix: str, options: SessionOptions) -> list[str]:
    lines = []
    for i, op in list(enumerate(ops))[options.firstDotOp : options.finalDotOp]:
        box = quoted(f"{prefix}{i}")
        label = f"{op.type} {i}" + (f" {op.name}" if options.dotOpNames and op.name else "")
        lines.append(f"  {box} [shape=box, label={quoted(label)}];")
        lines += [f"  {quoted(id)} -> {box};" for id in op.inputs if id]
        lines += [f"  {box} -> {quoted(id)};" for id in op.outputs if id]
    return lines


def checkpoint(graphs: dict[str, list[Op]], options: SessionOptions, check: str) -> None:
    """Writes <logDir>/<check>_<graph>.dot for each graph, or <check>_all.dot, if `check` is selected."""
    if not is_chosen(options, check):
        return
    edges = {name: _edges(ops, f"{name}/", options) for name, ops in graphs.items()}
    if options.separateCallOpPdfs:
        for name, lines in edges.items():
            write(options.logDir, f"{check}_{file_name('' if name == 'maingraph' else name)}", lines)
    else:
        write(options.logDir, f"{check}_all", [line for lines in edges.values() for line in lines])
