"""Where tensors live: never a different bit, the traffic that arithmetic says, weights and state back as ever."""

import pytest
import torch
from models import Cnn, Mlp, TiedEmbedding
from placed_models import OPTIMIZERS, SIZES, Layers, assert_same_bits, locations, options_of, train

import poptorch

OFF = {"useOnChipStorage": False, "minElementsForOffChip": 0}
SHARDED = {"useReplicatedTensorSharding": True, "minElementsForReplicatedTensorSharding": 0}
WEIGHTS = sum(a * b + b for a, b in zip(SIZES, SIZES[1:])) + 2 * SIZES[1]  # elements, the norm's included
FAMILIES = ("weight", "optimizer", "accumulator", "activation")


def moved(statistics):
    return statistics["remote bytes loaded"], statistics["remote bytes stored"]


@pytest.mark.shows("TensorLocationSettings")
@pytest.mark.shows("TensorLocationSettings.useOnChipStorage")
@pytest.mark.shows("Options.TensorLocations.setActivationLocation")
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
@pytest.mark.parametrize("accumulation, iterations, replicas", [(1, 1, 1), (3, 2, 1), (2, 1, 2)])
def test_everything_off_chip_gives_the_same_bits(optimizer, accumulation, iterations, replicas):
    arguments = (accumulation, iterations, replicas)
    on_chip = train(options_of(*arguments), OPTIMIZERS[optimizer])
    off_chip = train(locations(options_of(*arguments), **dict.fromkeys(FAMILIES, OFF)), OPTIMIZERS[optimizer])
    assert_same_bits(on_chip, off_chip)
    assert moved(on_chip[2]) == (0, 0)
    assert all(moved(off_chip[2])) and off_chip[2]["activations offloaded"] > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_alone_gives_the_same_bits(family):
    on_chip = train(options_of(2, 2))
    off_chip = train(locations(options_of(2, 2), **{family: OFF}))
    assert_same_bits(on_chip, off_chip)
    assert all(moved(off_chip[2]))


@pytest.mark.shows("Options.TensorLocations.setWeightLocation")
@pytest.mark.parametrize("accumulation, iterations", [(1, 1), (4, 1), (3, 2)])
def test_weights_are_loaded_twice_a_micro_batch_and_once_for_the_update(accumulation, iterations):
    _, _, statistics = train(locations(options_of(accumulation, iterations), weight=OFF), OPTIMIZERS["SGD"])
    # The gradients need no bias of a linear layer, and not the weight of the first one, whose input has no gradient. That of
    # the norm is one operation with all operands of the norm.
    again = WEIGHTS - sum(SIZES[1:]) - SIZES[0] * SIZES[1]
    loaded = iterations * (accumulation * (WEIGHTS + again) + WEIGHTS)
    assert moved(statistics) == (4 * loaded, 4 * iterations * WEIGHTS)


@pytest.mark.shows("Options.TensorLocations.setOptimizerLocation")
@pytest.mark.parametrize("accumulation, iterations", [(1, 1), (4, 1), (3, 2)])
def test_optimizer_state_is_touched_once_an_update(accumulation, iterations):
    _, _, statistics = train(locations(options_of(accumulation, iterations), optimizer=OFF), OPTIMIZERS["AdamW"])
    tensors = len(list(Layers().parameters()))
    # Two moments of every weight, and the number of the step, which AdamW keeps once for each tensor.
    assert moved(statistics)[0] == moved(statistics)[1]
    assert moved(statistics)[0] in (4 * iterations * 2 * WEIGHTS, 4 * iterations * (2 * WEIGHTS + tensors))


@pytest.mark.shows("Options.TensorLocations.setAccumulatorLocation")
@pytest.mark.parametrize("accumulation, iterations", [(2, 1), (4, 3)])
def test_accumulators_are_touched_every_micro_batch(accumulation, iterations):
    _, _, statistics = train(locations(options_of(accumulation, iterations), accumulator=OFF), OPTIMIZERS["SGD"])
    # Zeros at the beginning of an update, the sum so far in and out, and in again for the update.
    traffic = 4 * iterations * (accumulation + 1) * WEIGHTS
    assert moved(statistics) == (traffic, traffic)


