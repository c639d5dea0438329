"""Executables on disk: what `save`, `loadExecutable` and `poptorch.load` put into the model part of a file and take out.

The container, the program and its checks are native (docs/file-format.md). The model part is a pickle of one dict, read and
checked by `model_part`; `model`, `optimizer` and `optimizer_state` are there when the model was exported.
"""

from __future__ import annotations

import json
import os

from torch.nn.parameter import is_lazy

from ipu_common import regular_files
from poptorch import enums, poptorch_core
from poptorch._impl import errors
from poptorch._impl.files import stored_options, unpickler
from poptorch._impl.session import inspection, rng
from poptorch._impl.log import logger
from poptorch._impl.files.model_part import ModelPart, blaming
from poptorch._impl.structures import differ, rebuild, tensors_of

_DEFAULT_NAME = "model.poptorch"
_VERSION = "poptorch_version"
_BACK_END_IR, _TENSOR_NAMES = "back_end_ir", "tensor_names"  # what programs may ask a loaded executable
# Options that count for a loaded executable; all others are fixed by compilation.
_RUN_TIME_OPTIONS = {
    "auto_round_num_ipus",
    "cachePath",
    "compilation_progress_bar_fn",
    "connection_type",
    "distributed_process_id",
    "enableEngineCaching",
    "enableFloatingPointChecks",
    "engineOptions",
    "instrumentWithHardwareCycleCounter",
    "ipu_id",
    "ipu_version",
    "ipuof_configs",
    "log_dir",
    "max_repeat_logs",
    "model_name",
    "num_distributed_processes",  # checked by itself
    "random_seed",
    "sync_pattern",
    "syntheticDataMode",
    "use_model",
}


def _package_version():
    import poptorch

    return poptorch.__version__


def target_of(filename):
    """The file a name means: itself, or `model.poptorch` in the folder it names; parent folders are made, with a warning.

    Raises:
        AssertionError: a parent exists and is no folder.
    """
    path = os.fspath(filename)
    if os.path.isdir(path) or path.endswith(os.sep):
        path = os.path.join(path, _DEFAULT_NAME)
        logger.warning("save() needs a file name but got a folder: writing %s", path)
    parent = os.path.dirname(path)
    if parent:
        existing = parent
        while existing and not os.path.exists(existing):
            existing = os.path.dirname(existing)
        assert not existing or os.path.isdir(existing), f"'{existing}' exists and is not a folder: cannot write {path}"
        regular_files.make_folder(parent, "save()", logger.warning)
    return path


def save(state, filename, export_model, save_rng_state):
    """Writes the executable of a compiled wrapper, whose weights on the host are up to date."""
    if state.executable.program_text() == "":
        raise errors.create_error("there is nothing to export: all outputs of the model are constants, it uses no IPU.")
    if save_rng_state and state.is_attached():
        rng.log_reading(state.executable)
    link = state.optimizer_link
    contents = {
        "version": _package_version(),
        "training": state.training,
        "options": stored_options.options_for_file(state.options),
        "inputs": _stored_inputs(state),
        "groupings": state.groupings,
        "rng_state": rng.state(state.executable, state.options) if save_rng_state else None,
    }
    if export_model:
        _require_values(state.user_model)
        contents["model"] = state.user_model
        if link is not None:
            link.host.fetch()
            contents["optimizer"] = link.optimizer
            contents["optimizer_state"] = link.host.snapshot()
    model, storages = unpickler.write(contents)
    metadata = {
        _VERSION: _package_version(),
        _BACK_END_IR: state.executable.back_end_ir(),
        _TENSOR_NAMES: json.dumps(state.executable.tensor_names()),
    }
    poptorch_core.save_executable(state.executable, os.fsencode(target_of(filename)), metadata, model, storages)


def _require_values(model):
    """torch ends the process when it writes a tensor whose values are somewhere else than its class says."""
    for kind, named in ("parameter", model.named_parameters()), ("buffer", model.named_buffers()):
        for name, tensor in named:
            if not is_lazy(tensor) and (objection := poptorch_core.objection_to(tensor)):
                raise errors.create_error(f"save() cannot write the {kind} '{name}': it {objection}")


def _stored_inputs(state):
    """The example inputs without constants that are defaults of `forward`: whoever loads has those, of any type."""
    defaults = state.binder.defaults

    def is_default(name, value):
        if name not in defaults or any(True for _ in tensors_of(value)):
            return False
        return type(value) is type(defaults[name]) and not differ(value, defaults[name])

    rows = [row for row in zip(*state.compiled.example_inputs) if not is_default(row[0], row[1])]
    return tuple(map(list, zip(*rows))) if rows else ([], [], [])


def describe(executable, file):
    """Gives the executable of a file what `save` wrote about it; poptorch.Error when that is not what it should be."""
    texts = [file.metadata.get(_BACK_END_IR, "{}"), file.metadata.get(_TENSOR_NAMES, "[]")]
    try:
        graphs, names = map(json.loads, texts)
    except (ValueError, RecursionError):
        graphs = names = None
    if not isinstance(graphs, dict) or not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise errors.create_error(
            "the file is damaged: its description of the program is no JSON of a list and an object."
        )
    executable.set_description(texts[0], names)


