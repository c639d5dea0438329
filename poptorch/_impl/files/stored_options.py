"""The options of an executable file: what they may decide in the process that loads it.

A file says how its model was compiled and runs. It does not say where anything is written, how logs look, or what is kept on
disk: such options are left out, whoever wrote the file, and the caller is told. The result is a new `poptorch.Options`, made by
the rules of this process (its environment included), to which the options on the list below are copied, each checked.
"""

import enum

from poptorch import enums
from poptorch._impl.options import phased, strategies
from poptorch._impl.files.loaded_state import Damaged

_MAX_COUNT = 2**31


def _is_count(value):
    return type(value) is int and 0 <= value < _MAX_COUNT


def _is_flag(value):
    return type(value) is bool


def _is_number(value):
    return type(value) in (int, float)


def _is_one_of(kind):
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and int(value) in set(map(int, kind))


def _is_text(value):
    return type(value) is str and len(value) < 10_000


def _is_file_name(value):
    """A name that, joined to a folder, stays in it: reports are written to a folder of this name."""
    return _is_text(value) and not set(value) & set("/\\\0") and value not in ("", ".", "..")


def _is_list_of_texts(value):
    return type(value) is list and all(map(_is_text, value))


def _is_dict_of(key, value):
    return lambda table: type(table) is dict and all(key(k) and value(v) for k, v in table.items())


def _is_anchor(value):
    return type(value) is list and len(value) == 3 and _is_text(value[0]) and all(map(_is_count, value[1:]))


def _is_seed(value):
    return type(value) is int and value.bit_length() <= 64


# What a file may set; a value that is not what it should be is an error.
_VALUES = {
    "Options": {
        "replication_factor": _is_count,
        "input_group_size": _is_count,
        "input_cgt": _is_one_of(enums.CommGroupType),
        "broadcast_buffers": _is_flag,
        "device_iterations": _is_count,
        "auto_round_num_ipus": _is_flag,
        "anchored_tensors": _is_dict_of(_is_text, _is_anchor),
        "output_mode": _is_one_of(enums.OutputMode),
        "output_return_period": _is_count,
        "connection_type": _is_one_of(enums.ConnectionType),
        "sync_pattern": _is_one_of(enums.SyncPattern),
        "available_memory_proportion": _is_dict_of(_is_count, lambda share: type(share) is float),
        "use_model": _is_flag,
        "ipu_id": _is_count,
        "ipu_version": _is_count,
        "random_seed": _is_seed,
        "model_name": _is_text,
        "updatable_named_buffers": _is_list_of_texts,
    },
    "Distributed": {"num_distributed_processes": _is_count, "distributed_process_id": _is_count},
    "Jit": {},
    "Precision": {},
    "TensorLocations": {
        "num_io_tiles": _is_count,
        **dict.fromkeys(
            ("location_activation", "location_weight", "location_optimizer", "location_accumulator"),
            _is_dict_of(_is_text, lambda value: _is_flag(value) or _is_count(value)),
        ),
    },
    "Training": {
        "gradient_accumulation": _is_count,
        "accumulation_and_replication_reduction_type": _is_one_of(enums.ReductionType),
        "meanAccumulationAndReplicationReductionStrategy": _is_one_of(enums.MeanReductionStrategy),
    },
    "_Popart": {
        "accumulationFactor": _is_count,
        "autoRecomputation": _is_count,
        "automaticLossScalingSettings.binEdgeLocation": _is_number,
        "automaticLossScalingSettings.enabled": _is_flag,
        "automaticLossScalingSettings.gradientTensorTrackingMethod": _is_count,
        "automaticLossScalingSettings.thresholdUpperCountProportion": _is_number,
        "automaticLossScalingSettings.updatePeriod": _is_count,
        "constantWeights": _is_flag,
        "convolutionOptions": _is_dict_of(_is_text, _is_text),
        "enableFloatingPointChecks": _is_flag,
        "enableGradientAccumulation": _is_flag,
        "enableOutlining": _is_flag,
        "enablePipelining": _is_flag,
        "enableReplicatedGraphs": _is_flag,
        "enableStableNorm": _is_flag,
        "enableStochasticRounding": _is_flag,
        "instrumentWithHardwareCycleCounter": _is_flag,
        "lstmOptions": _is_dict_of(_is_text, _is_text),
        "matmulOptions": _is_dict_of(_is_text, _is_text),
        "partialsTypeMatMuls": _is_text,
        "rearrangeAnchorsOnHost": _is_flag,
        "syntheticDataMode": _is_count,
        "virtualGraphMode": _is_count,
    },
}
_FLAGS = ("_relax_optimizer_checks", "_show_progress_bar", "_module_namescope")


def carried_names():
    """Names in `Options.toDict()` of the options that a file may set (set of str); the strategy is no name there."""
    other = {"num_io_tiles": "numIOTiles", "updatable_named_buffers": "updatableNamedBuffers"}
    names = {other.get(name, name) for part in _VALUES.values() for name in part}
    return names | {"patterns", "patterns_level"}


def _require(condition, name):
    if not condition:
        raise Damaged(f"its options have an odd {name}")


