"""Settings of inputs and variables in the metadata of a model: one function writes a kind, one beside it reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from popart._impl.data_flow import InputSettings
from popart._impl.enums import CommGroupType, ExchangeStrategy, ReplicatedStreamMode, TileSet, VariableRetrievalMode
from popart._impl.groups import CommGroup, VariableSettings

if TYPE_CHECKING:
    from popart._impl.builder.model import Model


def put_input_settings(model: Model, id: str, settings: InputSettings) -> None:
    model.put_metadata(f"__tile_set/{id}", settings.tileSet().value)
    model.put_metadata(f"__exchange_strategy/{id}", settings.exchangeStrategy().value)
    model.put_metadata(f"__replicated_stream_mode/{id}", settings.replicatedStreamMode().value)


def input_settings(metadata: Mapping[str, str], id: str) -> InputSettings | None:
    """The settings of an input; None when it has none."""
    if f"__tile_set/{id}" not in metadata:
        return None
    return InputSettings(
        TileSet(int(metadata[f"__tile_set/{id}"])),
        ExchangeStrategy(int(metadata.get(f"__exchange_strategy/{id}", 0))),
        ReplicatedStreamMode(
            int(metadata.get(f"__replicated_stream_mode/{id}", ReplicatedStreamMode["Replicate"].value))
        ),
    )


def put_variable_settings(model: Model, id: str, settings: VariableSettings) -> None:
    """Settings made of a stride and a size have no kind of group; their stride is written instead."""
    model.put_metadata(f"__variable_settings/{id}", settings.getRetrievalMode().value)
    if settings.isUsingCommGroup():
        model.put_metadata(f"__comm_group_type/{id}", settings.getCommGroupType().value)
    else:
        model.put_metadata(f"__comm_group_stride/{id}", settings.getStride())
    model.put_metadata(f"__comm_group_size/{id}", settings.getGroupSize())


def variable_settings(metadata: Mapping[str, str], id: str) -> VariableSettings | None:
    """The settings of a variable; None where it is the same on all replicas and read once. A model may name the kind of group
    alone."""
    if f"__variable_settings/{id}" not in metadata and f"__comm_group_type/{id}" not in metadata:
        return None
    mode = VariableRetrievalMode(int(metadata.get(f"__variable_settings/{id}", 0)))
    size = int(metadata.get(f"__comm_group_size/{id}", 0))
    if f"__comm_group_stride/{id}" in metadata:
        return VariableSettings(int(metadata[f"__comm_group_stride/{id}"]), size, mode)
    return VariableSettings(CommGroup(CommGroupType(int(metadata.get(f"__comm_group_type/{id}", 0))), size), mode)
