"""Graphs as DOT files, at checkpoints that the options select."""

from __future__ import annotations

import os
import re
from typing import Any

from popart._impl import files


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _edges(graph: Any, options: Any) -> list[str]:
    """One box for each op in the chosen range, one edge for each operand and for each ordering edge."""
    lines = []
    for op in graph.getOps()[options.firstDotOp : options.finalDotOp]:
        label = f"{op.opType()} {op.id}" + (f" {op.name()}" if options.dotOpNames else "")
        lines.append(f"  {op.id} [shape=box, label={quoted(label)}];")
        for tensor in op.getInputTensors():
            lines.append(f"  {quoted(tensor.id)} -> {op.id};")
        for tensor in op.getOutputTensors():
            lines.append(f"  {op.id} -> {quoted(tensor.id)};")
        lines += [f"  {op.id} -> {after.id} [style=dotted];" for after in graph.topoCons().getAfters(op)]
    return lines


def file_name(name: str) -> str:
    """What a graph is called in names of files: "r" for the main graph, the number of a counted one."""
    counted = re.fullmatch(r".*_subgraph\((\d+)\)", name)
    return "r" if not name else counted[1] if counted else name.replace(os.sep, "_")


def is_chosen(options: Any, check: str) -> bool:
    """Whether the options or POPART_DOT_CHECKS select a checkpoint."""
    chosen = {*options.dotChecks, *filter(None, os.environ.get("POPART_DOT_CHECKS", "").split(":"))}
    return not {check.upper(), "ALL"}.isdisjoint(name.upper() for name in chosen)


def write(folder: str, name: str, lines: list[str]) -> None:
    files.write(os.path.join(folder or ".", name + ".dot"), "\n".join(["digraph D {", *lines, "}"]) + "\n")


def checkpoint(ir: Any, check: str) -> None:
    """Writes <logDir>/<check>_<graph>.dot for each graph, or one file of all, if `check` is selected."""
    options = ir.getSessionOptions()
    if not is_chosen(options, check):
        return
    folder = options.logDir
    if options.separateCallOpPdfs:
        for graph in ir.getAllGraphs():
            write(folder, f"{check}_{file_name(str(graph.id))}", _edges(graph, options))
    else:
        write(folder, f"{check}_all", [line for graph in ir.getAllGraphs() for line in _edges(graph, options)])
