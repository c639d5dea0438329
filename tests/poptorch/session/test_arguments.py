"""What a call takes and gives back: binding, structures, later calls, and every documented mistake."""

import collections
import logging

import numpy
import pytest
import torch

import poptorch
from poptorch._impl.log import logger

Pair = collections.namedtuple("Pair", ["a", "b"])


class AddMul(torch.nn.Module):
    def forward(self, x, y, scale=2.0, *, offset=None):
        z = x + y * scale
        return z if offset is None else z + offset


def x(*shape):
    return torch.randn(*(shape or (2, 3)))


def test_positional_keyword_and_default_arguments():
    a, b = x(), x()
    run = poptorch.inferenceModel(AddMul())
    torch.testing.assert_close(run(a, y=b), a + b * 2)
    torch.testing.assert_close(run(y=b, x=a), a + b * 2)


def test_a_tensor_may_be_a_keyword_only_argument():
    a, b, c = x(), x(), x()
    torch.testing.assert_close(poptorch.inferenceModel(AddMul())(a, b, offset=c), a + b * 2 + c)


class Scaled(torch.nn.Module):
    def forward(self, a, scale=torch.ones(1), *rest, offset=torch.zeros(2, 3), sign=1):
        total = a * scale + offset
        for tensor in rest:
            total = total + tensor
        return total * sign


def test_tensor_defaults_are_inputs_that_a_later_call_may_replace():
    a, b = x(), x()
    run = poptorch.inferenceModel(Scaled())
    torch.testing.assert_close(run(a), a)
    torch.testing.assert_close(run(a, scale=torch.tensor([4.0])), a * 4)
    torch.testing.assert_close(run(a, torch.tensor([4.0]), offset=b), a * 4 + b)
    torch.testing.assert_close(run(b), b)
    with pytest.raises(poptorch.Error, match=r"Shape mismatch for scale: expected \[1\], got \[2\]"):
        run(a, torch.ones(2))
    with pytest.raises(poptorch.Error, match=r"Type mismatch for offset: expected torch.Tensor, got NoneType"):
        run(a, offset=None)


def test_tensor_defaults_are_read_again_in_every_call():
    a = x()
    run = poptorch.inferenceModel(Scaled())
    default = Scaled.forward.__defaults__[0]
    torch.testing.assert_close(run(a), a)
    try:
        default.fill_(3.0)
        torch.testing.assert_close(run(a), a * 3)
    finally:
        default.fill_(1.0)


def test_tensor_defaults_are_cut_into_micro_batches():
    def forward(a, row=torch.arange(4.0).reshape(4, 1)):
        assert row.shape == (2, 1)
        return a + row

    a = x(4, 3)
    run = poptorch.inferenceModel(forward, poptorch.Options().deviceIterations(2))
    torch.testing.assert_close(run(a), a + torch.arange(4.0).reshape(4, 1))
    with pytest.raises(AssertionError, match=r"\[1\].*2 = Options.deviceIterations \(2\)"):
        poptorch.inferenceModel(Scaled(), poptorch.Options().deviceIterations(2))(a)


def test_constant_defaults_may_be_given_and_left_out():
    a = x()
    run = poptorch.inferenceModel(Scaled())
    torch.testing.assert_close(run(a), a)
    torch.testing.assert_close(run(a, sign=1), a)
    with pytest.raises(poptorch.Error, match="Value mismatch for sign: expected 1, got -1"):
        run(a, sign=-1)
    given = poptorch.inferenceModel(Scaled())
    torch.testing.assert_close(given(a, sign=-1), -a)
    with pytest.raises(poptorch.Error, match="Value mismatch for sign: expected -1, got 1"):
        given(a)  # the default, not what the first call had


def test_omitted_arguments_count_as_positional_ones():
    a, b = x(), x()
    run = poptorch.inferenceModel(Scaled())
    torch.testing.assert_close(run(a, torch.ones(1), b), a + b)
    with pytest.raises(
        poptorch.Error,
        match=r"Number of positional arguments mismatch: expected 5 \(a, scale, \*rest\[0\], offset, sign\), got 4",
    ):
        run(a)


def test_a_call_without_the_defaults_takes_the_short_way():
    a, b = x(), x()
    run = poptorch.inferenceModel(AddMul())
    torch.testing.assert_close(run(a, b), a + b * 2)
    run._call_general = None  # what else would bind the arguments
    torch.testing.assert_close(run(b, a), b + a * 2)


