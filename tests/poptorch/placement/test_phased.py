"""Phased execution: the strategies, their numbers of phases, their errors, and the bits of one IPU."""

import itertools
import re

import pytest
import torch
from python_programs import run_program
from placed_models import OPTIMIZERS, SIZES, Layers, assert_same_bits, locations, options_of, train

import poptorch
from poptorch._impl.options.phased import back_end_values
from poptorch import Liveness, ParallelPhasedExecution, Phase, SerialPhasedExecution, Stage

LIVENESS = list(Liveness)


def serial(liveness=Liveness.AlwaysLive, separate=False):
    strategy = SerialPhasedExecution("b0", "b1", "b2")
    return strategy.useSeparateBackwardPhase(separate).setTensorsLiveness(liveness)


def parallel(off_chip=False):
    strategy = ParallelPhasedExecution(Phase("b0"), Phase("b1"), Phase("b2"))
    strategy.phase(1).ipus(1)
    return strategy.sendTensorsOffChipAfterFwd(off_chip)


def compiled(strategy, options=None, ipus=(0, 0, 0), model=None):
    model = model or Layers(ipus)
    options = options or poptorch.Options()
    options.setExecutionStrategy(strategy).autoRoundNumIPUs(True)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    trainer.compile(torch.randn(2, SIZES[0]), torch.randn(2, SIZES[-1]))
    return trainer


def phases_of(trainer):
    """Phases of the products of the layers, forward and backward, as the compiled program has them."""
    text = trainer._executable.ir_text()
    found = re.findall(r"linear(?:\w*gradient\w*)?\(.*\{.*?phase=(\d+)", text)
    return sorted(set(map(int, found)))


# --- the strategies


@pytest.mark.shows("Phase")
def test_a_phase_is_stages_or_one_stage_of_blocks():
    left, right = Stage("left"), Stage("right")
    phase = Phase(left, right)
    assert list(phase.stages) == [left, right] and phase.stage(1) is right
    assert phase.ipus(0, 2) is None and (left._ipu, right._ipu) == (0, 2)
    assert [stage.blocks for stage in Phase("a", "b").stages] == [("a", "b")]
    with pytest.raises(AssertionError, match="either poptorch.Stage objects or block ids"):
        Phase(Stage("a"), "b")
    with pytest.raises(AssertionError, match="the phase has 2 stages, and 1 IPUs are given"):
        phase.ipus(0)


def test_arguments_of_a_strategy_are_phases():
    stage = Stage("d")
    strategy = SerialPhasedExecution(Phase("a"), ["b", "c"], stage, [Stage("e"), Stage("f")], "g")
    blocks = [[s.blocks for s in strategy.phase(i).stages] for i in range(5)]
    assert blocks == [[("a",)], [("b", "c")], [("d",)], [("e",), ("f",)], [("g",)]]
    assert strategy.stage("d") is stage
    assert strategy.useSeparateBackwardPhase() is strategy


@pytest.mark.parametrize("kind", [SerialPhasedExecution, ParallelPhasedExecution])
@pytest.mark.parametrize(
    "misuse, message",
    [
        (lambda kind: kind(), "needs its phases"),
        (lambda kind: kind("a", Phase("b", "a")), "associated with more than one stage"),
        (lambda kind: kind(3), "A phase is a poptorch.Phase"),
        (lambda kind: kind(["a", Stage("b")]), "either poptorch.Stage objects or block ids"),
        (lambda kind: kind("a").phase(-1), "phase must be an int from 0 to 0"),
        (lambda kind: kind("a").phase("0"), "phase must be an int from 0 to 0"),
        (lambda kind: kind("a").stage("b"), "Unknown block 'b'"),
        (lambda kind: kind("a").useSeparateBackwardPhase(1), "use must be True or False"),
    ],
)
def test_misuse_of_a_strategy(kind, misuse, message):
    with pytest.raises(AssertionError, match=message):
        misuse(kind)


def test_liveness_takes_its_own_type():
    with pytest.raises(AssertionError, match="liveness must be a poptorch.Liveness"):
        SerialPhasedExecution("a").setTensorsLiveness(1)
    with pytest.raises(AssertionError, match="off_chip must be True or False"):
        ParallelPhasedExecution("a").sendTensorsOffChipAfterFwd(1)


# --- numbers of phases, by Liveness and strategy

TABLE = [
    (Liveness.AlwaysLive, False, 3, [0, 1, 2, 3, 4]),
    (Liveness.AlwaysLive, True, 4, [0, 1, 2, 4, 5, 6]),
    (Liveness.OffChipAfterFwd, False, 6, [0, 1, 2, 6, 7, 8]),
    (Liveness.OffChipAfterFwd, True, 6, [0, 1, 2, 6, 7, 8]),
    (Liveness.OffChipAfterFwdNoOverlap, False, 8, [0, 2, 4, 8, 10, 12]),
    (Liveness.OffChipAfterEachPhase, False, 12, [0, 4, 8, 12, 16, 20]),
]


