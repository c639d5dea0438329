#!/usr/bin/env python3
"""What programs of TensorFlow cost as units of an IPU and in plain TensorFlow's graph mode. Prints tables in Markdown.

    export PYTHONPATH=$PWD:$PWD/tensorflow_ipu/src
    .venv-tf/bin/python benchmarks/tensorflow_programs.py [--only steps,call] [--networks mlp,lenet] [--batches 1,8]

Both sides run in one process in blocks that take turns, with two threads each; a figure is the median of the blocks. Each row of the steps, and
each first run, has a process of its own. On a machine with other load, `--processor-time` with POPTORCH_HOST_THREADS=1 compares what
both sides compute.
"""

import argparse
import functools
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
THREADS = int(os.environ.setdefault("POPTORCH_HOST_THREADS", "2"))

PARTS = ("steps", "first", "trace", "call", "state", "infeed", "import", "memory")
HERE = pathlib.Path(__file__).resolve()


def processor():
    text = subprocess.run(["lscpu"], capture_output=True, text=True).stdout
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    return (
        f"{fields.get('Model name')}, family {fields.get('CPU family')} model {fields.get('Model')}, "
        f"{os.cpu_count()} processors; load {os.getloadavg()[0]:.1f} at the start."
    )


def tensorflow():
    """tf.compat.v1, with our module loaded."""
    import tensorflow.compat.v1 as tf

    from tensorflow.python import ipu  # noqa: F401

    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    import warnings

    warnings.filterwarnings("ignore")
    return tf


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*names):
    row(*names)
    print("|" + "---|" * len(names))


def clock(call, now=time.perf_counter):
    start = now()
    result = call()
    return now() - start, result


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else float("nan")


class Program:
    """A network's step in a graph and a session of its own: as a unit, or in plain TensorFlow."""

    def __init__(self, name, training, batch, side):
        import tensorflow_networks

        tf = tensorflow()
        network = tensorflow_networks.NETWORKS[name]
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.variable_scope("", use_resource=True):
            tf.set_random_seed(1)
            self.fed = [network.inputs(batch)] + ([network.labels(batch)] if training else [])
            given = [tf.placeholder(array.dtype, array.shape) for array in self.fed]
            self.build_seconds, self.results = clock(lambda: self._build(tf, network, training, side, given))
            config = tf.ConfigProto(
                intra_op_parallelism_threads=THREADS,
                inter_op_parallelism_threads=THREADS,
                use_per_session_threads=True,
            )
            self.session = tf.Session(config=config)
            self.session.run(tf.global_variables_initializer())
            self._call = self.session.make_callable(self.results, given)

    def _build(self, tf, network, training, side, given):
        from tensorflow.python import ipu

        computation = network.step(training, plain=side != "ours")
        if side == "ours":
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                return ipu.ipu_compiler.compile(computation, given)
        if side == "jit":
            return tf.xla.experimental.compile(computation, given)
        result = computation(*given)
        if not training:
            return [result]
        with tf.control_dependencies([result[1]]):
            return [tf.identity(result[0])]

    def __call__(self):
        return self._call(*self.fed)

    @property
    def unit(self):
        from ipu_tensorflow.unit import units_of

        return units_of(self.graph)[0]


def alternate(calls, seconds, now=time.perf_counter):
    """Median seconds of each call. Blocks of calls take turns, so that load falls on all alike."""
    counts = []
    for call in calls:
        call(), call()
        counts.append(max(1, int(0.02 / max(clock(call)[0], 1e-7))))
    times = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for call, count, list_ in zip(calls, counts, times):
            if count == 1:
                list_.append(clock(call, now)[0])
            else:
                call()  # wakes the threads
                list_.append(clock(lambda: [call() for _ in range(count)], now)[0] / count)  # noqa: B023
    return [statistics.median(list_) for list_ in times]


