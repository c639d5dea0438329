"""Options of verified transfers. They are stored and nothing more: this machine has no such transfers."""

from __future__ import annotations

import collections


class KeyId:
    """Key and first id with which data of a stream is verified."""

    def __init__(self, key: int = 0, start_id: int = -1) -> None:
        self.key, self.start_id = key, start_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyId) and (self.key, self.start_id) == (other.key, other.start_id)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"KeyId(key={self.key}, start_id={self.start_id})"


class VerificationOptions:
    """Keys of inputs, outputs, their parameters, checkpoints, and feeds by name; an entry of a feed appears when it is read."""

    def __init__(self) -> None:
        self.inputs, self.input_parameters = KeyId(), KeyId()
        self.outputs, self.output_parameters = KeyId(), KeyId()
        self.checkpoint_in, self.checkpoint_out = KeyId(0, 0), KeyId(0, 0)
        self.infeeds: dict[str, KeyId] = collections.defaultdict(KeyId)
        self.outfeeds: dict[str, KeyId] = collections.defaultdict(KeyId)
