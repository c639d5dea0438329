"""From a torch or poptorch optimizer to what the compiler needs: kind, groups, values, constant or variable marks."""

import dataclasses
import typing

import torch

import poptorch.optim
from poptorch import enums
from poptorch._impl.log import logger, warn_once
from poptorch._impl.optimizer.watch import AttributeWatch

SUPPORTED = tuple(f"torch.optim.{name}" for name in ("SGD", "Adam", "AdamW", "RMSprop")) + tuple(
    f"poptorch.optim.{name}" for name in ("SGD", "Adam", "AdamW", "RMSprop", "LAMB")
)
# Attributes of torch's groups that say how torch's own step works.
_FLAGS = {"maximize", "foreach", "capturable", "differentiable", "fused"}


@dataclasses.dataclass(frozen=True)
class _Family:
    """What is read of one class of optimizers.

    `hypers`: attributes of groups that are numbers (`betas` counts as two). `torch_constants`: of a torch optimizer these
    are variable when they differ from the value given here at first use; `lr` always is, the others never are.
    `types`: names of the dtypes (attribute → name in the description).
    """

    hypers: tuple
    torch_constants: dict
    others: tuple = ()  # further attributes of groups
    types: dict = dataclasses.field(default_factory=dict)
    clips: bool = True


_ADAPTIVE_TYPES = {
    "accum_type": "accum_dtype",
    "first_order_momentum_accum_type": "velocity_dtype",
    "second_order_momentum_accum_type": "second_dtype",
}
_SGD = _Family(
    ("lr", "momentum", "dampening", "weight_decay", "velocity_scaling"),
    {"momentum": 0, "dampening": 0, "weight_decay": 0},
    ("nesterov",),
    {"accum_type": "accum_dtype", "velocity_accum_type": "velocity_dtype"},
)
_ADAM = _Family(
    ("lr", "betas", "eps", "weight_decay"),
    {"eps": 1e-8, "weight_decay": 0},
    ("amsgrad", "decoupled_weight_decay"),
    _ADAPTIVE_TYPES,
)
_ADAMW = dataclasses.replace(_ADAM, torch_constants={"eps": 1e-8, "weight_decay": 1e-2})
_RMSPROP = _Family(
    ("lr", "alpha", "eps", "weight_decay", "momentum"),
    {"eps": 1e-8, "weight_decay": 0, "momentum": 0},
    ("centered",),
    _ADAPTIVE_TYPES,
    clips=False,
)
_LAMB = _Family(("lr", "betas", "eps", "weight_decay", "max_weight_norm"), {}, types=_ADAPTIVE_TYPES, clips=False)

# Names of the kinds in the log, by number.
_KIND_NAMES = ("SGD1", "SGD2", "ADAM", "ADAMW", "ADAMW_NO_BIAS", "RMSPROP", "RMSPROP_CENTERED", "LAMB", "LAMB_NO_BIAS")
# Attributes of the optimizer itself that are read.
_GLOBALS = {"loss_scaling", "max_grad_norm", "use_tf_variant", "use_combined_accum", "bias_correction"}
_COMBINED, _SEPARATE, _KIND_ADAM, _KIND_ADAMW, _KIND_RMSPROP, _KIND_LAMB = 0, 1, 2, 3, 5, 7


def _number(name, value):
    assert isinstance(value, (int, float)) and not isinstance(value, bool), (
        f"optimizer attribute '{name}' must be a number, got {type(value).__name__} ({value!r})"
    )
    return float(value)


def _value(group, index, name):
    assert name in group, f"optimizer attribute '{name}' is missing in group {index}"
    return group[name]


def _agreed(optimizer, name):
    """The value of a flag that all groups must share."""
    values = [bool(_value(group, index, name)) for index, group in enumerate(optimizer.param_groups)]
    assert len(set(values)) == 1, (
        f"optimizer attribute '{name}' must be the same in all groups, got {', '.join(map(str, values))}"
    )
    return values[0]


