"""Streaming memory and shards: loads, stores, gathers and scatters of variables and activations that do not lie whole on the chip."""

from __future__ import annotations

import math
from typing import Any

from popart._impl.enums import ReplicatedTensorSharding, TensorStorage, TileSet
from popart._impl.listing.places import repeat_views
from popart._impl.listing.records import GRADIENT, Listing, Op, attributes_of
from popart._impl.locations import TensorLocation, TensorLocationSettings
from popart._impl.option_values import accumulation_of, local_replicas_of

_ALL_REDUCES = ("ReplicatedAllReduce", "ReplicatedAllReduceInplace")


def move(listing: Listing) -> None:
    """Adds the ops that move variables and activations, in the order in which the program needs them."""
    places = {id: _Location(listing, id) for id in _variables(listing)}
    places = {id: place for id, place in places.items() if place.is_off_chip or place.is_sharded}
    if places:
        _Variables(listing, places).move()
    if listing.is_training and not listing.options.enablePipelining and _moves_activations(listing):
        repeat_views(listing, lambda view, reader: view.is_forward and not reader.is_forward)
        _move_activations(listing)


def _moves_activations(listing: Listing) -> bool:
    settings = listing.options.activationTensorLocationSettings.location
    return settings.storage is TensorStorage["OffChip"] or any(
        attribute.name == "__output_tensor_location" for node in listing.graph.node for attribute in node.attribute
    )


class _Location:
    """Where a tensor of the program lies: what is said of it alone, else of its kind."""

    def __init__(self, listing: Listing, id: str, own: TensorLocation | None = None) -> None:
        options, elements = listing.options, math.prod(listing.shape(id))
        given = listing.options.tensorLocationSettingsOverride.get(id, own)
        settings = (
            _settings_of(options, listing.kinds.get(id, ""), id)
            if given is None
            else TensorLocationSettings(given, 0, 0)
        )
        self.location = settings.location
        self.is_off_chip = (
            self.location.storage is TensorStorage["OffChip"] and elements >= settings.minElementsForOffChip
        )
        self.is_sharded = (
            self.location.replicatedTensorSharding is ReplicatedTensorSharding["On"]
            and local_replicas_of(options) > 1
            and elements >= settings.minElementsForReplicatedTensorSharding
        )


def _settings_of(options: Any, kind: str, id: str) -> TensorLocationSettings:
    if kind == "state":
        is_sum = id.startswith("Accum___") or id.startswith("Accl___") and accumulation_of(options) > 1
        name = "accumulator" if is_sum else "optimizerState"
    else:
        name = "weight" if kind == "variable" else "activation"
    settings: TensorLocationSettings = getattr(options, f"{name}TensorLocationSettings")
    return settings


def _variables(listing: Listing) -> list[str]:
    read = dict.fromkeys(id for op in listing.ops for id in op.inputs)
    return [id for id in read if listing.kinds.get(id) in ("variable", "state")]