def _is_plain(value):
    """May it be compared: numbers, texts, and dicts of texts?"""
    return type(value) in (type(None), bool, int, float, str) or _is_dict_of(_is_text, _is_text)(value)


def _attributes(value):
    return object.__getattribute__(value, "__dict__")


def _copy_values(part, allowed, given, own):
    """Copies the options that are allowed; returns the names of those that are not and differ from this process's."""
    dropped = []
    for name, value in given.items():
        check = allowed.get(name)
        if check is None or (name == "model_name" and _is_text(value) and not _is_file_name(value)):
            if name not in own or not (_is_plain(value) and own[name] == value):
                dropped.append(name if part == "Options" else f"{part}.{name}")
            continue
        _require(check(value), name)
        current = own.get(name)
        own[name] = type(current)(value) if isinstance(current, enum.IntEnum) else value
    return dropped


def _stage(stage):
    _require(type(stage) is strategies.Stage, "execution strategy")
    fields = _attributes(stage)
    blocks, ipu, number = fields.get("_blocks"), fields.get("_ipu"), fields.get("_stage_id")
    _require(type(blocks) is tuple and all(map(_is_text, blocks)), "execution strategy")
    _require(all(n is None or _is_count(n) for n in (ipu, number)), "execution strategy")
    copied = strategies.Stage(*blocks)
    copied._ipu, copied._stage_id = ipu, number
    return copied


def _phased(stored):
    attributes = _attributes(stored)
    phases, separate, liveness = (attributes.get(name) for name in ("_phases", "_separate", "_liveness"))
    _require(type(phases) is list and 0 < len(phases) < 10_000, "execution strategy")
    _require(type(separate) is bool and type(liveness) is enums.Liveness, "execution strategy")
    made = []
    for phase in phases:
        _require(type(phase) is phased.Phase, "execution strategy")
        stages = _attributes(phase).get("_stages")
        _require(type(stages) is tuple and len(stages) < 10_000, "execution strategy")
        made.append(phased.Phase(*map(_stage, stages)))
    blocks = [block for phase in made for stage in phase.stages for block in stage.blocks]
    _require(len(set(blocks)) == len(blocks), "execution strategy")
    return phased.restored(type(stored), made, separate, liveness)


def _strategy(stored):
    """A new strategy with the stages of the stored one."""
    if type(stored) in (phased.SerialPhasedExecution, phased.ParallelPhasedExecution):
        return _phased(stored)
    kinds = (strategies.PipelinedExecution, strategies.ShardedExecution)
    _require(type(stored) in kinds, "execution strategy")
    attributes = _attributes(stored)
    auto, stages = attributes.get("_auto"), attributes.get("_stages")
    _require(auto is None or type(auto) is enums.AutoStage, "execution strategy")
    _require(type(stages) is list and len(stages) < 10_000, "execution strategy")
    made = type(stored)(*([auto] if auto is not None else []))
    made._auto = auto
    for stage in stages:
        made._stages.append(_stage(stage))
    return made


def options_for_file(options):
    """A copy of the classes of this package: launchers and programs derive from them, and a file names no others."""
    twin = options.clone()
    for part in (twin, *twin._parts().values()):
        known = next(kind for kind in type(part).__mro__ if kind.__module__.partition(".")[0] == "poptorch")
        object.__setattr__(part, "__class__", known)
    return twin


def options_from_file(stored):
    """New options with what a file may decide.

    Returns:
        (`poptorch.Options`, sorted list of the names of options that were left out).

    Raises:
        Damaged: no options, or an option of another type than it has.
    """
    from poptorch.options import Options

    if type(stored) is not Options:
        raise Damaged("it has no options")
    made = Options()
    processes, process = made.Distributed.numProcesses, made.Distributed.processId
    given, own = _attributes(stored), _attributes(made)
    names = {
        "Options": "",
        "Distributed": "_distributed",
        "Jit": "_jit",
        "Precision": "_precision",
        "TensorLocations": "_locations",
        "Training": "_training",
    }
    dropped = []
    for part, attribute in names.items():
        source, target = (given, own) if not attribute else (_attributes(given[attribute]), _attributes(own[attribute]))
        _require(type(source.get("_values")) is dict, part)
        dropped += _copy_values(part, _VALUES[part], source["_values"], target["_values"])
    if processes > 1 and made.Distributed.numProcesses == processes:  # who this process is, only it knows
        made.Distributed._values["distributed_process_id"] = process
    popart = _attributes(given["_popart"])
    _require(type(popart.get("options")) is dict, "_Popart")
    dropped += _copy_values("_Popart", _VALUES["_Popart"], popart["options"], made._popart.options)
    patterns, level = popart.get("patterns"), popart.get("patterns_level")
    _require(_is_dict_of(_is_text, _is_flag)(patterns) and (level is None or _is_count(level)), "_Popart")
    made._popart.patterns, made._popart.patterns_level = dict(patterns), level
    for name in _FLAGS:
        _require(_is_flag(given.get(name)), name)
        object.__setattr__(made, name, given[name])
    _require(_is_list_of_texts(given.get("_location_excludes")), "_location_excludes")
    object.__setattr__(made, "_location_excludes", list(given["_location_excludes"]))
    object.__setattr__(made, "_strategy", _strategy(given.get("_strategy")))
    return made, sorted(dropped)
