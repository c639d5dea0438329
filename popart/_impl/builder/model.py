"""What a builder and its children share: one model, the ids in use, the versions of domains."""

from __future__ import annotations

import itertools

import onnx

from popart._impl.builder import model_files
from popart._impl.exceptions import popart_exception

_graphs, _unnamed = itertools.count(), itertools.count()


class Model:
    """One ModelProto. Ids of tensors are unique over all graphs of it."""

    def __init__(self, source: object = None) -> None:
        self.bytes: bytes | None = None  # of a loaded model, until something is added
        self.proto = onnx.ModelProto()
        if source is None:
            self.proto.ir_version = 4
            self.proto.producer_name = "popart"
        else:
            self.proto, self.bytes = model_files.load(source)  # type: ignore[arg-type]
        self.taken: set[str] = set()
        self._next: dict[str, int] = {}
        self.versions = {model_files.domain_name(entry.domain): entry.version for entry in self.proto.opset_import}
        self._metadata = {entry.key: entry for entry in self.proto.metadata_props}

    def changed(self) -> None:
        self.bytes = None

    def serialized(self) -> bytes:
        return self.bytes if self.bytes is not None else self.proto.SerializeToString()

    def unique(self, id: str) -> str:
        """The id itself, or with /1, /2, ... where it is taken. It is taken from now on."""
        made = id
        while made in self.taken:
            self._next[id] = self._next.get(id, 0) + 1
            made = f"{id}/{self._next[id]}"
        self.taken.add(made)
        return made

    def use(self, domain: str, version: int, op_type: str) -> None:
        """Records the version of a domain. Raises popart_exception for a second version."""
        known = self.versions.get(domain)
        if known is None:
            self.versions[domain] = version
            entry = self.proto.opset_import.add()
            entry.domain, entry.version = domain, version
            if domain == "":
                self.proto.ir_version = 3 if version <= 8 else 4
        elif known != version:
            raise popart_exception(
                f"invalid opset {version} of {domain or 'ai.onnx'} for {op_type}: the opset of this model is already defined as {known}"
            )

    def put_metadata(self, key: str, value: object) -> None:
        if key not in self._metadata:
            self._metadata[key] = self.proto.metadata_props.add()
            self._metadata[key].key = key
        self._metadata[key].value = str(value)


def new_graph_name() -> str:
    return f"BuilderGraph_{next(_graphs)}"


def unnamed_graph_name() -> str:
    return f"_{next(_unnamed)}"
