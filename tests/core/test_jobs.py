"""ipu_core: one program run by several processes as a job, whose replicas meet in collectives."""

import multiprocessing

import numpy
import pytest

import ipu_core

COLLECTIVES = """
stream @x: f32[2]
stream @pair: f32[2] {direction="device_to_host"}
stream @apart: f16[2] {direction="device_to_host"}
stream @all: f32[4,2] {direction="device_to_host"}
stream @shard: f32[1] {direction="device_to_host"}
stream @first: f32[2] {direction="device_to_host"}
entry main = @main
graph @main() -> () {
  %x = host_load() {stream=@x} : f32[2]
  %pair = all_reduce(%x) {group_size=2} : f32[2]
  host_store(%pair) {stream=@pair}
  %half = cast(%x) {dtype=f16} : f16[2]
  %apart = all_reduce(%half) {group_size=2, group_stride=2, op="max"} : f16[2]
  host_store(%apart) {stream=@apart}
  %all = all_gather(%x) {form="new_axis", group_size=4} : f32[4,2]
  host_store(%all) {stream=@all}
  %shard = reduce_scatter(%x) {group_size=2, group_stride=2} : f32[1]
  host_store(%shard) {stream=@shard}
  %first = broadcast(%x) {} : f32[2]
  host_store(%first) {stream=@first}
  return
}
"""

SHARDS = """
module {replicas=4, processes=2}
variable @w: f32[2] {ipu=0, initial=dense<f32[5]: [0.0, 1.0, 2.0, 3.0, 4.0]>, meta_shape=[5], shard_over=4}
stream @y: f32[5] {direction="device_to_host"}
entry main = @main
graph @main() -> () {
  %w = variable.read() {variable=@w} : f32[2]
  %y = all_gather(%w) {form="shape", group_size=4, shape=[5]} : f32[5]
  host_store(%y) {stream=@y}
  %twice = add(%w, %w) : f32[2]
  variable.assign(%twice) {variable=@w}
  return
}
"""

# Groups {0, 2} and {1, 3}: each has a replica in either process, and the shards of @v lie in both.
GROUPS = """
module {replicas=4, processes=2}
variable @w: f32[2] {ipu=0, group_size=2, group_stride=2, initial=dense<f32[2,2]: [1.0, 2.0, 3.0, 4.0]>}
variable @v: f32[2] {ipu=0, group_size=2, group_stride=2, initial=dense<f32[2,3]: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]>, meta_shape=[3], shard_over=2}
stream @y: f32[2] {direction="device_to_host"}
entry main = @main
graph @main() -> () {
  %w = variable.read() {variable=@w} : f32[2]
  host_store(%w) {stream=@y}
  %w2 = add(%w, %w) : f32[2]
  variable.assign(%w2) {variable=@w}
  %v = variable.read() {variable=@v} : f32[2]
  %v2 = add(%v, %v) : f32[2]
  variable.assign(%v2) {variable=@v}
  return
}
"""


def work(text, process, pipes, inputs, results):
    """One process of a job: its neighbours' bytes come through pipes."""

    def exchange(mine):
        for other, pipe in enumerate(pipes):
            if other != process:
                pipe.send_bytes(mine)
        return b"".join(mine if other == process else pipe.recv_bytes() for other, pipe in enumerate(pipes))

    processes = len(pipes)
    session = ipu_core.compile(text, replicas=4 // processes, processes=processes)
    session.set_job(process * 4 // processes, exchange)
    outputs = [session.run(inputs) for _ in range(2)]
    results.put((process, outputs, {name: session.read(name) for name in session.variables()}))


def job(text, inputs):
    """(outputs of the second run, variables) of each of two processes with two replicas."""
    context = multiprocessing.get_context("spawn")
    ends, results = context.Pipe(), context.Queue()
    workers = []
    for process in range(2):
        pipes = [ends[process]] * 2
        own = {name: value[2 * process : 2 * process + 2] for name, value in inputs.items()}
        workers.append(context.Process(target=work, args=(text, process, pipes, own, results)))
        workers[-1].start()
    given = sorted((results.get(timeout=120) for _ in workers), key=lambda result: result[0])
    for worker in workers:
        worker.join()
    return [(outputs[-1], variables) for _, outputs, variables in given]


def test_groups_within_and_across_processes_give_the_bits_of_one_process():
    x = numpy.array([[0.1, 10], [0.2, 20], [0.3, 30], [0.7, 40]], numpy.float32)
    alone = ipu_core.compile(COLLECTIVES, replicas=4)
    expected = alone.run({"x": x})
    together = job(COLLECTIVES, {"x": x})
    for name, value in expected.items():
        joined = numpy.concatenate([outputs[name] for outputs, _ in together])
        numpy.testing.assert_array_equal(joined, value, err_msg=name)
    numpy.testing.assert_array_equal(expected["apart"][0], numpy.array([0.3, 30], numpy.float16))
    numpy.testing.assert_array_equal(expected["first"][3], x[0])


def test_shards_on_other_processes_are_gathered_for_the_host():
    for outputs, variables in job(SHARDS, {}):
        numpy.testing.assert_array_equal(outputs["y"], numpy.array([[0, 2, 4, 6, 8]] * 2, numpy.float32))
        numpy.testing.assert_array_equal(variables["w"], numpy.array([0, 4, 8, 12, 16], numpy.float32))


def test_values_of_groups_over_processes_are_those_of_the_job():
    for outputs, variables in job(GROUPS, {}):  # after two runs; outputs are those of the second
        numpy.testing.assert_array_equal(outputs["y"], numpy.array([[2, 4], [6, 8]], numpy.float32))
        numpy.testing.assert_array_equal(variables["w"], numpy.array([[4, 8], [12, 16]], numpy.float32))
        numpy.testing.assert_array_equal(variables["v"], numpy.array([[4, 8, 12], [16, 20, 24]], numpy.float32))


def test_what_the_exchange_raises_comes_out_of_the_run():
    session = ipu_core.compile(COLLECTIVES, replicas=2, processes=2)

    def broken(mine):
        raise OSError("the other process is gone")

    session.set_job(0, broken)
    with pytest.raises(ipu_core.Error, match="exchange between processes failed") as raised:
        session.run({"x": numpy.zeros((2, 2), numpy.float32)})
    assert isinstance(raised.value.__cause__, OSError)


def test_a_job_has_processes_and_something_that_connects_them():
    with pytest.raises(ipu_core.Error, match="processes is 0: it must be at least 1"):
        ipu_core.compile(COLLECTIVES, replicas=2, processes=0)
    session = ipu_core.compile(COLLECTIVES, replicas=2, processes=2)
    with pytest.raises(ipu_core.Error, match="nothing connects them"):
        session.run({"x": numpy.zeros((2, 2), numpy.float32)})
