"""`torch.func` while a model is captured: its transformations are compositions of gradients, which are captured.

torch runs them through dispatch layers of its own, which would take operators away from the capture. What they are made
of is replaced instead: an argument to differentiate by is a value of its own, derivatives in the forward direction are
gradients of gradients, and `vmap` calls the function once for each element.
"""

from __future__ import annotations

import contextlib

import torch
from torch._functorch import apis, eager_transforms, predispatch, vmap as functorch_vmap
from torch.utils import _pytree as pytree

from poptorch._impl import errors
from poptorch._impl.capture import state as capture_state

_MOST_COPIES = 512  # of a function that vmap calls for each element


class _Level:
    """One call of a transformation: results carry gradients for what is outside if these were on there."""

    def __init__(self):
        self.outer_gradients = torch.is_grad_enabled()


@contextlib.contextmanager
def _nesting():
    yield _Level()


def _own_value(tensor):
    """`tensor` as a value that nothing else stands for; gradients go on to it."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        return tensor
    if tensor.device.type != "ipu":
        tensor = tensor.to("ipu")
    return torch.ops.poptorch.nop(tensor) if tensor.requires_grad else torch.ops.poptorch.nop(tensor.detach())


def _wrap_all(tree, level):
    return pytree.tree_map(_own_value, tree)


def _make_differentiable(tree, level=None):
    def make(tensor):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(tensor)}")
        return tensor if tensor.requires_grad else tensor.requires_grad_()

    return pytree.tree_map(make, tree)


def _leave(tree, level=None):
    """What a transformation returns, as those outside of it see it."""
    if level is None or level.outer_gradients:
        return tree
    return pytree.tree_map(lambda value: value.detach() if isinstance(value, torch.Tensor) else value, tree)


def _forward_derivatives(func, primals, tangents, argnums, *, strict=False, has_aux):
    """`torch.func.jvp`: the gradient of what a gradient is linear in."""
    name = eager_transforms.jvp_str
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    chosen = primals if argnums is None else eager_transforms._slice_argnums(primals, argnums)
    _, primals_spec = pytree.tree_flatten(chosen)
    flat_tangents, tangents_spec = pytree.tree_flatten(tangents)
    if primals_spec != tangents_spec:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {primals_spec} and tangents with "
            f"structure {tangents_spec}"
        )
    capture = capture_state.active()
    level = _Level()
    with torch.enable_grad():
        primals = _wrap_all(primals, level)
        chosen = primals if argnums is None else eager_transforms._slice_argnums(primals, argnums)
        flat_primals = [_make_differentiable(tensor) for tensor in pytree.tree_leaves(chosen)]
        eager_transforms.assert_non_empty_list_of_tensors(flat_primals, name, "primals")
        eager_transforms.assert_non_empty_list_of_tensors(flat_tangents, name, "tangents")
        capture.forward_derivatives += 1
        try:
            output = func(*primals)
            aux = None
            if has_aux:
                if not (isinstance(output, tuple) and len(output) == 2):
                    raise RuntimeError(
                        f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
                    )
                output, aux = output
            flat_outputs, spec = pytree.tree_flatten(output)
            eager_transforms.assert_non_empty_tensor_output(flat_outputs, name)
            directions = [_make_differentiable(_own_value(torch.zeros_like(value))) for value in flat_outputs]
            pulled = eager_transforms._autograd_grad(flat_outputs, flat_primals, directions, create_graph=True)
            flat_tangents = [tangent.to(value.device, value.dtype) for tangent, value in zip(flat_tangents, pulled)]
            found = eager_transforms._autograd_grad(pulled, directions, flat_tangents, create_graph=True)
        finally:
            capture.forward_derivatives -= 1
        if strict and not any(value.requires_grad for value in pulled):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
                "This is not allowed with strict=True."
            )
    result = _leave((output, pytree.tree_unflatten(list(found), spec)), level)
    return (*result, _leave(aux, level)) if has_aux else result


def _of_each(func, batch_size, flat_in_dims, flat_args, spec, kwargs):
    """The results of `func`, called once for each element, as flat lists, and how one is built."""
    if batch_size > _MOST_COPIES:
        raise errors.create_error(
            f"vmap over {batch_size} elements in forward: the program would hold as many copies of the function; at most "
            f"{_MOST_COPIES} are made. Write the function on whole batches, or use poptorch.for_loop."
        )
    found, structure = [], None
    for number in range(batch_size):
        args = [value if dim is None else value.select(dim, number) for value, dim in zip(flat_args, flat_in_dims)]
        flat, structure = pytree.tree_flatten(func(*pytree.tree_unflatten(args, spec), **kwargs))
        found.append(flat)
    return found, structure


def _check_randomness(capture, drawn, randomness):
    if capture.core.random_operations() == drawn or randomness == "different":
        return
    if randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
            "randomness flags on vmap or perform the randomness operation out of vmap"
        )
    raise errors.create_error(
        "vmap(randomness='same') over random operations in forward: each element draws numbers of its own. "
        "Use randomness='different', or draw them before vmap and pass them in with in_dims=None."
    )


def _stack(values, dim, name):
    for value in values:
        if not isinstance(value, torch.Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. Did you mean to set "
                "out_dims= to None for output?"
            )
    return torch.stack(values, dim)


def _vmap(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs):
    capture = capture_state.active()
    name = functorch_vmap._get_name(func)
    batch_size, flat_in_dims, flat_args, spec = functorch_vmap._process_batched_inputs(in_dims, args, func)
    drawn = capture.core.random_operations()
    found, structure = _of_each(func, batch_size, flat_in_dims, flat_args, spec, kwargs)
    _check_randomness(capture, drawn, randomness)
    dims = pytree._broadcast_to_and_flatten(out_dims, structure)
    if dims is None and len(found[0]) == 1 and isinstance(out_dims, tuple) and len(out_dims) == 1:
        dims = list(out_dims)
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {pytree.tree_flatten(out_dims)[1]} but outputs has structure {structure}."
        )
    flat = [values[0] if dim is None else _stack(list(values), dim, name) for values, dim in zip(zip(*found), dims)]
    return pytree.tree_unflatten(flat, structure)


def _batched_gradients(func, in_dims=0, out_dims=0, *, allow_none_pass_through=False):
    """The `vmap` that `torch.autograd.grad(is_grads_batched=True)` uses."""

    def wrapped(*args):
        batch_size, flat_in_dims, flat_args, spec = functorch_vmap._process_batched_inputs(in_dims, args, func)
        found, structure = _of_each(func, batch_size, flat_in_dims, flat_args, spec, {})
        return pytree.tree_unflatten(
            [None if values[0] is None else torch.stack(values, out_dims) for values in zip(*found)], structure
        )

    return wrapped


def _refused(name, cure):
    def refuse(*args, **kwargs):
        raise errors.create_error(f"{name} is not supported in forward. {cure}")

    return refuse


def _here(original, inside):
    """`inside` for the thread that captures, and the original for others."""

    def chosen(*args, **kwargs):
        return (original if capture_state.active() is None else inside)(*args, **kwargs)

    return chosen


def install(changes):
    """Replaces what the transformations are made of for as long as `changes` lasts."""
    for name, inside in (
        ("grad_increment_nesting", _nesting),
        ("_wrap_all_tensors", _wrap_all),
        ("_create_differentiable", _make_differentiable),
        ("_undo_create_differentiable", _leave),
        ("_jvp_with_argnums", _forward_derivatives),
    ):
        changes.replace(eager_transforms, name, _here(getattr(eager_transforms, name), inside))
    changes.replace(apis, "vmap_impl", _here(apis.vmap_impl, _vmap))
    refuse = _refused("torch.func.linearize", "Use torch.func.jvp.")
    disallow = eager_transforms.lazy_dynamo_disallow
    changes.replace(eager_transforms, "lazy_dynamo_disallow", _here(disallow, lambda function: refuse))
    refuse_too = _refused("torch.func.functionalize", "Call the function itself: what is captured is functional.")
    for name, instead in (("_func_increment_nesting", refuse_too), ("_func_decrement_nesting", lambda: None)):
        changes.replace(eager_transforms, name, _here(getattr(eager_transforms, name), instead))
    make_dual = _refused("torch.autograd.forward_ad.make_dual", "Use torch.func.jvp.")
    changes.replace(predispatch, "_make_dual", _here(predispatch._make_dual, make_dual))
    internals = torch._vmap_internals
    changes.replace(internals, "_vmap", _here(internals._vmap, _batched_gradients))
