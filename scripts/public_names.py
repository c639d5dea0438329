"""The public names of PopTorch, PopXL, PopART and the TensorFlow API, published sharp edges, and the tests that show them. Nothing is imported or run.

A test says what it shows with `@pytest.mark.shows("Options.deviceIterations", "trainingModel")`: it would fail if one of
these names did nothing. `@pytest.mark.edge("22.5")` says the same of a row of sharp_edges.txt. The mark may also stand in
`pytest.param(..., marks=...)` of a decorator, or in `pytestmark`; an argument `*(f"popxl.ops.{name}" for name in TABLE)` stands
for each entry of a table of the file.
"""

import ast
import functools
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "scripts" / "public_names.txt"
EDGES = ROOT / "scripts" / "sharp_edges.txt"
POPXL = ROOT / "scripts" / "popxl_names.txt"
POPXL_EDGES = ROOT / "scripts" / "popxl_sharp_edges.txt"
POPART = ROOT / "scripts" / "popart_names.txt"
TENSORFLOW = ROOT / "scripts" / "tensorflow_names.txt"
POPART_OPTIONS = ROOT / "scripts" / "popart_options.txt"
EDGE_STATES = ("kept", "fixed", "not yet", "not shown")


def read_names(path=LIST):
    """All names in the order of the list, and the reasons of those that change nothing: (list, dict)."""
    names, reasons = [], {}
    for line in path.read_text().splitlines():
        if line.startswith("no effect: "):
            name, reason = line.removeprefix("no effect: ").split(" | ")
            reasons[name] = reason
        elif not line.startswith("#"):
            names += line.split()
    for name in reasons:
        if name not in names:
            sys.exit(f"{path.name}: '{name}' has no effect, but it is no public name")
    return names, reasons


def read_popxl_names(path=POPXL):
    """All names in the order of the list, and what is said of those that are not as published: name → (state, text)."""
    names, notes = {}, {}
    for line in path.read_text().splitlines():
        head, _, rest = line.partition(": ")
        if head in ("differs", "absent", "no effect"):
            name, text = rest.split(" | ")
            notes[name] = (head, text)
        elif not line.startswith("#"):
            names.update(dict.fromkeys(f"{head}.{name}" for name in rest.split()))
    for name in notes:
        if name not in names:
            sys.exit(f"{path.name}: '{name}' is said to differ, but it is no published name")
    return list(names), notes


def read_popart_options(path=POPART_OPTIONS):
    """What is said of fields of popart.SessionOptions that do not do all that is published: name → (state, text)."""
    notes = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            state, rest = line.split(": ", 1)
            field, text = rest.split(" | ")
            notes[f"popart.SessionOptions.{field}"] = (state, text)
    return notes


def is_mine(name, names, source):
    """Does a mark with this name belong to the list of that file? Names of popart are all in popart_names.txt, and those that
    programs of PopXL need in popxl_names.txt as well."""
    first = name.split(".")[0]
    if first in ("ipu", "plugin") or source == TENSORFLOW:
        return first in ("ipu", "plugin") and source == TENSORFLOW
    if source == POPART:
        return first == "popart"
    if first == "popart":
        return source == POPXL and name in names
    return (first in ("popxl", "29") or name.startswith("popdist.popart")) == (source in (POPXL, POPXL_EDGES))


def read_edges(path=EDGES):
    """number → (state, what PopTorch does, what is done here or "") of each row, in order."""
    edges = {}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        head, *texts = line.split(" | ")
        number, state = head.split(" ", 1)
        if state not in EDGE_STATES or number in edges or len(texts) != (2 if state == "fixed" else 1):
            sys.exit(f"{path.name}: a row is 'NUMBER kept | TEXT' or 'NUMBER fixed | TEXT | HERE', not '{line}'")
        edges[number] = (state, texts[0], texts[1] if len(texts) > 1 else "")
    return edges


@functools.cache
def _parsed(text):
    """The syntax tree; a file is read once for each list of names."""
    return ast.parse(text)


def _entries(node, tree):
    """The texts in a table that a generator goes over: a tuple or list, keys of a dict, `"...".split()`, or the name of one of
    these at the top of the file. None: something else."""
    if isinstance(node, ast.Name):
        tables = [n.value for n in tree.body if isinstance(n, ast.Assign) and any(getattr(t, "id", None) == node.id for t in n.targets)]
        return _entries(tables[-1], tree) if tables else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        text = getattr(node.func.value, "value", None)
        return text.split() if isinstance(text, str) else None
    elements = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", None)
    if elements is None or not all(isinstance(getattr(element, "value", None), str) for element in elements):
        return None
    return [element.value for element in elements]


def _texts(argument, tree):
    """The names that one argument of a mark stands for: a text, or `*(f"prefix.{name}" for name in TABLE)`."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return [argument.value]
    generator = getattr(argument, "value", None)
    if isinstance(argument, ast.Starred) and isinstance(generator, ast.GeneratorExp) and isinstance(generator.elt, ast.JoinedStr):
        entries = _entries(generator.generators[0].iter, tree)
        prefix = getattr(generator.elt.values[0], "value", None)
        if entries is not None and isinstance(prefix, str) and len(generator.elt.values) == 2:
            return [prefix + entry for entry in entries]
    return [ast.unparse(argument)]


def _shown(node, mark, tree):
    """(line, name) for each name in the marks below a syntax node."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == mark:
            for argument in call.args:
                for name in _texts(argument, tree):
                    yield call.lineno, name


def read_marks(folder, names, mark="shows", source=LIST):
    """name → the tests that show it ("test_file.py::test_name"), in the order of files and lines. Marks of the packages are told
    apart by their names.

    Ends the program when a mark has an unknown name or stands where it marks no test.
    """
    marks, mistakes = {}, []
    for path in sorted(folder.rglob("*.py")):
        file = path.relative_to(folder).as_posix()
        text = path.read_text()
        if f".{mark}(" not in text:
            continue
        tree = _parsed(text)
        tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        if not path.name.startswith("test_"):
            tests = []
        found = [(line, name, test) for test in tests for part in test.decorator_list for line, name in _shown(part, mark, tree)]
        for node in tree.body:
            if isinstance(node, ast.Assign) and any(getattr(t, "id", None) == "pytestmark" for t in node.targets):
                found += [(line, name, test) for line, name in _shown(node.value, mark, tree) for test in tests]
        known = {(line, name) for line, name, _ in found}
        for line, name in _shown(tree, mark, tree):
            if (line, name) not in known:
                mistakes.append(f"{file}:{line}: this mark is not on a test function")
            elif is_mine(name, names, source) and name not in names:
                mistakes.append(f"{file}:{line}: '{name}' is not in scripts/{source.name}")
        for _, name, test in sorted((f for f in found if is_mine(f[1], names, source)), key=lambda entry: entry[2].lineno):
            tests_of_name = marks.setdefault(name, [])
            if f"{file}::{test.name}" not in tests_of_name:
                tests_of_name.append(f"{file}::{test.name}")
    if mistakes:
        sys.exit("\n".join(mistakes))
    return marks
