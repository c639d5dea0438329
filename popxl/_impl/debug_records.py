"""Records of debug information, while `popart.initializePoplarDebugInfo` has them written: tensors, calls of popxl with what
goes in and out, and ops."""

import os
import sys
from collections.abc import Iterable
from typing import Any

from ipu_common.debug_contexts import SourceLocation, record
from popxl._impl.source import _is_inside, user_location


def _location() -> Any:
    from popxl.context import _contexts

    file, line = user_location(_contexts.here._skip)
    frame: Any = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename != file or frame.f_lineno != line):
        frame = frame.f_back
    return SourceLocation(frame.f_code.co_name if frame is not None else "", os.path.realpath(file), line)


def _api() -> str:
    """The innermost published function of popxl that runs, or what `op_debug_context` says."""
    from popxl.context import _contexts

    if _contexts.here._record is not None:
        return _contexts.here._record
    frame: Any = sys._getframe(1)
    while frame is not None and _is_inside(frame.f_code.co_filename):
        name = frame.f_code.co_name
        if not name.startswith(("_", "<", "create", "record")):
            return name
        frame = frame.f_back
    return ""


def record_tensor(api: str, tensor_id: str) -> None:
    """A tensor that no op makes."""
    record("popart", {"category": "tensor", "api": api, "tensorId": tensor_id}, tensor_id, location=_location())


def record_op(ir: Any, op: int, inputs: list[Any], outputs: Iterable[int]) -> None:
    """The outputs, the call of popxl, and the op."""
    program = ir._program
    ids = [program.tensor_id(t) for t in outputs]
    where, api = _location(), _api()
    for tensor_id in ids:
        record("popart", {"category": "tensor", "api": api, "tensorId": tensor_id}, tensor_id, location=where)
    values = {"api": api, "category": "op", "inputs": [t.id for t in inputs], "outputs": ids}
    call = record("popxl", values, api, location=where)
    domain, kind, version = program.op_identifier(op)
    core = {"category": "op", "opid": f"{domain}.{kind}:{version}", "instanceId": op}
    record("popart", core, program.op_setting(op, "name"), call, where)
