"""Writes aten_cases.json: calls of aten operators with torch's results and gradients, read by aten_cases_test.cc.

Run it after adding a case: python tests/ops/make_aten_cases.py. Values are computed in float64; arguments a case does
not give take the defaults of the schema, as a captured call would have them.
"""

import json
import math
import pathlib

import torch

aten = torch.ops.aten
torch.manual_seed(0)
DTYPES = {torch.float64: "f32", torch.float32: "f32", torch.int64: "i32", torch.int32: "i32", torch.bool: "bool"}
cases = []


def x(*shape, low=-2.0, high=2.0):
    return (torch.rand(*shape, dtype=torch.float64) * (high - low) + low).mul(64).round().div(64)


def distinct(*shape):
    """No two elements are equal, so that extremes have one place."""
    n = int(torch.Size(shape).numel())
    return ((torch.randperm(n).double() - n // 2) / 8 + 0.0625).reshape(shape)


def i(values):
    return torch.tensor(values, dtype=torch.int64)


def classes(*shape, n):
    return torch.randint(0, n, shape)


def number(v):
    if not isinstance(v, float):
        return int(v)
    return float(f"{v:.9g}") if math.isfinite(v) else str(v)


def numbers(tensor):
    return [number(v) for v in tensor.detach().reshape(-1).tolist()]


def described(tensor):
    return {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "values": numbers(tensor)}


def encode(value, tensors):
    if isinstance(value, torch.Tensor):
        for k, known in enumerate(tensors):
            if known is value:
                return {"tensor": k}
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, float) and abs(value) == float("inf"):
        return {"real": str(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": DTYPES[value]}
    if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
        return {"tensors": [None if v is None else encode(v, tensors)["tensor"] for v in value]}
    return list(value) if isinstance(value, tuple) else value


def case(name, *args, gradient=True, constant=(), **kwargs):
    """`constant`: indices of tensors that get no gradient, where torch offers none."""
    packet, _, overload = name.partition(".")
    op = getattr(getattr(aten, packet), overload or "default")
    tensors, arguments = [], {}
    for k, argument in enumerate(op._schema.arguments):
        if k < len(args):
            value = args[k]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        elif argument.has_default_value():
            value = argument.default_value
        else:
            raise ValueError(f"{name} needs {argument.name}")
        if argument.name in ("layout", "device", "pin_memory", "memory_format"):
            continue
        arguments[argument.name] = encode(value, tensors)
    floats = [t for k, t in enumerate(tensors) if t.is_floating_point() and k not in constant]
    for t in floats:
        t.requires_grad_(gradient)
    given = [described(t) for t in tensors]
    results = op(*args, **kwargs)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    loss = 0.0
    for r in results:
        if r.is_floating_point() and r.requires_grad:
            loss = loss + (r * torch.linspace(0.5, 1.5, r.numel(), dtype=r.dtype).reshape(r.shape)).sum()
    gradients = None
    if gradient and isinstance(loss, torch.Tensor):
        found = torch.autograd.grad(loss, floats, allow_unused=True)
        found = dict(zip(map(id, floats), found))
        gradients = []
        for t in tensors:
            g = found.get(id(t))
            wanted = any(t is f for f in floats)
            gradients.append(numbers(torch.zeros_like(t) if g is None else g) if wanted else None)
    cases.append(
        {
            "op": name,
            "arguments": arguments,
            "tensors": given,
            "written": {k: described(tensors[k]) for k in range(len(tensors)) if described(tensors[k]) != given[k]},
            "results": [described(r) | {"differentiable": r.requires_grad} for r in results],
            "gradients": gradients,
        }
    )


def shape_cases():
    case("view", x(2, 6), [3, -1])
    case("reshape", x(2, 3), [6])
    case("_unsafe_view", x(4), [2, 2])
    case("flatten.using_ints", x(2, 3, 2), 1)
    case("unflatten.int", x(2, 6), 1, [2, -1])
    case("squeeze", x(1, 3, 1))
    case("squeeze.dim", x(1, 3, 1), -1)
    case("squeeze.dims", x(1, 3, 1), [0, 2])
    case("unsqueeze", x(3), -1)
    case("t", x(2, 3))
    case("t", x(3))
    case("transpose.int", x(2, 3, 2), 0, -1)
    case("permute", x(2, 3, 2), [2, 0, -2])
    case("numpy_T", x(2, 3, 2))
    case("movedim.int", x(2, 3, 4), 0, -1)
    case("movedim.intlist", x(2, 3, 4), [0, 1], [2, 0])
    case("swapaxes", x(2, 3), 0, 1)
    case("expand", x(3, 1), [2, -1, 2])
    case("expand_as", x(1, 3), x(2, 3))
    case("repeat", x(2, 3), [2, 1, 2])
    case("repeat", x(3), [2])
    case("tile", x(2, 3), [2])
    case("slice.Tensor", x(5, 2), 0, 1, 4)
    case("slice.Tensor", x(5, 2), 0, -3, 9223372036854775807)
    case("slice.Tensor", x(7), 0, 1, -1, 2)
    case("slice.Tensor", x(2, 5), -1, None, None, 2)
    case("select.int", x(3, 4), 1, -1)
    case("select.int", x(3), 0, 1)
    case("narrow", x(5), 0, 1, 3)
    case("split.Tensor", x(5, 2), 2)
    case("split_with_sizes", x(2, 5), [1, 4], -1)
    case("chunk", x(5, 2), 3)
    case("unbind.int", x(2, 3), 1)
    case("cat", [x(2, 3), x(1, 3)])
    case("cat", [x(2, 1), x(2, 3)], -1)
    case("stack", [x(2, 3), x(2, 3)], -1)
    case("roll", x(2, 3), [1])
    case("roll", x(2, 3), [1, -1], [0, 1])
    case("flip", x(2, 3), [-1])
    case("constant_pad_nd", x(2, 3), [1, 2], 0.5)
    case("constant_pad_nd", x(2, 3), [-1, 1, 0, 1])
    case("pad", x(2, 3), [1, 0], "constant", None)
    case("pad", x(1, 2, 4), [2, 1], "reflect")
    case("pad", x(1, 2, 3, 3), [1, 2, 0, 1], "replicate")
    case("pad", x(1, 2, 4), [2, 1], "circular")
    case("reflection_pad2d", x(1, 1, 3, 4), [1, 2, 2, 1])
    case("select_scatter", x(2, 3), x(2), 1, -1)
    case("slice_scatter", x(5, 2), x(2, 2), 0, 0, 4, 2)
    case("tril", x(3, 4))
    case("triu", x(2, 3, 3), 1)
    case("zeros", [2, 3], dtype=torch.float64)
    case("ones_like", x(2), gradient=False)
    case("full", [2], 1.5, dtype=torch.float64)
    case("arange", 5)
    case("arange.start_step", 1.0, 3.0, 0.5, dtype=torch.float64)
    case("eye.m", 2, 3, dtype=torch.float64)
    case("scalar_tensor", 2.5, dtype=torch.float64)
    case("dropout", x(3), 0.5, False)
    case("clone", x(3))


def reduction_cases():
    case("sum", x(2, 3))
    case("sum", i([[1, 2], [3, 4]]))
    case("sum", i([1, 0, 2]) > 0)
    case("sum.dim_IntList", x(2, 3, 2), [-1, 0])
    case("sum.dim_IntList", x(2, 3), None, True)
    case("sum.dim_IntList", i([[1, 2], [3, 4]]), [1], dtype=torch.float64)
    case("mean", x(2, 3))
    case("mean.dim", x(2, 3), [1], True)
    for name in ("amax", "amin"):
        case(name, x(2, 3), [1])
        case(name, i([[1, 1, 0], [2, 2, 2]]).double(), [1])
        case(name, i([[1, 1, 0], [1, -2, -2]]).double())
    for name in ("max", "min"):
        case(name, distinct(2, 3))
        case(name, i([[2, 1, 2], [1, 0, 0]]).double())
        case(name + ".dim", distinct(2, 3), 1)
        case(name + ".dim", distinct(3, 2, 2), -2, True)
        case(name + ".dim", i([[1, 2, 2], [0, 0, 1]]).double(), 1)
    case("prod", x(2, 2))
    case("prod.dim_int", x(2, 3), 1)
    case("prod.dim_int", torch.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]], dtype=torch.float64), 1)
    for name in ("any", "all"):
        mask = i([[1, 0], [1, 1]]) > 0
        case(name, mask)
        case(name + ".dim", mask, 1)
        case(name, i([0, 2]))
        case(name + ".dims", mask, [0, 1], True)
    case("argmax", distinct(2, 3))
    case("argmax", i([[1, 3, 3], [2, 0, 2]]), 1)
    case("argmin", distinct(2, 3), 0, True)
    case("var", x(5))
    case("var.dim", x(2, 4), [1], False)
    case("var.correction", x(2, 4), [0], correction=0, keepdim=True)
    case("var.correction", x(2, 4), None)
    case("std.correction", x(2, 4), [1])
    case("std.correction", torch.ones(2, 3, dtype=torch.float64), [1])
    case("std.dim", x(2, 4), [0, 1])
    case("var_mean.correction", x(2, 4), [1])
    case("std_mean.correction", x(2, 4), [1], correction=0)
    for p in (2, 1, 3, 0.5, float("inf"), float("-inf")):
        case("linalg_vector_norm", distinct(2, 3), p, [1])
    case("norm.ScalarOpt_dim", x(2, 3), 2.0, [1], True)
    case("linalg_vector_norm", torch.zeros(3, dtype=torch.float64))
    case("norm.Scalar", x(2, 3))
    case("logsumexp", x(2, 3), [1])
    case("logsumexp", x(2, 3) * 100, [0, 1], True)
    case("count_nonzero", i([[1, 0], [2, 3]]))
    case("count_nonzero", i([[1, 0], [2, 3]]), 0)


