"""What the registry of importers takes, what PopART's table says runs, and what has a case: one list, version by version."""

import functools

import onnx.defs

import ipu_core
from popart._impl.operators.onnx import OPERATORS
from popart_onnx_cases import OPSETS, ROWS, usable
from popart_onnx_samples import CASES
from test_popart_onnx_values import ELSEWHERE

IMPORTERS = [row for row in ipu_core.importers("ai.onnx") if row[1] <= OPSETS[-1]]
# Importers for models of others: PopART has no class for these, and a session says so.
OTHERS = {
    "GatherElements", "GatherND", "NonZero", "Range", "ScatterND", "Size", "Xor",
}  # fmt: skip
# Imported in an opset where PopART has no class yet.
BEFORE = {("Less", 6), ("PRelu", 7), ("PRelu", 8)}


@functools.cache
def meanings(kind):
    """The versions in which ONNX gives the operator a meaning, as opsets 6 to 11 select them, by opset."""
    versions = sorted(
        {s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == kind and not s.domain}
    )
    return {opset: max((v for v in versions if v <= opset), default=0) for opset in OPSETS}


def test_what_the_registry_takes_runs_in_popart_and_has_a_case():
    missing = []
    for kind, first, last in IMPORTERS:
        if kind in OTHERS:
            continue
        for opset in OPSETS:
            if not first <= opset <= last or not meanings(kind)[opset] or (kind, opset) in BEFORE:
                continue
            row = ROWS.get(kind)
            if row is None or row.how == "none" or not usable(row, opset):
                missing.append(f"{kind} of opset {opset} is imported, and PopART's table does not run it")
            elif kind not in ELSEWHERE and not any(
                usable(row, opset) in case.versions for case in CASES if case.kind == kind
            ):
                missing.append(f"{kind}:{usable(row, opset)} has no case")
    assert not missing, "; ".join(missing)


def test_what_popart_runs_is_imported_in_every_opset():
    imported = {}
    for kind, first, last in IMPORTERS:
        imported.setdefault(kind, set()).update(range(first, last + 1))
    missing = [
        f"{row.type} of opset {opset}"
        for row in OPERATORS
        for opset in OPSETS
        if row.how != "none" and usable(row, opset) and opset not in imported.get(row.type, ())
    ]
    assert not missing, f"no importer for {', '.join(missing)}"


def test_every_real_operator_is_tried_in_half_precision():
    """Those whose table row takes FLOAT16 have a case of it; folded ones compute nothing on the device."""
    missing = [
        kind
        for kind, row in ROWS.items()
        if row.how in ("ir", "rewritten")
        and kind not in ELSEWHERE
        and any("FLOAT16" in types for _, types, _ in row.inputs[:1])
        and not any(case.f16 for case in CASES if case.kind == kind)
    ]
    assert not missing, f"no case in float16 for {', '.join(missing)}"
