"""Classes of ops of this family."""

from popart._impl.facade.ir import CLASSES as _CLASSES

globals().update(_CLASSES.module("dynamic"))
