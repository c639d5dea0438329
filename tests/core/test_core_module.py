"""ipu_core: programs in IR text, compiled and run without torch."""

import os
import pathlib
import subprocess
import sys
import threading

import numpy
import pytest

import ipu_core

ROOT = pathlib.Path(__file__).resolve().parents[2]

SCALE = """
variable @w: f32[3] {initial=dense<f32[3]: [1.0, 2.0, 3.0]>}
stream @x: f32[3]
stream @y: f32[3] {direction="device_to_host"}
entry main = @main
graph @main() -> () {
  %x = host_load() {stream=@x} : f32[3]
  %w = variable.read() {variable=@w} : f32[3]
  %y = mul(%x, %w) : f32[3]
  host_store(%y) {stream=@y}
  %n = add(%w, %x) : f32[3]
  variable.assign(%n) {variable=@w}
  return
}
"""


def f32(*values):
    return numpy.array(values, numpy.float32)


def test_torch_is_not_loaded():
    program = "import ipu_core; ipu_core.compile(open(0).read()); import sys; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program],
        input=SCALE,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == "False"
    imported = [line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert "ipu_core._native" in imported and not [name for name in imported if name.split(".")[0] == "torch"]


def test_arrays_in_and_out_and_variables_between_runs(idle_ipus):
    session = ipu_core.compile(SCALE)
    assert session.streams() == {
        "x": ("input", numpy.dtype("float32"), (3,)),
        "y": ("output", numpy.dtype("float32"), (3,)),
    }
    assert session.variables() == {"w": (numpy.dtype("float32"), (3,))}
    assert not session.is_attached and session.first_ipu is None
    numpy.testing.assert_array_equal(session.run({"x": f32(1, 1, 2)})["y"], f32(1, 2, 6))
    assert session.is_attached and session.first_ipu == 0 and session.ipus == 1
    numpy.testing.assert_array_equal(session.read("w"), f32(2, 3, 5))
    session.write("w", f32(0, 1, 0))
    numpy.testing.assert_array_equal(session.run({"x": f32(7, 7, 7)})["y"], f32(0, 7, 0))
    session.detach()
    numpy.testing.assert_array_equal(session.run({"x": f32(1, 1, 2)})["y"], f32(1, 2, 6))  # anew


def test_several_elements_a_run_and_replicas_have_a_dimension_in_front():
    text = """
    module {replicas=2}
    variable @w: f32[] {group_size=1}
    stream @x: f32[2]
    stream @y: f32[2] {direction="device_to_host", mode="all"}
    entry main = @main
    graph @main() -> () {
      %w = variable.read() {variable=@w} : f32[]
      %n = loop(%w) {body=@body, trip=3, carried=1} : f32[]
      return
    }
    graph @body(%i: i32[], %w: f32[]) -> f32[] {
      %x = host_load() {stream=@x} : f32[2]
      %y = mul(%x, %w) : f32[2]
      host_store(%y) {stream=@y}
      return %w
    }
    """
    session = ipu_core.compile(text, replicas=2)
    assert session.streams()["x"][2] == (6, 2) and session.variables()["w"][1] == (2,)
    session.attach()
    session.write("w", f32(2, 10))
    x = numpy.arange(12, dtype=numpy.float32).reshape(6, 2)
    numpy.testing.assert_array_equal(session.run({"x": x})["y"], x * numpy.tile(f32(2, 10), 3)[:, None])


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({}, r"input x is missing \[IPU-E201\]: it takes \[3\] of f32"),
        ({"x": f32(1, 2)}, r"Shape mismatch \[IPU-E201\]: input x takes \[3\], got \[2\]"),
        ({"x": numpy.zeros(3)}, r"Data type mismatch \[IPU-E201\]: input x takes float32, got float64"),
        ({"x": f32(1, 2, 3), "z": f32(1)}, "the program has no input z"),
        ({"x": f32(1, 2, 3), "y": f32(1, 2, 3)}, "the program has no input y"),
    ],
)
def test_wrong_inputs_are_refused_and_the_session_stays_usable(inputs, message):
    session = ipu_core.compile(SCALE)
    with pytest.raises(ipu_core.Error, match=message):
        session.run(inputs)
    numpy.testing.assert_array_equal(session.run({"x": f32(1, 1, 2)})["y"], f32(1, 2, 6))


