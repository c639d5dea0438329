"""One peer on one case, in a process of its own: prints one JSON line with the median microseconds a step.

python one.py PEER CASE MODE BATCH      PEER: poptorch eager compile onnxruntime openvino; MODE: inference training

ONNX Runtime and OpenVINO run the ONNX model that torch exports; they have no training. They are not in scripts/requirements.txt:
pip install onnxruntime openvino onnxscript
"""

import io
import json
import resource
import statistics
import sys
import time

import torch
from cases import make

THREADS = 2


def poptorch_step(model, x, y, training):
    import poptorch

    if training:
        wrapper = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9))
        return lambda: wrapper(x, y)
    wrapper = poptorch.inferenceModel(model.eval())
    return lambda: wrapper(x)


def torch_step(model, x, y, training, compiled):
    run = torch.compile(model) if compiled else model
    if not training:
        model.eval()

        def infer():
            with torch.inference_mode():
                return run(x)

        return infer
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)

    def train():
        optimizer.zero_grad(set_to_none=True)
        out, loss = run(x, y)
        loss.backward()
        optimizer.step()
        return out, loss

    return train


def exported(model, x):
    """The model in ONNX, as bytes, without files beside it."""
    file = io.BytesIO()
    torch.onnx.export(model.eval(), (x,), file, dynamo=False, input_names=["x"], output_names=["out"])
    return file.getvalue()


def onnxruntime_step(model, x):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(exported(model, x), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x.numpy()})


def openvino_step(model, x):
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(core.read_model(exported(model, x)), "CPU", settings).create_infer_request()
    return lambda: request.infer({0: x.numpy()}, share_inputs=True)


EXPORTED = {"onnxruntime": onnxruntime_step, "openvino": openvino_step}


def measure(step, seconds=1.0):
    """Median seconds of a step, over batches of steps that take about 10 ms each."""
    for _ in range(20):
        step()
    start = time.perf_counter()
    step()
    count = max(1, int(0.01 / (time.perf_counter() - start)))
    samples, stop = [], time.perf_counter() + seconds
    while time.perf_counter() < stop or len(samples) < 15:
        start = time.perf_counter()
        for _ in range(count):
            step()
        samples.append((time.perf_counter() - start) / count)
    return statistics.median(samples)


def main():
    peer, case, mode, batch = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(THREADS)
    model, x, y = make(case, batch)
    training = mode == "training"
    model.train(training)
    if peer == "poptorch":
        step = poptorch_step(model, x, y, training)
    elif peer in EXPORTED:
        if training:
            sys.exit(f"{peer} has no training")
        step = EXPORTED[peer](model, x)
    else:
        step = torch_step(model, x, y, training, compiled=peer == "compile")
    started = time.perf_counter()
    step()
    first = time.perf_counter() - started
    print(
        json.dumps(
            {
                "peer": peer,
                "case": case,
                "mode": mode,
                "batch": batch,
                "us": measure(step) * 1e6,
                "first_call_s": first,
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
