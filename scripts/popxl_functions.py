#!/usr/bin/env python3
"""Writes popxl/ops/functions.py and popxl/ops/var_updates/functions.py, functions of one op each, from the rows of
csrc/frontends/popxl/kinds (PopxlFunction in op_kind.h) that the built ipu_core has.

--check fails when a file is not up to date.
"""

import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = {"": ROOT / "popxl/ops/functions.py", "var_updates": ROOT / "popxl/ops/var_updates/functions.py"}
HEADS = {
    "": """Functions that make one op each.

Elementwise functions give the shape and dtype of their operands, unless they say otherwise; operands have one dtype and
broadcast as in NumPy. Axes count from the end where they are negative. Names that end in `_` overwrite the first tensor.
`available_memory_proportion` is a hint without effect on values. All raise RuntimeError outside of a graph, TypeError for
what is no tensor, ValueError for tensors of another graph or on different IPUs or tile sets, and popart.popart_exception
for dtypes, shapes and axes that do not fit.""",
    "var_updates": """Updates that are one op each. All overwrite `t` and give another tensor in its memory. `X` has the shape of `t` and is
converted to its dtype, in which they compute; shapes are checked when a Session is built. A factor is a number or a tensor
of shape (). Sums and means of float16 are formed in float32 and rounded once, so that a factor such as 1e-8 counts; 1 - f is
formed in float32.""",
}
IMPORTS = {  # module → names that a file imports where it uses them
    "collections.abc": ["Iterable", "Sequence"],
    "typing": ["Any", "Optional", "Union"],
    "popxl": ["dtypes"],
    "popxl._impl.build": ["create"],
    "popxl.context": ["_contexts"],
    "popxl.dtypes": ["dtype as dtype_class", "float16", "float32"],
    "popxl.ops.arguments": [
        *("CoordinateTransformationType", "InterpolateType", "NearestType", "PAD_TYPES", "PadType", "REDUCTIONS"),
        *("FLOAT_FORMATS", "character", "check_float8", "partials_of", "word"),
    ],
    "popxl.ops.utils": ["cast_if_needed", "check_in_graph", "check_tensor_ipu_and_tile_set"],
    "popxl.ops.var_updates.utils": ["Factor", "check_operands", "place_factor"],
    "popxl.tensor": ["Tensor"],
}


class Kind(NamedTuple):
    """How a parameter is written, and its value as attribute; where that is left out, the parameter may be None."""

    annotation: str
    value: str = ""
    is_left_out: bool = False


WORDS = {name: name for name in ("PadType", "InterpolateType", "NearestType", "CoordinateTransformationType")}
KINDS = {
    "bool": Kind("bool", "bool({})"),
    "int": Kind("int", "operator.index({})"),
    "whole": Kind("int", "int({})"),  # takes text and fractions too
    "float": Kind("float", "float({})"),
    "label": Kind("Optional[int]", "int({})", True),
    "share": Kind("Optional[float]", "float({})", True),
    "ints": Kind("Iterable[int]", "[operator.index(i) for i in {}]"),
    "sizes": Kind("Iterable[int]", "list({})"),
    "tuple": Kind("tuple[int, ...]", "[int(i) for i in {}]"),
    "window": Kind("Optional[tuple[int, ...]]", "[int(i) for i in {} or ()]"),
    "scales": Kind("tuple[float, ...]", "[float(i) for i in {}]"),
    "shares": Kind("Optional[Iterable[float]]", "[float(i) for i in {}]", True),
    "flags": Kind("Optional[Iterable[int]]", "[int(i) for i in {}]", True),
    "axes": Kind(
        "Optional[Union[int, Iterable[int]]]",
        '[operator.index(i) for i in ({0} if hasattr({0}, "__iter__") else ({0},))]',
        True,
    ),
    "partials": Kind("Optional[Iterable[str]]", "[partials_of(i) for i in {}]", True),
    "dtype": Kind("dtype_class", "{}._number"),
    "pad": Kind("PadType", "PAD_TYPES[{}]"),
    "order": Kind("str", '{{"row": 0, "column": 1}}[{}]'),
    **{name: Kind(name, f'word("{{0}}", {{0}}, {name})') for name in WORDS},
    "reduction": Kind("str", 'word("{0}", {0}, REDUCTIONS)'),
    # For attributes and names that are said apart.
    "pair": Kind("Sequence[int]"),
    "name": Kind("str"),
    "text": Kind("Optional[str]"),
    "character": Kind("str", 'character("{0}", {0})'),
    "tensor": Kind("Tensor", "{}"),
    "tensor?": Kind("Optional[Tensor]", "{}"),
    "mask": Kind("Tensor", "cast_if_needed({}, dtypes.bool)"),
    "log2": Kind("Tensor", "{}"),  # a scale of float8 operands
    "factor": Kind("Union[float, Tensor]"),  # a number or, at its input, a tensor
    "factor?": Kind("Factor"),
}
_PARAMETER = re.compile(r"(\w+)(\?)?(?::([\w?]+))?(?:>(\w+))?(?:@(\d+))?(?:=(.*))?")


class Parameter(NamedTuple):
    name: str
    kind: str
    attribute: str
    place: str  # input, of a tensor
    default: str | None

    @property
    def is_tensor(self):
        return self.kind in ("tensor", "mask", "log2")


def parts(text):
    """Those between commas outside of brackets."""
    return [part.strip() for part in re.split(r",\s*(?![^()]*\))", text) if part]


def parameter(text, inputs):
    name, optional, kind, attribute, place, default = _PARAMETER.fullmatch(text).groups()
    kind = (kind or "tensor") + (optional or "")
    if kind in ("tensor", "mask", "log2") and place is None:
        place = str(inputs)
    return Parameter(name, kind, attribute or name, place, "None" if optional else default)


