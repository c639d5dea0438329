"""The public names of PopTorch, its published sharp edges, and the tests that show them. Nothing is imported or run.

A test says what it shows with `@pytest.mark.shows("Options.deviceIterations", "trainingModel")`: it would fail if one of
these names did nothing. `@pytest.mark.edge("22.5")` says the same of a row of sharp_edges.txt. The mark may also stand in
`pytest.param(..., marks=...)` of a decorator, or in `pytestmark`.
"""

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "scripts" / "public_names.txt"
EDGES = ROOT / "scripts" / "sharp_edges.txt"
EDGE_STATES = ("kept", "fixed", "not yet")


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


def _shown(node, mark):
    """(line, name) for each name in the marks below a syntax node."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == mark:
            for argument in call.args:
                name = argument.value if isinstance(argument, ast.Constant) else None
                yield call.lineno, name if isinstance(name, str) else ast.unparse(argument)


def read_marks(folder, names, mark="shows", source=LIST):
    """name → the tests that show it ("test_file.py::test_name"), in the order of files and lines.

    Ends the program when a mark has an unknown name or stands where it marks no test.
    """
    marks, mistakes = {}, []
    for path in sorted(folder.rglob("*.py")):
        file = path.relative_to(folder).as_posix()
        tree = ast.parse(path.read_text())
        tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        if not path.name.startswith("test_"):
            tests = []
        found = [(line, name, test) for test in tests for part in test.decorator_list for line, name in _shown(part, mark)]
        for node in tree.body:
            if isinstance(node, ast.Assign) and any(getattr(t, "id", None) == "pytestmark" for t in node.targets):
                found += [(line, name, test) for line, name in _shown(node.value, mark) for test in tests]
        known = {(line, name) for line, name, _ in found}
        for line, name in _shown(tree, mark):
            if (line, name) not in known:
                mistakes.append(f"{file}:{line}: this mark is not on a test function")
            elif name not in names:
                mistakes.append(f"{file}:{line}: '{name}' is not in scripts/{source.name}")
        for _, name, test in sorted(found, key=lambda entry: entry[2].lineno):
            tests_of_name = marks.setdefault(name, [])
            if f"{file}::{test.name}" not in tests_of_name:
                tests_of_name.append(f"{file}::{test.name}")
    if mistakes:
        sys.exit("\n".join(mistakes))
    return marks