@pytest.mark.shows("TensorLocationSettings.minElementsForOffChip")
def test_small_tensors_stay_on_chip():
    least = SIZES[1] * SIZES[2]  # only the weight of the second layer is as large
    _, _, statistics = train(
        locations(options_of(), optimizer={"useOnChipStorage": False, "minElementsForOffChip": least})
    )
    assert moved(statistics) == (4 * least, 4 * least)


@pytest.mark.shows("TensorLocationSettings.useReplicatedTensorSharding")
@pytest.mark.shows("TensorLocationSettings.minElementsForReplicatedTensorSharding")
@pytest.mark.parametrize("where", [{}, OFF], ids=["on chip", "off chip"])
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
@pytest.mark.parametrize("replicas", [2, 4])
def test_shards_of_weights_and_state_give_the_same_bits(replicas, optimizer, where):
    plain = train(options_of(2, 1, replicas), OPTIMIZERS[optimizer])
    sharded = train(
        locations(options_of(2, 1, replicas), weight={**SHARDED, **where}, optimizer={**SHARDED, **where}),
        OPTIMIZERS[optimizer],
    )
    assert_same_bits(plain, sharded)
    assert sharded[2]["bytes gathered from shards"] > 0 and plain[2]["bytes gathered from shards"] == 0


@pytest.mark.parametrize("replicas", [3, 4])
def test_a_shard_is_padded_where_replicas_do_not_divide_the_tensor(replicas):
    least = SIZES[0] * SIZES[1] + 1  # of 8 x 8 only
    settings = {"useReplicatedTensorSharding": True, "minElementsForReplicatedTensorSharding": least, **OFF}
    settings["minElementsForOffChip"] = least
    _, _, statistics = train(locations(options_of(1, 1, replicas), optimizer=settings))
    elements = SIZES[1] * SIZES[2]
    assert moved(statistics) == (4 * -(-elements // replicas),) * 2
    assert statistics["bytes gathered from shards"] == 4 * elements


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
@pytest.mark.parametrize("where", [{}, OFF], ids=["on chip", "off chip"])
def test_shards_of_accumulators_sum_over_replicas_first(optimizer, where):
    """Another order of the same sum: equal to rounding."""
    plain = train(options_of(3, 1, 2), OPTIMIZERS[optimizer])
    sharded = train(locations(options_of(3, 1, 2), accumulator={**SHARDED, **where}), OPTIMIZERS[optimizer])
    for name, value in plain[1].items():
        torch.testing.assert_close(torch.as_tensor(sharded[1][name]), torch.as_tensor(value), rtol=1e-4, atol=1e-5)


@pytest.mark.shows("Options.TensorLocations.numIOTiles")
@pytest.mark.shows("TensorLocationSettings.useIOTilesToLoad")
@pytest.mark.shows("TensorLocationSettings.useIOTilesToStore")
def test_tiles_for_io_carry_what_is_loaded_and_stored():
    through = {**OFF, "useIOTilesToLoad": True, "useIOTilesToStore": True}
    options = locations(options_of(2), **dict.fromkeys(FAMILIES, through))
    options.TensorLocations.numIOTiles(32)
    plain, io = train(options_of(2)), train(options)
    assert_same_bits(plain, io)
    model = Layers()
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    trainer.compile(torch.randn(4, SIZES[0]), torch.randn(4, SIZES[-1]))
    remote = [line for line in trainer._executable.ir_text().splitlines() if " remote." in line]
    assert len(remote) > 10 and all('tile_set="io"' in line for line in remote)


def test_tiles_for_io_must_be_reserved():
    options = locations(options_of(), weight={**OFF, "useIOTilesToLoad": True})
    with pytest.raises(poptorch.Error) as raised:
        train(options)
    assert str(raised.value.message) == (
        "no tiles for I/O [IPU-E414]: TensorLocations.setWeightLocation asks for useIOTilesToLoad, and no tiles are "
        "reserved.\n  try:      options.TensorLocations.numIOTiles(32) or more"
    )


@pytest.mark.parametrize("accumulation", [5, 6])
def test_pipelines_load_weights_and_state_in_their_stages(accumulation, caplog):
    def strategy():
        return poptorch.PipelinedExecution()

    families = dict.fromkeys(("weight", "optimizer", "accumulator"), OFF)
    on_chip = train(options_of(accumulation, strategy=strategy()), ipus=(0, 1, 2))
    off_chip = train(locations(options_of(accumulation, strategy=strategy()), **families), ipus=(0, 1, 2))
    assert_same_bits(on_chip, off_chip)
    assert all(moved(off_chip[2]))


def test_a_pipeline_keeps_its_activations_and_says_so(capfd):
    options = locations(options_of(5, strategy=poptorch.PipelinedExecution()), activation=OFF)
    statistics = train(options, ipus=(0, 1, 2))[2]
    assert moved(statistics) == (0, 0)
    said = capfd.readouterr()
    assert "activations stay on chip although their location is off chip" in said.err + said.out


class Tied(torch.nn.Module):
    """One weight on two IPUs."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        poptorch.Block.start("b0", ipu_id=0)
        x = self.first(x).tanh()
        poptorch.Block.start("b1", ipu_id=1)
        x = self.second(x).tanh()
        return x, poptorch.identity_loss((x**2).mean(), reduction="none")


@pytest.mark.parametrize("strategy", [poptorch.ShardedExecution, poptorch.PipelinedExecution])
def test_a_weight_on_two_ipus_lives_on_the_first(strategy):
    results = []
    for where in ({}, OFF):
        torch.manual_seed(4)
        model = Tied()
        options = locations(options_of(3, strategy=strategy()), weight=where)
        trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5))
        out = trainer(torch.randn(6, 4, generator=torch.Generator().manual_seed(5)))[0]
        results.append(([out], {k: v.clone() for k, v in model.state_dict().items()}))
        trainer.destroy()
    assert_same_bits(*results)


def test_weights_off_chip_are_used_for_inference_and_written_by_the_host():
    torch.manual_seed(6)
    model = Layers().eval()
    options = locations(poptorch.Options(), weight=OFF)
    run, plain = poptorch.inferenceModel(model, options), poptorch.inferenceModel(model)
    x = torch.randn(3, SIZES[0])
    assert torch.equal(run(x), plain(x))
    assert moved(run._executable.statistics()) == (4 * WEIGHTS, 0)
    with torch.no_grad():
        model.layers[1].weight.mul_(2)
    run.copyWeightsToDevice()
    plain.copyWeightsToDevice()
    assert torch.equal(run(x), plain(x))


def test_gradients_are_clipped_to_the_same_norm():
    def adam(parameters):
        return poptorch.optim.Adam(parameters, lr=0.01, max_grad_norm=0.1)

    on_chip = train(options_of(3), adam)
    assert_same_bits(on_chip, train(locations(options_of(3), **dict.fromkeys(FAMILIES, OFF)), adam))


def test_grouped_weights_are_sharded_inside_their_group():
    class Grouped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.arange(10.0).reshape(2, 5) / 10)

        def forward(self, x):
            out = x * self.weight
            return out, poptorch.identity_loss((out**2).sum(), reduction="none")

    results = []
    for where in ({}, SHARDED, {**SHARDED, **OFF}):
        model = Grouped()
        options = locations(options_of(2, replicas=4), weight=where, optimizer=where)
        trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5))
        trainer.weight.replicaGrouping(
            poptorch.CommGroupType.Consecutive, 2, poptorch.VariableRetrievalMode.OnePerGroup
        )
        x = torch.randn(8, 5, generator=torch.Generator().manual_seed(7))
        outputs = [trainer(x)[0], trainer(x)[0]]
        trainer.copyWeightsToHost()
        results.append((outputs, {"weight": model.weight.detach().clone()}))
        trainer.destroy()
    assert_same_bits(results[0], results[1])
    assert_same_bits(results[0], results[2])


def test_a_saved_executable_brings_its_weights_and_state(tmp_path):
    torch.manual_seed(8)
    options = locations(options_of(2, replicas=2), weight={**OFF, **SHARDED}, optimizer={**OFF, **SHARDED})
    model = Layers()
    trainer = poptorch.trainingModel(model, options, poptorch.optim.AdamW(model.parameters(), lr=0.01))
    x, y = torch.randn(8, SIZES[0]), torch.randn(8, SIZES[-1])
    trainer(x, y)
    trainer.save(str(tmp_path / "executable"), save_rng_state=True)
    expected = trainer(x, y)
    trainer.destroy()
    loaded = poptorch.load(str(tmp_path / "executable"), trusted=True)
    for a, b in zip(loaded(x, y), expected):
        assert a.shape == b.shape


def test_the_cache_tells_locations_apart(tmp_path):
    def run(where):
        model = Layers().eval()
        options = locations(poptorch.Options().enableExecutableCaching(str(tmp_path)), weight=where)
        executor = poptorch.inferenceModel(model, options)
        executor.compile(torch.randn(3, SIZES[0]))
        found = executor._executable.from_cache
        executor.destroy()
        return found

    assert [run({}), run(OFF), run({}), run(OFF)] == [False, False, True, True]


@pytest.mark.parametrize("strategy", ["sharded", "phased"])
@pytest.mark.parametrize("kind", [Cnn, TiedEmbedding, Mlp])
def test_other_models_off_chip_give_the_same_bits(kind, strategy):
    """Convolutions in channels-last layout, an embedding tied to a linear layer, over two IPUs."""
    results = []
    for where in ({}, OFF):
        torch.manual_seed(10)
        model = kind(2)
        plan = poptorch.ShardedExecution()
        if strategy == "phased" and where:
            plan = poptorch.SerialPhasedExecution("b0", "b1")
            plan.setTensorsLiveness(poptorch.Liveness.OffChipAfterEachPhase)
        options = locations(options_of(2, 2, strategy=plan), **dict.fromkeys(FAMILIES, where))
        trainer = poptorch.trainingModel(model, options, torch.optim.AdamW(model.parameters(), lr=0.01))
        generator = torch.Generator().manual_seed(11)
        outputs = [out for _ in range(2) for out in trainer(*kind.inputs(4, generator, rows=3))]
        results.append((outputs, {k: v.clone() for k, v in model.state_dict().items()}))
        assert all(moved(trainer._executable.statistics())) == bool(where)
        trainer.destroy()
    assert_same_bits(*results)


def test_the_cache_keeps_programs_that_store_activations(tmp_path):
    def run():
        options = locations(options_of(2).enableExecutableCaching(str(tmp_path)), activation=OFF, weight=OFF)
        torch.manual_seed(12)
        model = Layers()
        trainer = poptorch.trainingModel(model, options, OPTIMIZERS["SGD"](model.parameters()))
        out = trainer(torch.ones(4, SIZES[0]), torch.ones(4, SIZES[-1]))[0]
        found, statistics = trainer._executable.from_cache, trainer._executable.statistics()
        trainer.destroy()
        return out, found, moved(statistics)

    (first, was_found, traffic), (second, is_found, again) = run(), run()
    assert (was_found, is_found) == (False, True) and traffic == again
    assert torch.equal(first, second)


def test_half_precision_weights_are_packed_on_arrival_too():
    results = []
    for where in ({}, {**OFF, **SHARDED}):
        torch.manual_seed(13)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)).half()

        class WithLoss(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                out = self.inner(x)
                return out, poptorch.identity_loss((out.float() ** 2).mean(), reduction="none")

        wrapped = WithLoss(model)
        options = locations(options_of(2, replicas=2), weight=where, optimizer=where)
        trainer = poptorch.trainingModel(wrapped, options, poptorch.optim.AdamW(wrapped.parameters(), lr=0.01))
        out = trainer(torch.randn(8, 8, generator=torch.Generator().manual_seed(1)).half())[0]
        results.append(([out], {k: v.clone() for k, v in wrapped.state_dict().items()}))
        trainer.destroy()
    assert_same_bits(*results)
