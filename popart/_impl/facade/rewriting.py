"""Rewriting of ops: patterns that make simpler ops of one, and the pattern that lets ops overwrite what they read.

A pattern is a row of `_RULES`: the native type of the op, the published name that switches it, and a function that builds the
replacement and says whether it did. No result changes. The lowering needs none of them: programs apply them and look at the
graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from popart._impl.enums import TensorType

_GRAD_OUT, _IN, _OUT = "GradOut", "In", "Out"


class Replacement:
    """Builds what takes the place of an op: new ops with its place and settings, the last of which makes its output."""

    def __init__(self, op: Any) -> None:
        self.op, self.core, self.graph = op, op.core, op.getGraph()
        self._settings = op.getSettings().copy(op.name())
        self._inputs = self.core.op_inputs(op.id)
        self.forward = self.core.forward(op.id)

    def input(self, index: int) -> int:
        return self._inputs[index]

    def consumed(self, source: str, index: int) -> int:
        """The tensor that a gradient op consumes: a forward input or output, or the gradient of one."""
        return next(self._inputs[i] for i, where in self.forward[2].items() if tuple(where) == (source, index))

    def shape_of(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.core.tensor_info(tensor)[1])

    def forward_shape(self, index: int) -> tuple[int, ...]:
        return tuple(self.forward[3][index][1])

    def make(self, kind: str, inputs: list[int], attributes: dict[str, Any] | None = None) -> int:
        """A new op; its output."""
        numbered, name = dict(enumerate(inputs)), f"{self._name()}_{kind}"
        plain = self._settings.plain()
        op, outputs = self.core.create_op(self.graph.number, kind, numbered, {0: name}, attributes or {}, plain)
        self._finish(op)
        return outputs[0]

    def finish(self, kind: str, inputs: list[int], attributes: dict[str, Any] | None = None) -> Any:
        """The last op, which makes the output of the replaced one; that op goes."""
        output = self.core.op_outputs(self.op.id)[0]
        number = self.core.create_bare_op(self.graph.number, kind, attributes or {}, self._settings.plain())
        self._finish(number)
        for index, tensor in enumerate(inputs):
            self.core.connect_input(number, index, tensor)
        before, after = self.core.before(self.op.id), self.core.after(self.op.id)
        self.core.erase_op(self.op.id)
        self.op.getIr().forget_op(self.op.id)
        self.core.connect_output(number, 0, output)
        for other in before:
            self.core.add_edge(other, number)
        for other in after:
            self.core.add_edge(number, other)
        return self.op.getIr().wrap_op(number)

    def _finish(self, op: int) -> None:
        for name, value in self._settings.later().items():
            self.core.set_op_setting(op, name, value)

    def _name(self) -> str:
        output = self.op.outTensor(0).id
        graph = str(self.graph.id)
        return output.removeprefix(graph + "/") if graph else output

    def finish_reduced(self, kind: str, inputs: list[int], shape: tuple[int, ...]) -> None:
        """An elementwise op whose result is summed over what a forward operand of `shape` was broadcast to."""
        shapes = [self.shape_of(tensor) for tensor in inputs]
        full = max(shapes, key=lambda s: (len(s), tuple(s)))
        full = tuple(max(sizes) for sizes in zip(*((1,) * (len(full) - len(s)) + s for s in shapes)))
        if full == shape:
            self.finish(kind, inputs)
        else:
            self.finish_sum(self.make(kind, inputs), full, shape)

    def finish_sum(self, tensor: int, full: tuple[int, ...], shape: tuple[int, ...]) -> None:
        lead = len(full) - len(shape)
        ones = [axis for axis in range(lead, len(full)) if shape[axis - lead] == 1 and full[axis] != 1]
        axes = [*range(lead), *ones]
        if lead and ones:
            summed = self.make("ReduceSum", [tensor], {"axes": axes, "keepdims": True})
            self.finish("Reshape", [summed], {"shape": list(shape)})
        else:
            self.finish("ReduceSum", [tensor], {"axes": axes, "keepdims": bool(ones)})


def _mul_argument(argument: int) -> Callable[[Replacement], bool]:
    def rule(r: Replacement) -> bool:
        inputs = [r.consumed(_GRAD_OUT, 0), r.consumed(_IN, 1 - argument)]
        r.finish_reduced("Mul", inputs, r.forward_shape(argument))
        return True

    return rule


def _div_argument0(r: Replacement) -> bool:
    r.finish_reduced("Div", [r.consumed(_GRAD_OUT, 0), r.consumed(_IN, 1)], r.forward_shape(0))
    return True


def _sub_argument1(r: Replacement) -> bool:
    r.finish_reduced("Neg", [r.consumed(_GRAD_OUT, 0)], r.forward_shape(1))
    return True


def _unary(kind: str, source: str) -> Callable[[Replacement], bool]:
    """dy and a forward value in one binary op."""

    def rule(r: Replacement) -> bool:
        r.finish(kind, [r.consumed(_GRAD_OUT, 0), r.consumed(source, 0)])
        return True

    return rule


def _trigonometric(kind: str, is_negative: bool) -> Callable[[Replacement], bool]:
    def rule(r: Replacement) -> bool:
        dy, derivative = r.consumed(_GRAD_OUT, 0), r.make(kind, [r.consumed(_IN, 0)])
        if is_negative:
            r.finish("Neg", [r.make("Mul", [dy, derivative])])
        else:
            r.finish("Mul", [dy, derivative])
        return True

    return rule


def _sum_of_two(r: Replacement) -> bool:
    inputs = r.core.op_inputs(r.op.id)
    if sorted(inputs) != [0, 1] or r.shape_of(inputs[0]) != r.shape_of(inputs[1]):
        return False
    r.finish("Add", [inputs[0], inputs[1]])
    return True


def _broadcast_argument(argument: int) -> Callable[[Replacement], bool]:
    """The gradient of an addend: nothing, where it was not broadcast."""

    def rule(r: Replacement) -> bool:
        dy = r.consumed(_GRAD_OUT, 0)
        return r.shape_of(dy) == r.forward_shape(argument) and _removed(r.op, dy)

    return rule


def _sum_of_one(r: Replacement) -> bool:
    inputs = r.core.op_inputs(r.op.id)
    return len(inputs) == 1 and _removed(r.op, next(iter(inputs.values())))


def _identity(r: Replacement) -> bool:
    return _removed(r.op, r.input(0))


def _conv_transpose(r: Replacement) -> bool:
    """The convolution of the data, with zeros between, with the weights turned round."""
    attributes = r.op.attributes()
    data, weights = r.shape_of(r.input(0)), r.shape_of(r.input(1))
    output = tuple(r.core.tensor_info(r.core.op_outputs(r.op.id)[0])[1])
    rank = len(data) - 2
    strides = list(attributes.get("strides") or [1] * rank)
    pads = list(attributes.get("pads") or [0] * 2 * rank)
    if (
        attributes.get("padType", "not_set") != "not_set"
        or attributes.get("outputShape")
        or len(r.core.op_inputs(r.op.id)) > 2
    ):
        return False
    kernel = weights[2:]
    low = [kernel[d] - 1 - pads[d] for d in range(rank)]
    high = [output[2 + d] - ((data[2 + d] - 1) * strides[d] + 1 + low[d] - kernel[d] + 1) for d in range(rank)]
    group = attributes.get("group", 1)
    flipped = r.make("ConvFlipWeights", [r.input(1)], {"group": group})
    kept = {
        name: value for name, value in attributes.items() if name not in ("outputPadding", "outputShape", "padType")
    }
    changed = {
        "strides": [1] * rank,
        "pads": low + high,
        "inDilations": strides,
        "dilations": [1] * rank,
        "group": group,
    }
    r.finish("Conv", [r.input(0), flipped], {**kept, **changed})
    return True


def _removed(op: Any, source: int) -> bool:
    """Readers of the op's output read `source`; the op and its output go. False where both ends are ends of the graph and
    neither can take the other's place."""
    core, graph, output = op.core, op.getGraph(), op.core.op_outputs(op.id)[0]
    if core.before(op.id) or core.after(op.id) or core.tensor_info(source)[:2] != core.tensor_info(output)[:2]:
        return False
    outputs = core.outputs(graph.number)
    producer = core.producer(source)
    if output in outputs and producer >= 0 and source not in outputs:
        return _made_by_producer(op, source, output, producer)
    core.erase_op(op.id)
    op.getIr().forget_op(op.id)
    _redirect(core, output, source)
    for index in [i for i, tensor in enumerate(outputs) if tensor == output]:
        core.mark_output(graph.number, source, index, True)
    core.erase_tensor(output)
    return True


