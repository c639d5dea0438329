"""Overlapped host I/O: the same bits, transfers of the next element beside the compute of this one, every error."""

import collections
import json
import os
import re

import pytest
import torch
from placed_models import SIZES, Layers, assert_same_bits, options_of, train

import poptorch
from poptorch import OutputMode, OverlapMode

IN_LOOP, IN_CALL, NONE = (
    OverlapMode.OverlapAccumulationLoop,
    OverlapMode.OverlapDeviceIterationLoop,
    OverlapMode.NoOverlap,
)


def overlapping(options=None, depth=None, tiles=32):
    options = options or poptorch.Options().deviceIterations(4).setExecutionStrategy(poptorch.ShardedExecution())
    if tiles:
        options.TensorLocations.numIOTiles(tiles)
    if depth is not None:
        options._Popart.set("defaultPrefetchBufferingDepth", depth)
    return options


class Function(torch.nn.Module):
    """forward is a function of the module and its input; `fc` has parameters."""

    def __init__(self, function):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def inference(function, options=None, iterations=4):
    options = options or overlapping().deviceIterations(iterations)
    return poptorch.inferenceModel(Function(function), options)


class Chain(torch.nn.Module):
    """Two inputs, two outputs, several layers."""

    def __init__(self, of_inputs, of_outputs):
        super().__init__()
        self.a, self.b = torch.nn.Linear(5, 7), torch.nn.Linear(7, 2)
        self.modes = of_inputs, of_outputs

    def forward(self, x, index):
        x, index = poptorch.set_overlap_for_input((x, index), self.modes[0])
        h = torch.relu(self.a(x)) + index.to(torch.float32).unsqueeze(1)
        return poptorch.set_overlap_for_output((self.b(h), h), self.modes[1])


@pytest.mark.shows("set_overlap_for_input")
@pytest.mark.shows("set_overlap_for_output")
@pytest.mark.shows("OverlapMode")
@pytest.mark.parametrize("threads", ["1", "2", "8"])
@pytest.mark.parametrize("depth", [None, 1, 3])
def test_inference_gives_the_same_bits_in_every_mode(monkeypatch, threads, depth):
    monkeypatch.setenv("POPTORCH_HOST_THREADS", threads)
    x, index = torch.randn(6 * 4, 5), torch.arange(24)
    first, texts = None, set()
    for of_inputs in OverlapMode:
        for of_outputs in OverlapMode:
            torch.manual_seed(0)
            options = overlapping(depth=depth).deviceIterations(6)
            run = poptorch.inferenceModel(Chain(of_inputs, of_outputs), options)
            results = run(x, index)
            first = first or results
            assert all(torch.equal(a, b) for a, b in zip(first, results))
            texts.add(run._executable.program_text())
    assert len(texts) == 9  # each does something else


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("mode", [OutputMode.All, OutputMode.Sum])
@pytest.mark.parametrize(
    "modes", [(IN_LOOP, IN_LOOP), (IN_CALL, IN_CALL), (IN_LOOP, IN_CALL), (IN_CALL, None), (None, IN_LOOP)]
)
def test_training_gives_the_same_bits(modes, mode, replicas):
    plain = train(options_of(3, 2, replicas, mode))
    overlapped = train(overlapping(options_of(3, 2, replicas, mode), 2), overlap=modes)
    assert_same_bits(plain, overlapped)


def test_blocks_on_two_ipus_have_io_tiles_of_their_own():
    strategy = poptorch.ShardedExecution()
    plain = train(options_of(2, 2))
    overlapped = train(overlapping(options_of(2, 2, strategy=strategy)), ipus=(0, 0, 1), overlap=(IN_CALL, IN_LOOP))
    assert_same_bits(plain, overlapped)


def test_phases_give_the_same_bits():
    phases = poptorch.SerialPhasedExecution("b0", "b1", "b2")
    plain = train(options_of(2, 2))
    overlapped = train(overlapping(options_of(2, 2, strategy=phases)), overlap=(IN_LOOP, IN_LOOP))
    assert_same_bits(plain, overlapped)


Two = collections.namedtuple("Two", "first second")


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


class PairParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.a
        yield struct.b

    def reconstruct(self, original_structure, tensor_iterator):
        return Pair(next(tensor_iterator), next(tensor_iterator))


@pytest.mark.parametrize(
    "make, members",
    [
        (lambda a, b: (a, b), lambda s: s),
        (lambda a, b: [a, b], lambda s: s),
        (lambda a, b: {"x": a, "y": b}, lambda s: (s["x"], s["y"])),
        (lambda a, b: ({"x": [a]}, (b,)), lambda s: (s[0]["x"][0], s[1][0])),
        (Two, lambda s: (s.first, s.second)),
        (Pair, lambda s: (s.a, s.b)),
    ],
    ids=["tuple", "list", "dict", "nested", "named tuple", "custom"],
)
def test_the_structure_comes_back(make, members):
    def forward(_, structure):
        marked = poptorch.set_overlap_for_input(structure, IN_CALL)
        assert type(marked) is type(structure)
        a, b = members(marked)
        results = poptorch.set_overlap_for_output(make(a * 2, b + 1), IN_CALL)
        assert type(results) is type(structure)
        return results

    poptorch.registerCustomArgParser(Pair, PairParser())
    try:
        given = torch.randn(4, 2), torch.arange(4.0)
        results = members(inference(forward)(make(*given)))
    finally:
        poptorch.registerCustomArgParser(Pair, None)
    assert torch.equal(results[0], 2 * given[0]) and torch.equal(results[1], given[1] + 1)


def test_on_the_cpu_they_are_identities_with_gradients():
    x = torch.randn(3, requires_grad=True)
    y = poptorch.set_overlap_for_output(poptorch.set_overlap_for_input({"x": x}, IN_LOOP)["x"] * 2, IN_CALL)
    y.sum().backward()
    assert torch.equal(y, 2 * x) and torch.equal(x.grad, torch.full((3,), 2.0))


def transfers(trainer, word):
    return [line for line in trainer._executable.machine_text().splitlines() if word in line]


def test_marked_streams_are_moved_on_io_tiles_in_every_form():
    model = Layers(overlap=(IN_LOOP, IN_CALL))
    options = overlapping(options_of(2, 3), 2)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    trainer(torch.randn(12, SIZES[0]), torch.randn(12, SIZES[-1]))
    for line in transfers(trainer, "= host_load() {stream=@x") + transfers(trainer, "= host_load() {stream=@y"):
        assert 'exchange="overlap_inner_loop"' in line and 'tile_set="io"' in line
    stores = transfers(trainer, "host_store(")
    assert len(stores) == 2 and all('exchange="overlap_loops"' in line and 'tile_set="io"' in line for line in stores)
    assert len(transfers(trainer, "io_tile_copy")) == 4 and len(transfers(trainer, "io_barrier")) == 1
    assert trainer._executable.program_text().count("io tiles of ipu 0") == 2
    assert len(trainer._executable.memory()) == 1  # they belong to their IPU
    operations = json.loads(trainer._debugGetPopartIR())["maingraph"]
    io = [op["type"] for op in operations if op["attributes"]["tileSet"] == "IO"]
    assert io == ["HostLoad"] * 2 + ["IoTileCopy", "HostStore"] * 2
    exchanges = [op["attributes"]["exchangeStrategy"] for op in operations if op["type"] in ("HostLoad", "HostStore")]
    assert exchanges == ["OverlapInnerLoop"] * 2 + ["OverlapLoops"] * 2


def test_without_overlap_there_are_no_io_tiles():
    run = inference(lambda m, x: poptorch.set_overlap_for_input(m.fc(x) if False else x, NONE) * 2)
    run(torch.randn(4, 3))
    assert "io tiles" not in run._executable.program_text() and "IO" not in run._debugGetPopartIR()


@pytest.mark.shows("Options._Popart.set")
@pytest.mark.parametrize("depth, slots", [(None, 1), (1, 1), (3, 3), (1000, 4)])
def test_the_prefetch_depth_is_the_number_of_elements_that_wait(depth, slots):
    run = inference(lambda m, x: m.fc(poptorch.set_overlap_for_input(x, IN_CALL)), overlapping(depth=depth))
    run.compile(torch.randn(4, 3))
    rings = [line for line in run._executable.program_text().splitlines() if line.startswith("ring ")]
    assert [int(re.search(r" bytes x (\d+) ", ring)[1]) for ring in rings] == [slots]  # a call has 4 elements


