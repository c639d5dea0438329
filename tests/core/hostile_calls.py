"""Calls every function and method of ipu_core._native with wrong, negative, empty and huge arguments, one at a time, and prints
each whose error is not one of ours; the last line says how many calls there were. A program of its own: a call may end it."""

import re
import sys
import tempfile
from typing import Any, Callable

import numpy as np

from ipu_core import _native

OURS = (_native.Error, TypeError, MemoryError)
FOREIGN = re.compile(
    r"std::|vector|basic_string|_M_|map::at|bad_|length_error|out_of_range|optional|variant|pybind|Unable to cast|E0\]"
)
HOSTILE: list[Any] = [
    -1,
    0,
    1,
    7,
    255,
    2**15,
    2**31 - 1,
    2**31,
    2**32,
    2**62,
    2**63 - 1,
    -(2**31),
    -(2**63),
    2**64,
    -0.5,
    1e300,
    float("nan"),
    "",
    "v",
    "g/x",
    "nope",
    "Add",
    "Loop",
    "If",
    "Call",
    "ipu",
    "context",
    "stage",
    "tile_set",
    "x" * 1000,
    b"x",
    None,
    True,
    [],
    [0],
    [-1],
    [2**31],
    [2**62, 2**62],
    [2**40, 2**40, 2**40],
    [1] * 70,
    ["a"],
    [{}],
    [{-1: 7}, {7: -1}],
    [{2**31 - 1: 0}] * 3,
    (),
    (0,),
    ("n",),
    ("n", 0, 99, 99, "f", 1),
    ("n", -1, 0, 0, "f", -1),
    ("n", "a", 0, 0, "f", 1),
    (None, None, None, None, None, None),
    {},
    {0: -1},
    {-1: 0},
    {2**31 - 1: 0},
    {0: "a"},
    {"a": 1},
    {"axis": 99},
    {"v": np.zeros((2, 3))},
    {"g": ("g", [], [])},
    np.zeros(0),
    np.zeros((2, 3), np.float32),
    np.array(["a"]),
    np.array([None]),
    object(),
    Ellipsis,
    lambda *_: 1 // 0,
]
PLACE = ("n", 0, 0, 0, "f.py", 3)


class Small:
    """A program with a variable, a constant, a graph that is called, a stream, and their numbers."""

    def __init__(self) -> None:
        p = self.p = _native.Program()
        self.v, self.c = p.add_variable(0, "v", 9, (2, 3)), p.add_constant(0, "c", 9, np.ones((2, 3), np.float32))
        self.g = p.create_graph("g")
        self.x = p.add_input(self.g, "g/x", 9, (2, 3))
        self.exp, made = p.create_op(self.g, "Exp", {0: self.x}, {0: "y"}, {}, PLACE)
        p.mark_output(self.g, made[0])
        self.add, made = p.create_op(0, "Add", {0: self.v, 1: self.c}, {0: "s"}, {}, PLACE)
        self.sum = made[0]
        self.call, made = p.create_op(0, "Call", {0: self.sum}, {0: "r"}, {}, PLACE, [self.g])
        self.free = p.create_tensor(0, "free", 0, 9, (2, 3))
        self.unused = p.create_graph("unused")
        p.set_remote_buffer(1, 9, (2, 3), (), 2)
        p.create_tensor(0, "stream", 2, 9, (2, 3))
        self.store, _ = p.create_op(0, "HostStore", {0: made[0]}, {}, {"stream": "stream"}, PLACE)

    def bare(self) -> int:
        """An op without inputs and outputs, which cannot be compiled."""
        return self.p.create_bare_op(0, "Add", {}, PLACE)