def _made_by_producer(op: Any, source: int, output: int, producer: int) -> bool:
    """The output of the graph keeps its id: what made the source makes it."""
    core = op.core
    index = next(i for i, tensor in core.op_outputs(producer).items() if tensor == source)
    core.erase_op(op.id)
    op.getIr().forget_op(op.id)
    _redirect(core, source, output)
    core.disconnect_output(producer, index)
    core.connect_output(producer, index, output)
    core.erase_tensor(source)
    return True


def _redirect(core: Any, old: int, new: int) -> None:
    for reader in core.consumers(old):
        for index, tensor in core.op_inputs(reader).items():
            if tensor == old:
                core.disconnect_input(reader, index)
                core.connect_input(reader, index, new)


_RULES: list[tuple[str, str, Callable[[Replacement], bool]]] = [
    ("MulArg0Grad", "MulArgGradOp", _mul_argument(0)),
    ("MulArg1Grad", "MulArgGradOp", _mul_argument(1)),
    ("DivArg0Grad", "DivArg0GradOp", _div_argument0),
    ("SubArg1Grad", "SubtractArg1GradOp", _sub_argument1),
    ("ExpGrad", "ExpGradOp", _unary("Mul", _OUT)),
    ("LogGrad", "LogGradOp", _unary("Div", _IN)),
    ("SinGrad", "SinGradOp", _trigonometric("Cos", False)),
    ("CosGrad", "CosGradOp", _trigonometric("Sin", True)),
    ("ConvTranspose", "ConvTranspose", _conv_transpose),
    ("Sum", "PostNRepl", _sum_of_one),
    ("Sum", "SumToAdd", _sum_of_two),
    ("Identity", "PostNRepl", _identity),
    ("AddArg0Grad", "OpToIdentity", _broadcast_argument(0)),
    ("AddArg1Grad", "OpToIdentity", _broadcast_argument(1)),
    ("SubArg0Grad", "OpToIdentity", _broadcast_argument(0)),
]