@pytest.mark.skipif(os.cpu_count() < 2, reason="overlap needs two cores")
def test_the_next_input_is_fetched_and_the_last_output_stored_beside_the_compute():
    """The trace shows it: what is fetched is narrowed on its way, and takes about as long as the products."""

    def forward(m, x):
        x = poptorch.set_overlap_for_input(x, IN_CALL)
        y = x.to(torch.float32) @ m.weight
        return poptorch.set_overlap_for_output(y, IN_CALL)

    model = Function(forward)
    model.register_buffer("weight", torch.randn(1024, 512))
    run = poptorch.inferenceModel(model, overlapping().deviceIterations(8))
    x = torch.randint(0, 9, (8 * 256, 1024))
    run(x)
    run._executable.trace(True)
    fetched = stored = False
    for _ in range(10):  # another process may hold a core for one call
        run(x)
        events = run._executable.take_trace()
        compute = [e for e in events if any(word in e["kernel"] for word in ("matmul", "product", "linear"))]
        loads = [e for e in events if e["step"] == "stream_load" and e["io_tiles"]]
        stores = [e for e in events if e["step"] == "stream_store" and e["io_tiles"]]
        for moved in (loads, stores):
            assert [e["iteration"] for e in moved] == list(range(8)) and {e["ipu"] for e in moved} == {0}

        def beside(moved, ahead):
            return any(
                e["iteration"] * ahead > c["iteration"] * ahead
                and e["begin_ns"] < c["end_ns"]
                and c["begin_ns"] < e["end_ns"]
                for e in moved
                for c in compute
            )

        fetched |= beside(loads, 1)
        stored |= beside(stores, -1)
        if fetched and stored:
            break
    assert fetched and stored


def error_of(function, *inputs, options=None):
    with pytest.raises(poptorch.Error) as raised:
        inference(function, options)(*(inputs or (torch.randn(4, 3),)))
    assert raised.value.type == "poptorch_cpp_error"
    assert "test_overlap.py:" in str(raised.value).split(raised.value.message)[0]  # the user's line
    return re.sub(r"\S*test_overlap\.py:\d+", "test_overlap.py:LINE", raised.value.message)


INPUT_CURE = "\n  try:      mark the argument of forward before anything else, and go on with what is returned"
OUTPUT_CURE = "\n  try:      mark what forward returns last thing, and return only that"


@pytest.mark.parametrize("mark", [poptorch.set_overlap_for_input, poptorch.set_overlap_for_output])
def test_members_must_be_tensors(mark):
    for structure, place, kind in [
        (3, "its first argument", "int"),
        ([torch.ones(1), "text"], "its first argument[1]", "str"),
        ({"a": (torch.ones(1), None)}, "its first argument['a'][1]", "NoneType"),
    ]:
        with pytest.raises(poptorch.Error) as raised:
            mark(structure, IN_CALL)
        assert raised.value.type == "poptorch_py_error"
        assert raised.value.message == (
            f"poptorch.{mark.__name__} needs tensors: {place} is {kind}. Pass a tensor, a tuple, list or dict of them, or a "
            "type with a registered parser (poptorch.registerCustomArgParser)."
        )
    with pytest.raises(poptorch.Error, match="needs a mode of poptorch.OverlapMode, got 'no_overlap'"):
        mark(torch.ones(1), "no_overlap")


@pytest.mark.parametrize("of_the_host", [True, False])
def test_a_constant_is_no_input(of_the_host):
    host = torch.tensor([1.0, 2.0, 3.0])

    def forward(_, x):
        return x + poptorch.set_overlap_for_input(host if of_the_host else torch.arange(3.0), IN_CALL)

    assert error_of(forward) == (
        "overlap of no input [IPU-E110]: poptorch.set_overlap_for_input is given a tensor f32[3], a constant. It marks "
        "inputs of the model." + INPUT_CURE
    )