def in_process_of_its_own(options, *arguments):
    """What this program prints when it is run for one thing: memory and first runs need a fresh process."""
    done = subprocess.run([sys.executable, HERE, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [float(word) for word in done.stdout.split()]


# --- parts


def steps(options):
    """One process a row: no row runs in what the rows before left behind."""
    for mode in options.modes:
        print(f"\nMilliseconds of a step, {mode}:\n")
        head("network", "batch", "ours", "plain TensorFlow", "×")
        ratios = []
        for name in [name for name in options.networks if name != "bert-base"]:
            for batch in options.batches:
                arguments = ["--row", name, mode, str(batch), "--seconds", str(options.seconds)]
                if options.processor_time:
                    arguments.append("--processor-time")
                ours, plain = in_process_of_its_own(options, *arguments)
                ratios.append(plain / ours)
                row(name, batch, f"{ours * 1e3:.2f}", f"{plain * 1e3:.2f}", f"{plain / ours:.2f}")
        print(f"\nGeometric mean {geometric_mean(ratios):.2f}, smallest {min(ratios):.2f}.")


def step_row(options):
    name, mode, batch = options.row
    programs = [Program(name, mode == "training", int(batch), side) for side in ("ours", "plain")]
    print(*alternate(programs, options.seconds, time.process_time if options.processor_time else time.perf_counter))


def first(options):
    print("\nSeconds of a first run, batch 8:\n")
    head(
        "network",
        "mode",
        "records to executable",
        "our first run",
        "first run of `jit_compile`",
        "× records to executable",
    )
    for name in [name for name in ("resnet50", "bert-base-4") if name in options.networks]:
        for mode in options.modes:
            compiling, ours = in_process_of_its_own(options, "--first", name, mode, "ours")
            (jit,) = in_process_of_its_own(options, "--first", name, mode, "jit")
            row(name, mode, f"{compiling:.2f}", f"{ours:.2f}", f"{jit:.1f}", f"{jit / compiling:.0f}")


def first_row(options):
    """Records to executable alone, and it with what a first run takes more than a second one."""
    name, mode, side = options.first
    found = []
    if side == "ours":
        from ipu_tensorflow import unit

        make = unit._native_unit

        def timed(*arguments):
            seconds, native = clock(lambda: make(*arguments))
            found.append(seconds)
            return native

        unit._native_unit = timed
    program = Program(name, mode == "training", 8, side)
    if side == "ours":
        found.append(clock(program.unit.compile)[0])
        print(sum(found))
    print(sum(found) + clock(program)[0] - clock(program)[0])


def trace(options):
    print("\nSeconds of building a training step, batch 8; medians of three:\n")
    head("network", "plain graph", "`compile`", "of it the trace", "records", "nodes", "trace / plain")
    for name in [name for name in ("resnet50", "bert-base-4", "bert-base") if name in options.networks]:
        figures = [in_process_of_its_own(options, "--trace", name) for _ in range(3)]
        plain, whole, traced, records, nodes = (statistics.median(column) for column in zip(*figures))
        row(
            name,
            f"{plain:.2f}",
            f"{whole:.2f}",
            f"{traced:.2f}",
            f"{records:.2f}",
            int(nodes),
            f"{traced / plain:.2f}",
        )


def trace_row(options):
    from ipu_tensorflow import trace as tracing
    from ipu_tensorflow import unit

    tensorflow()
    seconds, nodes = {}, []

    def timed(module, name):
        function = getattr(module, name)

        @functools.wraps(function)
        def call(*arguments, **more):
            seconds[name], result = clock(lambda: function(*arguments, **more))
            if name == "of_graph":
                nodes.append(len(result.data["graph"]["nodes"]))
            return result

        setattr(module, name, call)

    timed(tracing, "trace")
    timed(unit.records, "of_graph")
    Program("mlp", True, 1, "plain")  # what TensorFlow loads at its first layer
    Program("mlp", True, 1, "ours")
    nodes.clear()
    plain = Program(options.trace, True, 8, "plain").build_seconds
    whole = Program(options.trace, True, 8, "ours").build_seconds
    print(plain, whole, seconds["trace"], seconds["of_graph"], nodes[0])


def call(options):
    import numpy as np

    from tensorflow.python import ipu

    tf = tensorflow()
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        plain = x + 1.0
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            (ours,) = ipu.ipu_compiler.compile(lambda x: x + 1.0, [x])
        session = tf.Session(
            config=tf.ConfigProto(intra_op_parallelism_threads=THREADS, inter_op_parallelism_threads=THREADS)
        )
        value = np.float32(1)
        callables = [session.make_callable(tensor, [x]) for tensor in (ours, plain)]
        calls = [functools.partial(callables[0], value), functools.partial(callables[1], value)]
        calls += [functools.partial(session.run, tensor, {x: value}) for tensor in (ours, plain)]
        figures = [f"{seconds * 1e6:.0f}" for seconds in alternate(calls, max(options.seconds, 4))]
    print("\nMicroseconds of a call that adds 1 to a scalar:\n")
    head("way", "ours", "plain TensorFlow")
    row("`make_callable`", *figures[:2])
    row("`session.run`", *figures[2:])


def state(options):
    import numpy as np

    from tensorflow.python import ipu

    from ipu_tensorflow.unit import units_of

    tf = tensorflow()
    size = 64 << 20
    with tf.Graph().as_default() as graph:

        def net():
            v = tf.get_variable("v", [size], use_resource=True, initializer=tf.zeros_initializer())
            return v.assign_add(tf.ones([size])).op

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            op = ipu.ipu_compiler.compile(net)
        session = tf.Session()
        session.run(tf.global_variables_initializer())
        run = session.make_callable(op)
        run(), run()
        unit = units_of(graph)[0]
        a, b = np.zeros(size, np.float32), np.ones(size, np.float32)
        ours, copy = alternate([run, lambda: np.copyto(a, b)], 3)
        up, down = unit.counts()["uploaded_bytes"], unit.counts()["downloaded_bytes"]
    print(
        f"\nState: a variable of {4 * size >> 20} MB to which each run adds 1. A second run sends {up} bytes up and brings "
        f"{down >> 20} MB back. A run with all of it takes {ours * 1e3:.0f} ms, a copy of as much by NumPy {copy * 1e3:.0f} ms: "
        f"{copy / ours:.2f} of the speed of memory or more."
    )


def infeed(options):
    import numpy as np

    from tensorflow.python import ipu

    tf = tensorflow()
    count = 100

    def dataset():
        images = tf.data.Dataset.from_tensors(np.zeros((32, 224, 224, 3), np.uint8)).repeat()
        return images.map(lambda x: tf.cast(x, tf.float32) * (1 / 255.0)).prefetch(2)

    with tf.Graph().as_default():
        queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset())

        def net():
            return ipu.loops.repeat(count, lambda total, x: total + x[0, 0, 0, 0], [0.0], queue)

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            (ours,) = ipu.ipu_compiler.compile(net)
        alone = tf.data.make_one_shot_iterator(dataset()).get_next().op
        session = tf.Session(
            config=tf.ConfigProto(intra_op_parallelism_threads=THREADS, inter_op_parallelism_threads=THREADS)
        )
        session.run(queue.initializer)
        pull = session.make_callable(alone)
        loop, plain = alternate(
            [session.make_callable(ours), lambda: [pull() for _ in range(count)]], 3 * options.seconds
        )
    print(
        f"\nInfeed: a loop over {count} elements of 32x224x224x3 float32 takes {loop / count * 1e3:.2f} ms an element, "
        f"`get_next` of the dataset alone {plain / count * 1e3:.2f} ms: {loop / plain:.2f}."
    )


def import_(options):
    def figures(program):
        text = "import time; t = time.perf_counter()\n" + program
        text += "\nprint(time.perf_counter() - t, int(open('/proc/self/statm').read().split()[1]) * 4096)"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
        return [float(word) for word in done.stdout.split()]

    programs = ("import tensorflow", "import tensorflow\nfrom tensorflow.python import ipu")
    rounds = [[figures(program) for program in programs] for _ in range(7)]
    (plain_s, ours_s), (plain_b, ours_b) = (
        [statistics.median(r[side][what] for r in rounds) for side in (0, 1)] for what in (0, 1)
    )
    added = statistics.median(r[1][0] - r[0][0] for r in rounds)
    print(
        f"\nImport: `import tensorflow` {plain_s:.2f} s and {plain_b / 1e6:.0f} MB; `from tensorflow.python import ipu` after it "
        f"adds {added:.2f} s and {(ours_b - plain_b) / 1e6:.0f} MB (together {ours_s:.2f} s)."
    )


def memory(options):
    print("\nPeak memory of a process with three training steps, batch 8, MB:\n")
    head("network", "ours", "plain TensorFlow", "state", "ours - plain - state")
    for name in [name for name in ("mlp", "resnet50", "bert-base-4") if name in options.networks]:
        (ours, held), (plain, _) = (
            in_process_of_its_own(options, "--memory", name, side) for side in ("ours", "plain")
        )
        row(name, f"{ours:.0f}", f"{plain:.0f}", f"{held:.0f}", f"{ours - plain - held:.0f}")


def memory_row(options):
    tf = tensorflow()
    name, side = options.memory
    program = Program(name, True, 8, side)
    for _ in range(3):
        program()
    variables = program.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    held = sum(v.shape.num_elements() * v.dtype.size for v in variables)
    status = pathlib.Path("/proc/self/status").read_text()  # getrusage would count the process that started this one
    print(int(re.search(r"VmHWM:\s*(\d+)", status)[1]) * 1024 / 1e6, held / 1e6)


def names(text):
    return tuple(re.split(r"[, ]+", text))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names, default=PARTS, help=f"of {', '.join(PARTS)}")
    parser.add_argument("--networks", type=names, default=None)
    parser.add_argument("--batches", type=names, default=("1", "8", "32"))
    parser.add_argument("--modes", type=names, default=("inference", "training"))
    parser.add_argument("--seconds", type=float, default=2.0, help="of a row of the steps")
    parser.add_argument("--processor-time", action="store_true", help="for steps, instead of what the clock shows")
    for name, count in (("row", 3), ("first", 3), ("trace", 1), ("memory", 2)):
        parser.add_argument(f"--{name}", nargs=count, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name, function in (("row", step_row), ("first", first_row), ("trace", trace_row), ("memory", memory_row)):
        if getattr(options, name):
            if name == "trace":
                options.trace = options.trace[0]
            return function(options)
    if options.networks is None:
        import tensorflow_networks

        options.networks = tuple(tensorflow_networks.NETWORKS)
    print(processor())
    parts = {"import": import_, **{name: globals()[name] for name in PARTS if name != "import"}}
    for name in options.only:
        parts[name](options)


if __name__ == "__main__":
    main()