def test_a_missing_argument_of_an_inner_call_is_pythons_own_error():
    def inner(a, b):
        return a + b

    with pytest.raises(TypeError, match=r"inner\(\) missing 1 required positional argument: 'b'"):
        poptorch.inferenceModel(lambda *args, **kwargs: inner(*args, **kwargs))(x())


def test_keys_of_keyword_arguments_are_reported_together_and_sorted():
    run = poptorch.inferenceModel(Variadic())
    a = x()
    run(a, p=a, q=a)
    with pytest.raises(poptorch.Error, match=r"Keys mismatch for \*\*named: unexpected \['o', 'r'\], missing \['p'\]"):
        run(a, r=a, o=a, q=a)
    table = poptorch.inferenceModel(lambda table: table["p"])
    table({"p": a, "q": a})
    with pytest.raises(poptorch.Error, match=r"Keys mismatch for table: unexpected \['a', 'z'\], missing \['p', 'q'\]"):
        table({"z": a, "a": a})


class Variadic(torch.nn.Module):
    def forward(self, first, *rest, **named):
        total = first
        for tensor in rest:
            total = total + tensor
        return {name: total + tensor for name, tensor in named.items()}


def test_variable_arguments_and_dict_result():
    a, b, c, d = x(), x(), x(), x()
    run = poptorch.inferenceModel(Variadic())
    result = run(a, b, c, left=d, right=a)
    assert list(result) == ["left", "right"]
    torch.testing.assert_close(result["left"], a + b + c + d)
    again = run(a, b, c, right=a, left=d)
    torch.testing.assert_close(again["left"], a + b + c + d)


class Nested(torch.nn.Module):
    def forward(self, pair, items, table):
        return Pair(pair[0] + items[0], [items[1] * 2, (table["k"], "label", None, 7)])


def test_nested_structures_keep_their_types():
    a, b, c, d, e = (x() for _ in range(5))
    result = poptorch.inferenceModel(Nested())((a, b), [c, d], {"k": e})
    assert isinstance(result, Pair) and isinstance(result.b, list) and isinstance(result.b[1], tuple)
    torch.testing.assert_close(result.a, a + c)
    torch.testing.assert_close(result.b[0], d * 2)
    torch.testing.assert_close(result.b[1][0], e)
    assert result.b[1][1:] == ("label", None, 7)