def _family_and_kind(optimizer):
    corrects_bias = bool(getattr(optimizer, "bias_correction", True))
    if isinstance(optimizer, poptorch.optim.LAMB):
        return _LAMB, _KIND_LAMB + (not corrects_bias)
    if isinstance(optimizer, torch.optim.Adam):  # AdamW is a subclass
        _refuse_amsgrad(optimizer)
        if _agreed(optimizer, "decoupled_weight_decay"):
            return _ADAMW, _KIND_ADAMW + (not corrects_bias)
        return _ADAM, _KIND_ADAM
    if isinstance(optimizer, torch.optim.RMSprop):
        return _RMSPROP, _KIND_RMSPROP + _agreed(optimizer, "centered")
    if isinstance(optimizer, torch.optim.SGD):
        return _SGD, _COMBINED if getattr(optimizer, "use_combined_accum", False) else _SEPARATE
    raise AssertionError(
        f"Unsupported optimizer type {type(optimizer).__module__}.{type(optimizer).__name__}. "
        f"Supported types are: {', '.join(SUPPORTED)}"
    )


def _refuse_amsgrad(optimizer):
    for index, group in enumerate(optimizer.param_groups):
        if group.get("amsgrad"):
            raise ValueError(
                f"amsgrad=True (group {index} of {type(optimizer).__name__}) is not supported on IPUs: use "
                "amsgrad=False, which keeps the running mean of squares instead of its maximum."
            )


class OptimizerReader:
    """Reads an optimizer again and again, warning once for each attribute it does not expect."""

    def __init__(self, parameter_names, relax_checks, scales_losses=False):
        """
        Args:
            parameter_names: dict from id(parameter) to its name in the model.
            relax_checks: log unexpected attributes at DEBUG rather than WARN.
            scales_losses: automatic loss scaling is on, which makes the loss scaling variable.
        """
        self._scales_losses = scales_losses
        self._names = parameter_names
        self._watch = AttributeWatch(relax_checks)
        self._torch_variable = None  # attributes of a torch optimizer that are variable, decided at first use
        self._foreign = None  # what require_known_parameters() says

    def read(self, optimizer):
        """The description `poptorch_core.compile` and `Executor.set_optimizer` take (dict).

        Raises:
            AssertionError: unsupported optimizer, a hyper-parameter that is missing or not a number, groups that disagree.
            ValueError: amsgrad, or a dtype that is not float16 or float32.
        """
        family, kind = _family_and_kind(optimizer)
        if f"{type(optimizer).__module__.split('.')[0]}.optim.{type(optimizer).__name__}" not in SUPPORTED:
            warn_once(
                ("optimizer subclass", type(optimizer)),
                f"{type(optimizer).__name__}.step() is not used: the device applies the update of its base class.",
            )
        self._watch.look(
            optimizer, _KIND_NAMES[kind], {*family.types, *_GLOBALS}, {*family.hypers, *family.others, *_FLAGS}
        )
        if any(group.get("maximize") for group in optimizer.param_groups):
            warn_once("maximize", "maximize=True is ignored on the device: negate the loss instead.")
        loss_scaling = _number("loss_scaling", getattr(optimizer, "loss_scaling", 1.0))
        constant = self._constant_test(optimizer, family, loss_scaling)
        groups, group_of, foreign = [], {}, None
        for index, group in enumerate(optimizer.param_groups):
            groups.append(self._hypers(group, index, family, constant, kind))
            for parameter in group["params"]:
                name = self._names.get(id(parameter))
                if name is not None:
                    group_of[name] = index
                elif foreign is None:
                    foreign = (
                        f"group {index} of the optimizer holds a parameter of shape {list(parameter.shape)} that "
                        "is not in the model: build the optimizer from model.parameters()"
                    )
        self._foreign = foreign
        return {
            "kind": kind,
            "groups": groups,
            "defaults": self._default_hypers(optimizer, family, constant, kind),
            "group_of": group_of,
            "loss_scaling": (loss_scaling, constant("loss_scaling")),
            "max_grad_norm": _max_grad_norm(optimizer, family),
            "tf_variant": bool(getattr(optimizer, "use_tf_variant", False)),
            **{
                name: _dtype_name(attribute, getattr(optimizer, attribute, torch.float32))
                for attribute, name in family.types.items()
            },
        }

    def require_known_parameters(self):
        """KeyError when the optimizer read last holds a parameter that is not in the model."""
        if self._foreign is not None:
            raise KeyError(self._foreign)

    def _default_hypers(self, optimizer, family, constant, kind):
        """As one of groups; for the log alone, so what cannot be read is left out."""
        try:
            return self._hypers(optimizer.defaults, 0, family, constant, kind)
        except AssertionError:
            return {}

    @staticmethod
    def _hypers(group, index, family, constant, kind):
        hypers: dict[str, typing.Any] = {}
        for name in family.hypers:
            if name == "betas":
                betas = _value(group, index, name)
                assert isinstance(betas, tuple) and len(betas) == 2, (
                    f"optimizer attribute 'betas' must be a tuple of two numbers, got {type(betas).__name__} ({betas!r})"
                )
                for number, beta in enumerate(betas, start=1):
                    hypers[f"beta{number}"] = (_number("betas", beta), constant(name))
            elif name == "velocity_scaling":
                scaling = _number(name, group.get(name, 1.0))
                if kind == _SEPARATE and scaling != 1.0:
                    warn_once(name, "velocity_scaling is only used with use_combined_accum=True: ignored.")
                    scaling = 1.0
                hypers[name] = (scaling, kind == _SEPARATE or constant(name))
            else:
                hypers[name] = (_number(name, _value(group, index, name)), constant(name))
        if family is _SGD:
            hypers["nesterov"] = bool(_value(group, index, "nesterov"))
        return hypers

    def _constant_test(self, optimizer, family, loss_scaling):
        is_constant = self._constants_of(optimizer, family, loss_scaling)
        if not self._scales_losses:
            return is_constant
        return lambda name: name != "loss_scaling" and is_constant(name)

    def _constants_of(self, optimizer, family, loss_scaling):
        if isinstance(optimizer, poptorch.optim.Optimizer):
            return optimizer.variable_attrs.isConstant
        if self._torch_variable is None:
            self._torch_variable = {"lr"}
            for name, default in family.torch_constants.items():
                if any(group.get(name) != default for group in optimizer.param_groups):
                    self._torch_variable.add(name)
            if loss_scaling != 1.0:
                self._torch_variable.add("loss_scaling")
        return lambda name: name not in self._torch_variable


