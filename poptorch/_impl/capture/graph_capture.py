"""Runs `forward` once on symbolic ipu tensors and hands what it recorded to the compiler."""

import contextlib
import warnings

import torch
from torch.utils._python_dispatch import _disable_current_modes

from poptorch import poptorch_core
from poptorch._impl import errors
from poptorch._impl.capture import custom_functions, host_calls, lazy_modules, patches, state as capture_state
from poptorch._impl.capture.registrations import Registrations
from poptorch._impl import structures


def micro_batch(tensor, count, factors):
    """The first of `count` equal parts along dimension 0.

    Raises:
        AssertionError: dimension 0 is not divisible; `factors` (dict) explains where the count comes from.
    """
    if tensor.dim() == 0:
        assert count == 1, "a 0-dimensional input counts as one row, but a call needs " + _explain(count, factors)
        return tensor
    rows = tensor.shape[0]
    assert rows % count == 0 and rows >= count, (
        f"The first dimension of an input of shape {list(tensor.shape)} must be divisible by {_explain(count, factors)}"
    )
    return tensor.narrow(0, 0, rows // count)


def _explain(count, factors):
    return (
        f"{count} = " + " x ".join(f"{name} ({value})" for name, value in factors.items()) + " micro-batches per call."
    )


def parameters_and_buffers(model):
    """(name, tensor, is_parameter) of the module tree, each tensor once, under its first name."""
    seen = set()
    for is_parameter, named in ((True, model.named_parameters()), (False, model.named_buffers())):
        for name, tensor in named:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield name, tensor, is_parameter


@contextlib.contextmanager
def _surroundings(training):
    """What a capture does not take from where the wrapper is called: dispatch modes, and in training that gradients are off."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_disable_current_modes())
        if training:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
        yield


def _running_statistics(model):
    """Names of the buffers that layers of normalisation keep for themselves."""
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, torch.nn.modules.batchnorm._NormBase)
        for name in ("running_mean", "running_var", "num_batches_tracked")
    }


class GraphCapture:
    """One capture. `run` returns the captured program; whatever happens, model and torch are as before afterwards."""

    def __init__(self, model, training, options, trainable_names, groupings):
        self._model = model
        self._training = training
        self.core = poptorch_core.Capture(training)
        self._strategy = options._strategy
        self._name_modules = options._module_namescope
        self._trainable = trainable_names
        self._updatable = set(options.updatable_named_buffers) if options.exists("updatable_named_buffers") else set()
        self._groupings = groupings  # parameters with one entry per group of replicas; forward sees one
        self._module_names = {id(module): name for name, module in model.named_modules()}
        self._location_excludes = options._location_excludes
        self._module_path = []  # of the modules being called
        self._scopes = []  # names of the NameScopes being open
        self.states = {}  # name → host tensor
        self.host_calls = host_calls.HostCalls(self)
        self._swapped = []  # (tensor of the model, its counterpart, requires_grad), in the order of `states`
        self.initialised = []  # lazy modules that got their parameters
        self.custom_calls = []  # of functions with a backward pass of their own, in order of capture
        self.forward_derivatives = 0  # calls of torch.func.jvp that are open
        self.output_structure = None

    # --- called by annotations and patches while forward runs ---
    def set_block(self, block_id, ipu_id):
        self._strategy._places([(block_id, ipu_id)])  # an unknown block fails here, at the user's line
        name = block_id if isinstance(block_id, str) else f"<{block_id!r}>"  # no stage names these
        self.core.set_block(name, -1 if ipu_id is None else ipu_id)

    def clear_block(self):
        self.core.clear_block()

    def _push_path(self):
        path = self._module_path[-1] if self._module_path else ""
        self.core.push_module("/".join([*self._scopes, path] if path else self._scopes))

    def push_module(self, module):
        self._module_path.append(self._module_names.get(id(module), "") if self._name_modules else "")
        self._push_path()

    def pop_module(self):
        self._module_path.pop()
        self.core.pop_module()

    def push_attributes(self, attributes):
        self.core.push_attributes(attributes)

    def pop_attributes(self):
        self.core.pop_attributes()

    def set_available_memory(self, tensor, proportion):
        return self.core.set_available_memory(tensor, proportion)

    def begin_multi_conv(self):
        self.core.begin_multi_conv()

    def end_multi_conv(self, settings):
        return self.core.end_multi_conv(settings)

    def push_scope(self, name):
        self._scopes.append(name)
        self._push_path()

    def pop_scope(self):
        self._scopes.pop()
        self.core.pop_module()

    # --- the capture itself ---
    def run(self, names, values, keywords, count, factors):
        """Captures `model(*values)`.

        Args:
            names, values, keywords: as `ArgumentBinder.bind` gives them; tensors are whole-call inputs on the CPU.
            count: micro-batches per call, by which dimension 0 is cut. `factors` explains it in errors.

        Returns:
            `poptorch_core.Captured`.
        """
        examples = [
            [(self._example(tensor, count, factors), tensor.detach()) for tensor in structures.tensors_of(value)]
            for value in values
        ]
        buffers = {name for name, _ in self._model.named_buffers(remove_duplicate=False)}
        unknown = sorted(self._updatable - buffers)
        if unknown:
            raise errors.create_error(
                f"Options.updatableNamedBuffers: the model has no buffers {unknown}. It has {sorted(buffers)}."
            )
        changes = poptorch_core.Changes()
        try:
            with _surroundings(self._training):
                return changes.run(lambda: self._run(changes, names, values, keywords, examples))
        except poptorch_core.Error as error:
            if error.reason != "dynamic_shape":
                raise
            raise errors.with_dynamic_shape(error) from None
        except RuntimeError as error:
            told = errors.without_memory(error)
            if told is None:
                raise
            raise told from error

    def _run(self, changes, names, values, keywords, examples):
        plain = getattr(type(self._model), "_poptorch_original_class", None)
        if plain is not None:  # nobody fetches weights while they are symbolic
            changes.set_class(self._model, plain)
        self._registrations = Registrations(self._model)
        poptorch_core.set_location_excludes(self._location_excludes)
        changes.at_end(self.core.settle)
        changes.at_end(self._registrations.undo)
        changes.call_on_failure(self.core.abort)
        self.core.begin()
        capture_state.set_active(self, changes)
        patches.install(self, changes)
        self._registrations.watch(self, changes)
        self._changes = changes
        self._swap_states_in()
        inputs = []
        for name, value, tensors in zip(names, values, examples):
            symbolic = [
                self.core.add_input(name if len(tensors) == 1 else f"{name}.{i}", example, whole)
                for i, (example, whole) in enumerate(tensors)
            ]
            inputs.append(structures.rebuild(value, iter(symbolic)))
        positional = [value for value, keyword in zip(inputs, keywords) if keyword is None]
        by_keyword = {keyword: value for value, keyword in zip(inputs, keywords) if keyword is not None}
        result = self._forward(positional, by_keyword)
        self._check_states()
        self.output_structure = result
        outputs = list(structures.tensors_of(result))
        for tensor in outputs:
            if tensor.device.type not in ("ipu", "cpu"):
                raise errors.create_error(
                    f"An output of forward is on '{tensor.device}', where there is no value to return. Return a tensor of "
                    "the IPU or of the CPU."
                )
            if tensor.device.type != "ipu":
                if objection := poptorch_core.objection_to(tensor):
                    raise errors.create_error(f"An output of forward {objection}")
                warnings.warn(
                    f"An output of forward is on '{tensor.device}', not on the IPU: its value at capture is "
                    "returned by every call.",
                    stacklevel=2,
                )
        return self._finish(outputs)

    def _finish(self, outputs):
        """The end of the capture, when forward has returned: what training needs besides comes in here."""
        if not self._training:
            return self.core.finish(outputs)
        given = self._given_gradients()
        custom_functions.capture_passes(self, self.core.passes_for_training())
        return self.core.finish(outputs, list(given), list(given.values()))

    def _given_gradients(self):
        """Parameters that forward itself put a gradient on (`backward()`, `.grad = ...`), with it."""
        given = {}
        for name, parameter in self.states.items():
            if name not in self._trainable or parameter.grad is None:
                continue
            if not parameter.requires_grad:
                raise errors.create_error(
                    f"The parameter '{name}' gets a gradient in forward (.grad = ...) though it does not require one: "
                    "it is not trained. Set requires_grad_() before wrapping."
                )
            given[parameter] = parameter.grad
        return given

    @contextlib.contextmanager
    def gradients_of_body(self, function):
        """Around what a body of a loop or branch captures: what it leaves for gradients must not leave it."""
        first_call = len(self.custom_calls)
        before = {name: tensor.grad for name, tensor in self.states.items() if name in self._trainable}
        yield
        if not self._training:
            return
        for name, gradient in before.items():
            if self.states[name].grad is not gradient:
                raise errors.create_error(
                    f"A body of poptorch.{function} puts a gradient on the parameter '{name}', which belongs to what is "
                    "outside of it. Take torch.autograd.grad in the body, return the gradient, and add it to .grad behind "
                    "the loop or branch."
                )
        for number in reversed(range(first_call, len(self.custom_calls))):
            if self.custom_calls[number].has_pass:
                continue
            try:  # whether a gradient needs it is not known yet
                custom_functions.capture_passes(self, [number])
            except Exception as error:
                self.core.refuse_pass(number, f"whose backward cannot be captured: {error}")

    def parameters(self):
        """Those of the model that require a gradient, as they stand in the capture."""
        return [tensor for tensor in self.states.values() if tensor.requires_grad]

    def leaves(self):
        """All tensors whose `.grad` a backward pass may set."""
        parameters = self.parameters()
        known = {id(tensor) for tensor in parameters}
        return [*parameters, *(tensor for tensor in self.core.leaves() if id(tensor) not in known)]

    @errors.begins_forward
    def _forward(self, positional, by_keyword):
        return self._model(*positional, **by_keyword)

    @staticmethod
    def _example(tensor, count, factors):
        if tensor.is_complex():
            raise errors.create_error("complex inputs are not supported: pass real and imaginary parts.")
        if 0 in tensor.shape:
            raise errors.create_error(
                f"inputs with a dimension of size 0 are not supported, got shape {list(tensor.shape)}."
            )
        return micro_batch(tensor.detach(), count, factors)

    def _swap_states_in(self, chosen=None):
        """Makes the parameters and buffers symbolic: those in `chosen` (a set of ids), or all."""
        statistics = _running_statistics(self._model)
        for name, tensor, is_parameter in parameters_and_buffers(self._model):
            if lazy_modules.is_lazy(tensor) or (chosen is not None and id(tensor) not in chosen):
                continue
            trainable = is_parameter and name in self._trainable and tensor.requires_grad
            seen = tensor.detach()[0].requires_grad_(tensor.requires_grad) if name in self._groupings else tensor
            symbolic = self.core.add_state(
                name, seen, is_parameter, trainable, name in self._updatable, name in statistics
            )
            kind = type(tensor)
            self.states[name] = tensor
            plain = getattr(kind, "_poptorch_plain_class", None)
            if plain is not None:  # no synchronisation hooks while the tensor is symbolic
                self._changes.set_class(tensor, plain)
            self._changes.swap(tensor, symbolic)
            self._swapped.append((tensor, symbolic, seen.requires_grad))

    def initialise_lazy(self, module, args, kwargs):
        """A lazy module is called for the first time: it gets its parameters on the host, which join the capture."""
        waiting = [t for t in (*module._parameters.values(), *module._buffers.values()) if lazy_modules.is_lazy(t)]
        self.outside(lambda: lazy_modules.initialise(module, args, kwargs))
        self._swap_states_in({id(tensor) for tensor in waiting})
        self.initialised.append(module)

    @staticmethod
    def _exchanged(*names):
        return errors.create_error(
            f"{' and '.join(map(repr, names))} was exchanged in forward (torch.utils.swap_tensors), which the device "
            "cannot follow. Update it in place: copy_(...)."
        )

    def refuse_exchange(self, tensors):
        """poptorch.Error when one of the tensors is a parameter or buffer."""
        exchanged = {id(tensor) for tensor in tensors}
        names = [name for name, (tensor, *_) in zip(self.states, self._swapped) if id(tensor) in exchanged]
        if names:
            raise self._exchanged(*names)

    def _check_states(self):
        """What forward did to the parameters and buffers is a write of values, and nothing else."""
        self._registrations.settle()
        for number, (name, (tensor, _, needed_gradient)) in enumerate(zip(self.states, self._swapped)):
            if not self.core.stands_for(number, tensor):
                raise self._exchanged(name)
            if name in self._trainable and tensor.requires_grad != needed_gradient:
                raise errors.create_error(
                    f"requires_grad of the parameter '{name}' was changed in forward, and a program trains what the "
                    "model trains before its first call. Change it before wrapping, or use detach()."
                )
        known = {id(tensor) for tensor, *_ in self._swapped}
        for path, tensor in self._registrations.lazy:
            if not lazy_modules.is_lazy(tensor) and id(tensor) not in known:
                raise errors.create_error(
                    f"'{path}' got its shape in forward, and a program has what the model has before its first call. "
                    "Call the model once on the CPU before wrapping."
                )

    def outside(self, function):
        """`function()` as outside of the capture: the model has its own tensors, torch is as ever."""
        changes = poptorch_core.Changes()

        def alone():
            capture_state.set_active(None, changes)
            for tensor, symbolic, *_ in self._swapped:
                changes.swap(tensor, symbolic)
            return self.core.outside(function)

        return changes.run(alone)