def example_inputs(values):
    """Inputs of the shapes and types of the compiling call; one element stands for all, for only shapes matter, and
    which inputs are one tensor."""
    made = {}

    def example(tensor):
        key = (poptorch_core.address_of(tensor), tensor.dtype, tensor.shape, tensor.stride())
        if key not in made:
            made[key] = tensor.detach().new_zeros(()).expand(tensor.shape)
        return made[key]

    return [rebuild(value, map(example, tensors_of(value))) for value in values]


def native_options(options):
    """What `poptorch_core.compile` must know about versions and offline targets (dict)."""
    native = {"version": _package_version()}
    if options.connection_type == enums.ConnectionType.Never and options.exists("ipu_version"):
        native["offline_ipu_version"] = options.ipu_version
    return native


def cache_directory(options):
    """The folder of the executable cache, made if need be, or "".

    Raises:
        AssertionError: it cannot be made or written.
    """
    path = options._Popart.options.get("cachePath")
    if not path or not options._Popart.options.get("enableEngineCaching"):
        return ""
    if inspection.uses_ipu_model(options):
        logger.warning("Executable caching is not available on an IPU model: the program is compiled.")
        return ""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise AssertionError(f"The executable cache '{path}' cannot be made: {error}") from error
    assert os.access(path, os.W_OK | os.X_OK), f"The executable cache '{path}' is not writable"
    return os.path.abspath(path)


class Precompiled:
    """A file, read and checked: `file` (the container), `part` (its `ModelPart`).

    Raises:
        poptorch.Error: unreadable, damaged, or naming something that is not allowed.
        `version_error`: made by another version (called with the message).
    """

    def __init__(self, filename, trusted, version_error):
        self.path = errors.foreign(os.fsdecode(filename), 4096)
        self.file = poptorch_core.ExecutableFile(os.fsencode(filename))
        written = self.file.metadata.get(_VERSION, "")
        if written != _package_version():
            raise version_error(
                f"Invalid file {self.path}: written by poptorch {errors.foreign(written) or '(unknown)'}, this is "
                f"{_package_version()}. Compile and save again with this version."
            )
        self.part = ModelPart(self.file, self.path, trusted)


def assertion(message):
    return AssertionError(message)


def load_into(state, compile_program, filename, trusted):
    """`loadExecutable` of a wrapper; `compile_program(*inputs, from_file=...)` makes a program its own."""
    read = Precompiled(filename, trusted, errors.create_error)
    part = read.part
    if part.training != state.training:
        kinds = {True: "trainingModel", False: "inferenceModel"}
        raise errors.create_error(
            f"{read.path} holds the executable of a poptorch.{kinds[part.training]}; this wrapper is a "
            f"poptorch.{kinds[state.training]}."
        )
    check_job(state.options, part.options, read.path)
    warn_about_options(state.options, part.options, read.path)

    def take():
        with blaming(read.path, AssertionError):  # what the wrapper's own options and model say
            adopt(state, compile_program, read)
            if rng.seed_option(state.options) in (None, rng.seed_option(part.options)):
                restore_random_state(state, part)

    changes = poptorch_core.Changes()  # with its random state, or not at all
    changes.keep_on_failure(state.__dict__, ["compiled", "groupings"])
    changes.run(take)


def restore_random_state(state, part):
    if part.rng_state is not None:
        rng.restore(state.executable, part.rng_state)


def adopt(state, compile_program, read):
    before, state.groupings = state.groupings, read.part.groupings
    try:
        compile_program(*state.binder.complete(*read.part.inputs), from_file=read.file)
    except BaseException:
        state.groupings = before  # a wrapper that could not take the file is as it was
        raise


def check_job(mine, compiled, path):
    """The number of processes is part of a compiled training step: gradients are divided by it."""
    if mine.Distributed.numProcesses != compiled.Distributed.numProcesses:
        raise errors.create_error(
            f"{path} was compiled for a job of {compiled.Distributed.numProcesses} process(es), and "
            f"Options.Distributed says {mine.Distributed.numProcesses}. Compile and save it again."
        )


def _flat(options):
    if options.defaultOutputMode():  # the wrapper will choose
        options = options.clone().outputMode(enums.OutputMode.Final)
    return options.toDict()


def warn_about_options(mine, compiled, path):
    """Names every option of `mine` that would have to be compiled in, and differs from what the file says."""

    def warn(name, value, expected):
        logger.warning("Option %s=%r has no effect: %s was compiled with %r.", name, value, path, expected)

    values, expected = map(_flat, (mine, compiled))
    carried = stored_options.carried_names()
    for name in sorted(carried.intersection({*values, *expected}) - _RUN_TIME_OPTIONS):
        pair = values.get(name), expected.get(name)
        if pair[0] != pair[1] and any(pair):  # an option that is switched off is as good as one that is not there
            warn(name, *pair)
    if mine._strategy != compiled._strategy:
        warn("setExecutionStrategy", mine._strategy, compiled._strategy)


def metadata_bytes(filename: str | os.PathLike[str]) -> bytes:
    """`poptorch.importPoptorchMetadataFromFile`."""
    return poptorch_core.ExecutableFile(os.fsencode(filename)).model()
