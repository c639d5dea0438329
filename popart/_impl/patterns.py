"""Which rewriting rules run: names, levels, and the set that a program chooses."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from popart._impl.enums import PatternsLevel
from popart._impl.exceptions import popart_exception

MANDATORY = tuple(
    """AllReduceToIdentity Atan2Arg0GradOp Atan2Arg1GradOp ConvDataGrad ConvFlipWeightsGradOp ConvTranspose CosGradOp CoshOp
    DivArg0GradOp DivArg1GradOp AbsGradOp SinGradOp ExpGradOp Expm1GradOp FmodArg0GradOp RandomNormalLikeOpPattern
    RandomUniformLikeOpPattern ZerosLikeOpPattern Log1pGradOp LogGradOp LoopScanOut MatMulOp MatMulLhsGradOp MatMulRhsGradOp
    MulArgGradOp PowArg0GradOp PowArg1GradOp ReciprocalGradOp ScanToLoop SqrtGradOp SubtractArg1GradOp""".split()
)
OPTIONAL = tuple(
    """ConvFlipWeightsDoubleFlip DecomposeBinaryConstScalar ExpandCast InitAccumulate LambSerialisedWeight NegativeOneScale
    NlllWithSoftmaxGradDirect OpToIdentity PackedDataBlock PadSum PostNRepl PreUniRepl RemoveUnnecessaryLossGradCast
    SoftmaxGradDirect SplitGradOpToConcat SplitOp SumToAdd TransposeToIdentityOrReshapePattern UpsampleToResize""".split()
)
OFF_BY_DEFAULT = ("LSTMOp", "Slice2SliceSubsample", "SplitGather", "TiedGather", "TiedGatherAccumulate")
NAMES = (*MANDATORY, *OPTIONAL, *OFF_BY_DEFAULT)
_IN_PLACE = ("InPlace", "UpdateInplacePrioritiesForIpu")  # switched like patterns, asked about in other ways
_LEVELS = {
    PatternsLevel["NoPatterns"]: ((), False),
    PatternsLevel["Minimal"]: (MANDATORY, False),
    PatternsLevel["Default"]: ((*MANDATORY, *OPTIONAL), True),
    PatternsLevel["All"]: (NAMES, True),
}


class Patterns:
    """A set of rewriting rules: (), a PatternsLevel, or a list of names. () is the Default level.

    Raises:
        popart_exception: a name is not known, or a mandatory pattern is switched off.

    >>> Patterns(PatternsLevel["Minimal"]).isPatternEnabled("SumToAdd")
    False
    """

    def __init__(self, patterns: Any = PatternsLevel["Default"], *, level: PatternsLevel | None = None) -> None:
        self._runtime_asserts = True
        patterns = patterns if level is None else level
        if isinstance(patterns, PatternsLevel):
            enabled, self._in_place = _LEVELS[patterns]
            self._enabled = set(enabled)
            return
        names: Sequence[str] = list(patterns)
        self._enabled = {self._known(name) for name in names if name not in _IN_PLACE}
        self._in_place = "InPlace" in names

    @staticmethod
    def _known(name: str) -> str:
        if name not in NAMES:
            if name in _IN_PLACE:
                raise popart_exception(
                    f"no pattern is called '{name}': it is a switch, which the property InPlace shows"
                )
            near = difflib.get_close_matches(name, [*NAMES, "InPlace"], 1, 0.7)
            raise popart_exception(f"no pattern is called '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
        return name

    @staticmethod
    def check_name(name: str, what: str) -> None:
        """Raises popart_exception, which begins with `what`, for a name that no pattern has; "InPlace" is one here."""
        if name not in _IN_PLACE:
            try:
                Patterns._known(name)
            except popart_exception as error:
                raise popart_exception(f"{what}: {error}") from None

    def isPatternEnabled(self, name: str) -> bool:
        return self._known(name) in self._enabled

    def enablePattern(self, name: str, value: bool) -> Patterns:
        if name in _IN_PLACE:
            self._in_place = value if name == "InPlace" else self._in_place
        elif value:
            self._enabled.add(self._known(name))
        elif self.isMandatory(name) and self._runtime_asserts:
            raise popart_exception(
                f"the pattern '{name}' is mandatory; enableRuntimeAsserts(False) lets it be switched off"
            )
        else:
            self._enabled.discard(self._known(name))
        return self

    def enableRuntimeAsserts(self, value: bool) -> Patterns:
        self._runtime_asserts = value
        return self

    def check(self) -> None:
        """Raises popart_exception when a mandatory pattern is off and asserts are on."""
        missing = [name for name in MANDATORY if name not in self._enabled]
        if missing and self._runtime_asserts:
            raise popart_exception(
                f"{len(missing)} mandatory patterns are off, '{missing[0]}' among them: use the level Minimal, "
                "or enableRuntimeAsserts(False)"
            )

    @property
    def InPlace(self) -> bool:
        return self._in_place

    @InPlace.setter
    def InPlace(self, value: bool) -> None:
        self._in_place = value

    @staticmethod
    def getAllPreAliasPatternNames() -> list[str]:
        return sorted(NAMES)

    @staticmethod
    def isMandatory(name: str) -> bool:
        return Patterns._known(name) in MANDATORY

    def __repr__(self) -> str:
        return "\n".join(f"{name} {'On' if name in self._enabled else 'Off'}" for name in sorted(NAMES))


def _switch(name: str) -> property:
    return property(
        lambda self: self.isPatternEnabled(name), lambda self, value: self.enablePattern(name, value) and None
    )


for _property, _name in (
    *(
        (name, name)
        for name in ("PreUniRepl", "PostNRepl", "NlllWithSoftmaxGradDirect", "OpToIdentity", "SubtractArg1GradOp")
    ),
    *((name, name) for name in ("MulArgGradOp", "MatMulOp", "MatMulLhsGradOp", "MatMulRhsGradOp")),
    ("SoftMaxGradDirect", "SoftmaxGradDirect"),
    ("NlllWithSoftMaxGradDirect", "NlllWithSoftmaxGradDirect"),
):
    setattr(Patterns, _property, _switch(_name))
