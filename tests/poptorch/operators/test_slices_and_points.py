"""Slices at places known at run time, points in space, and decoding of CTC, against plain references."""

import itertools
import math

import pytest
import torch

import poptorch


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def infer(function, *inputs, options=None):
    return poptorch.inferenceModel(Model(function), options)(*inputs)


def on_both(function, pattern, error=poptorch.Error, inputs=()):
    with pytest.raises(error, match=pattern):
        function(*inputs)
    with pytest.raises(error, match=pattern):
        infer(lambda *given: function(*given[:-1]), *inputs, torch.zeros(1))


X = torch.arange(24.0).reshape(2, 12)


# --- dynamic_slice


@pytest.mark.shows("dynamic_slice")
@pytest.mark.parametrize("start", [0, 3, 8, 10, 11, 12, -1, -13, 2**31 - 1])
def test_a_slice_at_a_place_of_run_time(start):
    places = [(start + i) % 12 for i in range(0, 4, 1)]
    given = infer(lambda x, s: poptorch.dynamic_slice(x, 1, s, 4, 1), X, torch.tensor([start], dtype=torch.int32))
    assert torch.equal(given, X[:, places])
    assert torch.equal(poptorch.dynamic_slice(X, 1, torch.tensor(start), 4, 1), given)


@pytest.mark.parametrize("size, step", [(6, 2), (4, 3), (12, 5), (1, 1), (3, 7)])
def test_dynamic_slice_takes_every_nth_element_and_wraps_around(size, step):
    start = torch.tensor([5], dtype=torch.int32)
    wanted = X[:, [(5 + i) % 12 for i in range(0, size, step)]]
    assert torch.equal(infer(lambda x, s: poptorch.dynamic_slice(x, -1, s, size, step), X, start), wanted)
    assert torch.equal(poptorch.dynamic_slice(X, -1, start, size, step), wanted)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("of", [torch.float16, torch.int32, torch.bool])
def test_types_of_starts_and_tensors(dtype, of):
    x = (X % 3).to(of)
    start = torch.tensor([7], dtype=dtype)
    given = infer(lambda x, s: poptorch.dynamic_slice(x, 1, s, 3, 1), x, start)
    assert given.dtype == of and torch.equal(given, x[:, 7:10])
    assert torch.equal(poptorch.dynamic_slice(x, 1, start, 3, 1), x[:, 7:10])


def test_slices_in_a_loop_read_every_part():
    def function(x):
        def body(total, at):
            return total + poptorch.dynamic_slice(x, 1, at, 4, 1) ** 2, at + 4

        return poptorch.for_loop(3, body, [torch.zeros(2, 4), torch.zeros(1, dtype=torch.int32)])[0]

    assert torch.equal(infer(function, X), (X.reshape(2, 3, 4) ** 2).sum(1))


def test_what_cannot_be_sliced():
    start = torch.tensor([1], dtype=torch.int32)
    for arguments, pattern in (
        (([1.0], 1, start, 4, 1), "tensor must be a tensor, got list"),
        ((X, 1, 3, 4, 1), "start must be a tensor, got int"),
        ((X, 1, torch.tensor([1.0]), 4, 1), "start must be of int16, int32 or int64, got torch.float32"),
        ((X, 1.0, start, 4, 1), "dim must be an int, got float"),
        ((X, 1, start, True, 1), "size must be an int, got bool"),
        ((X, 1, start, 4, None), "step must be an int, got NoneType"),
    ):
        with pytest.raises(poptorch.Error, match=pattern) as caught:
            poptorch.dynamic_slice(*arguments)
        assert caught.value.type == "poptorch_py_error"
    for arguments, pattern in (
        ((1, start, 0, 1), "slice that cannot be.*: size 0"),
        ((1, start, -4, 1), "slice that cannot be.*: size -4"),
        ((1, start, 4, 0), "slice that cannot be.*: step 0"),
        ((1, start, 5, 1), "size 5 does not divide the 12 elements of dimension 1"),
        ((1, start, 24, 1), "size 24 along dimension 1, which has 12"),
        ((2, start, 4, 1), "dimension 2 of a tensor of 2"),
        ((1, torch.tensor([1, 2], dtype=torch.int32), 4, 1), "start has 2 elements"),
    ):
        for call in (
            lambda: poptorch.dynamic_slice(X, *arguments),
            lambda: infer(lambda x: poptorch.dynamic_slice(x, *arguments), X),
        ):
            with pytest.raises(poptorch.Error, match=pattern) as caught:
                call()
            assert caught.value.type == "poptorch_cpp_error"
            assert "test_slices_and_points.py" in str(caught.value)


