#!/usr/bin/env python3
"""Checks that errors of the core leave names and cures to the front ends, and that nothing decides by the English of an error.

1. No text of csrc names the API of a front end, but in the rooms of that front end. A text is a string with a space in it.
2. Each row of a table of cures or of categories is about a reason that the core gives, and has only parameters of that reason as fields.
3. No module of a Python package looks for words in the text of an exception: `type`, `code`, `reason` and `parameters` say which
   it is. FOREIGN lists the modules that look at what another project says, which has nothing but a text.
"""

import ast
import pathlib
import re
import string

import public_names
import python_imports
import tree_check

# Room → the packages whose API its texts may name.
OWN = {
    "frontends/torch": {"poptorch"},
    "frontends/popart": {"popart"},
    "frontends/popxl": {"popart", "popxl"},
    "bindings": {"poptorch", "popart", "popxl"},
}
OF_POPTORCH = {name.split(".")[-1] for name in public_names.read_names()[0] if not name.startswith("optim.")}
OF_POPTORCH -= set(public_names.POPART.read_text().split())
NAMES = {
    # torch.where and torch.flip: importers of operators of torch name them, for no other front end.
    "poptorch": r"\b(?:poptorch|[Oo]ptions|torch)\.(?!where|flip)\w+|\bvariable_attrs\b|\b[a-z]+[A-Z]\w*\("
    + rf"|\b(?:{'|'.join(name for name in sorted(OF_POPTORCH) if re.search('[a-z][A-Z]', name))})\b",
    "popart": r"\bpopart\.\w+|\bSessionOptions\b|\bBuilder\.\w+",
    "popxl": r"\bpopxl\.\w+|\bin_sequence\b",
}
CATEGORIES = pathlib.Path("csrc") / "support" / "error_category.cc"
TORCH_TABLE = pathlib.Path("csrc") / "frontends" / "torch" / "errors.cc"
PYTHON_TABLES = [pathlib.Path("popart") / "_impl" / "core_errors.py", pathlib.Path("popxl") / "_impl" / "errors.py"]
FOREIGN = {
    "poptorch/_impl/errors.py": "torch raises one class for memory that is not there and for all else",
    "popart/_impl/builder/model_files.py": "the checker of ONNX does not say which node it refuses",
    "tensorflow_ipu/src/ipu_tensorflow/legacy_keras.py": "TensorFlow raises AttributeError for each name that Keras lacks",
}

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((.*?)\)\1"|"((?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\]|\\.)\'', re.DOTALL)
RAISED = re.compile(r'\b(?:worded\(\s*[\w:]+,\s*|because\(\s*)"(\w+)"(.*?)\)\s*;', re.DOTALL)
ROW = re.compile(r'\{\s*"(\w+)",((?:\s*"(?:[^"\\]|\\.)*")+)\s*\}')
PARAMETER = re.compile(r'\{\s*"(\w+)",')
SEARCHES = {"match", "search", "fullmatch", "findall", "finditer", "startswith", "endswith", "find", "index", "count"}


def texts(source):
    """(line, text) of each string of a C++ source; neighbours are one."""
    found, end = [], -1
    for token in TOKEN.finditer(source):
        if token[0][0] not in '"R':
            continue
        text = token[3] if token[2] is None else token[2]
        if found and not source[end : token.start()].strip():
            found[-1] = (found[-1][0], found[-1][1] + text)
        else:
            found.append((source.count("\n", 0, token.start()) + 1, text))
        end = token.end()
    return found


def foreign_names(root, sources):
    for file, source in sources.items():
        room = file.relative_to("csrc").as_posix()
        own = next((packages for folder, packages in OWN.items() if room.startswith(folder + "/")), set())
        for line, text in texts(source):
            for package, pattern in NAMES.items():
                if package not in own and " " in text and (name := re.search(pattern, text)):
                    yield f"{file}:{line}: '{name[0]}' is of {package}: give the error a reason, and its cure to the front end"


def reasons(sources):
    """Reason → the parameters that all errors of it have."""
    found = {}
    for source in sources.values():
        for reason, rest in RAISED.findall(source):
            names = set(PARAMETER.findall(rest))
            found[reason] = found.get(reason, names) & names
    return found


def rows(root):
    """(file, reason, text, extra fields) of each row of a table; that of categories has no texts."""
    if (root / CATEGORIES).exists():
        for reason in re.findall(r'\{"(\w+)", k\w+\}', (root / CATEGORIES).read_text()):
            yield CATEGORIES, reason, "", set()
    if (root / TORCH_TABLE).exists():
        source = (root / TORCH_TABLE).read_text()
        for reason, strings in ROW.findall(source.partition("kWordings[]")[2]):
            yield TORCH_TABLE, reason, texts(strings)[0][1], {"text"}
    for file in PYTHON_TABLES:
        tree = ast.parse((root / file).read_text()) if (root / file).exists() else ast.Module([], [])
        for node in tree.body:
            if isinstance(node, ast.Assign) and node.targets[0].id == "CURES":
                yield from ((file, reason, text, set()) for reason, text in ast.literal_eval(node.value).items())


def wrong_rows(root, sources):
    known = reasons(sources)
    for file, reason, text, more in rows(root):
        if reason not in known:
            yield f"{file}: nothing raises an error of the reason '{reason}'; remove the row"
            continue
        for _, field, _, _ in string.Formatter().parse(text):
            if field is not None and field not in known[reason] | more:
                yield f"{file}: '{reason}' has no parameter '{field}'; it has {sorted(known[reason])}"


def exceptions_of(function):
    """Names that stand for exceptions: parameters that are called or annotated so, and what handlers catch."""
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, ast.arg):
            kind = ast.unparse(node.annotation) if node.annotation else ""
            if node.arg == "error" or kind.strip("'").endswith(("Error", "Exception")):
                yield node.arg


def searched(function):
    """Lines that look for something in the text of an exception."""
    names, told = set(exceptions_of(function)), set()

    def is_text(node):
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in told:
                return True
            of = part.value if isinstance(part, ast.Attribute) and part.attr in ("message", "args") else None
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in ("str", "repr"):
                of = part.args[0] if part.args else None
            if isinstance(of, ast.Name) and of.id in names:
                return True
        return False

    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and is_text(node.value):
            told |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.Compare):
            looks = any(isinstance(op, (ast.In, ast.NotIn, ast.Eq, ast.NotEq)) for op in node.ops) and is_text(node)
        else:
            looks = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES
            looks = looks and (is_text(node.func.value) or any(is_text(argument) for argument in node.args))
        if looks:
            yield node.lineno


def decisions(root):
    needed = set()
    for file in python_imports.module_files(root).values():
        shown = file.relative_to(root).as_posix()
        for function in ast.walk(ast.parse(file.read_text())):
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            for line in sorted(set(searched(function))):
                needed.add(shown)
                if shown not in FOREIGN:
                    yield f"{shown}:{line}: decides by the text of an exception"
    for file in FOREIGN:
        if (root / file).exists() and file not in needed:
            yield f"{file}: it looks at no text of an exception any more; remove it from FOREIGN"


def violations(root):
    files = sorted(path for path in (root / "csrc").rglob("*") if path.suffix in (".cc", ".h"))
    sources = {path.relative_to(root): path.read_text() for path in files}
    yield from foreign_names(root, sources)
    yield from wrong_rows(root, sources)
    yield from decisions(root)


if __name__ == "__main__":
    tree_check.main(__doc__, violations, "{count} place(s) where an error of the core is not told by its reason")
