"""Which rewriting rules run."""

from popart._impl.enums import PatternsLevel
from popart._impl.patterns import Patterns
