"""The models of the comparison with peers: poptorch gives eager PyTorch's numbers for each, and its commands work."""

import json
import pathlib
import subprocess
import sys

import pytest

PEERS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks/peers"
CASES = (
    "mlp",
    "lenet",
    "resnet18",
    "bert-small",
    "bert-base-4",
    "gpt2-4",
    "lstm",
    "wide-and-deep",
    "pointwise",
    "hf-bert",
)

# In a process of its own: the folder has modules with common names.
COMPARE = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from cases import TABLE, make
from runners import MODES, eager_step, poptorch_step

assert TABLE == tuple(sys.argv[3:])
model, inputs, y = make(sys.argv[2], 2)
torch.testing.assert_close(
    poptorch_step(model, inputs, y, "inference")[0](),
    eager_step(make(sys.argv[2], 2)[0], inputs, y, "inference")(), rtol=1e-3, atol=1e-4)
for mode in MODES[1:]:
    steps = []
    for peer in (lambda *of: poptorch_step(*of)[0], eager_step):
        model = make(sys.argv[2], 2)[0]
        steps.append(peer(model.train(), inputs, y, mode))
    for _ in range(2):
        ours, theirs = (step()[1] for step in steps)
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-3, atol=1e-4)
"""


def run(*command):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_case_gives_the_numbers_of_eager(case):
    run("-c", COMPARE, PEERS, case, *CASES)


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped_and_prints_its_rows(tmp_path):
    file = tmp_path / "results.jsonl"
    file.write_text(json.dumps({"processor": "P", "family": "F", "processors": 2, "simd": "s", "caches": "c"}
                               | dict.fromkeys(("gflops_1", "gflops_2", "gbytes_1", "gbytes_2"), 1.0)) + "\n")  # fmt: skip
    command = (PEERS / "run.py", "--out", file, "--restarts", "1", "--seconds", "0.01", "--case", "mlp", "--batch", "1")
    first = run(*command, "--mode", "inference", "--peer", "eager")
    again = run(*command, "--mode", "inference", "--peer", "eager")
    assert first == again and "| mlp | 1 |" in first and "Geometric mean" in first
    results = [json.loads(line) for line in file.read_text().splitlines()][1:]
    assert [result["peer"] for result in results] == ["poptorch", "eager"]
    assert results[1]["flops"] == 2 * (784 * 512 + 512 * 512 + 512 * 10)
    assert abs(sum(results[0]["where"].values()) - 1) < 0.01
    run(*command, "--mode", "adamw", "--peer", "eager", "--dtype", "float16")
    assert len(file.read_text().splitlines()) == 5
    # The same row is measured with narrower vectors; peers that cannot be held to them are not asked.
    narrow = run(*command, "--mode", "inference", "--isa", "avx2", "--peer", "eager", "--peer", "openvino")
    assert "inference, float32, AVX2 alone:" in narrow and first.splitlines()[-1] in narrow
    added = [json.loads(line) for line in file.read_text().splitlines()][5:]
    assert [(result["peer"], result["isa"]) for result in added] == [("poptorch", "avx2"), ("eager", "avx2")]
