"""Lines of the native log that say which hyper-parameters the back end was given."""

from __future__ import annotations

import collections.abc
import typing

from poptorch import poptorch_core
from poptorch._impl.log import DEBUG

_TYPES = ("SGD1", "SGD2", "ADAM", "ADAMW", "ADAMW", "RMSPROP", "RMSPROP", "LAMB", "LAMB")  # by kind
_SEPARATE = 1
_NAMES = {
    "lr": "learningRate",
    "weight_decay": "weightDecay",
    "velocity_scaling": "velocityScaling",
    "max_weight_norm": "maxWeightNorm",
}
_DTYPES = {"f32": "float32", "f16": "float16"}


def log_update(description: dict[str, typing.Any]) -> None:
    """Logs what `OptimizerReader.read` found: the defaults, then each group."""
    if poptorch_core.log_enabled(DEBUG):
        for line in update_lines(description):
            poptorch_core.log(DEBUG, line)


def update_lines(description: dict[str, typing.Any]) -> list[str]:
    kind = _TYPES[description["kind"]]
    values = {
        f"default{name[0].upper()}{name[1:]}": value for name, value in _named(description, description["defaults"])
    }
    values["lossScaling"] = description["loss_scaling"]
    if "nesterov" in description["defaults"]:
        values["nesterov"] = values.pop("defaultNesterov")
    first, second = (_DTYPES[description.get(name, "f32")] for name in ("velocity_dtype", "second_dtype"))
    types = (
        f"accumType={_DTYPES[description['accum_dtype']]}, firstOrderMomentumAccumType={first}, "
        f"secondOrderMomentumAccumType={second}, useTfVariant={int(description['tf_variant'])}, "
        f"maxGradNorm={_number(description['max_grad_norm'])}"
    )
    lines = [f"Updating graph optimizer with {kind}, {_listed(values)}, {types}"]
    for index, group in enumerate(description["groups"]):
        names = ", ".join(name for name, of in description["group_of"].items() if of == index)
        affected = f"for (tensors affected [{names}])"
        lines.append(
            f"Updating group {index} optimizer with {kind}, {_listed(dict(_named(description, group)))} {affected}"
        )
    return lines


def _named(
    description: dict[str, typing.Any], group: dict[str, typing.Any]
) -> collections.abc.Iterator[tuple[str, tuple[float, bool]]]:
    for name, value in group.items():
        if name == "nesterov":
            value = (float(value), True)
        if name == "velocity_scaling" and description["kind"] == _SEPARATE:
            value = description["loss_scaling"]
        yield _NAMES.get(name, name), value


def _listed(values: dict[str, tuple[float, bool]]) -> str:
    return ", ".join(
        f"{name}={_number(value)}{' (const)' if constant else ''}" for name, (value, constant) in sorted(values.items())
    )


def _number(value: float) -> str:
    """The shortest form: "2", "0.01", "inf"."""
    return repr(float(value)).removesuffix(".0")
