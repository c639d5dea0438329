"""Data in files. An element of a dataset has one file for each of its components, an array in NumPy's format whose first axis counts
the elements; inputs of a graph are the arrays of one file of NumPy's `npz` format, by the names of the tensors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def export_dataset_to_file(
    dataset_or_infeed: Any, output_filename: str, num_elements: int, feed_name: str = "", apply_options: bool = True
) -> None:
    """Writes the first elements of a dataset.

    Args:
        dataset_or_infeed: a dataset, or an IPUInfeedQueue for its dataset.
        output_filename: "d.npy" becomes "d.0.npy", "d.1.npy", ... for elements that are tuples, and "d.key.npy" for those that are
            dictionaries.
        num_elements: how many.
        feed_name, apply_options: have no effect.

    Raises:
        AssertionError: the first argument is something else.
        tf.errors.OutOfRangeError: the dataset has not so many elements.
    """
    dataset = getattr(dataset_or_infeed, "dataset", dataset_or_infeed)
    if not isinstance(dataset, tf.data.Dataset):
        raise AssertionError(f"dataset_or_infeed must be a dataset or an IPUInfeedQueue, and is {dataset!r}")
    elements = [tf.nest.flatten(element) for element in _elements(dataset, num_elements)]
    for number, place in enumerate(_places(dataset.element_spec)):
        stem, extension = os.path.splitext(output_filename)
        with open("".join([stem, *(f".{part}" for part in place), extension]), "wb") as file:
            np.save(file, np.stack([element[number] for element in elements]), allow_pickle=False)


def export_inputs_to_file(
    inputs: Sequence[tf.Tensor], output_filename: str, feed_dict: Mapping[tf.Tensor, Any]
) -> None:
    """Writes the values of inputs of a graph, computed by the host."""
    if not inputs:
        raise ValueError("inputs is empty: name the tensors to write")
    with tf.compat.v1.Session(graph=inputs[0].graph) as session:
        values = session.run(list(inputs), dict(feed_dict))
    with open(output_filename, "wb") as file:
        np.savez(file, **{tensor.name: value for tensor, value in zip(inputs, values, strict=True)})


def _places(structure: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Index or key of each component, in the order of tf.nest.flatten."""
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            yield from _places(structure[key], (*above, str(key)))
    elif isinstance(structure, (tuple, list)):
        for index, part in enumerate(structure):
            yield from _places(part, (*above, str(index)))
    else:
        yield above


def _elements(dataset: tf.data.Dataset, count: int) -> Iterator[Any]:
    if tf.executing_eagerly():
        iterator = iter(dataset)
        for _ in range(count):
            try:
                yield tf.nest.map_structure(lambda tensor: tensor.numpy(), next(iterator))
            except StopIteration:
                raise tf.errors.OutOfRangeError(None, None, f"the dataset has not {count} elements") from None
        return
    graph = tf.compat.v1.get_default_graph()
    with graph.as_default():
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
    with tf.compat.v1.Session(graph=graph) as session:
        session.run(iterator.initializer)
        for _ in range(count):
            yield session.run(element)