def apply_patterns(graph: Any, patterns: Any) -> None:
    """Rewrites ops of the graph until nothing changes: one look at each op, and at those that a look has made."""
    rules: dict[str, list[Callable[[Replacement], bool]]] = {}
    for kind, name, rule in _RULES:
        if patterns.isPatternEnabled(name):
            rules.setdefault(kind, []).append(rule)
    pending = graph.getOpIds()
    while pending:
        newest = max(pending)
        for id in pending:
            op = graph.getIr().wrap_op(id)
            for rule in rules.get(op.kind, ()):
                if rule(Replacement(op)):
                    break
        pending = [id for id in graph.getOpIds() if id > newest]


# --- overwriting what is read
def _is_read_once(tensor: Any, fixed: set[int]) -> bool:
    """Is the tensor read by one input of one op, nobody's value, and so is what shares its memory?"""
    if tensor.number in fixed or tensor.tensorType() is not TensorType["ActGrad"] or tensor.isGraphOutput():
        return False
    if tensor.consumers.getTotal() != 1:
        return False
    if not tensor.hasProducer():
        return True
    producer = tensor.getProducer()
    shared = [t for i, t in producer.getInputIndexMap().items() if producer.views_input(i) or producer.modifiesIndex(i)]
    return all(_is_read_once(t, fixed) for t in shared)


def _may_overwrite(op: Any, index: int, fixed: set[int]) -> bool:
    """Is the operand of the type of the result, and does no other op see it?"""
    tensor = op.inTensor(index)
    return tensor.info == op.outTensor(0).info and _is_read_once(tensor, fixed)


def _fixed_inputs(graph: Any) -> set[int]:
    """Inputs of the graph that belong to a caller: by reference, written back at a call site, or of a loop's body."""
    core, inputs = graph.core, graph.core.inputs(graph.number)
    fixed = set(core.by_reference(graph.number))
    for caller in core.graphs():
        if graph.number not in core.called(caller):
            continue
        for op in core.ops(caller):
            if graph.number not in core.callees(op):
                continue
            if core.op_type(op) not in ("Call", "CallGrad"):
                return set(inputs)
            fixed |= {inputs[index] for index in core.modified(op) if index < len(inputs)}
    return fixed


def apply_in_place(graph: Any) -> None:
    """One look at each op; the left operand is tried first."""
    fixed = _fixed_inputs(graph)
    for op in graph.getOps():
        for index, kind in op.getIr().kinds[op.kind].in_place:
            if op.hasInput(index) and _may_overwrite(op, index, fixed):
                inputs = op.core.op_inputs(op.id)
                Replacement(op).finish(kind, [inputs[i] for i in sorted(inputs)], op.attributes())
                break
