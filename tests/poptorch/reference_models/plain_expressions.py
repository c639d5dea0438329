"""Expressions of plain PyTorch and numpy, as any part of a program may have them, and what they give."""

import numpy as np

TORCH = """
torch.tensor([torch.tensor(1), torch.tensor(2)])
torch.tensor([torch.tensor(1.5), 2, torch.tensor(3)])
torch.tensor([[torch.tensor(1.0)], [torch.tensor(2.0)]])
torch.tensor((torch.ones(()), torch.zeros(())))
torch.as_tensor([torch.tensor(1), torch.tensor(2)])
torch.tensor([torch.ones(2)])
torch.tensor([np.float32(1), np.float32(2)])
torch.tensor(np.arange(3))
torch.tensor([True, False])
torch.tensor([])
torch.stack([torch.tensor(1.0), torch.tensor(2.0)]).mean()
np.array([torch.tensor(1), torch.tensor(2)])
np.array(torch.ones(2))
np.asarray(torch.arange(3))
np.stack([torch.ones(2), torch.zeros(2)])
np.add(torch.ones(2).numpy(), 1)
np.ones(2) + torch.ones(2).numpy()
torch.ones(2) * np.float64(2)
torch.from_numpy(np.arange(4.0))
torch.ones(2).numpy()
torch.ones(2).__array__()
torch.ones(2, requires_grad=True).numpy()
isinstance(torch.ones(1), collections.abc.Sequence)
isinstance(torch.ones(1), collections.abc.Iterable)
hasattr(torch.ones(1), '__getitem__'), hasattr(torch.Tensor, '__len__'), hasattr(torch.Tensor, '__setitem__')
operator.getitem(torch.arange(4), 2)
operator.concat([1], [2])
operator.concat(torch.ones(1), torch.ones(1))
operator.length_hint(torch.ones(3))
operator.index(torch.tensor(3))
len(torch.ones(3, 2))
len(torch.tensor(1))
list(torch.arange(3))
list(reversed(torch.arange(3)))
tuple(torch.ones(2, 2))
[int(i) for i in torch.arange(3)]
iter(torch.tensor(1))
torch.arange(3) in [1, 2]
1 in torch.arange(3)
range(torch.tensor(3))
[10, 20, 30][torch.tensor(1)]
[10, 20, 30][torch.tensor(0):torch.tensor(2)]
'abc'[torch.tensor(1)]
torch.arange(6)[1]
torch.arange(6)[1:4]
torch.arange(6)[torch.tensor(1):torch.tensor(4)]
torch.arange(6)[:torch.tensor(2)]
torch.arange(6)[torch.tensor([1, 2])]
torch.arange(6)[torch.arange(6) > 2]
torch.arange(6).view(2, 3)[..., 0]
torch.arange(6).view(2, 3)[None, :, 1]
torch.arange(6).view(2, 3)[1, torch.tensor(2)]
torch.arange(6).view(2, 3)[[0, 1], [1, 2]]
torch.arange(6)[6]
torch.arange(6)['a']
torch.arange(6)[1.0]
torch.arange(6)[True]
torch.arange(6)[::2]
torch.arange(6)[::-1]
torch.Tensor.__getitem__(torch.arange(3), 1)
changed(torch.zeros(4), lambda t: t.__setitem__(1, 5))
changed(torch.zeros(4), lambda t: t.__setitem__(slice(torch.tensor(1), torch.tensor(3)), 5))
changed(torch.zeros(4), lambda t: operator.setitem(t, slice(0, 2), torch.ones(2)))
changed(torch.zeros(2, 2), lambda t: operator.setitem(t, (0, slice(None)), 3.0))
changed(torch.zeros(4), lambda t: operator.setitem(t, t == 0, 1.0))
changed(torch.zeros(4), lambda t: operator.delitem(t, 0))
changed(torch.zeros(4), lambda t: operator.setitem(t, 9, 1.0))
torch.nn.Parameter(torch.arange(4.0))[1:3]
torch.nn.Parameter(torch.arange(4.0))[torch.tensor(1):torch.tensor(3)]
torch.nn.Parameter(torch.ones(2))
torch.nn.Buffer(torch.ones(2))
Derived(torch.arange(4.0))[1:3]
type(Derived(torch.arange(4.0))[1:3]).__name__
Derived(torch.arange(4.0))[torch.tensor(1):torch.tensor(3)]
Own(torch.arange(4.0))[1:3]
type(Own(torch.arange(4.0)) + 1).__name__
type('Made', (torch.Tensor,), {})(torch.arange(3.0))[0]
type(torch.ones(1)).__mro__
torch.ones(1).__class__ is torch.Tensor
sorted(vars(torch.nn.Module))
sorted(set(vars(torch.nn.Parameter)) - {'__slotnames__'})
len(dir(torch.Tensor)) == len(set(dir(torch.Tensor)))
torch.Tensor.__getitem__
torch.Tensor.numpy
torch.Tensor.register_hook
torch.Tensor.retain_grad
torch.nn.Module.__call__
torch.nn.Module._call_impl
torch.nn.functional.mse_loss
torch.nn.functional.kl_div
torch.zeros, torch.tensor, torch.arange, torch.rand
torch.compile
torch.jit.is_tracing
torch.backends.mha.get_fastpath_enabled
torch.utils.checkpoint.CheckpointFunction
torch.distributions.Distribution._validate_args
torch.nn.BatchNorm1d.forward
pickle.loads(pickle.dumps(torch.zeros))
pickle.loads(pickle.dumps(torch.nn.functional.mse_loss))
pickle.loads(pickle.dumps(torch.jit.is_tracing))
pickle.loads(pickle.dumps(torch.ones(2)))
pickle.loads(pickle.dumps(torch.nn.Parameter(torch.ones(2))))
copy.deepcopy(torch.ones(2))
copy.copy(torch.nn.Linear(2, 2)).in_features
inspect.signature(torch.nn.functional.mse_loss)
inspect.signature(torch.nn.Module.__call__)
inspect.getsourcefile(torch.nn.functional.kl_div).endswith('functional.py')
torch.zeros.__name__, torch.zeros.__module__, torch.tensor.__qualname__
repr(torch.arange(3.0)), str(torch.ones(2, 2)), f'{torch.tensor(1.5):.2f}'
repr(torch.nn.Linear(2, 3))
torch.zeros(2).device, torch.tensor(1).device, torch.arange(2).device
torch.zeros(2, dtype=torch.int8), torch.full((2,), True), torch.zeros_like(torch.ones(1))
torch.empty(0), torch.eye(2), torch.linspace(0, 1, 3), torch.logspace(0, 1, 2)
torch.ones(2, device='meta').shape
torch.rand(3, generator=torch.Generator().manual_seed(1))
torch.randn(3, generator=torch.Generator().manual_seed(1))
torch.randint(5, (3,), generator=torch.Generator().manual_seed(1))
torch.randperm(5, generator=torch.Generator().manual_seed(1))
torch.normal(0.0, 1.0, (2,), generator=torch.Generator().manual_seed(1))
torch.normal(torch.zeros(2), torch.ones(2), generator=torch.Generator().manual_seed(1)).shape
torch.full_like(torch.ones(2), 3), torch.ones_like(torch.zeros(2)), torch.empty_like(torch.ones(2)).shape
torch.ones(2).tolist(), torch.tensor(3).item(), float(torch.tensor(2.5)), bool(torch.tensor(0))
int(torch.tensor(7)), complex(torch.tensor(1.0)), hash(torch.Size([1, 2]))
torch.ones(2, 3).sum(0), torch.ones(2, 3).mean(), torch.arange(5).max(), torch.arange(5.0).std()
torch.ones(2, 2) @ torch.ones(2, 2), torch.einsum('ij,jk', torch.ones(2, 2), torch.ones(2, 2))
torch.cat([torch.ones(1), torch.zeros(1)]), torch.split(torch.arange(4), 2), torch.chunk(torch.arange(4), 2)
torch.where(torch.arange(3) > 0, 1, 0), torch.where(torch.arange(3) > 0), torch.nonzero(torch.arange(3))
torch.unique(torch.tensor([1, 2, 1])), torch.masked_select(torch.arange(3), torch.arange(3) > 0)
torch.sort(torch.tensor([3, 1, 2])), torch.topk(torch.arange(4.0), 2), torch.argmax(torch.arange(3))
torch.gather(torch.arange(4), 0, torch.tensor([2])), torch.scatter(torch.zeros(3), 0, torch.tensor([1]), 1.0)
torch.equal(torch.ones(1), torch.ones(1)), torch.allclose(torch.ones(1), torch.ones(1))
torch.ones(2) + torch.ones(3)
torch.ones(2, 2) @ torch.ones(3)
torch.tensor('a')
torch.zeros(-1)
torch.ones(1).to('cuda')
torch.ones(1).no_such_name
torch.ones(1, requires_grad=True).sum().backward()
gradient(lambda x: (x * x).sum())
gradient(lambda x: torch.nn.functional.mse_loss(x, torch.zeros(3)))
gradient(lambda x: torch.nn.functional.kl_div(x, torch.ones(3), reduction='sum'))
gradient(lambda x: torch.nn.functional.huber_loss(x, torch.zeros(3), weight=torch.ones(3)))
gradient(lambda x: Doubled.apply(x).sum())
gradient(lambda x: torch.nn.functional.l1_loss(x, torch.zeros(3), weight=torch.ones(3)))
gradient(lambda x: x[1:].sum() + x[torch.tensor(0):torch.tensor(2)].sum())
gradient(lambda x: hooked(x * 2).sum())
torch.autograd.grad(torch.ones(2, requires_grad=True).pow(2).sum(), [])
torch.func.functional_call(linear(), dict(weight=torch.ones(2, 2), bias=torch.zeros(2)), torch.ones(1, 2))
torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()
torch.get_default_dtype(), torch.get_default_device(), torch.is_autocast_enabled('cpu')
torch.jit.is_tracing(), torch.jit.is_scripting(), torch.compiler.is_compiling()
torch.overrides.has_torch_function((torch.ones(1),)), torch.overrides.is_tensor_like(torch.ones(1))
torch.overrides.resolve_name(torch.Tensor.__getitem__), torch.overrides.resolve_name(torch.nn.functional.mse_loss)
torch.overrides.is_tensor_method_or_property(torch.Tensor.numpy)
seen(lambda: torch.zeros(1) + torch.tensor([1.0])[0])
seen(lambda: torch.nn.functional.mse_loss(torch.ones(1), torch.ones(1)))
torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
linear()(torch.ones(1, 2))
torch.nn.Sequential(linear(), torch.nn.ReLU())(torch.ones(1, 2))
torch.nn.BatchNorm1d(2, momentum=None)(torch.arange(4.0).view(2, 2))
torch.nn.BatchNorm1d(2).eval()(torch.ones(1, 2))
torch.nn.LayerNorm(2)(torch.arange(4.0).view(2, 2))
torch.nn.Dropout(0.0)(torch.ones(2))
torch.nn.MSELoss()(torch.ones(2), torch.zeros(2)), torch.nn.L1Loss()(torch.ones(2), torch.zeros(2))
torch.nn.CrossEntropyLoss()(torch.zeros(1, 3), torch.tensor([1]))
torch.nn.Embedding(3, 2).weight.shape, torch.nn.LSTM(2, 2)(torch.zeros(1, 1, 2))[0].shape
encoder()(torch.linspace(0, 1, 16).view(1, 2, 8)).shape
encoder()(torch.ones(1, 2, 8), src_mask=torch.nn.Transformer.generate_square_subsequent_mask(2)).shape
torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 2, 2)] * 3)
torch.nn.functional.softmax(torch.ones(2), 0), torch.nn.functional.one_hot(torch.tensor([1]), 3)
torch.nn.functional.interpolate(torch.ones(1, 1, 2, 2), 4).shape
torch.nn.utils.parameters_to_vector([torch.ones(2)]), torch.nn.utils.clip_grad_norm_([torch.ones(1)], 1.0)
list(linear().state_dict()), [name for name, _ in linear().named_parameters()], len(list(linear().modules()))
linear().to(torch.float64).weight.dtype, linear().requires_grad_(False).bias.requires_grad
hooks_of(linear())
trained()
torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.5))
torch.distributions.Normal(0.0, -1.0)
torch.distributions.Categorical(torch.tensor([-1.0, 2.0]))
torch.distributions.Normal(torch.zeros(1), torch.ones(1), validate_args=False).sample().shape
torch.jit.script(scripted)(torch.ones(2))
torch.jit.script(scripted).code
torch.jit.script(linear()).graph is not None
torch.fx.symbolic_trace(linear()).code
torch.fx.symbolic_trace(scripted).code
torch.multiprocessing.get_start_method(allow_none=True), torch.get_num_threads(), torch.get_num_interop_threads()
torch.utils.data.default_collate([torch.tensor(1), torch.tensor(2)])
torch.utils.data.default_collate([(1, 2.0), (3, 4.0)])
list(torch.utils.data.DataLoader([1, 2, 3], batch_size=2))
next(iter(torch.utils.data.TensorDataset(torch.ones(2))))
torch.utils._pytree.tree_map(lambda x: x + 1, dict(a=torch.ones(1)))
torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (2,)).to_dense()
torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]).size(0)
torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).dequantize()
torch.complex(torch.ones(1), torch.ones(1)), torch.view_as_real(torch.ones(1, dtype=torch.complex64))
torch.finfo(torch.float16).max, torch.iinfo(torch.int8).min, torch.promote_types(torch.int8, torch.float16)
torch.result_type(torch.ones(1), 2), torch.can_cast(torch.float32, torch.int8)
torch.ones(2).untyped_storage().nbytes(), torch.ones(2).element_size(), torch.ones(2, 2).stride()
saved(torch.ones(2)), saved(linear().state_dict())['bias'].shape
torch.__version__ == sys.modules['torch'].__version__, type(torch), type(torch.nn.functional), type(torch.jit)
'zeros' in vars(torch), torch.zeros is vars(torch)['zeros'], getattr(torch, 'no_such_name', None)
torch.no_such_name
torch.initial_seed() == torch.initial_seed(), torch.random.get_rng_state().shape
""".strip().splitlines()

