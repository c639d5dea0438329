"""Scatters and gathers that the listed program shows as one operation, and indices that are not expanded."""

import json

import pytest
import torch

import poptorch

ROWS, COLUMNS = 6, 4


def operations(forward, *inputs):
    executor = poptorch.inferenceModel(forward)
    executor.compile(*inputs)
    return json.loads(executor._debugGetPopartIR())["maingraph"]


def of_type(found, name):
    return [op for op in found if op["type"] == name]


def sources(*rows):
    torch.manual_seed(0)
    return [torch.rand(count, COLUMNS) for count in rows]


def index(count=ROWS):
    return torch.arange(count).remainder(3).unsqueeze(-1).expand(count, COLUMNS).contiguous().int()


def three_reductions(reduce, include_self, rows=(ROWS, ROWS, ROWS)):
    def forward(a, b, c, *indices):
        if len(indices) == 1:
            indices *= 3
        return [
            torch.ones(3, COLUMNS).scatter_reduce(0, i.long(), x, reduce, include_self=include_self)
            for x, i in zip((a, b, c), indices)
        ]

    inputs = sources(*rows)
    return forward, (*inputs, *([index()] if len(set(rows)) == 1 else map(index, rows)))


@pytest.mark.parametrize(
    "reduce, include_self, count, size",
    [
        ("sum", True, 1, 3),
        ("amin", True, 1, 3),
        ("amax", True, 1, 3),
        ("prod", True, 1, 3),
        ("mean", True, 1, 6),
        ("sum", False, 2, 3),
        ("amin", False, 2, 3),
        ("amax", False, 2, 3),
        ("prod", False, 2, 3),
        ("mean", False, 2, 6),
    ],
)
def test_three_reductions_of_one_shape_are_one_operation(reduce, include_self, count, size):
    forward, inputs = three_reductions(reduce, include_self)
    found = of_type(operations(forward, *inputs), "ScatterReduce")
    assert len(found) == count
    assert found[0]["attributes"]["group_size"] == str(size)
    words = {"mean": "sum", "prod": "mul", "amin": "min", "amax": "max"}
    assert found[-1]["attributes"]["reduction"] == words.get(reduce, reduce)
    assert found[-1]["attributes"]["axis"] == "0" and found[-1]["attributes"]["index_broadcasted"] == "true"
    for mine, torchs in zip(poptorch.inferenceModel(forward)(*inputs), forward(*inputs)):
        torch.testing.assert_close(mine, torchs)


@pytest.mark.parametrize("include_self, reduce", [(True, "sum"), (True, "mean"), (False, "amax")])
def test_reductions_of_three_shapes_stay_apart(include_self, reduce):
    forward, inputs = three_reductions(reduce, include_self, (6, 5, 4))
    found = of_type(operations(forward, *inputs), "ScatterReduce")
    assert len(found) >= 3 and found[0]["attributes"]["group_size"] == ("2" if reduce == "mean" else "1")


def scattered(x, i, y):
    return x.scatter_add(0, i.long(), y)


def test_a_reduction_that_feeds_another_is_not_merged_with_it():
    def forward(x, i, y):
        return scattered(scattered(x, i, y), i, y)

    x, y = torch.zeros(3, COLUMNS), torch.ones(ROWS, COLUMNS)
    found = of_type(operations(forward, x, index(), y), "ScatterReduce")
    assert [op["attributes"]["group_size"] for op in found] == ["1", "1"]


def test_groups_that_would_feed_each_other_stay_apart():
    """a feeds b and d feeds c, where a and c, b and d could be one: not both."""

    def forward(x, i, y):
        a = scattered(x, i, y)
        b = torch.gather(a, 0, i.long())
        d = torch.gather(x, 0, i.long())
        c = scattered(x, i, d)
        return b, c

    x, y = torch.zeros(3, COLUMNS), torch.ones(ROWS, COLUMNS)
    found = operations(forward, x, index(), y)
    assert [op["attributes"]["group_size"] for op in of_type(found, "ScatterReduce")] == ["2"]
    assert [op["attributes"]["group_size"] for op in of_type(found, "Gather")] == ["1", "1"]
    made = {"input", "input/1", "input/2"}
    for op in found:  # each after what it reads
        assert {tensor["name"] for tensor in op["inputs"]} <= made
        made |= {tensor["name"] for tensor in op["outputs"]}


def test_exact_duplicates_are_one_member():
    def forward(x, i, y, z):
        return scattered(x, i, y), scattered(x, i, y) * 2, scattered(x, i, z)

    x, y = torch.zeros(3, COLUMNS), torch.ones(ROWS, COLUMNS)
    found = operations(forward, x, index(), y, y * 2)
    (op,) = of_type(found, "ScatterReduce")
    assert op["attributes"]["group_size"] == "2"
    assert [len(op["inputs"]), len(op["outputs"])] == [6, 2]
    assert of_type(found, "Mul")[0]["inputs"][0]["name"] == op["outputs"][0]["name"]


