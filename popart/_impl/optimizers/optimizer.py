"""What all optimizers share: dictionaries of values, weights with values of their own, the native form."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from popart._impl.enums import DataType, WeightDecayMode
from popart._impl.exceptions import popart_exception, popart_runtime_error
from popart._impl.optimizers.values import ClipNormSettings, OptimizerValue, OptimizerValueMap


@dataclasses.dataclass(frozen=True)
class Hyper:
    """A hyper-parameter of a class: its key for one weight, its default, and what the native side calls it. The values of all
    weights are published as `<key>s`, or by `method`."""

    key: str
    default: float
    native: str
    may_be_negative: bool = False
    must_be_positive: bool = False
    method: str = ""

    @property
    def default_key(self) -> str:
        return "default" + self.key[0].upper() + self.key[1:]


def _pair(key: str, value: Any, of: str) -> OptimizerValue:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise popart_exception(
            f"The value of '{key}' of {of} is {value!r}: it takes a pair of a number and a flag, for example (0.1, False)."
        )
    return OptimizerValue(tuple(value))


def _reader(name: str, key: str, owner: type) -> Callable[[Any], OptimizerValueMap]:
    def read(self) -> OptimizerValueMap:  # type: ignore[no-untyped-def]
        return self._values[key]

    read.__name__, read.__qualname__, read.__module__ = name, f"{owner.__qualname__}.{name}", owner.__module__
    return read


def _native_type(dtype: DataType, weight: DataType) -> str:
    return (weight if dtype == DataType.UNDEFINED else dtype).name


class Optimizer:
    """Base of SGD, Adam and Adaptive."""

    _family = ""
    _hypers: tuple[Hyper, ...] = ()
    _aliases: dict[str, str] = {}  # deprecated keys
    _default_keys: dict[str, str] = {}  # of hyper-parameters whose key does not begin with "default"

    def __init_subclass__(cls) -> None:
        for hyper in vars(cls).get("_hypers", ()):
            name = hyper.method or f"{hyper.key}s"
            setattr(cls, name, _reader(name, hyper.key, cls))

    def __init__(
        self, values: Mapping[str, Any], clip_norm_settings: Sequence[ClipNormSettings], debugContext: Any
    ) -> None:
        self.debugContext = debugContext
        self._values: dict[str, OptimizerValueMap] = {}
        self._specific: list[str] = []
        self._clips = list(clip_norm_settings)
        given = {self._aliases.get(key, key): value for key, value in values.items()}
        if len(given) != len(values):
            raise popart_exception(f"{self._family}: a value is given twice, under its name and its old name.")
        keys = {self._default_key(hyper): hyper for hyper in self._hypers}
        self._refuse_unknown(given, [*keys, "lossScaling"], "the dictionary")
        for key, hyper in keys.items():
            value = _pair(key, given[key], self._family) if key in given else OptimizerValue(hyper.default)
            self._check_value(key, hyper, value)
            self._values[hyper.key] = OptimizerValueMap(value)
        scaling = given.get("lossScaling", (1.0, True))
        self._loss_scaling = _pair("lossScaling", scaling, self._family)
        if self._loss_scaling.val() == 0.0:
            raise popart_exception(
                f"{self._family}: lossScaling is 0, and gradients are divided by it. Give a positive number."
            )
        self._check_together({key: values.getDefault() for key, values in self._values.items()}, "the defaults")
        self._check_clips()

    # --- published

    def getLossScalingVal(self) -> float:
        """What the gradient of the loss is multiplied with."""
        return self._loss_scaling.val()

    def insertSpecific(self, tensorId: str, values: Mapping[str, Any]) -> None:
        """Gives one weight values of its own; those that are not named are the defaults of now.

        Args:
            tensorId: name of the weight.
            values: key to `(number, constant)`.

        Raises:
            popart_exception: the weight has values already, a key is unknown, or a value is out of its range.
        """
        if tensorId in self._specific:
            raise popart_exception(f"{self._family}: the weight '{tensorId}' has values of its own already.")
        self._refuse_unknown(values, [hyper.key for hyper in self._hypers], f"the values of '{tensorId}'")
        specific = {}
        for hyper in self._hypers:
            value = self._values[hyper.key].getDefault()
            if hyper.key in values:
                value = _pair(hyper.key, values[hyper.key], f"the weight '{tensorId}'")
            self._check_value(hyper.key, hyper, value)
            specific[hyper.key] = value
        self._check_together(specific, f"the weight '{tensorId}'")
        for key, value in specific.items():
            self._values[key]._insert(tensorId, value)
        self._specific.append(tensorId)

    # --- for sessions

    def native(self, weights: Mapping[str, DataType | str]) -> dict[str, Any]:
        """What the compiler needs to know: weights in groups of the same values and types, as plain data.

        Args:
            weights: element type of each weight that is trained, by name.

        Raises:
            popart_exception: a weight that has values of its own, or is clipped, is not among them.
        """
        types = {name: DataType[dtype] if isinstance(dtype, str) else dtype for name, dtype in weights.items()}
        self._check_weights(types)
        groups: list[dict[str, Any]] = []
        group_of: dict[str, int] = {}
        known: dict[tuple[str, DataType], int] = {}
        for name, dtype in types.items():
            key = (name if name in self._specific else "", dtype)
            if key not in known:
                known[key] = len(groups)
                groups.append(self._native_group(name, dtype))
            group_of[name] = known[key]
        return {
            "groups": groups or [self._native_group("", DataType.FLOAT)],
            "group_of": group_of,
            "loss_scaling": (self._loss_scaling.val(), self._loss_scaling.isConst()),
            "clip_groups": [
                {"weights": sorted(types) if clip._clips_all else list(clip.weightIds), "max_norm": clip.maxNorm}
                for clip in self._clips
            ],
            **self._native_modes(),
        }

    def value(self, key: str, weight: str) -> OptimizerValue:
        """A hyper-parameter of a weight, by the key of `insertSpecific`."""
        return self._values[key].get(weight)

    # --- of the classes

    def _native_modes(self) -> dict[str, Any]:
        raise NotImplementedError

    def _native_types(self, weight: DataType) -> dict[str, str]:
        raise NotImplementedError

    def _modes(self) -> dict[str, Any]:
        """What is compiled in beside the values, by its published name."""
        raise NotImplementedError

    def _check_together(self, values: Mapping[str, OptimizerValue], where: str) -> None:
        """Values that do not go together."""

    # --- inside

    def _default_key(self, hyper: Hyper) -> str:
        return self._default_keys.get(hyper.key, hyper.default_key)

    def _refuse_unknown(self, given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise popart_exception(
                f"{self._family}: {where} has the unknown key '{unknown[0]}'. Keys are {', '.join(known)}."
            )

    def _check_value(self, key: str, hyper: Hyper, value: OptimizerValue) -> None:
        number = value.val()
        if hyper.key == "learningRate" and number == 0.0 and value.isConst():
            raise popart_exception(
                f"{self._family}: {key} is the constant 0, with which nothing is trained. Make it variable: (0.0, False)."
            )
        if hyper.must_be_positive and not number > 0.0:
            raise popart_exception(f"{self._family}: {key} is {number}: it must be greater than 0.")
        if not hyper.may_be_negative and not number >= 0.0:
            raise popart_exception(f"{self._family}: {key} is {number}: it must not be negative.")

    def _check_clips(self) -> None:
        for clip in self._clips:
            if not isinstance(clip, ClipNormSettings):
                raise popart_exception(f"{self._family}: clip_norm_settings takes ClipNormSettings; got {clip!r}.")
        if len(self._clips) > 1 and any(clip._clips_all for clip in self._clips):
            raise popart_exception(
                f"{self._family}: one of {len(self._clips)} ClipNormSettings is of all weights. "
                "Give it alone, or name the weights of each group."
            )

    def _check_weights(self, types: Mapping[str, DataType]) -> None:
        for name, dtype in types.items():
            if dtype not in (DataType.FLOAT, DataType.FLOAT16):
                raise popart_exception(
                    f"{self._family}: the weight '{name}' is {dtype.name}: FLOAT and FLOAT16 can be trained."
                )
        clipped = [name for clip in self._clips for name in clip.weightIds]
        for what, names in (("values of its own", self._specific), ("a place in ClipNormSettings", clipped)):
            for name in names:
                if name not in types:
                    raise popart_exception(
                        f"{self._family}: '{name}' has {what}, but no weight of this name is trained. "
                        f"Trained are {', '.join(sorted(types)) or 'none'}."
                    )
        for name in clipped:
            if clipped.count(name) > 1:
                raise popart_exception(
                    f"{self._family}: the weight '{name}' is in {clipped.count(name)} ClipNormSettings."
                )

    def _check_types(self, types: Mapping[str, DataType], also: Sequence[str] = ()) -> None:
        for name, dtype in types.items():
            if dtype in (DataType.FLOAT, DataType.FLOAT16) or (dtype == DataType.UNDEFINED and name in also):
                continue
            raise popart_exception(f"{self._family}: {name} is {dtype}: state is FLOAT or FLOAT16.")

    def _native_group(self, weight: str, dtype: DataType) -> dict[str, Any]:
        group: dict[str, Any] = {
            hyper.native: (self.value(hyper.key, weight).val(), self.value(hyper.key, weight).isConst())
            for hyper in self._hypers
        }
        return {"hyper": group, "types": self._native_types(dtype)}


class MomentOptimizer(Optimizer):
    """Base of Adam and Adaptive: a mode, a mode of the weight decay, types of the state, and one flag.

    Attributes:
        _kinds: mode to what the native side calls it.
        _flag: the flag, and what the native side calls it.
    """

    _kinds: dict[str, str]
    _flag: tuple[str, str]
    mode: Any
    weight_decay_mode: Any
    _types: dict[str, DataType]

    def _native_modes(self) -> dict[str, Any]:
        name, native = self._flag
        decay = "l2" if self.weight_decay_mode == WeightDecayMode["L2Regularization"] else "decay"
        return {"kind": self._kinds[self.mode.name], "decay": decay, native: getattr(self, name)}

    def _native_types(self, weight: DataType) -> dict[str, str]:
        natives = ("accum", "first", "second", "third")
        return {native: _native_type(dtype, weight) for native, dtype in zip(natives, self._types.values())}

    def _modes(self) -> dict[str, Any]:
        modes = {"mode": self.mode, "weight_decay_mode": self.weight_decay_mode, **self._types}
        return {**modes, self._flag[0]: getattr(self, self._flag[0])}


def check_replacement(old: Optimizer, new: Optimizer) -> None:
    """Raises popart_runtime_error when a session that was made with `old` cannot go on with `new`."""

    def refuse(what: str, was: Any, now: Any) -> None:
        raise popart_runtime_error(
            f"The new optimizer is not a valid replacement: {what} was {was} when the session was made and is now {now}. "
            "Keep it, or make another session."
        )

    if old._family != new._family:
        refuse("the optimizer", old._family, new._family)
    if sorted(old._specific) != sorted(new._specific):
        refuse("the set of weights with values of their own", sorted(old._specific), sorted(new._specific))
    for name, was in old._modes().items():
        if new._modes()[name] != was:
            refuse(name, was, new._modes()[name])
    if old._clips != new._clips:
        refuse("clip_norm_settings", [clip._key() for clip in old._clips], [clip._key() for clip in new._clips])

    def compare(what: str, was: OptimizerValue, now: OptimizerValue) -> None:
        if was.isConst() != now.isConst() or (was.isConst() and was.val() != now.val()):
            refuse(what, was, now)

    compare("lossScaling", old._loss_scaling, new._loss_scaling)
    for hyper in old._hypers:
        compare(old._default_key(hyper), old._values[hyper.key].getDefault(), new._values[hyper.key].getDefault())
        for weight in old._specific:
            compare(f"{hyper.key} of '{weight}'", old.value(hyper.key, weight), new.value(hyper.key, weight))