def test_errors_carry_what_decides_about_them():
    session = ipu_core.compile(SCALE)
    with pytest.raises(ipu_core.Error) as raised:
        session.read("w")
    error = raised.value
    assert (error.type, error.code, error.reason) == ("poptorch_cpp_error", 407, "not_attached")
    assert error.parameters == {"purpose": "reading a variable"}
    with pytest.raises(ipu_core.Error) as raised:
        ipu_core.compile(SCALE, replicas=0)
    assert (raised.value.type, raised.value.code, raised.value.reason, raised.value.parameters) == ("", None, "", {})


def test_a_failure_of_a_function_is_the_cause_of_an_error_with_its_code():
    session = ipu_core.compile(SCALE)

    def fails(replica):
        raise KeyError("no data")

    session.bind("x", fails)
    with pytest.raises(ipu_core.Error) as raised:
        session.run()
    assert isinstance(raised.value.__cause__, KeyError) and raised.value.code == 407


def test_other_errors_say_what_and_where():
    with pytest.raises(ipu_core.Error, match="prog.ir"):
        ipu_core.compile("graph @main(", source="prog.ir")
    with pytest.raises(ipu_core.Error, match="replicas is 0: it must be at least 1"):
        ipu_core.compile(SCALE, replicas=0)
    session = ipu_core.compile(SCALE)
    with pytest.raises(ipu_core.Error, match="reading a variable needs a device"):
        session.read("w")
    session.attach()
    with pytest.raises(ipu_core.Error, match="the program has no variable v"):
        session.read("v")
    with pytest.raises(ipu_core.Error, match=r"Shape mismatch \[IPU-E201\]: variable w takes \[3\], got \[1,3\]"):
        session.write("w", f32(1, 2, 3)[None])


def test_arrays_of_any_strides_are_taken():
    session = ipu_core.compile(SCALE)
    numpy.testing.assert_array_equal(session.run({"x": f32(2, 9, 1, 9, 1, 9)[::2]})["y"], f32(2, 2, 3))
    backwards = f32(3, 2, 1)[::-1]
    session.write("w", backwards)
    numpy.testing.assert_array_equal(session.read("w"), f32(1, 2, 3))