class InTuple(torch.nn.Module):
    """Its result is a tuple of `count` tensors."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, value):
        return tuple(value + i for i in range(self.count))


@pytest.mark.parametrize("count", [1, 2])
def test_tuples_stay_tuples_in_every_call(count):
    value = x()
    run = poptorch.inferenceModel(InTuple(count))
    for result in (run(value), run(value), run(value=value)):
        assert type(result) is tuple and len(result) == count
        torch.testing.assert_close(result[0], value)


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


class BoxParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.tensor

    def reconstruct(self, original_structure, tensor_iterator):
        return Box(next(tensor_iterator))


@pytest.mark.shows("registerCustomArgParser", "ICustomArgParser")
def test_a_registered_parser_takes_apart_and_rebuilds_a_class():
    poptorch.registerCustomArgParser(Box, BoxParser())
    try:
        run = poptorch.inferenceModel(lambda box: Box(box.tensor * 3))
        a = x()
        torch.testing.assert_close(run(Box(a)).tensor, a * 3)
        with pytest.raises(poptorch.Error, match=r"Shape mismatch for box\[0\]"):
            run(Box(x(4, 3)))
    finally:
        poptorch.registerCustomArgParser(Box, None)
    with pytest.raises(poptorch.Error, match="needs an ICustomArgParser"):
        poptorch.registerCustomArgParser(Box, object())


def test_nothing_returned_gives_none():
    assert poptorch.inferenceModel(lambda t: None)(x()) is None


@pytest.mark.edge("22.49")
def test_same_input_returned_twice():
    a = x()
    first, second = poptorch.inferenceModel(lambda t: (t, t))(a)
    assert torch.equal(first, a) and torch.equal(second, a)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda run: run(x(), x(), 2.0, x()), AssertionError, "Too many arguments: 4 given, forward takes 3"),
        (lambda run: run(x(), x(), shift=1), AssertionError, r"Unexpected keyword argument\(s\) \['shift'\]"),
        (lambda run: run(x(), x(), y=x()), AssertionError, "Parameter 'y' is given twice"),
        (lambda run: run(x()), poptorch.Error, "Mandatory parameter missing: forward needs 'y'"),
    ],
)
def test_arguments_that_do_not_fit_forward_are_refused_with_the_reason(call, error, text):
    with pytest.raises(error, match=text):
        call(poptorch.inferenceModel(AddMul()))


def test_wrapping_something_that_cannot_be_called():
    with pytest.raises(TypeError):
        poptorch.inferenceModel(3)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda run: run(x(4, 3), x()), r"Shape mismatch for x: expected \[2, 3\], got \[4, 3\]"),
        (lambda run: run(x(), x().double()), r"Data type mismatch for y: expected torch.float32, got torch.float64"),
        (lambda run: run(x(), [x()]), r"Type mismatch for y: expected torch.Tensor, got list"),
        (lambda run: run(x(), x(), 3.0), r"Value mismatch for scale: expected 2.0, got 3.0"),
    ],
)
@pytest.mark.edge("22.27")
def test_later_calls_must_match_the_first_and_the_device_stays_usable(call, text):
    run = poptorch.inferenceModel(AddMul())
    a, b = x(), x()
    run(a, b)
    with pytest.raises(poptorch.Error, match=text) as raised:
        call(run)
    assert "destroy()" in str(raised.value) and raised.value.type == "poptorch_py_error"
    torch.testing.assert_close(run(a, b), a + b * 2)


@pytest.mark.edge("22.5")
def test_constants_may_not_change():
    run = poptorch.inferenceModel(AddMul())
    run(x(), x(), 4.0)
    with pytest.raises(poptorch.Error, match=r"Value mismatch for scale: expected 4.0, got 5.0"):
        run(x(), x(), 5.0)


def test_tuple_length_list_length_and_keys():
    run = poptorch.inferenceModel(Nested())
    good = ((x(), x()), [x(), x()], {"k": x()})
    run(*good)
    with pytest.raises(poptorch.Error, match="Length mismatch for pair: expected 2, got 3"):
        run((x(), x(), x()), *good[1:])
    with pytest.raises(poptorch.Error, match="Length mismatch for items"):
        run(good[0], [x()], good[2])
    with pytest.raises(poptorch.Error, match=r"Keys mismatch for table: unexpected \['j'\], missing \['k'\]"):
        run(good[0], good[1], {"j": x()})


def test_batch_that_is_not_divisible_lists_the_factors():
    options = poptorch.Options().deviceIterations(4)
    with pytest.raises(AssertionError, match=r"\[6, 3\].*4 = Options.deviceIterations \(4\)"):
        poptorch.inferenceModel(AddMul(), options)(x(6, 3), x(6, 3))


def test_scalar_input_counts_as_one_row():
    run = poptorch.inferenceModel(lambda t, s: t * s)
    a = x()
    torch.testing.assert_close(run(a, torch.tensor(3.0)), a * 3)
    with pytest.raises(AssertionError, match="0-dimensional"):
        poptorch.inferenceModel(lambda t, s: t * s, poptorch.Options().deviceIterations(2))(a, torch.tensor(3.0))


def test_inputs_of_different_micro_batch_sizes():
    options = poptorch.Options().deviceIterations(2)
    images, masks = x(12, 3), x(2, 9)
    sums, echo = poptorch.inferenceModel(lambda i, m: (i * 2, m + 1), options)(images, masks)
    torch.testing.assert_close(sums, images * 2)
    torch.testing.assert_close(echo, masks + 1)


@pytest.mark.parametrize(
    "tensor, text",
    [
        (torch.zeros(2, 3, dtype=torch.complex64), "complex"),
        (torch.zeros(2, 3).to_sparse(), "sparse"),
        (torch.zeros(2, 0), "size 0"),
    ],
)
def test_tensors_that_are_refused(tensor, text):
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(lambda t: t * 2)(tensor)


def test_non_contiguous_and_grad_requiring_inputs_work():
    run = poptorch.inferenceModel(lambda t: t * 2)
    a = torch.randn(3, 4).t()
    torch.testing.assert_close(run(a), a * 2)
    torch.testing.assert_close(run(torch.ones(4, 3, requires_grad=True)), torch.full((4, 3), 2.0))


@pytest.mark.parametrize(
    "given, returned",
    [
        (torch.float64, torch.float32),
        (torch.int64, torch.int32),
        (torch.bfloat16, torch.float32),
        (torch.int32, torch.int32),
        (torch.float32, torch.float32),
    ],
)
@pytest.mark.edge("22.1", "22.2")
def test_result_dtypes_are_those_of_the_device(given, returned):
    a = torch.arange(6).reshape(2, 3).to(given)
    result = poptorch.inferenceModel(lambda t: t + t)(a)
    assert result.dtype == returned
    torch.testing.assert_close(result, (a + a).to(returned))


def test_options_of_another_type():
    with pytest.raises(poptorch.Error, match="Invalid type of options"):
        poptorch.inferenceModel(AddMul(), {"deviceIterations": 2})


@pytest.mark.parametrize("strategy, hint", [(poptorch.PipelinedExecution, True), (poptorch.ShardedExecution, False)])
def test_gradient_accumulation_is_refused_in_inference(strategy, hint):
    options = poptorch.Options().setExecutionStrategy(strategy())
    options.Training.gradientAccumulation(2)
    with pytest.raises(poptorch.Error, match="must be 1 for inference") as raised:
        poptorch.inferenceModel(AddMul(), options)
    assert ("deviceIterations" in str(raised.value)) == hint


@pytest.mark.edge("22.8")
def test_a_mutated_input_that_is_returned_comes_back_both_ways():
    def forward(a, b):
        return a.add_(1), b

    a, b = torch.zeros(2), torch.ones(2)
    got = poptorch.inferenceModel(forward)(a, b)
    torch.testing.assert_close(got, (torch.ones(2), torch.ones(2)))
    torch.testing.assert_close(a, torch.ones(2))
    options = poptorch.Options().deviceIterations(3).outputMode(poptorch.OutputMode.Final)
    a = torch.zeros(6)
    torch.testing.assert_close(poptorch.inferenceModel(lambda t: t.add_(1), options)(a), torch.ones(2))
    torch.testing.assert_close(a, torch.ones(6))


def test_inputs_that_are_views_are_written_back_and_read_as_they_are():
    def forward(t):
        t.add_(1)
        return t * 2

    memory = torch.zeros(4, 2)
    torch.testing.assert_close(poptorch.inferenceModel(forward)(memory[:, 0]), torch.full((4,), 2.0))
    torch.testing.assert_close(memory, torch.tensor([[1.0, 0.0]] * 4))
    run = poptorch.inferenceModel(lambda t: t * 2)
    for tensor in (x(4), torch.tensor(3.0).expand(4), x(8)[::2], torch._neg_view(x(4)), x(4).requires_grad_()):
        torch.testing.assert_close(run(tensor), (tensor * 2).detach())


class Defaults(torch.nn.Module):
    def forward(self, a, b=2, c=None, **named):
        return a * b if c is None else a * b + c


def test_a_default_may_be_left_out_in_one_call_and_given_in_another():
    a = x()
    for first in ((a,), (a, 2), (a, 2, None)):
        run = poptorch.inferenceModel(Defaults())
        run(*first)
        for args, kwargs in (((a,), {}), ((a, 2), {}), ((a,), {"c": None}), ((a, 2, None), {})):
            torch.testing.assert_close(run(*args, **kwargs), a * 2)
        with pytest.raises(poptorch.Error, match="mismatch"):
            run(a, 3)
    run = poptorch.inferenceModel(Defaults())
    run(a)
    with pytest.raises(poptorch.Error, match="Type mismatch for c: expected NoneType, got Tensor"):
        run(a, 2, a)


def test_extra_keywords_have_the_same_keys_in_every_call():
    a = x()
    run = poptorch.inferenceModel(Variadic())
    run(a, p=a, q=a)
    run(a, q=a, p=a)
    for kwargs, text in (({"p": a, "z": a}, r"unexpected \['z'\], missing \['q'\]"), ({"p": a}, r"missing \['q'\]")):
        with pytest.raises(poptorch.Error, match=r"Keys mismatch for \*\*named: .*" + text):
            run(a, **kwargs)


def test_constants_of_any_type_are_compared():
    run = poptorch.inferenceModel(lambda t, array: t + torch.from_numpy(array))
    a, array = x(), numpy.ones(3, dtype=numpy.float32)
    torch.testing.assert_close(run(a, array), a + 1)
    torch.testing.assert_close(run(a, array.copy()), a + 1)
    with pytest.raises(poptorch.Error, match="Value mismatch for array"):
        run(a, array + 1)


def test_registered_parsers_come_before_the_containers_torch_knows():
    class Reversed(list):
        pass

    class Parser(poptorch.ICustomArgParser):
        def yieldTensors(self, struct):
            yield from reversed(struct)

        def reconstruct(self, original_structure, tensor_iterator):
            return Reversed(reversed([next(tensor_iterator) for _ in original_structure]))

    poptorch.registerCustomArgParser(Reversed, Parser())
    try:
        a, b = x(), x()
        got = poptorch.inferenceModel(lambda pair: Reversed([pair[0] * 2, pair[1]]))(Reversed([a, b]))
        assert type(got) is Reversed
        torch.testing.assert_close(list(got), [a * 2, b])
    finally:
        poptorch.registerCustomArgParser(Reversed, None)


def test_a_defaultdict_comes_back_as_one():
    got = poptorch.inferenceModel(lambda t: collections.defaultdict(list, a=t))(x())
    assert type(got) is collections.defaultdict and got["b"] == []


def test_constants_of_the_device_have_its_types_and_those_of_the_cpu_their_own():
    got = poptorch.inferenceModel(lambda t: (t, torch.tensor([1, 2]), torch.tensor([1, 2], device="cpu")))(x())
    assert got[1].dtype == torch.int32 and got[2].dtype == torch.int64


def warnings_of(action):
    """The lines that `poptorch`'s Python log warns with while `action` runs."""
    lines = []

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    handler = Handler(logging.WARNING)
    logger.addHandler(handler)
    try:
        action()
    finally:
        logger.removeHandler(handler)
    return lines