@pytest.mark.shows("SerialPhasedExecution")
@pytest.mark.shows("Liveness")
@pytest.mark.parametrize("liveness, separate, phases, expected", TABLE)
def test_phases_have_the_documented_numbers(liveness, separate, phases, expected):
    strategy = serial(liveness, separate)
    assert back_end_values(strategy) == {
        "executionPhaseSettings.phases": phases,
        "executionPhaseSettings.stages": 1,
    }
    trainer = compiled(strategy)
    found = {int(n) for n in re.findall(r"phase=(\d+)", trainer._executable.ir_text())}
    assert found == set(expected)
    assert phases_of(trainer) == expected
    trainer.destroy()


# --- results


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
@pytest.mark.parametrize("liveness", LIVENESS)
@pytest.mark.parametrize("accumulation, iterations, replicas", [(1, 1, 1), (3, 2, 1), (2, 1, 2)])
def test_serial_phases_give_the_bits_of_one_ipu(liveness, accumulation, iterations, replicas, optimizer):
    arguments = (accumulation, iterations, replicas)
    one = train(options_of(*arguments), OPTIMIZERS[optimizer])
    phased = train(options_of(*arguments, strategy=serial(liveness)), OPTIMIZERS[optimizer])
    assert_same_bits(one, phased)
    statistics = phased[2]
    assert statistics["remote bytes loaded"] > 0 and statistics["remote bytes stored"] > 0
    assert (statistics.get("activations offloaded", 0) > 0) == (liveness != Liveness.AlwaysLive)


@pytest.mark.shows("ParallelPhasedExecution")
@pytest.mark.parametrize("off_chip", [False, True])
@pytest.mark.parametrize("accumulation, iterations", [(1, 1), (2, 2)])
def test_parallel_phases_give_the_bits_of_one_ipu(accumulation, iterations, off_chip):
    one = train(options_of(accumulation, iterations))
    phased = train(options_of(accumulation, iterations, strategy=parallel(off_chip)), ipus=(0, 1, 0))
    assert_same_bits(one, phased)
    assert phased[2]["remote bytes loaded"] > 0


def test_more_is_loaded_when_all_leaves_the_chip_after_each_phase():
    loads = [
        train(options_of(strategy=serial(liveness)))[2].get("loads of activations", 0)
        for liveness in (Liveness.AlwaysLive, Liveness.OffChipAfterFwd, Liveness.OffChipAfterEachPhase)
    ]
    assert loads[0] == 0 < loads[1] < loads[2]


def test_less_is_on_chip_at_the_peak():
    def peak(strategy):
        trainer = compiled(strategy, model=Deep())
        peak = trainer._executable.memory()[0]["peak_bytes"]
        trainer.destroy()
        return peak

    phases = SerialPhasedExecution(*(f"b{i}" for i in range(6)))
    all_on_chip = SerialPhasedExecution(*(f"b{i}" for i in range(6)))
    assert peak(phases.setTensorsLiveness(Liveness.OffChipAfterFwd)) < peak(all_on_chip)


class Deep(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(SIZES[0], 64)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64, bias=False) for _ in range(6))

    def forward(self, x, y):
        x = x.repeat(256, 1)
        for index, layer in enumerate(self.layers):
            poptorch.Block.start(f"b{index}", ipu_id=0)
            if index == 0:
                x = self.first(x)
            x = layer(x).tanh()
        return poptorch.identity_loss((x**2).mean(), reduction="none")


def test_stages_of_a_phase_run_on_ipus_of_their_own():
    class Sides(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(4))

        def forward(self, x):
            poptorch.Block.start("l0")
            left = self.parts[0](x).tanh()
            poptorch.Block.start("r0")
            right = self.parts[1](x).tanh()
            poptorch.Block.start("l1")
            left = self.parts[2](left + right).tanh()
            poptorch.Block.start("r1")
            right = self.parts[3](right + left)
            return right, poptorch.identity_loss((right**2).mean(), reduction="none")

    def run(strategy):
        torch.manual_seed(9)
        model = Sides()
        options = options_of(2, strategy=strategy)
        trainer = poptorch.trainingModel(model, options, torch.optim.AdamW(model.parameters(), lr=0.01))
        out = trainer(torch.randn(4, 4, generator=torch.Generator().manual_seed(1)))
        memory = [bool(ipu["variables"]) for ipu in trainer._executable.memory()]
        result = list(out), {k: v.clone() for k, v in model.state_dict().items()}
        trainer.destroy()
        return result, memory

    two = ParallelPhasedExecution(Phase(Stage("l0"), Stage("r0")), Phase(Stage("l1"), Stage("r1")))
    two.phase(0).ipus(0, 2)
    two.phase(1).ipus(1, 3)
    phased, memory = run(two)
    one, _ = run(poptorch.ShardedExecution(["l0", "r0", "l1", "r1"]))
    assert_same_bits(phased, one)
    assert memory == [True] * 4