def _max_grad_norm(optimizer, family):
    limit = getattr(optimizer, "max_grad_norm", float("inf"))
    assert isinstance(limit, (int, float)) and not isinstance(limit, bool), (
        f"optimizer attribute 'max_grad_norm' must be a number, got {type(limit).__name__} ({limit!r})"
    )
    assert family.clips or limit == float("inf"), (
        f"max_grad_norm={limit} is set on {type(optimizer).__name__}: gradient clipping is available for SGD, Adam and "
        "AdamW only"
    )
    return float(limit)


def _dtype_name(attribute, dtype):
    if dtype not in (torch.float16, torch.float32):
        raise ValueError(f"optimizer attribute '{attribute}' must be torch.float16 or torch.float32, not {dtype}")
    return "f16" if dtype == torch.float16 else "f32"


# --- how means are taken ---


_AT_THE_END = (enums.MeanReductionStrategy.Post, enums.MeanReductionStrategy.PostAndLoss)


def _mean_option(options):
    training = options.Training
    if training.accumulation_and_replication_reduction_type != enums.ReductionType.Mean:
        return None
    return training.meanAccumulationAndReplicationReductionStrategy


def choose_mean_strategy(description, options):
    """Half precision accumulators hold running means; the options of the wrapper are changed accordingly.

    Raises:
        ValueError: running means were asked for, and the combined variant cannot take them.
    """
    if description["kind"] == _COMBINED:
        if _mean_option(options) == enums.MeanReductionStrategy.Running:
            raise ValueError(
                "SGD with use_combined_accum=True needs poptorch.MeanReductionStrategy.Post: its accumulator is the "
                "velocity, which has no running mean. Use Post, or use_combined_accum=False."
            )
    elif description["accum_dtype"] == "f16" and _mean_option(options) in _AT_THE_END:
        logger.debug("accum_type is float16: gradients are combined with MeanReductionStrategy.Running")
        options.Training._values["meanAccumulationAndReplicationReductionStrategy"] = (
            enums.MeanReductionStrategy.Running
        )


def check_mean_strategy(description, options):
    """ValueError when a model compiled with another strategy gets an optimizer that needs running means."""
    if (
        description["kind"] != _COMBINED
        and description["accum_dtype"] == "f16"
        and _mean_option(options) in _AT_THE_END
    ):
        raise ValueError(
            "An optimizer with accum_type=torch.float16 needs poptorch.MeanReductionStrategy.Running, and the model was "
            "compiled with Post. Set the optimizer before the first call, or create a new trainingModel."
        )
