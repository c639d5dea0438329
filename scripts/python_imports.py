"""Which modules the Python files of this repository import, by reading them. Nothing is imported or run."""

import ast
import dataclasses

PACKAGES = ("ipu_common", "ipu_core", "ipu_tensorflow", "popart", "popart_core", "popdist", "poptorch", "popxl")
FOLDERS = {"ipu_tensorflow": "tensorflow_ipu/src"}  # of packages that are not at the top
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclasses.dataclass(frozen=True)
class Import:
    """`name`: the module, or `module.name` of `from module import name`, which may be a module or what it defines. `is_late`: it
    happens when a function is called, or stands there for types alone."""

    line: int
    name: str
    is_late: bool


def module_files(root):
    """Module name → file, for the packages and modules of PACKAGES."""
    found = {}
    for package in PACKAGES:
        folder = root / FOLDERS.get(package, "")
        for file in sorted([*folder.glob(f"{package}.py"), *(folder / package).rglob("*.py")]):
            parts = file.relative_to(folder).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def _nodes(node, is_late=False):
    """(syntax node, whether it does not run when the file is imported) of all nodes."""
    yield node, is_late
    for_types = node.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) else ()
    is_late = is_late or isinstance(node, _FUNCTIONS)
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child, is_late or child in for_types)


def imports(module, file):
    """All imports of a file, those by `importlib.import_module("name")` included."""
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node, is_late in _nodes(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            value = getattr(node.args[0], "value", None)
            names = [value] if isinstance(value, str) else []
        for name in names:
            yield Import(node.lineno, name, is_late)


def longest_prefix(name, known):
    """The longest of the dotted names in `known` that `name` is or lies in, or None."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in known:
            return ".".join(parts[:length])
    return None


def import_graph(root):
    """Module → modules of this repository that it imports, at any time. `__init__.py` of a top package is left out on both
    sides: a package imports what it holds, and modules read what users see by its name."""
    files = module_files(root)
    inner = {module: file for module, file in files.items() if "." in module or file.name != "__init__.py"}
    graph = {}
    for module, file in inner.items():
        needs = {longest_prefix(found.name, files) for found in imports(module, file)}
        graph[module] = sorted(need for need in needs if need in inner and need != module)
    return graph