def test_blocks_are_not_merged_over_their_borders():
    def forward(x, i, y):
        with poptorch.Block("a", ipu_id=0):
            a = scattered(x, i, y)
        with poptorch.Block("b", ipu_id=0):
            return a, scattered(x, i, y * 2)

    x, y = torch.zeros(3, COLUMNS), torch.ones(ROWS, COLUMNS)
    assert len(of_type(operations(forward, x, index(), y), "ScatterReduce")) == 2


def test_gathers_of_one_shape_are_one_operation():
    def forward(x, y, i, j):
        return torch.index_select(x, 0, i), torch.index_select(y, 0, j), torch.index_select(x, 1, i)

    found = operations(forward, torch.rand(3, 4), torch.rand(3, 4), torch.tensor([2, 0]), torch.tensor([1, 1]))
    (grouped,) = of_type(found, "GroupedGather")
    assert grouped["attributes"]["group_size"] == "2" and grouped["attributes"]["axis"] == "0"
    (single,) = of_type(found, "Gather")
    assert single["attributes"]["group_size"] == "1" and single["attributes"]["axis"] == "1"


@pytest.fixture
def trace(capfd):
    poptorch.setLogLevel("TRACE")

    def logged(forward, *inputs):
        capfd.readouterr()
        executor = poptorch.inferenceModel(forward)
        executor.compile(*inputs)
        return capfd.readouterr().err, json.loads(executor._debugGetPopartIR())["maingraph"]

    yield logged
    poptorch.setLogLevel("WARN")


def expanded_index(count=ROWS):
    return torch.arange(count).remainder(3).unsqueeze(-1)


def test_an_index_that_a_scatter_alone_reads_is_not_expanded(trace):
    def forward(x, i, y):
        return x.scatter_add(0, i.expand_as(y), y)

    text, found = trace(forward, torch.zeros(3, COLUMNS), expanded_index(), torch.ones(ROWS, COLUMNS))
    line = next(line for line in text.splitlines() if "Removing index expansion node: " in line)
    assert "aten::expand" in line and "aten::expand" not in text.split(line)[1]
    (op,) = of_type(found, "ScatterReduce")
    assert op["attributes"]["index_broadcasted"] == "false" and op["inputs"][1]["shape"] == "[6 1]"
    assert not of_type(found, "Expand")


def test_an_index_that_others_read_is_expanded(trace):
    def forward(x, i, y):
        wide = i.expand_as(y)
        return x.scatter_add(0, wide, y), wide + 1

    text, found = trace(forward, torch.zeros(3, COLUMNS), expanded_index(), torch.ones(ROWS, COLUMNS))
    assert "Removing index expansion" not in text and "aten::expand" in text
    (op,) = of_type(found, "ScatterReduce")
    assert op["attributes"]["index_broadcasted"] == "true" and op["inputs"][1]["shape"] == "[6 4]"


@pytest.mark.parametrize(
    "shape, dim, start, wide, optimised",
    [
        ((3, 4), 0, (6, 1), (6, 4), True),
        ((3, 4), 1, (1, 6), (3, 6), True),
        ((3, 1, 4), 0, (6, 1, 1), (6, 1, 4), True),
        ((3, 2, 4), 0, (6, 1, 1), (6, 2, 4), False),
        ((3, 2, 4), 0, (6, 2, 1), (6, 2, 4), False),
        ((3, 4), 0, (1, 4), (6, 4), False),
    ],
)
def test_gathers_of_rows_do_not_expand_their_index(trace, shape, dim, start, wide, optimised):
    def forward(x, i):
        return torch.gather(x, dim, i.expand(*wide))

    x, i = torch.rand(shape), torch.zeros(start, dtype=torch.int64)
    text, found = trace(forward, x, i)
    assert ("[debug] Optimising gather: %" in text) == optimised
    assert len(of_type(found, "Expand")) == (not optimised)
    after = text.split("Optimising gather")[-1].split("\n", 1)[1]
    assert ("aten::expand" in after) == (not optimised)
    assert torch.equal(poptorch.inferenceModel(forward)(x, i), forward(x, i))


@pytest.mark.parametrize(
    "write",
    [
        lambda x, i, v: x.clone().index_put_((i,), v),
        lambda x, i, v: assigned(x, (i, slice(None)), v),
        lambda x, i, v: assigned(x, (slice(None), i), v[0, :3].unsqueeze(1)),
    ],
)
def test_writing_rows_by_a_tensor_of_numbers_is_one_scatter(trace, write):
    x, i, v = torch.zeros(3, COLUMNS), torch.tensor([2, 0]), torch.rand(2, COLUMNS)
    text, found = trace(write, x, i, v)
    assert "Using vectorized ScatterReduce with none reduction" in text
    (op,) = of_type(found, "ScatterReduce")
    assert op["attributes"]["reduction"] == "none"
    assert torch.equal(poptorch.inferenceModel(write)(x, i, v), write(x, i, v))


def assigned(x, where, v):
    x = x.clone()
    x[where] = v
    return x


def test_adding_is_not_a_scatter_without_reduction(trace):
    def forward(x, i, v):
        return x.index_put((i,), v, accumulate=True)

    text, _ = trace(forward, torch.zeros(3, COLUMNS), torch.tensor([2, 0]), torch.rand(2, COLUMNS))
    assert "vectorized" not in text