# --- dynamic_update


@pytest.mark.shows("dynamic_update")
@pytest.mark.parametrize("start", [0, 4, 10, 11, -2, 25])
def test_an_update_at_a_place_of_run_time(start):
    source = -torch.ones(2, 5)  # 5 does not divide 12
    wanted = X.clone()
    wanted[:, [(start + i) % 12 for i in range(5)]] = source
    before = X.clone()
    at = torch.tensor([start], dtype=torch.int32)
    assert torch.equal(infer(lambda x, u, s: poptorch.dynamic_update(x, u, 1, s, 5), X, source, at), wanted)
    assert torch.equal(poptorch.dynamic_update(X, source, -1, at, 5), wanted)
    assert torch.equal(X, before)


def test_what_cannot_be_updated():
    start = torch.tensor([1], dtype=torch.int32)
    source = torch.zeros(2, 4)
    for arguments, pattern in (
        ((1, source, 1, start, 4), "input must be a tensor, got int"),
        ((X, None, 1, start, 4), "src must be a tensor, got NoneType"),
        ((X, source, 1, 2, 4), "start must be a tensor, got int"),
        ((X, source, "1", start, 4), "dim must be an int, got str"),
        ((X, source, 1, start, 4.0), "size must be an int, got float"),
        ((X, source[0], 1, start, 4), "input has 2 dimensions and src has 1"),
        ((X, source.half(), 1, start, 4), "input is of torch.float32 and src of torch.float16"),
    ):
        with pytest.raises(poptorch.Error, match=pattern):
            poptorch.dynamic_update(*arguments)
    for size, given, pattern in (
        (0, source, "size 0"),
        (3, source, r"src has shape \[2, ?4\]"),
        (13, torch.zeros(2, 13), "size 13 along dimension 1, which has 12"),
    ):
        for call in (
            lambda: poptorch.dynamic_update(X, given, 1, start, size),
            lambda: infer(lambda x: poptorch.dynamic_update(x, given, 1, start, size), X),
        ):
            with pytest.raises(poptorch.Error, match=pattern):
                call()


def test_gradients_of_slices_and_updates():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.table = torch.nn.Parameter(torch.randn(2, 12))
            self.row = torch.nn.Parameter(torch.randn(2, 3))

        def forward(self, start):
            part = poptorch.dynamic_slice(self.table, 1, start, 4, 1)
            whole = poptorch.dynamic_update(self.table, self.row * 2, 1, start, 3)
            out = (part**2).sum() + (whole**3).sum()
            return out, poptorch.identity_loss(out, "sum")

    for start in (torch.tensor([2], dtype=torch.int32), torch.tensor([10], dtype=torch.int32)):
        cpu = Net()
        cpu(start)[1].backward()
        wanted = {name: p.detach() - 0.1 * p.grad for name, p in cpu.named_parameters()}
        model = Net()
        trainer = poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1))
        trainer(start)
        trainer.copyWeightsToHost()
        for name, p in model.named_parameters():
            torch.testing.assert_close(p.detach(), wanted[name])


# --- points


def nearest_by_hand(x, y, batch_x=None, batch_y=None):
    found = []
    for i, point in enumerate(x.tolist()):
        best = -1
        for j, other in enumerate(y.tolist()):
            if batch_x is not None and batch_x[i] != batch_y[j]:
                continue
            if best < 0 or math.dist(point, other) < math.dist(point, y[best].tolist()):
                best = j
        found.append(best)
    return torch.tensor(found)


