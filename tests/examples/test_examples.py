"""The README's program and every example run as a user would run them."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.xdist_group("loading")

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **environment):
    result = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_lines_in_the_readme_train_a_model():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    assert len([line for line in code.splitlines() if line.strip()]) == 12
    run("-c", code + "\nassert out.shape == (16, 3) and loss.shape == ()")


TWO_PROGRAMS = """mean of 1, 2, 3: 2
total: 6
total after reset: 0
mean of 100 and 4, 5, 6 over three: 38.333
"""


def test_two_entry_points_and_a_function_behind_a_stream_without_torch():
    text = run(ROOT / "examples" / "two_programs.py")
    assert text == "entry points: main, reset\n" + re.sub(r": (\d+)$", r": \1.0", TWO_PROGRAMS, flags=re.M)


def test_the_same_in_cpp():
    tools = pathlib.Path(os.environ.get("IPU_OPT", ROOT / "build" / "release" / "ipu-opt")).parent
    result = subprocess.run([tools / "example_two_programs"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout == TWO_PROGRAMS.replace("38.333", "38.3333")


def test_a_network_given_as_onnx_learns_digits_without_torch():
    text = run(
        "-c",
        f"import runpy, sys; runpy.run_path({str(ROOT / 'examples' / 'onnx_network.py')!r}, "
        "run_name='__main__'); assert 'torch' not in sys.modules",
    )
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", text)]
    assert len(losses) == 8 and losses[-1] < 0.1 * losses[0]
    assert int(re.search(r"accuracy: (\d+)/336", text)[1]) >= 320
    assert text.endswith("apart from the reference by at most 1e-4: True\n")


CUSTOM_OP = ROOT / "examples" / "custom_op"


def trains_with_the_operation(*command):
    text = run(CUSTOM_OP / "use.py", *command)
    steps = re.findall(r"step \d: loss ([0-9.]+), on the CPU ([0-9.]+)", text)
    assert len(steps) == 5 and all(abs(float(ours) - float(theirs)) < 1e-3 for ours, theirs in steps)
    assert float(steps[-1][0]) < float(steps[0][0]) and text.endswith("same weights: True\n")


def test_an_operation_of_a_users_own_built_with_cmake(tmp_path):
    cmake = pathlib.Path(sys.executable).with_name("cmake")
    program = str(cmake) if cmake.exists() else "cmake"
    for command in (["-S", CUSTOM_OP, "-B", tmp_path], ["--build", tmp_path]):
        result = subprocess.run([program, *command], capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
    trains_with_the_operation(tmp_path / "libcube.so")


def test_the_same_built_with_the_compiler_of_torch():
    trains_with_the_operation("--torch")


def test_sentences_loaded_by_other_processes_are_the_same():
    text = run(ROOT / "examples" / "async_loading.py")
    assert re.match(r"rows: \d+, the same in both modes: True\n", text)


@pytest.mark.slow
def test_two_instances_learn_digits_together():
    text = run(
        "-m",
        "popdist",
        "-n",
        "2",
        "--num-replicas",
        "4",
        sys.executable,
        ROOT / "examples" / "distributed.py",
    )
    assert text.startswith("2 instance(s), 4 replica(s)\n")
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", text)]
    assert len(losses) == 12 and losses[-1] < 0.2 * losses[0]
    right, seen = map(int, re.search(r"accuracy: (\d+)/(\d+)", text).groups())
    assert right >= 0.9 * seen and seen > 300
    assert text.endswith("all instances have the same weights: True\n")


@pytest.mark.slow
def test_phases_and_tensor_locations_move_tensors_and_no_bit():
    phased = run(ROOT / "examples" / "phased.py")
    assert phased.endswith("the same bits in every way: True\n")
    moved = [int(n.replace(",", "")) for n in re.findall(r"loaded +([0-9,]+)", phased)]
    assert moved[0] == 0 < moved[1] < moved[2] < moved[3]
    placed = run(ROOT / "examples" / "tensor_locations.py")
    assert placed.endswith("the same weights, to the last bit: True\n")
    assert len(re.findall(r"loaded +0 ", placed)) == 1


@pytest.mark.slow
def test_a_program_compiled_offline_trains_in_another_process_without_compiling(tmp_path):
    example = ROOT / "examples" / "precompile.py"
    text = run(example)
    assert re.search(r"^compiled in [0-9.]+ s: [0-9,]+ bytes, attached: False$", text, re.M)
    assert re.search(r"^loaded in [0-9.]+ s: attached: True$", text, re.M)
    losses = [float(loss) for loss in re.search(r"compiled here: (.*)", text)[1].split()]
    assert len(losses) == 4 and losses[-1] < losses[0]
    assert text.endswith("the same to the last bit: True\n")
    dumped = {}
    for part in ("compile", "train"):
        (tmp_path / part).mkdir()
        run(example, part, tmp_path / "file", IPU_DUMP="at:Machine", IPU_DUMP_DIR=str(tmp_path / part))
        dumped[part] = len(list((tmp_path / part).iterdir()))
    assert dumped["compile"] > 0 == dumped["train"], f"a program is made in one of them: {dumped}"


def test_overlapped_transfers_run_beside_products_and_give_the_same_bits():
    text = run(ROOT / "examples" / "overlapped_io.py")
    counts = re.findall(r"(\w+): (\d+) of 16 transfers beside other products", text)
    assert [name for name, _ in counts] == ["NoOverlap", "OverlapDeviceIterationLoop"] and counts[0][1] == "0"
    assert re.findall(r"programs of I/O tiles: (\d)", text) == ["0", "2"]
    assert text.endswith("the same bits: True\n")


def test_an_lstm_learns_to_remember():
    text = run(ROOT / "examples" / "lstm.py")
    ipu, torch_ = map(int, re.search(r"on the IPU: (\d+)/512, in plain PyTorch: (\d+)/512", text).groups())
    assert ipu == torch_ >= 500


def test_three_aids_of_half_precision_do_what_they_are_for():
    text = run(ROOT / "examples" / "half_precision.py")
    moved = [int(share) for share in re.findall(r"loss scaling +\d+: +(\d+)% of the weights", text)]
    assert moved[0] == 0 and moved[1] > 90
    start, highest = map(int, re.search(r"from (\d+) to (\d+), losses", text).groups())
    assert start == 128 and highest >= 16 * start
    nearest, at_random = (float(fall) for fall in re.findall(r"lower by (-?[0-9.]+) after", text))
    assert at_random > 0.02 and at_random > 4 * nearest


@pytest.mark.slow
def test_the_demo_reaches_its_accuracy_and_prints_the_same_numbers_twice():
    first, second = (run(ROOT / "examples" / "train_digits.py") for _ in range(2))

    def stable(text):
        return [line for line in text.splitlines() if "time" not in line] + re.findall(r"weights (\w+)", text)

    assert stable(first) == stable(second)
    hits = re.search(r"accuracy on the IPUs: (\d+)/360", first)
    assert int(hits[1]) >= 0.97 * 360
    assert f"plain PyTorch: {hits[1]}/360" in first
    assert f"in a fresh process: {hits[1]}/360" in first
    assert len(set(re.findall(r"scores (\w{16})", first))) == 1


TRANSFORMERS = pytest.mark.skipif(sys.version_info < (3, 10), reason="these packages need Python 3.10")


@TRANSFORMERS
def test_a_bert_over_two_ipus_learns_to_tell_praise_from_blame():
    text = run(ROOT / "examples" / "hf_bert.py")
    losses = [float(loss) for loss in re.findall(r"mean loss ([0-9.]+)", text)]
    assert len(losses) == 12 and losses[0] > 0.5 and losses[-1] < 0.05
    ipus, torch_ = map(int, re.search(r"on the IPUs: (\d+)/576, in plain PyTorch: (\d+)/576", text).groups())
    assert ipus == torch_ >= 560


@pytest.mark.slow
def test_a_language_model_over_four_ipus_learns_the_documentation():
    text = run(ROOT / "examples" / "transformer_lm.py")
    guess = float(re.search(r"loss of a guess ([0-9.]+)", text)[1])
    losses = [float(loss) for loss in re.findall(r"update +\d+  loss ([0-9.]+)", text)]
    assert len(losses) == 7 and abs(losses[0] - guess) < 0.6 and losses[-1] < 0.55 * guess
    assert len(re.search(r"it writes: (the .*)", text)[1]) == 164


@TRANSFORMERS
def test_a_module_of_lightning_trains_and_its_checkpoint_is_plain():
    text = run(ROOT / "examples" / "lightning_digits.py")
    epochs = re.findall(r"epoch \d  loss ([0-9.]+)  accuracy ([0-9.]+)", text)
    assert len(epochs) == 6 and float(epochs[-1][0]) < 0.2 * float(epochs[0][0])
    right = int(re.search(r"in plain PyTorch: (\d+)/360", text)[1])
    assert right >= 340 and abs(right / 360 - float(epochs[-1][1])) < 0.002


@TRANSFORMERS
def test_a_loop_of_accelerate_goes_on_from_its_checkpoint_with_the_same_bits():
    text = run(ROOT / "examples" / "accelerate_digits.py")
    whole, halves = (re.findall(r"epoch .*", part) for part in text.split("again, in two halves:"))
    assert whole == halves and len(whole) == 6 and len(set(whole)) == 6
    assert "the same weights, to the last bit: True" in text
    assert int(re.search(r"accuracy: (\d+)/360", text)[1]) >= 340