def test_unusual_inputs_are_warned_of_once_by_each_wrapper():
    for _ in range(2):
        run = poptorch.inferenceModel(lambda t, d: t * d["k"])
        view, leaf = x(3, 2).t(), x().requires_grad_()
        assert len(warnings_of(lambda: run(view, {"k": leaf}))) == 3
        assert warnings_of(lambda: run(view, {"k": leaf})) == []


def test_an_output_that_is_not_on_the_ipu_is_a_python_warning():
    constant = torch.ones(2)
    with pytest.warns(UserWarning, match="not on the IPU"):
        got = poptorch.inferenceModel(lambda t: (t, constant))(x())
    torch.testing.assert_close(got[1], constant)


def test_a_parser_that_was_removed_after_the_first_call_is_an_error():
    poptorch.registerCustomArgParser(Box, BoxParser())
    try:
        double = poptorch.inferenceModel(lambda box: box.tensor * 2)
        assert double(Box(torch.ones(2))).tolist() == [2, 2]
    finally:
        poptorch.registerCustomArgParser(Box, None)
    with pytest.raises(poptorch.Error, match="Length mismatch for box: expected 1 tensors, got 0"):
        double(Box(torch.ones(2)))


def test_a_target_that_was_none_when_compiling_cannot_come_later():
    class Scores(torch.nn.Module):
        def forward(self, x, target=None):
            return x if target is None else torch.nn.functional.mse_loss(x, target)

    x, target = torch.ones(1, 2), torch.zeros(1, 2)
    for given, later in [((x, None), (x, target)), ((x, target), (x,)), ((x, target), (x, None))]:
        model = poptorch.inferenceModel(Scores())
        model.compile(*given)
        with pytest.raises(poptorch.Error, match="Type mismatch for target"):
            model(*later)
        expected = Scores()(*given)
        assert torch.equal(model(*given), expected)
        model.destroy()
        assert torch.equal(model(*later), Scores()(*later))  # compiled again, for these


def test_options_may_be_given_again_and_what_is_wrapped_may_be_wrapped_again():
    options = poptorch.Options()
    layer = torch.nn.Linear(2, 2)
    first = poptorch.inferenceModel(layer, options)
    x = torch.ones(1, 2)
    for again in (
        poptorch.inferenceModel(layer, options),
        poptorch.inferenceModel(first, first.options),
        poptorch.inferenceModel(first, {}),  # as good as none
    ):
        assert torch.equal(again(x), first(x))
    with pytest.raises(AttributeError, match="frozen"):
        first.options.deviceIterations(2)