def test_phased_inference_loads_each_weight_once_and_has_the_same_bits():
    torch.manual_seed(2)
    model = Layers().eval()
    phased = poptorch.inferenceModel(model, poptorch.Options().setExecutionStrategy(serial()))
    plain = poptorch.inferenceModel(model, poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution()))
    x = torch.randn(3, SIZES[0])
    assert torch.equal(phased(x), plain(x))
    loaded = phased._executable.statistics()["remote bytes loaded"]
    assert loaded == 4 * sum(p.numel() for p in model.parameters())


def test_a_location_that_was_set_wins_over_that_of_phases():
    on_chip = {"useOnChipStorage": True}
    families = dict.fromkeys(("weight", "optimizer", "accumulator", "activation"), on_chip)
    options = locations(options_of(2, strategy=serial(Liveness.OffChipAfterFwd)), **families)
    statistics = train(options)[2]
    assert (statistics["remote bytes loaded"], statistics["remote bytes stored"]) == (0, 0)


@pytest.mark.parametrize("accumulation, iterations", list(itertools.product((1, 2), (1, 2))))
def test_micro_batches_may_be_fewer_than_phases(accumulation, iterations):
    outputs, _, _ = train(options_of(accumulation, iterations, strategy=serial()), calls=1)
    assert len(outputs[1]) == accumulation * iterations if accumulation * iterations > 1 else outputs[1].dim() == 0


# --- errors


def test_a_parallel_phase_on_an_ipu_of_the_wrong_parity():
    strategy = ParallelPhasedExecution("b0", "b1", "b2")
    with pytest.raises(poptorch.Error) as raised:
        compiled(strategy)
    assert raised.value.message == (
        "invalid IPU for a phase [IPU-E414]: phase 1 is on IPU 0 (block 'b1'). With poptorch.ParallelPhasedExecution "
        "even phases run on even IPUs and odd phases on odd ones, so that one group computes while the other loads "
        "and stores.\n  try:      strategy.phase(1).ipus(...) with odd IPUs, or poptorch.SerialPhasedExecution"
    )


def test_data_may_not_go_back_to_an_earlier_phase():
    strategy = SerialPhasedExecution("b1", "b0", "b2")
    with pytest.raises(poptorch.Error, match=r"phase going back \[IPU-E409\]: .* in block 'b1' \(phase 0\) reads a"):
        compiled(strategy)


def test_an_unknown_block_is_refused_with_the_known_ones():
    with pytest.raises(
        AssertionError, match=r"Unknown Block 'b2': the execution strategy expects one of \['b0', 'b1'\]"
    ):
        compiled(SerialPhasedExecution("b0", "b1"))


def test_only_strategies_are_taken():
    with pytest.raises(AssertionError, match="SerialPhasedExecution or ParallelPhasedExecution, got int"):
        poptorch.Options().setExecutionStrategy(3)


def test_a_saved_model_keeps_its_phases(tmp_path):
    options = options_of(2, strategy=serial(Liveness.OffChipAfterFwd, True))
    model = Layers()
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    x, y = torch.randn(4, SIZES[0]), torch.randn(4, SIZES[-1])
    trainer.compileAndExport(str(tmp_path / "file"), x, y)
    trainer.destroy()
    loaded = poptorch.load(str(tmp_path / "file"), trusted=True)
    assert loaded.options._strategy == serial(Liveness.OffChipAfterFwd, True)
    assert len(loaded(x, y)) == 2


def test_the_log_says_phase_and_ipu_of_each_operation(capfd):
    poptorch.setLogLevel("DEBUG")
    try:
        trainer = compiled(serial(Liveness.OffChipAfterFwdNoOverlap))
    finally:
        poptorch.setLogLevel("WARN")
    trainer.destroy()
    said = capfd.readouterr()
    lines = [line for line in (said.err + said.out).splitlines() if " was lowered to " in line]
    places = [re.search(r" was lowered to (\S+) \[float32\(2, (\d+)\), (mode.*)\]$", line) for line in lines]
    layers = [found.groups() for found in places if found and found[1].endswith("/Add:0")]
    assert layers == [
        ("layers/0/Add:0", "8", "mode(Phased), ipu(0), phase(0)"),
        ("layers/1/Add:0", "8", "mode(Phased), ipu(0), phase(2)"),
        ("layers/2/Add:0", "5", "mode(Phased), ipu(0), phase(4)"),
    ]
    assert "Graph lowered to PopART {" in said.err + said.out


def test_a_back_end_value_that_disagrees_is_named_in_a_warning():
    program = (
        "import torch, poptorch\n"
        "options = poptorch.Options().setExecutionStrategy(poptorch.SerialPhasedExecution('a', 'b'))\n"
        "options._Popart.set('executionPhaseSettings.phases', 9)\n"
        "poptorch.inferenceModel(torch.nn.ReLU(), options)(torch.ones(2))\n"
    )
    result = run_program(program)
    assert result.returncode == 0, result.stderr
    assert re.search(r"warning.*executionPhaseSettings\.phases.*9", result.stderr)
