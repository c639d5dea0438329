"""Mistakes inside forward: the whole message, the user's line, and that capture works again afterwards."""

import copy
import json
import re
import threading

import numpy
import pytest
import torch
from torch import nn

import poptorch
from capture_harness import Function, capture, kinds
from poptorch import poptorch_core


def failure(function, *inputs, **options):
    """The error of capturing `function`; a later capture works."""
    with pytest.raises(poptorch.Error) as caught:
        capture(function, *inputs, **options)
    assert kinds(lambda x: x + x, torch.zeros(2)) == ["add"]
    return caught.value


def line_of(function, offset=1):
    return function.__code__.co_firstlineno + offset


def test_item_names_the_line_and_the_ways_out():
    def forward(x):
        return x * x.sum().item()

    error = failure(forward, torch.zeros(2))
    assert error.message == (
        "value needed [IPU-E102]: a Python number (.item(), int(), float(), bool(), `if tensor:`) needs the data of an IPU "
        "tensor, but there is no data during capture: forward() runs once, on symbolic tensors.\n"
        "  try:      torch.where, masks, or poptorch.cond for decisions; return the tensor to see its value; "
        "poptorch.isRunningOnIpu() to skip the line"
    )
    assert error.type == "poptorch_cpp_error" and error.location == ""
    assert re.match(rf"In \S*test_capture_errors.py:{line_of(forward)}: 'poptorch_cpp_error': value needed", str(error))


@pytest.mark.parametrize(
    "use",
    [
        lambda t: bool(t.sum() > 0),
        lambda t: int(t.sum()),
        lambda t: t.tolist(),
        lambda t: t.cpu(),
        lambda t: t.to("cpu"),
        lambda t: torch.equal(t, t + 1),
    ],
)
def test_every_way_to_a_host_value_is_refused(use):
    assert failure(lambda x: [use(x), x][-1], torch.zeros(2)).message.startswith("value needed [IPU-E102]")


@pytest.mark.parametrize(
    "call",
    [copy.copy, lambda x: json.dumps(x.sum(), default=float)],
    ids=["copy", "json"],
)
def test_an_error_below_the_standard_library_names_the_line_that_called_it(call):
    def forward(x):
        call(x)
        return x

    text = str(failure(forward, torch.zeros(2)))
    assert re.match(r"In \S*test_capture_errors.py:\d+: ", text), text


def test_numpy_is_refused_by_torch():
    with pytest.raises((TypeError, poptorch.Error)):
        capture(lambda x: [x.numpy(), x][-1], torch.zeros(2))


def test_all_unsupported_operators_are_listed_with_counts_and_lines():
    def forward(x):
        y = torch.special.bessel_j0(x)
        y = torch.special.bessel_j0(y) + torch.special.bessel_y0(y)
        return y

    error = failure(forward, torch.zeros(2))
    first, second = line_of(forward), line_of(forward, 2)
    text = re.sub(r"\S*/?(test_capture_errors\.py)", r"\1", error.message)
    assert (
        text
        == f"""\
unsupported operations [IPU-E101]: forward() uses 2 operators without an IPU implementation, in 3 places.
  aten::special_bessel_j0  x2
            test_capture_errors.py:{first}
            test_capture_errors.py:{second}
  aten::special_bessel_y0  x1
            test_capture_errors.py:{second}
  try:      write them with supported operators, or do that part on the CPU before or after the call
  read:     docs/ops.md lists what is supported"""
    )


def test_shapes_that_depend_on_values_end_the_capture_and_say_the_list_may_be_incomplete():
    error = failure(lambda x: torch.special.bessel_j0(x).nonzero(), torch.zeros(2))
    assert "may be incomplete" in error.message
    assert "aten::special_bessel_j0  x1" in error.message and "aten::nonzero  x1" in error.message
    assert "may be incomplete" in failure(lambda x: x[x > 0], torch.zeros(2)).message


def test_operations_after_a_block_has_ended_need_a_block():
    holder = []

    def forward(x):
        holder[0].set_block("a")
        y = x + 1
        holder[0].clear_block()
        return y * 2

    error = failure(forward, torch.zeros(2), during=holder.append)
    line = line_of(forward, 4)
    assert re.sub(r"\S*/?(test_capture_errors\.py)", r"\1", error.message) == (
        "No active Block, all the ops must belong to a Block [IPU-E104]: aten::mul.Tensor comes after a Block has ended.\n"
        f"  from:     test_capture_errors.py:{line}\n"
        "  try:      put the operation into a poptorch.Block, or start the block with poptorch.Block.start or "
        "poptorch.BeginBlock, which last until the next one"
    )


