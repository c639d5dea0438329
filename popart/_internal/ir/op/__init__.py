"""Classes of ops, and values that their settings are made of."""

from popart._impl.enums import (
    AutoPad,
    MatMulPartialsType,
    ResizeCoordinateTransformationMode,
    ResizeMode,
    ResizeNearestMode,
    SerialiseSettingsMode,
)
from popart._impl.facade.ir import CLASSES as _CLASSES
from popart._impl.facade.values import (
    Attributes,
    BranchInfo,
    MultiConvOptions,
    ReceptiveOpAttributes,
    SerialiseSettings,
)
from popart._internal.ir.op import collectives, dynamic, exchange

globals().update(_CLASSES.module(""))