def function(type_, signature, doc, example):
    """The module and the text of a function."""
    module, name, listed, outputs, fixed = re.fullmatch(
        r"(?:(\w+)\.)?(\w+)\((.*)\) -> ([^;]*)(?:; (.*))?", signature
    ).groups()
    parameters = []
    for text in parts(listed):
        parameters.append(parameter(text, sum(p.is_tensor for p in parameters)))
    stems = [stem.rstrip("!") for stem in parts(outputs)]
    returned = sum(not stem.endswith("!") for stem in parts(outputs))
    tensors = [p for p in parameters if p.is_tensor]
    late = [p for p in parameters if p.kind in ("factor", "factor?", "tensor?")]

    shown = (f"{p.name}: {KINDS[p.kind].annotation}" + (f" = {p.default}" if p.default else "") for p in parameters)
    result = "Tensor" if returned == 1 else f"tuple[{', '.join(['Tensor'] * returned)}]"
    text = doc + ("\n\nExample:" + "".join(f"\n    >>> {line}" for line in example.split("\n")) if example else "")
    ends = '\n"""' if "\n" in text else '"""'
    documented = "\n".join(f"    {line}" if line else "" for line in (f'"""{text}{ends}').split("\n"))

    given = ", ".join(f"{p.name}={p.name}" for p in tensors)
    if late:
        named = ", ".join(f'"{p.name}": {p.name}' for p in tensors)
        checks = [f"check_operands(_contexts.here.graph, {{{named}}}, {', '.join(f'{p.name}={p.name}' for p in late)})"]
    else:
        checks = [f"check_in_graph(_contexts.here.graph, {given})"]
        checks += [f"check_tensor_ipu_and_tile_set({given})"] if len(tensors) > 1 else []
    scales = [p.name for p in tensors if p.kind == "log2"]
    checks += [f"check_float8({p}, {', '.join(f'{t.name}={t.name}' for t in tensors if t.name != p)})" for p in scales]

    inputs = ", ".join(f"{p.place}: {KINDS[p.kind].value.format(p.name)}" for p in tensors)
    plain = [p for p in parameters if not p.is_tensor and p not in late and KINDS[p.kind].value]
    values = [f'"{p.attribute}": {KINDS[p.kind].value.format(p.name)}' for p in plain if not KINDS[p.kind].is_left_out]
    values += [f'"{part.split("=", 1)[0]}": {part.split("=", 1)[1]}' for part in parts(fixed or "")]
    attributes, inputs = f"{{{', '.join(values)}}}", f"{{{inputs}}}"
    left_out = [p for p in plain if KINDS[p.kind].is_left_out]
    made, before = [], []
    if left_out or late or any(KINDS[p.kind].value.startswith("word(") for p in plain):
        before = [f"attributes: dict[str, Any] = {attributes}"]
        attributes = "attributes"
        for p in left_out:
            before.append(
                f'if {p.name} is not None:\n        attributes["{p.attribute}"] = {KINDS[p.kind].value.format(p.name)}'
            )
    if late:
        made.append(f"inputs: dict[int, Tensor] = {inputs}")
        inputs = "inputs"
        for p in late:
            if p.kind == "tensor?":
                made.append(f"if {p.name} is not None:\n        inputs[{p.place}] = {p.name}")
            else:
                made.append(f'place_factor({p.name}, {p.place}, "{p.attribute}", inputs, attributes)')
    # A wrong word is refused before a wrong tensor.
    first = [*before, *checks] if any("word(" in line for line in before) else [*checks, *before]
    names = ", ".join(f'f"{stem}"' if "{" in stem else f'"{stem}"' for stem in stems) + ("," if len(stems) == 1 else "")
    called = f'create("{type_}", {inputs}, ({names}){"" if attributes == "{}" else f", {attributes}"})'
    if returned == 1:
        made.append(f"return {called}[0]")
    else:
        listed = ", ".join(f"y{i}" for i in range(returned))
        made += [f"{listed} = {called}", f"return {listed}"]
    body = "\n".join(f"    {line}" for line in (*first, *made))
    return module or "", name, f"def {name}({', '.join(shown)}) -> {result}:\n{documented}\n{body}\n"


def written(module, functions):
    """The text of a file."""
    body = "\n\n".join(text for _, text in functions)
    listed = "".join(f'    "{name}",\n' for name in sorted(name for name, _ in functions))
    imports = []
    for origin, names in IMPORTS.items():
        used = [name for name in names if re.search(rf"\b{name.split()[-1]}\b", body)]
        imports += [f"from {origin} import {', '.join(used)}"] if used else []
    imports = ["import operator", *imports] if "operator." in body else imports
    text = (
        f'"""{HEADS[module]}\n\nWritten by scripts/popxl_functions.py from csrc/frontends/popxl/kinds; do not edit."""\n\n'
        + "\n".join(imports)
        + f"\n\n__all__ = [\n{listed}]\n\n\n{body}"
    )
    options = ["--line-length=120", f"--stdin-filename={FILES[module]}"]
    command = [sys.executable, "-m", "ruff", "format", *options, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def files():
    """File → the text that it should have."""
    sys.path.insert(0, str(ROOT))
    from ipu_core import _native

    modules = {module: [] for module in FILES}
    for row in _native.popxl_functions():
        module, name, text = function(*row)
        modules[module].append((name, text))
    return {FILES[module]: written(module, functions) for module, functions in modules.items()}


def main():
    stale = {file: text for file, text in files().items() if not file.exists() or file.read_text() != text}
    if sys.argv[1:] == ["--check"]:
        for file in stale:
            print(f"{file.relative_to(ROOT)} is not up to date: run scripts/popxl_functions.py")
        return 1 if stale else 0
    for file, text in stale.items():
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