def test_operations_from_another_thread_are_refused():
    caught = []

    def forward(x):
        def work():
            try:
                x * 2
            except poptorch.Error as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x + 1

    capture(forward, torch.zeros(2))
    assert caught[0].message.startswith("operation from another thread [IPU-E108]: aten::mul.Tensor")


def test_a_second_capture_is_refused_while_one_is_in_progress():
    def forward(x):
        with pytest.raises(poptorch.Error, match="capture in progress"):
            poptorch_core.Capture(False).begin()
        return x + 1

    assert kinds(forward, torch.zeros(2)) == ["constant", "add"]


def test_backward_inside_forward_is_refused():
    def forward(module, x):
        (x * module.w).sum().backward()
        return x

    error = failure(Function(forward, w=nn.Parameter(torch.ones(2))), torch.zeros(2))
    assert error.message.startswith("backward inside forward [IPU-E109]")


def test_complex_types_are_refused():
    assert failure(lambda x: x.to(torch.complex64), torch.zeros(2)).message.startswith(
        "unsupported element type [IPU-E201]"
    )
    assert "input x0" in failure(lambda x: x, torch.zeros(2, dtype=torch.complex64)).message


def test_writes_through_views_that_cannot_be_written_say_what_can():
    error = failure(lambda x: [y := x * 1, y.unfold(0, 2, 1).add_(1), y][-1], torch.zeros(3))
    assert error.message.startswith(("write through a view [IPU-E109]", "unsupported operations [IPU-E101]"))
    assert "aten::unfold" in error.message


def test_shape_mistakes_are_torchs_own_errors():
    with pytest.raises(RuntimeError):
        capture(nn.Linear(3, 4), torch.zeros(2, 5))
    assert kinds(lambda x: x + x, torch.zeros(2)) == ["add"]


@pytest.mark.parametrize("forward", [lambda x: x[x > 0], lambda x: x.nonzero(), lambda x: x.masked_select(x > 0)])
def test_a_shape_that_depends_on_values_is_torchs_own_exception_too(forward):
    from torch._subclasses.fake_tensor import DynamicOutputShapeException

    with pytest.raises(DynamicOutputShapeException) as caught:
        poptorch.inferenceModel(forward)(torch.ones(3))
    assert isinstance(caught.value, poptorch.Error) and caught.value.type == "poptorch_cpp_error"
    assert "the shape of its result depends on values" in caught.value.message
    assert "test_capture_errors.py" in str(caught.value)


@pytest.mark.shows("poptorch_core", "poptorch_core.TestErrorType", "poptorch_core._throwTestError")
def test_provoked_errors_have_the_documented_classes_and_attributes():
    kind = poptorch_core.TestErrorType
    with pytest.raises(poptorch.RecoverableError) as caught:
        poptorch_core._throwTestError(kind.PoplarRecoverableFullReset)
    assert caught.value.recovery_action == "FULL_RESET" and "Recovery action required: FULL_RESET" in str(caught.value)
    with pytest.raises(poptorch.UnrecoverableError):
        poptorch_core._throwTestError(kind.PoplarUnrecoverable)
    for member, name in (
        (kind.Poptorch, "poptorch_cpp_error"),
        (kind.Popart, "popart_exception"),
        (kind.PopartInternal, "popart_internal_exception"),
        (kind.Poplibs, "poplibs_exception"),
        (kind.PoplarUnknown, "poplar_unknown_runtime_error"),
        (kind.PoplarLinkError, "poplar_link_error"),
    ):
        with pytest.raises(poptorch.Error) as caught:
            poptorch_core._throwTestError(member)
        assert caught.value.type == name and type(caught.value) is poptorch.Error


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: x.numpy(),
        lambda x: x.detach().numpy(),
        lambda x: numpy.asarray(x),
        lambda x: torch.allclose(x, x),
        lambda x: torch.equal(x, x),
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        lambda x: x.sum().is_nonzero(),
        lambda x: f"{x.sum():.2f}",
    ],
)
def test_every_way_to_read_a_value_is_the_same_error(forward):
    with pytest.raises(poptorch.Error, match="value needed") as raised:
        poptorch.inferenceModel(forward)(torch.ones(3))
    assert raised.value.type == "poptorch_cpp_error"


def test_numpy_of_a_known_value_works_and_torch_is_as_before():
    before = "numpy" in vars(torch.Tensor)
    got = poptorch.inferenceModel(lambda x: x * float(torch.arange(3).numpy().sum()))(torch.ones(2))
    torch.testing.assert_close(got, torch.full((2,), 3.0))
    assert ("numpy" in vars(torch.Tensor)) == before