NUMPY = """
np.array([1, 2]) + 1
np.arange(6).reshape(2, 3)[..., 1:]
np.asarray([[1, 2], [3, 4]]).T
np.ones(2, np.float16), np.zeros((), np.int8), np.full(2, True)
np.add.reduce(np.arange(4)), np.matmul(np.ones((2, 2)), np.ones(2))
np.float32(1) / np.float32(3), np.int8(127) + np.int8(1)
np.divide(1.0, 0.0), np.log(0.0), np.sqrt(-1.0)
np.array([1, 'a']), np.array([None]), np.array([[1], [2, 3]], dtype=object)
np.array([1, 2])[5]
np.ones(2) + np.ones(3)
np.random.default_rng(1).random(2), np.random.RandomState(1).rand(2)
np.geterr(), np.get_printoptions()['precision'], np.errstate
np.dtype('float32'), np.dtype('>i4'), np.result_type(np.int8, np.float16), np.can_cast('f4', 'f2')
np.frombuffer(b'abcd', np.uint8), np.array(memoryview(b'ab')), np.array(3).item(), np.ones(1).tolist()
repr(np.arange(3.0)), str(np.float32(0.1)), np.array2string(np.ones(2))
np.concatenate([np.ones(1), np.zeros(1)]), np.where(np.arange(3) > 0), np.unique([2, 1, 2])
np.save, np.ndarray.__getitem__, np.ndarray.__add__, type(np), type(np.random)
pickle.loads(pickle.dumps(np.arange(2))), copy.deepcopy(np.ones(1)), isinstance(np.ones(1), collections.abc.Sequence)
np.float64('nan') == np.float64('nan'), np.isnan(np.array([np.nan, 1])), np.nan_to_num(np.inf)
np.linalg.inv(np.eye(2)), np.fft.fft(np.ones(2)), np.einsum('i,i', np.ones(2), np.ones(2))
onnx.helper.make_tensor('a', onnx.TensorProto.FLOAT, [2], [1.0, 2.0]).SerializeToString()
onnx.numpy_helper.to_array(onnx.numpy_helper.from_array(np.arange(3)))
onnx.helper.make_node('Add', ['a', 'b'], ['c']).op_type, onnx.defs.onnx_opset_version(), onnx.IR_VERSION
onnx.checker.check_node(onnx.helper.make_node('Nothing', [], []))
onnx.helper.make_graph([], 'empty', [], []).SerializeToString()
onnx.ModelProto.FromString(b'nonsense')
onnx.ModelProto.__init__, type(onnx), onnx.load, len(onnx.defs.get_all_schemas())
""".strip().splitlines()


