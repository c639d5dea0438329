"""One row of the tables of operators."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Operator:
    """An operator of a domain that sessions run.

    Attributes:
        versions: those that the intermediate representation implements, ascending.
        how: what a session does with a node: "ir" runs it, "rewritten" turns it into other operators, "folded"
            computes it while the model is read.
        inputs: name, element types ("F", "N", "NB", "BOOL", "FLOAT, INT32"), and whether the model must state it.
        outputs: name and element types.
        attributes: name to a regular expression of the values, which is "*" where any is allowed.
        gradient: "yes", "zero", "none" (nothing before it is trained through it) or "error".
        internal: no method of a builder makes it.
    """

    domain: str
    type: str
    versions: tuple[int, ...]
    how: str
    inputs: tuple[tuple[str, str, bool], ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    gradient: str = "none"
    internal: bool = False
