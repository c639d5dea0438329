#!/usr/bin/env python3
"""Writes the modules that users of TensorFlow import, tensorflow_ipu/overlay, from the table tensorflow_ipu/modules.txt.

scripts/tensorflow_overlay.py            rewrites them
scripts/tensorflow_overlay.py --check    fails when a file is not what would be written

Each module forwards its names to the modules of ipu_tensorflow when they are first used, so that importing the API costs nothing.
"""

import argparse
import dataclasses
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = pathlib.Path("tensorflow_ipu") / "modules.txt"
OVERLAY = pathlib.Path("tensorflow_ipu") / "overlay"
API = pathlib.PurePath("tensorflow/python/ipu")
PLUGIN = pathlib.PurePath("tensorflow/compiler/plugin")
LAZY = {"horovod"}  # imported by name alone
WRITTEN_BY = "Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."


@dataclasses.dataclass
class Module:
    """`names`: public name → (giver, name there). `why_absent`: what its import says, if it is not there."""

    names: dict = dataclasses.field(default_factory=dict)
    why_absent: str = ""


def read_table(root=ROOT):
    """Module → Module, in the order of the table, which names a module before others that have the same names."""
    modules = {}
    for number, line in enumerate((root / TABLE).read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        name, kind, rest = line.split(" ", 2)
        module = modules.setdefault(name, Module())
        if kind == "<-":
            giver, names = rest.split(": ")
            for word in names.split():
                public, _, own = word.partition("=")
                module.names[public] = (giver, own or public)
        elif kind == "=" and rest in modules:
            module.names |= modules[rest].names
        elif kind == "absent:":
            module.why_absent = rest
        else:
            sys.exit(f"{TABLE}:{number}: not a line of the table: {line}")
    return modules


def module_path(name):
    """The dotted path of a module inside its top package, and that package's folder."""
    if name.startswith("plugin."):
        return "poplar." + name.removeprefix("plugin."), PLUGIN
    return ("" if name == "*" else name), API


def packages(modules):
    """Folder → the submodules in it that are attributes without an import of their own."""
    found = {API: set(), PLUGIN: set()}
    for name, module in modules.items():
        path, folder = module_path(name)
        for part in path.split(".") if path and not module.why_absent else ():
            if part not in LAZY:
                found.setdefault(folder, set()).add(part)
            folder = folder / part
    return found


def listed(words, margin):
    return textwrap.wrap(" ".join(f'"{word}",' for word in words), 120, initial_indent=margin, subsequent_indent=margin)


def text_of(name, module, submodules):
    shown = name.replace("*", "").replace("plugin.", "tensorflow.compiler.plugin.poplar.")
    shown = shown if "plugin" in shown else ".".join(filter(None, ("ipu", shown)))
    lines = [f'"""`{shown}`. {WRITTEN_BY}"""', ""]
    if name == "*":
        lines[0] = f'"""The API for IPUs: `from tensorflow.python import ipu`. {WRITTEN_BY}"""'
        lines += ["import ipu_tensorflow.start  # noqa: F401"]
    if module.why_absent:
        return "\n".join([*lines, f"raise ImportError({module.why_absent!r})".replace("'", '"'), ""])
    lines += ["from ipu_tensorflow.forwarding import forwarder", ""]
    givers = {}
    for public, (giver, own) in module.names.items():
        givers.setdefault(giver, []).append(public if public == own else f"{public}={own}")
    lines += ["__getattr__, __dir__, __all__ = forwarder(", "    __name__,", "    {"]
    for giver, words in givers.items():
        lines += [f'        "{giver}": [', *listed(words, "            "), "        ],"]
    lines += ["    },"]
    if submodules:
        lines += ["    submodules=[", *listed(sorted(submodules), "        "), "    ],"]
    return "\n".join([*lines, ")", ""])


def files(root=ROOT):
    """Path below the overlay → text."""
    modules = read_table(root)
    folders = packages(modules)
    places = {}
    for name in ["*", *modules]:
        path, top = module_path(name)
        places[top.joinpath(*path.split(".")) if path else top] = name
    texts = {}
    for place in [*places, *(folder for folder in folders if folder not in places)]:
        name = places.get(place)
        shown = name or ".".join(place.parts[3:] if place.is_relative_to(API) else ("plugin", *place.parts[4:]))
        submodules = folders.get(place, ())
        file = place / "__init__.py" if place in folders else place.with_name(f"{place.name}.py")
        texts[file] = text_of(shown, modules.get(name, Module()), submodules)
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail when a file is out of date")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    arguments = parser.parse_args()
    overlay = arguments.root / OVERLAY
    wanted = {overlay / path: text for path, text in files(arguments.root).items()}
    there = {path: path.read_text() for path in overlay.rglob("*.py")}
    if arguments.check:
        wrong = sorted(
            str(path.relative_to(arguments.root))
            for path in wanted.keys() | there.keys()
            if wanted.get(path) != there.get(path)
        )
        if wrong:
            sys.exit("out of date, run scripts/tensorflow_overlay.py: " + ", ".join(wrong))
        return
    for path in there.keys() - wanted.keys():
        path.unlink()
    for path, text in wanted.items():
        if there.get(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


if __name__ == "__main__":
    main()