@pytest.mark.shows("nearest")
@pytest.mark.parametrize("dimensions", [1, 3, 17])
def test_nearest_finds_what_a_search_by_hand_finds(dimensions):
    torch.manual_seed(dimensions)
    x, y = torch.randn(50, dimensions), torch.randn(40, dimensions)
    wanted = nearest_by_hand(x, y)
    given = infer(poptorch.nearest, x, y)
    assert given.dtype == torch.int32 and torch.equal(given.long(), wanted)
    assert torch.equal(poptorch.nearest(x, y), wanted)
    if dimensions == 1:
        assert torch.equal(infer(poptorch.nearest, x[:, 0], y[:, 0]).long(), wanted)


def test_nearest_points_of_the_same_batch():
    torch.manual_seed(4)
    x, y = torch.randn(9, 2), torch.randn(7, 2)
    batch_x, batch_y = [0, 0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 1, 1, 3, 3]  # nothing of batch 2
    wanted = nearest_by_hand(x, y, batch_x, batch_y)
    assert (wanted == -1).sum() == 2
    as_tensors = torch.tensor(batch_x), torch.tensor(batch_y)
    lists = infer(lambda x, y: poptorch.nearest(x, y, batch_x, batch_y), x, y)
    assert torch.equal(lists.long(), wanted)
    assert torch.equal(infer(poptorch.nearest, x, y, *as_tensors).long(), wanted)
    assert torch.equal(infer(lambda x, y, b: poptorch.nearest(x, y, b, batch_y), x, y, as_tensors[0]).long(), wanted)
    assert torch.equal(poptorch.nearest(x, y, batch_x, as_tensors[1]), wanted)
    first = torch.tensor([0] * 7)
    assert torch.equal(poptorch.nearest(x, y, None, first), nearest_by_hand(x, y))
    assert torch.equal(infer(lambda x, y: poptorch.nearest(x, y, None, first.tolist()), x, y).long(), nearest_by_hand(x, y))


def test_points_of_equal_distance_and_known_points():
    y = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    origin = torch.zeros(1, 2)
    assert infer(lambda x: poptorch.nearest(x, y), origin).tolist() == [0]
    assert infer(lambda x: poptorch.nearest(origin, y) + 0 * x.int(), torch.zeros(1)).tolist() == [0]


def test_what_is_not_nearest():
    x = torch.zeros(3, 2)
    on_both(lambda: poptorch.nearest(1, x), "x must be a tensor, got int")
    on_both(lambda: poptorch.nearest(x, x.int()), "y must be points .* of floating point")
    on_both(lambda: poptorch.nearest(x, torch.zeros(3, 1)), "not points of equal dimensions")
    on_both(lambda: poptorch.nearest(x, x, "000", [0, 0, 0]), "batch_x must be a list or a tensor, got str")
    on_both(lambda: poptorch.nearest(x, x, [0, 0], [0, 0, 0]), "batch_x must have an integer for each of the 3 points")


def farthest_by_hand(points, ptr, ratio):
    found = []
    for low, high in zip(ptr, ptr[1:]):
        rows = [tuple(p) for p in points[low:high].tolist()]
        taken = []
        while len(taken) < math.ceil((high - low) * ratio):
            scores = [min((math.dist(p, rows[t]) for t in taken), default=math.inf) for p in rows]
            taken.append(scores.index(max(scores)))
        found += [low + t for t in taken]
    return found


@pytest.mark.shows("fps")
@pytest.mark.parametrize("ptr, ratio", [([0, 40], 0.5), ([0, 7, 7, 30, 40], 0.3), ([3, 4, 20], 1.0), ([0, 40], 0.01)])
def test_fps_picks_what_a_search_by_hand_picks(ptr, ratio):
    torch.manual_seed(3)
    points = torch.randn(40, 3)
    wanted = farthest_by_hand(points, ptr, ratio)
    given = infer(lambda x: poptorch.fps(x, ptr, ratio), points)
    assert given.dtype == torch.int32 and given.tolist() == wanted
    assert poptorch.fps(points, ptr, ratio).tolist() == wanted