# A call of each method that works; its arguments are replaced one by one.
METHODS: dict[str, Callable[[Small], tuple[Any, ...]]] = {
    "create_graph": lambda s: ("h",),
    "erase_graph": lambda s: (s.unused,),
    "find_graph": lambda s: ("g",),
    "graphs": lambda s: (),
    **{
        name: lambda s: (s.g,)
        for name in ("graph_id", "inputs", "outputs", "tensors", "ops", "schedule", "called", "by_reference")
    },
    **{name: lambda s: (s.g,) for name in ("may_be_differentiated", "prune", "decompose_sums")},
    "add_input": lambda s: (s.g, "g/z", 9, (2,), (), 0, True),
    "mark_output": lambda s: (s.g, s.x, 0, True),
    "remove_input": lambda s: (s.g, 0),
    "remove_output": lambda s: (s.g, 0),
    "set_by_reference": lambda s: (s.g, s.x),
    "set_may_be_differentiated": lambda s: (s.g, False),
    "unique_id": lambda s: (s.g, "y"),
    "unique_subgraph_id": lambda s: ("g",),
    "intermediate_id": lambda s: ("t",),
    "create_tensor": lambda s: (0, "t", 0, 9, (2, 3), ()),
    "add_variable": lambda s: (0, "w", 9, (2, 3), (), 1, 0, [], False, 1, 1, 0),
    "set_variable": lambda s: (s.v, 1, 0, [], False, 1, 1, 0),
    "variable": lambda s: (s.v,),
    "add_constant": lambda s: (0, "k", 9, np.zeros(2, np.float32)),
    "constant": lambda s: (s.c,),
    "find_tensor": lambda s: (0, "v"),
    "set_tensor_info": lambda s: (s.v, 9, (2, 3), ()),
    "set_tensor_type": lambda s: (s.free, 1),
    **{
        name: lambda s: (s.v,)
        for name in ("tensor_id", "tensor_info", "tensor_type", "tensor_graph", "producer", "consumers", "place")
    },
    "erase_tensor": lambda s: (s.free,),
    "create_op": lambda s: (0, "Add", {0: s.v, 1: s.c}, {0: "t"}, {}, PLACE, [], ("a", "b", 1)),
    "create_bare_op": lambda s: (0, "Add", {}, PLACE, ("a", "b", 1)),
    "connect_input": lambda s: (s.bare(), 0, s.v),
    "disconnect_input": lambda s: (s.add, 0),
    "connect_output": lambda s: (s.bare(), 0, s.free),
    "create_output": lambda s: (s.bare(), 0, "new"),
    "disconnect_output": lambda s: (s.add, 0),
    "clone_op": lambda s: (s.add, s.g),
    "op_attribute": lambda s: (s.store, "stream"),
    "set_op_attribute": lambda s: (s.store, "stream", "stream"),
    "op_setting": lambda s: (s.add, "ipu"),
    "set_op_setting": lambda s: (s.add, "ipu", 1),
    "set_callees": lambda s: (s.call, [s.g]),
    "set_callee_maps": lambda s: (s.call, [{0: 0}], [{0: 0}]),
    "set_modified": lambda s: (s.call, 0, True),
    "modifies": lambda s: (s.call, 0),
    "add_edge": lambda s: (s.add, s.call, False),
    "remove_edge": lambda s: (s.add, s.call),
    **{
        name: lambda s: (s.call,)
        for name in (
            "setup",
            "erase_op",
            "op_type",
            "op_graph",
            "op_inputs",
            "op_outputs",
            "op_identifier",
            "op_attributes",
            "transfers",
            "forward",
            "callees",
            "callee_maps",
            "modified",
            "before",
            "after",
            "tied",
        )
    },
    "set_remote_buffer": lambda s: (1, 9, (2, 3), (), 2),
    "remote_buffers": lambda s: (),
    "differentiate": lambda s: (s.g, [], None, {}, "SafeAddFwdOutputs"),
    "merge_exchange": lambda s: (0, [s.store]),
    "module_text": lambda s: (),
    "compile": lambda s: ("", "", True),
}
# Setters whose later readers see what they were given.
CHANGES = re.compile("set_|connect|disconnect|add_|create_|mark_|remove_|erase_|clone")

