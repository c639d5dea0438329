"""Graphs of a listing as DOT files, at checkpoints that the options select."""

from __future__ import annotations

from typing import TYPE_CHECKING

from popart._impl.facade.dot import file_name, is_chosen, quoted, write

if TYPE_CHECKING:
    from popart._impl.listing.program import Program
    from popart._impl.listing.records import Op


def _edges(ops: list[Op], prefix: str, options: object) -> list[str]:
    lines = []
    for i, op in list(enumerate(ops))[options.firstDotOp : options.finalDotOp]:  # type: ignore[attr-defined]
        box = quoted(f"{prefix}{i}")
        label = f"{op.type} {i}" + (f" {op.name}" if options.dotOpNames and op.name else "")  # type: ignore[attr-defined]
        lines.append(f"  {box} [shape=box, label={quoted(label)}];")
        lines += [f"  {quoted(id)} -> {box};" for id in op.inputs if id]
        lines += [f"  {box} -> {quoted(id)};" for id in op.outputs if id]
    return lines


def checkpoint(program: Program, check: str) -> None:
    """Writes <logDir>/<check>_<graph>.dot for each graph, or <check>_all.dot, if `check` is selected."""
    options = program.listing.options
    if not is_chosen(options, check):
        return
    edges = {name: _edges(ops, f"{name}/", options) for name, ops in program.graphs.items()}
    if options.separateCallOpPdfs:
        for name, lines in edges.items():
            write(options.logDir, f"{check}_{file_name('' if name == 'maingraph' else name)}", lines)
    else:
        write(options.logDir, f"{check}_all", [line for lines in edges.values() for line in lines])