def linear_cases():
    case("linear", x(2, 3), x(4, 3), x(4))
    case("linear", x(2, 2, 3), x(4, 3))
    case("linear", x(3), x(4, 3), x(4))
    for a, b in [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3, 2)),
        ((2, 2, 3), (3, 2)),
        ((2, 2, 3), (3,)),
        ((3,), (2, 3, 2)),
        ((2, 3), (2, 3, 2)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (3, 3, 2)),
        ((2, 3, 2, 2), (2, 1, 2, 3)),
    ]:
        case("matmul", x(*a), x(*b))
    case("mm", x(2, 3), x(3, 2))
    case("bmm", x(2, 2, 3), x(2, 3, 2))
    case("mv", x(2, 3), x(3))
    case("dot", x(3), x(3))
    case("outer", x(3), x(2))
    case("addmm", x(4), x(2, 3), x(3, 4))
    case("addmm", x(2, 4), x(2, 3), x(3, 4), beta=0.5, alpha=2)
    case("addmv", x(2), x(2, 3), x(3))
    case("baddbmm", x(2, 1, 4), x(2, 2, 3), x(2, 3, 4), alpha=0.25)
    for equation, shapes in [
        ("bij,bjk->bik", [(2, 2, 3), (2, 3, 2)]),
        ("ij,kj->ik", [(2, 3), (4, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij->j", [(2, 3)]),
        ("ijk->kij", [(2, 3, 2)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 2), (2, 2, 2, 2)]),
        ("ij,jk", [(2, 3), (3, 2)]),
        ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 2)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
    ]:
        case("einsum", equation, [x(*s) for s in shapes])


def convolution_cases():
    case("conv2d", x(2, 3, 5, 4), x(2, 3, 3, 2), x(2))
    case("conv2d", x(1, 4, 6, 5), x(4, 2, 3, 3), None, [2, 1], [1, 2], [1, 2], 2)
    case("conv2d", x(2, 4, 4), x(3, 2, 2, 2), x(3))
    case("conv2d.padding", x(1, 2, 5, 5), x(2, 2, 2, 4), x(2), [1, 1], "same", [2, 1])
    case("conv2d.padding", x(1, 2, 4, 4), x(2, 2, 2, 2), None, [2, 2], "valid")
    case("conv1d", x(2, 2, 7), x(3, 2, 3), x(3), [2], [1], [2])
    case("conv1d.padding", x(1, 1, 5), x(1, 1, 4), None, [1], "same")
    case("convolution", x(1, 2, 5), x(2, 2, 3), x(2), [1], [1], [1], False, [0], 1)
    case("convolution", x(1, 2, 3, 3), x(2, 3, 2, 2), x(3), [2, 2], [0, 1], [1, 1], True, [1, 0], 1)
    case("conv_transpose2d.input", x(2, 4, 3, 2), x(4, 2, 3, 3), x(4), [2, 1], [1, 0], [1, 0], 2)
    case("conv_transpose1d", x(2, 3, 4), x(3, 2, 3), None, [2], [1])
    for ceil in (False, True):
        case("max_pool2d", distinct(1, 2, 5, 6), [2, 3], [2, 2], [1, 1], [1, 1], ceil)
        case("max_pool2d", distinct(2, 5, 5), [3, 3], [2, 2], [0, 0], [1, 1], ceil)
        case("max_pool1d", distinct(2, 2, 7), [2], [3], [1], [2], ceil)
        for include in (False, True):
            case("avg_pool2d", x(1, 2, 5, 6), [2, 3], [2, 2], [1, 1], ceil, include)
            case("avg_pool1d", x(2, 2, 6), [3], [2], [1], ceil, include)
        case("avg_pool2d", x(1, 1, 5, 5), [2, 2], [], [0, 0], ceil, True, 3)
    case("max_pool2d", torch.ones(1, 1, 4, 4, dtype=torch.float64), [2, 2], [1, 1])
    case("max_pool2d", distinct(1, 1, 4, 4), [2, 2])
    case("adaptive_avg_pool2d", x(1, 2, 4, 6), [2, 3])
    case("adaptive_avg_pool2d", x(2, 4, 6), [1, 1])
    case("adaptive_avg_pool1d", x(1, 2, 6), [3])


def loss_cases():
    for dim in (0, 1, -1):
        case("softmax.int", x(2, 3, 2), dim)
        case("log_softmax.int", x(2, 3, 2), dim)
    case("_softmax", x(2, 3), 1, False)
    case("log_softmax.int", x(2, 3) * 100, 1)
    for reduction in (0, 1, 2):
        case("nll_loss_nd", x(4, 3), i([0, 2, 1, 2]), None, reduction)
        case("nll_loss_nd", x(4, 3), i([0, -100, 1, 2]), None, reduction)
        case("nll_loss_nd", x(2, 3, 2), i([[0, 2], [1, 1]]), None, reduction, 1)
        case("cross_entropy_loss", x(4, 3), i([0, 2, 1, 2]), None, reduction)
        case("cross_entropy_loss", x(4, 3), i([0, 1, 1, 2]), None, reduction, 1, 0.25)
        case("cross_entropy_loss", x(2, 3, 2, 2), classes(2, 2, 2, n=3), None, reduction)
        for name in ("mse_loss", "l1_loss"):
            case(name, x(2, 3), x(2, 3), reduction)
        case("smooth_l1_loss", x(2, 3), x(2, 3), reduction, 0.5)
        case("huber_loss", x(2, 3), x(2, 3), reduction, 1.5)
        case("binary_cross_entropy", x(2, 3, low=0.1, high=0.9), x(2, 3, low=0.0, high=1.0), None, reduction)
        case(
            "binary_cross_entropy_with_logits",
            x(2, 3) * 4,
            x(2, 3, low=0.0, high=1.0),
            x(3),
            x(3),
            reduction,
            constant=(2, 3),
        )
        case("kl_div", x(2, 3), x(2, 3, low=0.1, high=1.0), reduction)
    case("nll_loss_nd", x(3), i(1))
    case("cross_entropy_loss", x(3), i(1))
    case("cross_entropy_loss", x(3), i(1), None, 0)
    case("cross_entropy_loss", x(2, 3), i([-100, -100]))
    case("mse_loss", x(2, 1), x(2, 3), gradient=False)  # F.mse_loss broadcasts before; alone its gradient is wrong
    case("l1_loss", i([1, 2]).double(), i([1, 3]).double())
    case("smooth_l1_loss", x(3), x(3), 1, 0.0)
    edge = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    case("binary_cross_entropy", edge.clone(), torch.tensor([0.0, 1.0, 1.0, 0.5], dtype=torch.float64))
    case("binary_cross_entropy_with_logits", torch.tensor([0.0, 100.0, -100.0], dtype=torch.float64), edge[:3].clone())
    case("kl_div", x(3), torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64), constant=(1,))
    case("kl_div", x(3), x(3), 2, log_target=True)