def plain(value):
    """A value in a form that can be compared."""
    kind = type(value)
    if kind.__name__ in ("Tensor", "Parameter", "Derived", "Own", "Made", "ndarray"):
        numbers = str(value.tolist()) if kind.__name__ == "ndarray" or value.device.type == "cpu" else None
        return kind.__name__, str(value.dtype), tuple(value.shape), numbers, getattr(value, "requires_grad", None)
    if isinstance(value, dict):
        return kind.__name__, {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return kind.__name__, [plain(member) for member in value]
    if isinstance(value, (type, bool, int, float, str, bytes, complex, type(None))):
        return repr(value)
    return kind.__name__, value if callable(value) else str(value).split(" at 0x")[0]


def results(expressions, names):
    """What each expression gives, or raises."""
    found = {}
    for expression in expressions:
        try:
            found[expression] = plain(eval(expression, dict(names, np=np)))
        except Exception as error:
            found[expression] = type(error).__name__, str(error).splitlines()[0]
    return found


def torch_names():
    """What the expressions of torch need."""
    import collections.abc
    import copy  # noqa: F401 (the expressions use it, as those below)
    import inspect  # noqa: F401
    import io
    import operator  # noqa: F401
    import pickle  # noqa: F401
    import sys  # noqa: F401

    import torch

    def made(kind, *arguments, **options):
        module = kind(*arguments, **options)
        with torch.no_grad():
            for number, parameter in enumerate(module.parameters()):
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter) * (number + 1))
        return module

    def linear():
        return made(torch.nn.Linear, 2, 2)

    class Derived(torch.Tensor):
        pass

    class Own(torch.Tensor):
        def __getitem__(self, index):
            return super().__getitem__(index) + 1

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, upstream):
            return upstream * 2

    def changed(tensor, change):
        change(tensor)
        return tensor

    def gradient(function):
        x = torch.linspace(0.1, 0.9, 3).requires_grad_()
        function(x).backward()
        return x.grad

    def hooked(tensor):
        tensor.retain_grad()
        tensor.register_hook(lambda upstream: upstream * 3)
        return tensor

    def hooks_of(module):
        calls = []
        module.register_forward_hook(lambda *_: calls.append("after"))
        module.register_forward_pre_hook(lambda *_: calls.append("before"))
        module(torch.ones(1, 2))
        return calls

    def seen(function):
        names = []

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, kinds, arguments=(), options=None):
                names.append(torch.overrides.resolve_name(function) or str(function))
                return function(*arguments, **(options or {}))

        with Mode():
            function()
        return names

    def trained():  # not by an optimizer, which loads torch's compiler
        model, losses = linear(), []
        for _ in range(3):
            loss = torch.nn.functional.mse_loss(model(torch.ones(2, 2)), torch.zeros(2, 2), weight=torch.ones(2, 2))
            model.zero_grad()
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
            losses.append(loss.detach())
        return torch.tensor(losses)

    def saved(value):
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        return torch.load(file)

    def encoder():
        return made(torch.nn.TransformerEncoderLayer, 8, 2, 8, batch_first=True).eval()

    def scripted(x):
        return x[0:1] + torch.zeros(1)

    return {**locals(), "collections": collections, "torch": torch}


def numpy_names():
    """What the expressions of numpy and onnx need."""
    import collections.abc
    import copy
    import pickle

    import onnx
    import onnx.checker

    return {"collections": collections, "copy": copy, "pickle": pickle, "onnx": onnx}