def test_random_starts_spread_the_same_way():
    torch.manual_seed(3)
    points = torch.randn(64, 2)
    ptr = [0, 16, 32, 48, 64]
    function = lambda x: poptorch.fps(x, ptr, 0.25, True)
    options = lambda seed: poptorch.Options().randomSeed(seed)
    runs = [infer(function, points, options=options(seed)).reshape(4, 4) for seed in (1, 2, 3)]
    assert torch.equal(runs[0], infer(function, points, options=options(1)).reshape(4, 4))
    assert any(not torch.equal(runs[0][:, 0], other[:, 0]) for other in runs[1:])
    torch.manual_seed(1)
    runs.append(poptorch.fps(points, ptr, 0.25, True).reshape(4, 4))
    for run in runs:
        for batch, samples in enumerate(run.tolist()):
            taken = samples[:1]
            for sample in samples[1:]:
                rows = points[ptr[batch] : ptr[batch + 1]].tolist()
                scores = [min(math.dist(p, points[t].tolist()) for t in taken) for p in rows]
                assert sample == ptr[batch] + scores.index(max(scores))
                taken.append(sample)


def test_what_is_no_sampling():
    x = torch.zeros(5, 2)
    on_both(lambda: poptorch.fps([1.0], [0, 1]), "src must be a tensor, got list")
    on_both(lambda: poptorch.fps(x, [0]), "ptr must be a list of at least two ints")
    on_both(lambda: poptorch.fps(x, torch.tensor([0, 5])), "ptr must be a list of at least two ints")
    on_both(lambda: poptorch.fps(x, [0, 5], 1), "ratio must be a float above 0 and at most 1, got 1")
    on_both(lambda: poptorch.fps(x, [0, 5], 1.5), "ratio must be a float")
    on_both(lambda: poptorch.fps(x, [0, 5], 0.5, 1), "random_start must be True or False, got 1")
    for ptr in ([0, 6], [0, 3, 2], [-1, 5]):
        on_both(lambda: poptorch.fps(x, ptr), "must rise from 0 or more to at most 5 points")


# --- CTC


def collapse(way, blank):
    return tuple(label for label, _ in itertools.groupby(way) if label != blank)


def best_by_hand(log_probs, blank, count):
    """All ways over time, summed by what they spell."""
    scores = {}
    times, classes = log_probs.shape
    for way in itertools.product(range(classes), repeat=times):
        score = sum(log_probs[t, c].item() for t, c in enumerate(way))
        spelled = collapse(way, blank)
        scores[spelled] = math.log(math.exp(scores.get(spelled, -math.inf)) + math.exp(score))
    return sorted(scores.items(), key=lambda item: -item[1])[:count]


def beams_by_hand(log_probs, blank, width):
    """A prefix beam search over a dict of targets."""
    beams = {(): (0.0, -math.inf)}
    add = lambda a, b: torch.logaddexp(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)).item()
    for row in log_probs.tolist():
        grown = {}
        for target, (blanks, labels) in beams.items():
            total = add(blanks, labels)
            for c, p in enumerate(row):
                if c == blank:
                    steps = [(target, total + p, -math.inf)]
                elif target and target[-1] == c:
                    steps = [(target, -math.inf, labels + p), (target + (c,), -math.inf, blanks + p)]
                else:
                    steps = [(target + (c,), -math.inf, total + p)]
                for to, with_blank, with_label in steps:
                    old = grown.get(to, (-math.inf, -math.inf))
                    grown[to] = (add(old[0], with_blank), add(old[1], with_label))
        beams = dict(sorted(grown.items(), key=lambda item: -add(*item[1]))[:width])
    return [(target, add(*score)) for target, score in beams.items()]


