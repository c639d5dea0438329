"""`poptorch.load`: a wrapper from a file alone."""

from __future__ import annotations

import collections.abc
import os
import typing

from poptorch import enums
from poptorch._impl.session import precompiled
from poptorch._impl.session import factories as wrappers, rng
from poptorch._impl.files.model_part import blaming
from poptorch._impl.session.executor import PoplarExecutor, adopt, state_of
from poptorch.options import Options


def load(
    filename: str | os.PathLike[str],
    edit_opts_fn: collections.abc.Callable[[Options], typing.Any] | None = None,
    trusted: bool = False,
) -> PoplarExecutor:
    """The wrapper that `save` or `compileAndExport` wrote, with model, weights, optimizer state and executable.

    Nothing is compiled, and no code of the file runs: its pickled model may name only classes this program has imported
    already (docs/file-format.md). An offline target is dropped; the device is attached as `connectionType` says.

    Args:
        filename: file to read.
        edit_opts_fn: function that changes run-time options of the `poptorch.Options` it is given, in place.
        trusted: run whatever code the pickled model names, as `pickle.load` does (bool). Only for files you trust.

    Returns:
        `PoplarExecutor`.

    Raises:
        AssertionError: made by another version, or the model was not exported.
        poptorch.Error: unreadable, damaged, for another machine, or using names that are not allowed.

    Example:
        >>> predict = poptorch.load("predictor.poptorch", lambda options: options.randomSeed(1))
    """
    read = precompiled.Precompiled(filename, trusted, precompiled.assertion)
    part = read.part
    options = part.options
    options.deleteIfExists("ipu_version")
    if options.connection_type == enums.ConnectionType.Never:
        options.connectionType(enums.ConnectionType.Always)
    assert part.model is not None, (
        f"{read.path} does not contain the model: it was saved with export_model=False. Wrap the model with "
        "poptorch.trainingModel or poptorch.inferenceModel and call loadExecutable() on the wrapper."
    )
    compiled = options.clone()
    if edit_opts_fn is not None:
        edit_opts_fn(options)
    precompiled.check_job(options, compiled, read.path)
    precompiled.warn_about_options(options, compiled, read.path)
    with blaming(read.path):
        if part.training:
            executor = wrappers.trainingModel(part.model, options, part.optimizer)
            link = state_of(executor).optimizer_link
            if link is not None:
                link.restore(part.optimizer_state)
        else:
            executor = wrappers.inferenceModel(part.model, options)
        adopt(executor, read)
        if rng.seed_option(options) == rng.seed_option(compiled):  # else the caller asked for another seed
            precompiled.restore_random_state(state_of(executor), part)
    return executor