def indexing_cases():
    case("embedding", x(5, 2), i([[0, 4], [2, 2]]))
    case("embedding", x(5, 2), i([0, 4, 2]), 2)
    case("gather", x(3, 4), 1, i([[0, 3], [1, 1], [2, 0]]))
    case("gather", x(3, 2), -2, i([[0, 2], [1, 1], [2, 0], [2, 2]]))
    case("take_along_dim", x(3, 4), i([[0], [3], [1]]), 1)
    case("take_along_dim", x(2, 3), i([0, 5]))
    case("scatter_add", x(3, 4), 1, i([[0, 3], [1, 1]]), x(2, 2))
    case("scatter_add", x(3, 4), 1, i([[0, 3], [1, 1]]), x(3, 3), gradient=False)
    case("index_select", x(3, 4), 1, i([3, 0, 0]))
    case("index_select", x(3), 0, i(1))
    case("index_add", x(3, 2), 0, i([2, 0, 2]), x(3, 2), alpha=0.5)
    case("index.Tensor", x(4, 2), [i([3, -1, 0])])
    case("index.Tensor", x(4, 3, 2), [None, i([[0, 2], [1, -1]])])
    case("index.Tensor", x(4, 3, 2), [i([0, 3]), i([1, 2])])
    case("index.Tensor", x(4, 3, 2), [i([0, 3]), None, i([1, 0])])
    case("index.Tensor", x(2, 3, 4), [None, i([[0], [2]]), i([1, 3])])
    case("one_hot", i([[0, 2], [1, 1]]), 3)