class _Variables:
    """Every stretch of the program that reads a variable loads it anew; what is written is stored at once."""

    def __init__(self, listing: Listing, places: dict[str, _Location]) -> None:
        self.listing, self.places = listing, places
        self.replicas = local_replicas_of(listing.options)
        self.ops: list[Op] = []
        self.makers: dict[str, Op] = {}
        self.local: dict[str, dict[tuple[Any, ...], str]] = {id: {} for id in places}

    def move(self) -> None:
        for op in self.listing.ops:
            moved = [id for id in dict.fromkeys(op.inputs) if id in self.places]
            updated = op.inputs[0] if moved and _is_update(op) and op.inputs[0] in self.places else ""
            for id in moved:
                self._bring(op, id, id == updated)
            self._append(op)
            if updated:
                if self.places[updated].is_off_chip:
                    self._append(_store(self.listing, op.outputs[0], updated, op, self.places[updated]))
                self.local[updated].clear()
        self.listing.ops = self.ops

    def _append(self, op: Op) -> None:
        self.ops.append(op)
        self.makers.update((id, op) for id in op.outputs)

    def _bring(self, op: Op, id: str, is_update: bool) -> None:
        place, local = self.places[id], self.local[id]
        shard = (-(-math.prod(self.listing.shape(id)) // self.replicas),)
        key = (op.is_forward, op.context, *op.place)
        if is_update and place.is_sharded:
            self._scatter(op, shard)
        if key not in local or is_update and place.is_sharded:
            local[key] = _load(self.listing, self.ops, op, id, place, shard, whole=not is_update)
        op.inputs = [local[key] if read == id else read for read in op.inputs]

    def _scatter(self, update: Op, shard: tuple[int, ...]) -> None:
        """An update of a shard reads a shard of the gradient: sums over replicas are scattered instead of given to all."""
        types = self.listing.types
        value = update.inputs[1] if len(update.inputs) > 1 else ""
        maker = self.makers.get(value)
        if maker is not None and maker.type in _ALL_REDUCES:
            maker.type = "ReplicatedReduceScatter"
            types[value] = (types[value][0], shard)
        types[update.outputs[0]] = (types[update.outputs[0]][0], shard)


def _is_update(op: Op) -> bool:
    return op.type.endswith(("Update", "AccumulatorScale")) or op.type == "Accumulate"


def _load(
    listing: Listing, ops: list[Op], reader: Op, id: str, place: _Location, shard: tuple[int, ...], whole: bool
) -> str:
    """Appends what brings the variable, whole or as the shard of this replica. Returns the id to read."""
    got = id
    like = shard if place.is_sharded else listing.shape(id)
    if place.is_off_chip:
        got = _load_remote(listing, ops, reader, id, id, place, like)
    if place.is_sharded and whole:
        gathered = listing.between(id, id)
        ops.append(_beside(reader, "ReplicatedAllGather", [got], [gathered]))
        got = gathered
    return got


def _load_remote(
    listing: Listing, ops: list[Op], reader: Op, id: str, like: str, place: _Location, shape: tuple[int, ...]
) -> str:
    tiles = int(place.location.loadTileSet is TileSet["IO"])
    empty, loaded = listing.between(id, like, shape), listing.between(id, like, shape)
    ops.append(_beside(reader, "Init", [], [empty], tile_set=tiles))
    type = "RemoteLoadInplace" if listing.enabled("InPlace") else "RemoteLoad"
    ops.append(_beside(reader, type, [empty, _argument(listing, id)], [loaded], tile_set=tiles))
    if tiles:
        copied = listing.between(id, like, shape)
        ops.append(_beside(reader, "IoTileCopy", [loaded], [copied]))
        loaded = copied
    return loaded


def _store(listing: Listing, value: str, id: str, maker: Op, place: _Location) -> Op:
    tiles = int(place.location.storageTileSet is TileSet["IO"])
    return _beside(maker, "RemoteStore", [value, _argument(listing, id)], [], tile_set=tiles)


def _argument(listing: Listing, id: str) -> str:
    """The index tensor of the remote buffer of a tensor."""
    name = f"RemoteArg___{id}"
    listing.types[name], listing.kinds[name] = ("INT32", (1,)), "constant"
    return name


def _beside(op: Op, type: str, inputs: list[str], outputs: list[str], **fields: Any) -> Op:
    return Op(type, inputs, outputs, place=op.place, context=op.context, is_forward=op.is_forward, **fields)


def _move_activations(listing: Listing) -> None:
    """What the backward pass reads of the forward pass waits in streaming memory."""
    places: dict[str, _Location] = {}
    read = {id for op in listing.ops if not op.is_forward and op.context == "Normal" for id in op.inputs}
    for op in listing.ops:
        for id in op.outputs if op.is_forward else ():
            if id in read and not id.startswith(GRADIENT):
                place = _Location(listing, id, _own_location(op))
                if place.is_off_chip and listing.kinds.get(id) not in ("variable", "state", "constant", "input"):
                    places[id] = place
    ops: list[Op] = []
    local: dict[Any, str] = {}
    for op in listing.ops:
        if not op.is_forward and op.context == "Normal":
            for id in dict.fromkeys(op.inputs):
                if id in places and (id, op.place[2]) not in local:
                    local[id, op.place[2]] = _load_remote(listing, ops, op, id, id, places[id], listing.shape(id))
            op.inputs = [local.get((id, op.place[2]), id) for id in op.inputs]
        ops.append(op)
        ops += [_store(listing, id, id, op, places[id]) for id in op.outputs if op.is_forward and id in places]
    listing.ops = ops


def _own_location(maker: Op) -> TensorLocation | None:
    own = attributes_of(maker.node).get("__output_tensor_location") if maker.node is not None else None
    if own is None:
        return None
    return TensorLocation(TensorStorage(own[0]), TileSet(own[1]), TileSet(own[2]), ReplicatedTensorSharding["Off"])
