"""The optimizer of a training executor: when it is read, and when its state moves between host and device.

Hyper-parameters are read by `optimizer_attributes`; the host's copy of the state is an `optimizer_state.DeviceState`.
"""

import weakref

from poptorch._impl.optimizer import attributes as optimizer_attributes, scalars
from poptorch import poptorch_core
from poptorch._impl.log import INFO, logger
from poptorch._impl.optimizer.state import DeviceState, device_state_of
from poptorch._impl.optimizer.update_lines import log_update


class OptimizerLink:
    """The optimizer of one training executor: its object, what was read of it, and its state on the device."""

    def __init__(self, state, optimizer, parameter_names, options):
        """Reads the optimizer. Raises what `OptimizerReader.read` and `choose_mean_strategy` raise."""
        self._state = weakref.ref(state)  # of the executor
        self._options = options
        scales_losses = bool(options._Popart.options.get("automaticLossScalingSettings.enabled", False))
        self._reader = optimizer_attributes.OptimizerReader(
            parameter_names, options._relax_optimizer_checks, scales_losses
        )
        self.optimizer = optimizer
        self._given = self._reader.read(optimizer)  # by the program, with the last setOptimizer
        self.description = self._given  # what the device has or gets: scalars of a state dictionary may say otherwise
        self._loaded = None  # scalars of a state dictionary that the device has, as they were loaded
        optimizer_attributes.choose_mean_strategy(self.description, options)
        self.host = device_state_of(optimizer) or DeviceState()
        self._lost_state = False  # of a torch optimizer, with the device
        self._has_warned = False
        self._watch_state_dict(optimizer)

    # --- the executor's moments ---
    def before_compile(self):
        """Hyper-parameters that were loaded since wrapping. KeyError for parameters that are not in the model."""
        if self.host.pending:
            self.description = self._given = self._reader.read(self.optimizer)
        self._loaded = None
        self._reader.require_known_parameters()
        log_update(self.description)
        _mark_stepped(self.optimizer)
        if device_state_of(self.optimizer) is None and self.optimizer.state:
            name = type(self.optimizer).__name__
            logger.warning(
                "The %s has state of %d parameters, from steps on the CPU or a checkpoint. The IPU does not use it: it begins "
                "with new state. poptorch.optim.%s loads the state that its state_dict() saved.",
                name,
                len(self.optimizer.state),
                name,
            )

    def on_attach(self):
        """State host to device if there is some."""
        self.host.fetch()  # another executor may have had it
        has_state = self.host.state is not None
        if has_state:
            self._upload()
        self.host.follow(self, is_current=has_state)

    def before_run(self):
        """Called when the host's copy is pending, with the host's weights up to date: it goes to the device."""
        self._upload()
        self.host.follow(self, is_current=True)

    def before_detach(self):
        """Reads the state back; the host's copy is the newest from now on."""
        self.host.fetch()
        self.host.leave(self)

    def forget(self):
        """After destroy: a torch optimizer has no place for state, a poptorch optimizer keeps its own."""
        if device_state_of(self.optimizer) is None:
            self._lost_state = bool(self.host.state)
            self.host = DeviceState()

    def _watch_state_dict(self, optimizer):
        """A torch optimizer has no place for what the device keeps for it: whoever saves it is told once."""
        if device_state_of(optimizer) is not None:
            return
        link = weakref.ref(self)

        def warn(optimizer):
            living = link()
            if living is not None and living.optimizer is optimizer:
                living._warn_of_incomplete_state()

        optimizer.register_state_dict_pre_hook(warn)

    def _warn_of_incomplete_state(self):
        self.host.fetch()
        if self._has_warned or not (self.host.state or self._lost_state):
            return
        self._has_warned = True
        name = type(self.optimizer).__name__
        logger.warning(
            "The state_dict() of this %s lacks the state of its parameters (momentum and the like), which is on the IPU: "
            "training that goes on from it begins with new state. Use poptorch.optim.%s, whose state_dict() has it.",
            name,
            name,
        )

    def restore(self, state):
        """State (`DeviceState`) of a file, for an optimizer that does not carry its own; it waits for the device.

        Scalars are those that the saved device had, whatever the groups of the optimizer say.
        """
        if state is not None and device_state_of(self.optimizer) is None:
            self.host = state
        self.host.scalars_are_loaded = self.host.pending

    def set_optimizer(self, optimizer):
        """`setOptimizer`: re-reads a known optimizer, or puts another one in its place."""
        executable = self._living().executable
        description = self._reader.read(optimizer)
        changed = description != self._given or optimizer is not self.optimizer
        if executable is not None:
            self._reader.require_known_parameters()
            optimizer_attributes.check_mean_strategy(description, self._options)
            if changed:
                executable.set_optimizer(description)
                self._loaded = None
                log_update(description)
        else:
            optimizer_attributes.choose_mean_strategy(description, self._options)
        if optimizer is not self.optimizer:
            self._watch_state_dict(optimizer)
            self._replace_state(device_state_of(optimizer) or DeviceState())
        if changed and self.host.pending:  # the program says more than what was loaded before
            self.host.param, self.host.scalars_are_loaded = self._scalars_of(description), False
        if executable is not None:
            _mark_stepped(optimizer)
        self.optimizer = optimizer
        self._given = description
        if changed:
            self.description = description

    def _replace_state(self, new):
        old = self.host
        old.fetch()
        old.leave(self)
        new.fetch()
        self.host = new
        if new.state is not None:
            new.pending = True
        elif not self.is_attached():
            new.state, new.param = old.state, old.param  # the device would have gone on with it
        if self.is_attached():
            new.follow(self, is_current=False)

    def _living(self):
        """The executor's state, for what is called by it or while somebody holds it."""
        state = self._state()
        assert state is not None, "the executor of this optimizer is gone"
        return state

    # --- the device ---
    def hold(self, function, *args):
        """`function(*args)` with the lock of the executor, which may look at the device without being disturbed."""
        state = self._state()
        return function(*args) if state is None else state.lock.hold(function, *args)

    def is_attached(self):
        state = self._state()
        return state is not None and state.is_attached()

    def version(self):
        state = self._state()
        return state.weights_version if state is not None else None  # gone since is_attached()

    def read_device(self):
        """(state, param) as they are on the device."""
        poptorch_core.log(INFO, "Writing optimiser state tensors from IPU to host.")
        return self._living().executable.read_optimizer_state(), self._scalars()

    def scalar_names(self):
        """Names of the variable hyper-parameters on the device (list of str)."""
        return list(self._scalars_of(self.description))

    def _scalars_of(self, description):
        return scalars.device_scalars(description, self._options.Training.gradient_accumulation)

    def _scalars(self):
        return dict(self._loaded) if self._loaded is not None else self._scalars_of(self.description)

    def _upload(self):
        executable = self._living().executable
        state, param = self.host.state, self.host.param
        assert state is not None and param is not None, "only state that is there goes to the device"
        if self.host.scalars_are_loaded:
            self._upload_scalars(executable, param)
        poptorch_core.log(INFO, "Writing optimiser state tensors from host to IPU memory")
        wanted = executable.read_optimizer_state()
        _warn_differences("state", state, wanted)
        executable.write_optimizer_state({name: state[name] for name in wanted if name in state})
        self.host.pending = self.host.scalars_are_loaded = False

    def _upload_scalars(self, executable, loaded):
        loaded, former = scalars.canonical(loaded), self._scalars()
        _warn_differences("parameter", loaded, former)
        accumulation = self._options.Training.gradient_accumulation
        given = self._reader.read(self.optimizer)  # its groups were loaded, too
        of_groups, wanted = self._scalars_of(given), {**former, **loaded}
        if of_groups.keys() == former.keys() and all(
            wanted[name].item() == own.item() for name, own in of_groups.items()
        ):
            description = given  # exact: float32 does not hold what 1 - lr * weight_decay was made of
        else:
            description = scalars.with_scalars(scalars.with_constants(self.description, given), loaded, accumulation)
        executable.set_optimizer(description)
        self.description = description
        self._loaded = {name: loaded.get(name, value) for name, value in former.items()}


def _mark_stepped(optimizer):
    """Tells torch's schedulers, which warn of an optimizer whose `step` was never called, that the device takes the steps."""
    optimizer._opt_called = True


def _warn_differences(what, given, wanted):
    for name in sorted(set(given) - set(wanted)):
        logger.warning("Ignoring unknown optimizer %s '%s': the compiled model has none of that name.", what, name)
    for name in sorted(set(wanted) - set(given)):
        logger.warning("The optimizer %s '%s' is missing: it keeps its value on the device.", what, name)
