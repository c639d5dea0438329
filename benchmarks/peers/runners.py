"""The peers: each makes a function that runs one step. What compiles at the first call does so there; the others compile here.

ONNX Runtime and OpenVINO run the ONNX model that torch exports; they have no training. They are not in scripts/requirements.txt:
pip install onnxruntime openvino
"""

import importlib.util
import io

import torch

THREADS = 2
OPTIMIZERS = {
    "training": lambda parameters, **more: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, **more),
    "adamw": lambda parameters, **more: torch.optim.AdamW(parameters, lr=1e-4, **more),
}
MODES = ("inference", *OPTIMIZERS)


def poptorch_step(model, inputs, y, mode):
    import poptorch

    if mode == "inference":
        wrapper = poptorch.inferenceModel(model.eval())
        return lambda: wrapper(*inputs), wrapper
    wrapper = poptorch.trainingModel(model, None, OPTIMIZERS[mode](model.parameters()))
    return lambda: wrapper(*inputs, y), wrapper


def torch_step(model, inputs, y, mode, run):
    if mode == "inference":
        model.eval()

        def infer():
            with torch.inference_mode():
                return run(*inputs)

        return infer
    optimizer = OPTIMIZERS[mode](model.parameters(), fused=True)

    def train():
        optimizer.zero_grad(set_to_none=True)
        out, loss = run(*inputs, y)
        loss.backward()
        optimizer.step()
        return out, loss

    return train


def eager_step(model, inputs, y, mode):
    return torch_step(model, inputs, y, mode, model)


def compile_step(model, inputs, y, mode):
    return torch_step(model, inputs, y, mode, torch.compile(model))


def freezing_step(model, inputs, y, mode):
    import torch._inductor.config

    torch._inductor.config.freezing = True
    model.requires_grad_(False)
    return torch_step(model, inputs, y, mode, torch.compile(model))


def exported(model, inputs):
    """The model in ONNX, as bytes, without files beside it, and the names of its inputs."""
    file, names = io.BytesIO(), [f"x{i}" for i in range(len(inputs))]
    torch.onnx.export(
        model.eval(), inputs, file, dynamo=False, input_names=names, output_names=["out"], opset_version=17
    )
    return file.getvalue(), names


def onnxruntime_step(model, inputs, _, mode):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    data, names = exported(model, inputs)
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    arrays = {name: x.numpy() for name, x in zip(names, inputs)}
    return lambda: session.run(None, arrays)


def openvino_step(model, inputs, _, mode):
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    data, names = exported(model, inputs)
    request = core.compile_model(core.read_model(data), "CPU", settings).create_infer_request()
    arrays = {name: x.numpy() for name, x in zip(names, inputs)}
    return lambda: request.infer(arrays, share_inputs=True)


PEERS = {
    "eager": eager_step,
    "compile": compile_step,
    "freezing": freezing_step,
    "onnxruntime": onnxruntime_step,
    "openvino": openvino_step,
}
TITLES = {
    "poptorch": "poptorch",
    "eager": "eager",
    "compile": "torch.compile",
    "freezing": "freezing",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
}


def peers_of(mode, dtype):
    """Who can do this: half precision is compared with our own float32 and eager."""
    if dtype == "float16":
        return ("poptorch", "eager")
    if mode != "inference":
        return ("poptorch", "eager", "compile")
    return (
        "poptorch",
        "eager",
        "compile",
        "freezing",
        *(p for p in ("onnxruntime", "openvino") if importlib.util.find_spec(p)),
    )
