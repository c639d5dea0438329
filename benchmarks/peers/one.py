"""One peer on one case, in a process of its own: prints one JSON line with the median microseconds of a step.

python one.py PEER CASE MODE BATCH [--dtype float32] [--seconds 1]

PEER: poptorch eager compile freezing onnxruntime openvino; MODE: inference, training (SGD with momentum), adamw
"""

import argparse
import collections
import importlib
import json
import resource
import statistics
import time

import torch
from cases import CASES, make
from runners import MODES, OPTIMIZERS, PEERS, THREADS, poptorch_step


def measure(step, seconds):
    """Median seconds of a step, over batches of steps that take about 10 ms each."""
    begun = time.perf_counter()
    for _ in range(20):
        step()
        if time.perf_counter() - begun > seconds:
            break
    start = time.perf_counter()
    step()
    count = max(1, int(0.01 / (time.perf_counter() - start)))
    samples, stop = [], time.perf_counter() + seconds
    while time.perf_counter() < stop or len(samples) < 5:
        start = time.perf_counter()
        for _ in range(count):
            step()
        samples.append((time.perf_counter() - start) / count)
    return statistics.median(samples)


def floating_point_operations(model, inputs, y, mode):
    """Multiplications and additions of the products of a step, as torch counts them."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with (
        FlopCounterMode(display=False) as counter,
        sdpa_kernel(SDPBackend.MATH),
        torch.backends.mkldnn.flags(enabled=False),
    ):
        if mode == "inference":
            with torch.no_grad():
                model(*inputs)
        else:
            model(*inputs, y)[1].backward()
    model.zero_grad(set_to_none=True)
    return counter.get_total_flops()


COPIES = ("copy", "convert_layout", "pad", "concat")


def where_time_goes(step, wrapper, seconds):
    """Shares of a step: kernels by kind, copies between layouts and places, streams, and the host (what no step accounts for)."""
    executable = wrapper._executable
    executable.trace(True)
    step()
    events = executable.take_trace()
    executable.trace(False)
    spent = collections.Counter()
    for event in events:
        kernel = event["kernel"]
        kind = "copies" if kernel in COPIES else kernel or event["step"]
        spent[kind] += (event["end_ns"] - event["begin_ns"]) / 1e9
    spent["host"] = max(0.0, seconds - sum(spent.values()))
    total = sum(spent.values())
    return {kind: round(share / total, 4) for kind, share in spent.most_common()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=["poptorch", *PEERS])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("batch", type=int)
    parser.add_argument("--dtype", choices=["float32", "float16"], default="float32")
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    peer, mode = arguments.peer, arguments.mode
    torch.set_num_threads(THREADS)
    model, inputs, y = make(arguments.case, arguments.batch, getattr(torch, arguments.dtype))
    model.train(mode != "inference")
    found = {key: getattr(arguments, key) for key in ("peer", "case", "mode", "batch", "dtype")}
    if peer == "eager":
        found["flops"] = floating_point_operations(model, inputs, y, mode)
    if peer in ("poptorch", "onnxruntime", "openvino"):
        importlib.import_module(peer)  # not a part of compiling
    if mode != "inference":
        OPTIMIZERS[mode]([torch.nn.Parameter(torch.zeros(1))])  # imports a second of torch
    started = time.perf_counter()
    wrapper = None
    if peer == "poptorch":
        step, wrapper = poptorch_step(model, inputs, y, mode)
    else:
        step = PEERS[peer](model, inputs, y, mode)
    step()
    found["first_call_s"] = time.perf_counter() - started
    found["us"] = measure(step, arguments.seconds) * 1e6
    found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if wrapper is not None:
        found["where"] = where_time_goes(step, wrapper, found["us"] / 1e6)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