def layer_cases():
    case("layer_norm", x(2, 3, 4), [4], x(4), x(4))
    case("layer_norm", x(2, 3, 4), [3, 4])
    case("native_layer_norm", x(2, 4), [4], x(4), None, 1e-3)
    case("rms_norm", x(2, 4), [4], x(4))
    case("group_norm", x(2, 4, 3), 2, x(4), x(4))
    stats = lambda: (x(3), x(3, low=0.5, high=2.0))  # noqa: E731
    case("batch_norm", x(2, 3, 2, 2), x(3), x(3), *stats(), True, 0.25, 1e-3, False, constant=(3, 4))
    case("batch_norm", x(4, 3), None, None, None, None, True, 0.1, 1e-5, False)
    case("batch_norm", x(2, 3, 4), x(3), x(3), *stats(), False, 0.1, 1e-3, False, constant=(3, 4))
    case("instance_norm", x(2, 3, 4), x(3), x(3), None, None, True, 0.1, 1e-3, False)
    case("instance_norm", x(2, 3, 4), None, None, *stats(), True, 0.25, 1e-3, False, constant=(1, 2))
    q, k, v = (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3)
    case("scaled_dot_product_attention", x(*q), x(*k), x(*v))
    case("scaled_dot_product_attention", x(*q), x(*k), x(*v), None, 0.0, True, scale=0.75)
    case("scaled_dot_product_attention", x(*q), x(*k), x(*v), x(3, 5))
    mask = i([[1, 0, 1, 0, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]) > 0
    case("scaled_dot_product_attention", x(*q), x(*k), x(*v), mask)
    case("scaled_dot_product_attention", x(1, 4, 2, 3), x(1, 2, 3, 3), x(1, 2, 3, 3), enable_gqa=True)
    case("pixel_shuffle", x(2, 8, 2, 3), 2)
    case("repeat_interleave.self_int", x(2, 3), 2, 1)
    case("repeat_interleave.self_int", x(2, 2), 3)
    case("glu", x(2, 4))
    case("glu", x(4, 3), 0)
    case("prelu", x(2, 3, 2), x(3))
    case("prelu", x(5), x(1))
    case("cumsum", x(2, 3, 2), 1)
    case("cumsum", i([[1, 2, 3], [4, 5, 6]]), -1)
    case("bilinear", x(2, 2, 3), x(2, 2, 4), x(5, 3, 4), x(5))
    case("diagonal", x(3, 4))
    case("diagonal", x(2, 4, 3), -1, 1, 2)
    case("diagonal", x(3, 2, 4), 2, 0, -1)


shape_cases()
reduction_cases()
linear_cases()
convolution_cases()
loss_cases()
indexing_cases()
layer_cases()
path = pathlib.Path(__file__).with_name("aten_cases.json")
path.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(f"{len(cases)} cases")
