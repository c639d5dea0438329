"""What the builder knows of an operator."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """The name of an operator, and how many inputs and outputs a node has at least and at most."""

    domain: str  # "" is ai.onnx
    type: str
    version: int  # of the domain
    inputs: tuple[int, int]
    outputs: tuple[int, int]

    @property
    def qualified(self) -> str:
        return f"{self.domain or 'ai.onnx'}.{self.type}"
