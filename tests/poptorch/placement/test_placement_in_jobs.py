"""Two processes with two replicas each: shards stay inside a process, results are those of whole tensors."""

import json
import os
import subprocess
import sys

import pytest
from ports import reserved_port

TRAIN = """
import json, sys, torch, torch.distributed
from placed_models import OPTIMIZERS, Layers, SIZES, locations, options_of
torch.distributed.init_process_group("gloo", rank=int(sys.argv[1]), world_size=2)
shards = {"useReplicatedTensorSharding": True, "minElementsForReplicatedTensorSharding": 0}
shards |= {"useOnChipStorage": False} if sys.argv[2] == "off chip" else {}
families = {family: shards for family in sys.argv[3].split(",")} if sys.argv[2] != "whole" else {}
options = locations(options_of(2, replicas=2), **families)
options.Distributed.configureProcessId(int(sys.argv[1]), 2)
torch.manual_seed(1)
model = Layers()
trainer = poptorch.trainingModel(model, options, OPTIMIZERS["combined"](model.parameters()))
generator = torch.Generator().manual_seed(2 + int(sys.argv[1]))
for _ in range(2):
    trainer(torch.randn(8, SIZES[0], generator=generator), torch.randn(8, SIZES[-1], generator=generator))
trainer.copyWeightsToHost()
statistics = trainer._executable.statistics()
weights = [p.detach().flatten().tolist() for p in model.parameters()]
print(json.dumps([weights, statistics["bytes gathered from shards"]]))
""".replace("import json, sys, torch,", "import json, sys, torch, poptorch,")


def job(*arguments):
    """Weights and bytes gathered, of each process."""
    with reserved_port() as port:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        running = [
            subprocess.Popen(
                [sys.executable, "-c", TRAIN, str(rank), *arguments],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        ended = [(*process.communicate(timeout=300), process.returncode) for process in running]
    assert [code for _, _, code in ended] == [0, 0], ended
    return [json.loads(out) for out, _, _ in ended]


@pytest.fixture(scope="module")
def whole():
    (weights, gathered), (same, _) = job("whole", "weight")
    assert weights == same and gathered == 0
    return weights


@pytest.mark.slow
def test_weights_and_state_in_shards_are_equal_in_both_processes(whole):
    (first, gathered), (second, _) = job("off chip", "weight,optimizer")
    assert first == second == whole
    assert gathered > 0


def test_accumulators_in_shards_meet_across_processes(whole):
    (first, gathered), (second, _) = job("on chip", "accumulator")
    assert first == second and gathered > 0
    for one, other in zip(first, whole, strict=True):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-6)
