"""The checked-in table of outcomes (outcomes.txt), and the page made from it (docs/operator_samples.md).

A line of the table per operator, form and element type, "add | value | float32 | passed 47 of 47"; under it a line per reason for
the rest, "  3 refused: why".
"""

import pathlib
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

MOST_SAMPLES = 60  # of one operator, form and element type
HERE = pathlib.Path(__file__).parent
TABLE = HERE / "outcomes.txt"
SUPPORTED = HERE / "supported_operators.txt"

Key = tuple  # (operator, form, element type)


@dataclass
class Row:
    passed: int = 0
    failed: Counter = field(default_factory=Counter)  # (kind, reason) → samples

    @property
    def total(self):
        return self.passed + sum(self.failed.values())


def count(outcomes):
    """Rows by key of (key, outcome) pairs."""
    rows: dict[Key, Row] = defaultdict(Row)
    for key, outcome in outcomes:
        if outcome is None:
            rows[key].passed += 1
        else:
            rows[key].failed[outcome] += 1
    return dict(rows)


def write(rows):
    lines = []
    for key, row in sorted(rows.items()):
        lines.append(" | ".join([*key, f"passed {row.passed} of {row.total}"]))
        lines += [f"  {n} {kind}: {reason}" for (kind, reason), n in sorted(row.failed.items())]
    TABLE.write_text("\n".join(lines) + "\n")


def read():
    rows: dict[Key, Row] = {}
    row = Row()
    for line in TABLE.read_text().splitlines():
        if line.startswith("  "):
            number, kind, reason = re.fullmatch(r"  (\d+) (\w+): (.*)", line).groups()
            row.failed[kind, reason] = int(number)
        else:
            *key, passed = line.split(" | ")
            row = rows[tuple(key)] = Row(int(passed.split()[1]))
    return rows


def worse(measured, recorded):
    """What a measurement has against the table: samples that failed more often than it says, by kind and reason."""
    found = []
    for key, row in sorted(measured.items()):
        known = recorded.get(key, Row())
        if sum(row.failed.values()) <= sum(known.failed.values()) and not any(
            n > known.failed[outcome] for outcome, n in row.failed.items() if outcome[0] != "refused"
        ):
            continue
        for (kind, reason), n in sorted(row.failed.items()):
            if n > known.failed[kind, reason]:
                found.append(f"{' | '.join(key)}: {n} {kind} and not {known.failed[kind, reason]}: {reason}")
    return found


def supported():
    """(group, operator, names in op_db) of what PopTorch supports."""
    rows = []
    for line in SUPPORTED.read_text().splitlines():
        if line and not line.startswith("#"):
            left, _, names = line.rpartition("=")
            group, _, name = left.partition(": ")
            rows.append((group, name.strip(), names.split()))
    return rows


def name_in_op_db(full_name, names):
    """The entry of op_db that a full name is a variant of, among `names`; None: none of them."""
    return max((n for n in names if full_name == n or full_name.startswith(n + ".")), key=len, default=None)


def share(rows):
    """(passed, all) samples."""
    return sum(r.passed for r in rows), sum(r.total for r in rows)


def percent(passed, total):
    return f"{passed} of {total} ({100 * passed / total:.1f} %)" if total else "none"


def why(rows):
    reasons: Counter = Counter()
    for row in rows:
        for (kind, reason), n in row.failed.items():
            reasons[reason if kind == "refused" else f"**{kind}**: {reason}"] += n
    said = [f"{n} {reason}" for reason, n in reasons.most_common(4)]
    rest = sum(reasons.values()) - sum(n for _, n in reasons.most_common(4))
    return "; ".join(said + ([f"{rest} for other reasons"] if rest else [])).replace("|", "\\|")


def table_of(named):
    lines = ["| operator | passed | all | the rest |", "|---|---|---|---|"]
    for name, rows in named:
        passed, total = share(rows)
        lines.append(f"| `{name}` | {passed} | {total} | {why(rows)} |")
    return lines


def page(rows):
    """The text of docs/operator_samples.md."""
    by_operator: dict[str, list] = defaultdict(list)
    by_form: dict[str, list] = defaultdict(list)
    in_groups: list = []
    for key, row in sorted(rows.items()):
        by_operator[key[0]].append(row)
    names = {n for _, _, entries in supported() for n in entries}
    inside = {o for o in by_operator if name_in_op_db(o, names)}
    for key, row in sorted(rows.items()):
        if key[0] in inside:
            by_form[f"{key[1]}, {key[2]}"].append(row)
            in_groups.append(row)
    lines = [
        "# Samples of PyTorch's operators",
        "",
        "<!-- Generated from tests/ops/operator_samples by `scripts/operator_samples.py`; do not edit. -->",
        "",
        "PyTorch tests its operators with samples of its own. Here each sample is an IPU program: captured, compiled, run and compared",
        "with PyTorch on the CPU in values, shapes and element types, for `float32`, `int64`, `bool` and `float16`; with the first of",
        "these also written in place, to `out=` and through the view that the operator returns; gradients in `float32`.",
        f"Of more than {MOST_SAMPLES} samples of one operator, {MOST_SAMPLES} in even steps are taken. Tensors without elements are made",
        "in the model, for they cannot be inputs. A sample that does not pass is refused by an error that says why.",
        "",
        f"Operators that PopTorch's user guide lists: **{percent(*share(in_groups))}** samples pass.",
        f"All operators: {percent(*share(rows.values()))}.",
        "",
        "| form and element type, operators of the guide | passed |",
        "|---|---|",
        *(f"| {form} | {percent(*share(of_form))} |" for form, of_form in sorted(by_form.items())),
    ]
    for group in dict.fromkeys(g for g, _, _ in supported()):
        entries = {n for g, _, ns in supported() if g == group for n in ns}
        lines += ["", f"## {group.capitalize()}", ""]
        lines += table_of([(o, by_operator[o]) for o in sorted(inside) if name_in_op_db(o, names) in entries])
    lines += ["", "## Operators the guide does not list", ""]
    lines += table_of([(o, r) for o, r in sorted(by_operator.items()) if o not in inside])
    return "\n".join(lines) + "\n"