TEXT = """
variable @w: f32[2]
stream @x: f32[2]
stream @y: f32[2] {direction="device_to_host"}
entry main = @main
graph @main() -> () {
  %x = host_load() {stream=@x} : f32[2]
  %w = variable.read() {variable=@w} : f32[2]
  %y = add(%x, %w) : f32[2]
  host_store(%y) {stream=@y}
  return
}
"""
ONES = np.ones(2, np.float32)
SESSION: dict[str, tuple[Any, ...]] = {
    "attach": (),
    "detach": (),
    "bind": ("x", ONES, True),
    "run": ({"x": ONES}, "main", {}),
    "streams": ("main",),
    "variables": (),
    "read": ("w",),
    "write": ("w", ONES),
    "run_parts": ({"x": (ONES, 0, 1)}, "main", {"y": (np.ones(2, np.float32), 0)}),
    "upload": ({"w": (ONES, [], 0)},),
    "download": ({"w": (np.ones(2, np.float32), [], 0)},),
    "set_job": (0, None),
    "set_optimizer": ({},),
    "memory": (),
    "report": (0,),
    "cycles": (0,),
    "program_text": (),
}
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "compile": (TEXT, "f", 1, 1),
    "compile_model": ({}, {}),
    "model_text": ({}, {}),
    "importers": ("ai.onnx",),
    "interpret": (TEXT, {"x": [ONES]}, "f", ["inline"]),
    "run_passes": (TEXT, "f", ["inline"]),
    "kinds": (),
    "system_ipus": (),
    "machine": ("ipu2",),
}
GROUPS: dict[str, tuple[Any, ...]] = {
    "assignment": (8, 2, 2),
    "group_at": (7, 2, 2),
    "member_at": (7, 2, 2),
    "replica_at": (3, 1, 2, 2),
    "members": ([0, 1, 0, 1],),
    "firsts": ([0, 1, 0, 1],),
}

calls = 0


def tried(what: tuple[Any, ...], function: Callable[..., Any], arguments: list[Any]) -> bool:
    """Calls it; whether it returned."""
    global calls
    calls += 1
    try:
        function(*arguments)
    except OURS as error:
        if FOREIGN.search(str(error)):
            print(what, type(error).__name__, str(error)[:200])
    except BaseException as error:
        print(what, type(error).__name__, str(error)[:200])
    else:
        return True
    return False


def each(name: str, valid: tuple[Any, ...]) -> Any:
    for place in range(len(valid)):
        for number, hostile in enumerate(HOSTILE):
            yield (name, place, number), [hostile if i == place else given for i, given in enumerate(valid)]


def program_methods(names: list[str]) -> None:
    for name in names:
        valid = METHODS[name]
        s = Small()
        getattr(s.p, name)(*valid(s))  # works
        for what, _ in each(name, valid(s)):
            s = Small()
            arguments = list(valid(s))
            arguments[what[1]] = HOSTILE[what[2]]
            if tried(what, getattr(s.p, name), arguments) and CHANGES.match(name):
                for later in ("module_text", "compile"):
                    tried((*what, later), getattr(s.p, later), [])
                tried((*what, "differentiate"), s.p.differentiate, [s.g, [], None, {}])
                for tensor in (s.v, s.x, s.sum):
                    tried((*what, "place"), s.p.place, [tensor])
    for name in ("replicas", "processes", "checks_scales", "io_tiles"):
        for number, hostile in enumerate(HOSTILE):
            s = Small()
            if tried((name, number), lambda value, s=s, name=name: setattr(s.p, name, value), [hostile]):
                tried((name, number, "compile"), s.p.compile, ["", "", True])


def rest() -> None:
    for name, valid in SESSION.items():
        for what, arguments in each(name, valid):
            session = _native.compile(TEXT, "f", 1, 1)
            session.attach()
            if tried(what, getattr(session, name), arguments):
                tried((*what, "run"), session.run, [{"x": ONES}])
    for name, valid in FUNCTIONS.items():
        for what, arguments in each(name, valid):
            tried(what, getattr(_native, name), arguments)
    for name, valid in GROUPS.items():
        for what, arguments in each(name, valid):
            tried(what, getattr(_native.replica_groups, name), arguments)
    with tempfile.TemporaryDirectory() as folder:
        valid = (_native.compile(TEXT, "f", 1, 1), f"{folder}/e", {"a": "b"}, {"c": ("F32", ONES)})
        for what, arguments in each("save_executable", valid):
            if what[1] != 1 or not isinstance(arguments[1], str):  # no files in the working folder
                tried(what, _native.save_executable, arguments)
        for hostile in HOSTILE:
            tried(("ExecutableFile", hostile), _native.ExecutableFile, [hostile])


def main(part: str) -> None:
    methods = {name for name in vars(_native.Program) if not name.startswith("_")} - {"id", "replicas", "processes"}
    assert methods - {"checks_scales", "io_tiles"} == set(METHODS), methods ^ set(METHODS)
    if part == "rest":
        rest()
    else:
        program_methods([name for name in METHODS if part in ("program", name)])
    print(calls)


if __name__ == "__main__":
    main(sys.argv[1])