def test_threads_share_a_session():
    session = ipu_core.compile(SCALE)
    session.attach()
    session.write("w", f32(0, 0, 0))
    threads = [threading.Thread(target=lambda: [session.run({"x": f32(1, 2, 3)}) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numpy.testing.assert_array_equal(session.read("w"), f32(200, 400, 600))


TWO = """
variable @w: f32[] {initial=dense<f32[]: 1.0>}
stream @x: f32[2]
stream @factor: f32[]
stream @y: f32[2] {direction="device_to_host"}
entry main = @main
entry scale = @scale
graph @main() -> () {
  %w = variable.read() {variable=@w} : f32[]
  %n = loop(%w) {body=@body, trip=3, carried=1} : f32[]
  return
}
graph @body(%i: i32[], %w: f32[]) -> f32[] {
  %x = host_load() {stream=@x} : f32[2]
  %y = mul(%x, %w) : f32[2]
  host_store(%y) {stream=@y}
  return %w
}
graph @scale() -> () {
  %w = variable.read() {variable=@w} : f32[]
  %f = host_load() {stream=@factor} : f32[]
  %n = mul(%w, %f) : f32[]
  variable.assign(%n) {variable=@w}
  return
}
"""
THREE = numpy.arange(6, dtype=numpy.float32).reshape(3, 2)


def test_entry_points_take_their_own_streams_and_share_variables():
    session = ipu_core.compile(TWO)
    assert session.entry_points == ["main", "scale"]
    assert session.streams() == {
        "x": ("input", numpy.dtype("float32"), (3, 2)),
        "y": ("output", numpy.dtype("float32"), (3, 2)),
    }
    assert session.streams(entry="scale") == {"factor": ("input", numpy.dtype("float32"), ())}
    assert session.run({"factor": numpy.float32(10)}, entry="scale") == {}
    numpy.testing.assert_array_equal(session.run({"x": THREE})["y"], 10 * THREE)
    with pytest.raises(ipu_core.Error, match="entry point main does not read input factor"):
        session.run({"x": THREE, "factor": numpy.float32(1)})
    with pytest.raises(ipu_core.Error, match="the program has none called 'other'; it has main, scale"):
        session.run({}, entry="other")


def test_functions_stand_behind_streams():
    session = ipu_core.compile(TWO, replicas=2)
    seen = {0: [], 1: []}
    counts = [0, 0]

    def give(replica):
        counts[replica] += 1
        return f32(counts[replica], replica)

    session.bind("x", give)
    session.bind("y", lambda array, replica: seen[replica].append(array.tolist()))
    assert session.run() == {}
    assert seen == {0: [[1, 0], [2, 0], [3, 0]], 1: [[1, 1], [2, 1], [3, 1]]}
    session.bind("y", None)
    assert session.run()["y"].shape == (6, 2)


def test_what_a_function_raises_is_the_cause_of_the_error():
    session = ipu_core.compile(TWO)

    def fails(replica):
        raise ValueError("no more data")

    session.bind("x", fails)
    with pytest.raises(ipu_core.Error, match="the function of stream 'x' raised ValueError") as raised:
        session.run()
    assert isinstance(raised.value.__cause__, ValueError) and str(raised.value.__cause__) == "no more data"

    def interrupted(replica):
        raise KeyboardInterrupt

    session.bind("x", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.run()
    session.bind("x", lambda replica: f32(1, 2, 3))
    with pytest.raises(ipu_core.Error, match=r"Shape mismatch .*the function of stream 'x' takes \[2\], got \[3\]"):
        session.run()
    session.bind("x", lambda replica: None)
    with pytest.raises(ipu_core.Error, match="stream ended"):
        session.run()
    numpy.testing.assert_array_equal(session.run({"x": THREE})["y"], THREE)


def test_an_array_that_is_bound_goes_on_from_run_to_run():
    session = ipu_core.compile(TWO)
    session.bind("x", numpy.arange(8, dtype=numpy.float32).reshape(4, 2), wrap=True)
    assert session.run()["y"][:, 0].tolist() == [0, 2, 4]
    assert session.run()["y"][:, 0].tolist() == [6, 0, 2]
    session.bind("x", THREE)
    session.run()
    with pytest.raises(ipu_core.Error, match="stream ended"):
        session.run()
    with pytest.raises(ipu_core.Error, match="stream x takes elements of"):
        session.bind("x", f32(1, 2, 3))
    with pytest.raises(ipu_core.Error, match="output y takes a function, or None"):
        session.bind("y", THREE)
    with pytest.raises(ipu_core.Error, match="stream x cannot wrap"):
        session.bind("x", lambda replica: None, wrap=True)
    with pytest.raises(ipu_core.Error, match="the program has no stream z"):
        session.bind("z", None)


def test_parts_of_arrays_go_around_and_may_be_wide(idle_ipus):
    session = ipu_core.compile(SCALE)
    x, y = numpy.array([9.0, 1.0, 1.0, 2.0, 7.0]), f32(0, 0)
    session.run_parts({"x": (x, 1, 1)}, "main", {"y": (y, 1)})
    numpy.testing.assert_array_equal(y, f32(2, 6))  # 1 at the end, 2 and 6 from the front
    session.run_parts({"x": (x, 4, 1)}, "main", {})
    numpy.testing.assert_array_equal(session.read("w"), f32(9, 12, 6))
    for given, place, message in (
        (f32(1).astype(numpy.int32), y, "Data type mismatch.* input x takes f32, got i32"),
        (f32(), y, "Shape mismatch.* input x takes 3 elements of f32, got none"),
        (f32(1), f32(1, 2, 3, 4)[::2], "output y is filled in place"),
        (f32(1), numpy.broadcast_to(f32(1), 3), "output y is filled in place"),
    ):
        with pytest.raises(ipu_core.Error, match=message):
            session.run_parts({"x": (given, 0, 1)}, "main", {"y": (place, 0)})
    for part in ((f32(1), -1, 1), (f32(1), 2, 1), (f32(1), 0, 2), (f32(1), 0, 0)):
        with pytest.raises(ipu_core.Error, match="number out of range"):
            session.run_parts({"x": part}, "main", {})


def test_values_of_variables_lie_in_entries_of_the_caller(idle_ipus):
    text = SCALE.replace("variable @w: f32[3] {", "module {replicas=2}\nvariable @w: f32[3] {group_size=1, ")
    session = ipu_core.compile(text, replicas=2)
    session.attach()
    session.upload({"w": (numpy.arange(6.0), [1, 0], 0)})
    numpy.testing.assert_array_equal(session.read("w"), [f32(3, 4, 5), f32(0, 1, 2)])
    both, first = numpy.zeros((2, 3), numpy.float32), f32(0, 0, 0)
    session.download({"w": (both, [0, 1], 0)})
    session.download({"w": (first, [], 0)})
    numpy.testing.assert_array_equal(both, [f32(3, 4, 5), f32(0, 1, 2)])
    numpy.testing.assert_array_equal(first, f32(3, 4, 5))
    for entries, shards in (([0, 2], 0), ([0, -1], 0), ([0, 1], 3), ([0, 1], -1)):
        with pytest.raises(ipu_core.Error, match="number out of range"):
            session.upload({"w": (both, entries, shards)})
    both.flags.writeable = False
    with pytest.raises(ipu_core.Error, match="variable w is filled in place"):
        session.download({"w": (both, [0, 1], 0)})


def test_outputs_are_as_long_as_the_values_decide():
    session = ipu_core.compile(
        """
        stream @x: f32[]
        stream @y: f32[] {direction="device_to_host"}
        entry main = @main
        graph @main() -> () {
          %zero = constant() {value=dense<f32[]: 0.0>} : f32[]
          %n = loop(%zero) {body=@body, trip=5, carried=1, while=true} : f32[]
          return
        }
        graph @body(%i: i32[], %c: f32[]) -> (bool[], f32[]) {
          %x = host_load() {stream=@x} : f32[]
          host_store(%x) {stream=@y}
          %zero = constant() {value=dense<f32[]: 0.0>} : f32[]
          %more = greater(%x, %zero) : bool[]
          return %more, %x
        }"""
    )
    assert session.run({"x": f32(4, 3, -1, 5)})["y"].tolist() == [4, 3, -1]
    assert session.run({"x": f32(1, 2, 3, 4, 5)})["y"].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(ipu_core.Error, match="stream ended .*'x' was asked for one more element"):
        session.run({"x": f32(1, 2)})


def test_a_program_ends_while_a_thread_of_it_runs():
    program = """if True:
        import threading, time, numpy, ipu_core

        class Slow:  # the end of the interpreter takes a while
            def __del__(self, sleep=time.sleep):
                sleep(0.3)

        slow = Slow()
        session = ipu_core.compile(open(0).read())
        session.attach()
        x = numpy.ones(3, numpy.float32)

        def run():
            while True:
                session.run({"x": x})

        for _ in range(4):
            threading.Thread(target=run, daemon=True).start()
        time.sleep(0.2)
    """
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=SCALE,
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert (done.returncode, done.stderr) == (0, "")