def test_an_overlapped_constant_is_an_output():
    run = inference(lambda m, x: (x.relu(), poptorch.set_overlap_for_output(torch.ones(1, 2) * 3, IN_CALL)))
    assert torch.equal(run(torch.randn(4, 3))[1], torch.full((4, 2), 3.0))


def test_an_input_that_is_returned_overlaps_both_ways():
    x = torch.randn(4, 3)
    run = inference(lambda m, x: poptorch.set_overlap_for_output(poptorch.set_overlap_for_input(x, IN_CALL), IN_CALL))
    assert torch.equal(run(x), x)
    assert run._executable.program_text().count("io tiles of ipu 0") == 2


def test_what_an_operation_made_is_no_input():
    assert error_of(lambda m, x: poptorch.set_overlap_for_input(x.relu(), IN_CALL)) == (
        "overlap of no input [IPU-E110]: poptorch.set_overlap_for_input is given a tensor f32[1,3] that 'relu' at "
        "test_overlap.py:LINE made. It marks inputs of the model." + INPUT_CURE
    )


def test_a_parameter_is_no_input():
    assert error_of(lambda m, x: x + poptorch.set_overlap_for_input(m.fc.bias, IN_CALL)) == (
        "overlap of no input [IPU-E110]: poptorch.set_overlap_for_input is given 'fc.bias' f32[3], a parameter or buffer. "
        "It marks inputs of the model." + INPUT_CURE
    )


def test_an_overlapped_input_has_one_direct_reader():
    assert error_of(lambda m, x: poptorch.set_overlap_for_input(x, IN_CALL) + x.relu()) == (
        "overlap of an input that is read elsewhere [IPU-E110]: poptorch.set_overlap_for_input must be the only direct "
        "reader of input 'x', which has 1 more: 'relu' at test_overlap.py:LINE." + INPUT_CURE
    )
    assert "which has 1 more: another mark at test_overlap.py:LINE." in error_of(
        lambda m, x: poptorch.set_overlap_for_input(x, IN_CALL) + poptorch.set_overlap_for_input(x, IN_CALL)
    )
    assert "which has 1 more: the results of forward." in error_of(
        lambda m, x: (poptorch.set_overlap_for_input(x, IN_CALL).relu(), x)
    )


def test_an_output_that_is_read_again_is_none():
    assert error_of(lambda m, x: poptorch.set_overlap_for_output(m.fc(x), IN_CALL).relu()) == (
        "overlap of no output [IPU-E110]: the tensor f32[1,3] marked by poptorch.set_overlap_for_output is read by 'relu' "
        "at test_overlap.py:LINE. The mark must be the last operation before the tensor is returned." + OUTPUT_CURE
    )


def test_what_is_not_returned_is_no_output():
    def forward(m, x):
        poptorch.set_overlap_for_output(m.fc(x), IN_CALL)
        return x.relu()

    assert error_of(forward) == (
        "overlap of no output [IPU-E110]: the tensor f32[1,3] marked by poptorch.set_overlap_for_output is not returned by "
        "forward." + OUTPUT_CURE
    )


def test_an_overlapped_output_is_returned_once():
    def forward(m, x):
        y = poptorch.set_overlap_for_output(m.fc(x), IN_CALL)
        return y, y

    assert error_of(forward) == (
        "overlapped output returned twice [IPU-E110]: forward returns the tensor f32[1,3] marked by "
        "poptorch.set_overlap_for_output 2 times.\n  try:      return it once, or mark a tensor for each place"
    )


@pytest.mark.parametrize("mode", ["Accumulation", "DeviceIteration"])
def test_pipelines_do_not_overlap(mode):
    given = OverlapMode[f"Overlap{mode}Loop"]
    options = overlapping(poptorch.Options().deviceIterations(4))  # the default strategy is the pipeline
    assert error_of(lambda m, x: m.fc(poptorch.set_overlap_for_input(x, given)), options=options) == (
        "overlapped I/O is unsupported in a pipeline [IPU-E414]: poptorch.set_overlap_for_input is called with "
        f"OverlapMode.{given.name}, and the execution strategy is PipelinedExecution.\n"
        "  try:      options.setExecutionStrategy(poptorch.ShardedExecution()), which on one IPU computes the same"
    )


