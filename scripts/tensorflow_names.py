"""The public names of the TensorFlow API for IPUs and what becomes of each: from the table of modules, the list of members and notes
(tensorflow_names.txt), and the marks of tests. Nothing is imported or run."""

import ast
import pathlib
import sys

import public_names
import tensorflow_overlay

SOURCES = pathlib.Path("tensorflow_ipu") / "src" / "ipu_tensorflow"
STATES = ("works", "differs", "no effect", "there, not shown by a test", "comes")
NOTES = ("differs", "no effect", "comes")


def of_modules(table):
    """Public name → who gives it, without modules that only repeat another one's names."""
    found, seen = {}, set()
    for module, row in table.items():
        prefix = module if module.startswith("plugin.") else f"ipu.{module}"
        for name, giver in row.names.items():
            if module != "*" and (name, giver) not in seen:
                seen.add((name, giver))
                found[f"{prefix}.{name}"] = giver
    return found


def read(root=public_names.ROOT):
    """(public name → who gives it, or None for a member; name → (state, text))."""
    givers = of_modules(tensorflow_overlay.read_table(root))
    listing = root / "scripts" / "tensorflow_names.txt"
    members, notes = [], {}
    for line in listing.read_text().splitlines():
        head, _, rest = line.partition(": ")
        if head in NOTES:
            name, text = rest.split(" | ")
            notes[name] = (head, text)
        elif line and not line.startswith("#"):
            members += [f"{head}.{name}" for name in rest.split()]
    names = {**givers, **dict.fromkeys(members)}
    for name in notes:
        if name not in names:
            sys.exit(f"{listing.name}: something is said of '{name}', which is no public name")
    return names, notes


def defines(root, giver, name):
    """Does a module of ipu_tensorflow define the name at its top level? TensorFlow's own modules do."""
    if giver.startswith("tensorflow."):
        return True
    file = root / SOURCES / f"{giver.replace('.', '/')}.py"
    file = file if file.exists() else file.with_suffix("") / "__init__.py"
    if not file.exists():
        return False
    for node in ast.parse(file.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        if any(name == getattr(target, "name", getattr(target, "id", None)) for target in targets):
            return True
        if isinstance(node, ast.ImportFrom) and any(name == (alias.asname or alias.name) for alias in node.names):
            return True
    return False


def rows(names, notes, marks, is_there):
    """(name, state, test or text) of each name. Ends the program where the list and the tests contradict each other.

    Args:
        is_there: (giver, name) → whether the giver has it.
    """
    for name, giver in names.items():
        state, text = notes.get(name, ("", ""))
        shown = f"`{marks[name][0]}`" if name in marks else ""
        comes = state == "comes" or (giver is not None and giver[0] == "later")
        owner = name.rpartition(".")[0]
        while giver is None and owner not in names and owner:
            owner = owner.rpartition(".")[0]
        comes = comes or not is_there(*(giver or names[owner]))
        if comes and state not in ("", "comes") or (comes or state == "no effect") and shown:
            sys.exit(f"'{name}' comes later or has no effect, and {shown or 'tensorflow_names.txt'} says otherwise")
        if comes:
            yield name, "comes", text
        elif state:
            yield name, state, text + (f"; {shown}" if shown else "")
        else:
            yield name, "works" if shown else STATES[3], shown


def table(tests, root=public_names.ROOT):
    names, notes = read(root)
    marks = public_names.read_marks(tests, names, source=public_names.TENSORFLOW)

    def is_there(giver, name):
        return giver in ("later", "never") or defines(root, giver, name)

    found = list(rows(names, notes, marks, is_there))
    counts = ", ".join(f"{sum(s == state for _, s, _ in found)} {state}" for state in STATES)
    lines = [f"{len(found)} names: {counts}.", "", "| name | state | a test that shows it, or what is different |", "|---|---|---|"]
    shown = (name.replace("plugin.", "tensorflow.compiler.plugin.poplar.") for name, _, _ in found)
    return "\n".join(lines + [f"| `{name}` | {state} | {third} |" for name, (_, state, third) in zip(shown, found, strict=True)])