def check_decoded(given, n, wanted, blank, times):
    scores, lengths, labels = given
    for p, (target, score) in enumerate(wanted):
        assert lengths[n, p].item() == len(target)
        assert labels[n, p].tolist() == list(target) + [blank] * (times - len(target))
        assert scores[n, p].item() == pytest.approx(score, abs=1e-4)


def decode(probs, lengths, **options):
    return infer(lambda p, l: poptorch.ctc_beam_search_decoder(p, l, **options), probs, lengths)


@pytest.mark.shows("ctc_beam_search_decoder")
@pytest.mark.parametrize("blank", [0, 2])
def test_wide_beams_find_the_most_probable_of_all_sequences(blank):
    torch.manual_seed(blank)
    probs = torch.randn(5, 3, 3).mul(2).log_softmax(-1)
    lengths = torch.tensor([5, 4, 1], dtype=torch.int32)
    given = decode(probs, lengths, blank=blank, beam_width=64, top_paths=3)
    assert [t.dtype for t in given] == [torch.float32, torch.int32, torch.int32]
    assert [list(t.shape) for t in given] == [[3, 3], [3, 3], [3, 3, 5]]
    for n in range(3):
        check_decoded(given, n, best_by_hand(probs[: lengths[n], n], blank, 3), blank, 5)


@pytest.mark.parametrize("width", [1, 2, 5, 20])
def test_narrow_beams_keep_the_best_of_each_time(width):
    torch.manual_seed(width)
    probs = torch.randn(30, 4, 9).mul(1.5).log_softmax(-1)
    lengths = torch.tensor([30, 17, 30, 29], dtype=torch.int64)
    top = min(width, 4)
    given = decode(probs, lengths, beam_width=width, top_paths=top)
    for n in range(4):
        check_decoded(given, n, beams_by_hand(probs[: lengths[n], n], 0, width)[:top], 0, 30)


def test_no_time_few_sequences_and_half_precision():
    probs = torch.tensor([[[0.75, 0.25]], [[0.5, 0.5]]]).log()
    scores, lengths, labels = decode(probs, torch.tensor([0]), beam_width=4, top_paths=3)
    assert scores[0, 0] == 0 and torch.isinf(scores[0, 1:]).all() and (lengths == 0).all() and (labels == 0).all()
    scores, lengths, labels = decode(probs.half(), torch.tensor([2]), beam_width=4, top_paths=2)
    assert scores.dtype == torch.float16 and lengths.tolist() == [[1, 0]] and labels.tolist() == [[[1, 0], [0, 0]]]
    torch.testing.assert_close(scores[0].float().exp(), torch.tensor([0.625, 0.375]), rtol=2e-3, atol=0)


def test_a_length_beyond_the_times_is_an_error_with_its_place():
    with pytest.raises(poptorch.Error, match="index out of range.*: index 3 .element 1"):
        decode(torch.zeros(2, 2, 2), torch.tensor([2, 3]))


def test_what_cannot_be_decoded():
    probs, lengths = torch.zeros(4, 2, 3), torch.tensor([4, 4])
    decoder = poptorch.ctc_beam_search_decoder
    on_both(lambda: decoder(1, lengths), "probs must be a tensor, got int")
    on_both(lambda: decoder(probs, [4, 4]), "lengths must be a tensor, got list")
    on_both(lambda: decoder(probs[0], lengths), r"probs must be log-probabilities \[T, N, C\]")
    on_both(lambda: decoder(probs, lengths[:1]), "lengths must have an integer for each of the 2 samples")
    on_both(lambda: decoder(probs, lengths.float()), "lengths must have an integer")
    on_both(lambda: decoder(probs, lengths, blank=3), "blank 3 is none of 3 classes")
    on_both(lambda: decoder(probs, lengths, beam_width=2, top_paths=3), "top_paths 3 must be at least 1")
    on_both(lambda: decoder(probs, lengths, beam_width=2.0), "beam_width must be an int, got float")
    with pytest.raises(poptorch.Error, match="runs on the IPU only"):
        decoder(probs, lengths)