def test_tiles_must_be_reserved():
    options = overlapping(tiles=None)
    assert error_of(lambda m, x: poptorch.set_overlap_for_output(m.fc(x), IN_CALL), options=options) == (
        "no tiles for I/O [IPU-E414]: poptorch.set_overlap_for_output is called with OverlapMode.OverlapDeviceIterationLoop, "
        "which needs 32 tiles or more for I/O, and 0 are reserved.\n  try:      options.TensorLocations.numIOTiles(32)"
    )


@pytest.mark.parametrize("mode", ["Final", "EveryN"])
def test_an_overlapped_output_returns_all_elements(mode):
    options = overlapping().outputMode(OutputMode[mode], 2 if mode == "EveryN" else None)
    assert error_of(lambda m, x: poptorch.set_overlap_for_output(m.fc(x), IN_LOOP), options=options) == (
        "overlapped output needs all elements [IPU-E414]: poptorch.set_overlap_for_output is called with "
        f"OverlapMode.OverlapAccumulationLoop, and the output mode is {mode}.\n"
        "  try:      options.outputMode(poptorch.OutputMode.All), or OutputMode.Sum"
    )


def test_the_prefetch_depth_is_at_least_one():
    options = overlapping(depth=0)
    assert error_of(lambda m, x: m.fc(poptorch.set_overlap_for_input(x, IN_CALL)), options=options) == (
        "prefetch depth out of range [IPU-E414]: defaultPrefetchBufferingDepth is 0, and poptorch.set_overlap_for_input with "
        "OverlapMode.OverlapDeviceIterationLoop needs 1 or more.\n"
        '  try:      options._Popart.set("defaultPrefetchBufferingDepth", 1)'
    )


def test_without_overlap_no_option_is_asked_for():
    options = overlapping(poptorch.Options().deviceIterations(4), tiles=None).outputMode(OutputMode.Final)
    x = torch.randn(4, 3)
    run = inference(
        lambda m, x: poptorch.set_overlap_for_output(poptorch.set_overlap_for_input(x, NONE) * 2, NONE), options
    )
    assert torch.equal(run(x), 2 * x[3:])


@pytest.mark.parametrize(
    "mode, iterations, cure",
    [
        (IN_LOOP, 4, "Use OverlapDeviceIterationLoop, or NoOverlap"),
        (IN_CALL, 1, "Set options.deviceIterations(2) or more"),
    ],
)
def test_an_overlap_with_nothing_warns(capfd, mode, iterations, cure):
    run = inference(lambda m, x: m.fc(poptorch.set_overlap_for_input(x, mode)), iterations=iterations)
    poptorch.setLogLevel("DEBUG")  # or lines that were there before are counted only
    try:
        run.compile(torch.randn(iterations, 3))
    finally:
        poptorch.setLogLevel("WARN")
    lines = capfd.readouterr().err.splitlines()
    assert [cure in line for line in lines if "overlapped I/O has nothing to overlap with" in line] == [True]


def test_the_back_end_is_told(capfd):
    run = inference(lambda m, x: m.fc(poptorch.set_overlap_for_input(x, IN_CALL)))
    poptorch.setLogLevel("DEBUG")
    try:
        run.compile(torch.randn(4, 3))
    finally:
        poptorch.setLogLevel("WARN")
    text = capfd.readouterr().err
    for name in ("useHostCopyOps", "enableExplicitMainLoops", "virtualGraphMode"):
        assert f"{name} set to value 1\n" in text


def test_a_program_with_io_tiles_is_saved_and_loaded(tmp_path):
    x, index = torch.randn(4, 5), torch.arange(4)
    run = poptorch.inferenceModel(Chain(IN_CALL, IN_LOOP), overlapping())
    expected = run(x, index)
    run.save(str(tmp_path / "a.poptorch"))
    run.destroy()
    again = poptorch.load(str(tmp_path / "a.poptorch"))
    assert all(torch.equal(a, b) for a, b in zip(again(x, index), expected))
    assert again._executable.program_text().count("io tiles of ipu 0") == 2
