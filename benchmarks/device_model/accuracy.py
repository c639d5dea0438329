"""How far predictions are from measurements: by row, by kind, over all."""

import collections

import measurements
import microbenchmarks
import numpy
import predictions

# Median and 90th percentile that a kind should stay within, in per cent; None: any.
TARGETS = {
    "gemm": (8, 18),
    "conv": (12, 55),
    "spmm": (20, 45),
    "model-train": (15, 40),
    "model-infer": (20, 40),
    "memory-fit": (10, 45),
    "stencil": (15, 40),
    "reduction": (6, 110),
    "collective-bandwidth": (5, 45),
    "collective-latency": (5, 45),
    "amp-vertex": (3, 8),
    "exchange": (3, 8),
    "link-latency": (3, 8),
    "host-latency": (3, 8),
    "p2p-bandwidth": (3, 8),
    "host-bandwidth": (20, 35),
    "p2p-latency": (35, None),
    "bsp-breakdown": (35, None),
    "vertex-loop": (35, None),
    "link-bandwidth": (35, None),
    "memory-bandwidth": (35, None),
    ("conv", "plain"): (10, 22),
    ("conv", "8 channels and more"): (12, 35),
    ("conv", "blur"): (20, 35),
}
WORST = 20

Result = collections.namedtuple("Result", "row predicted parts")


def said_of(row, machine_file):
    """The prediction of a row and its parts; None if it is not expressed: its kind, its machine, or it lacks what a formula needs."""
    kind = predictions.KINDS.get(row.kind)
    if kind is None or row.machine is None:
        return None
    try:
        return kind(row, machine_file(row.machine))
    except (KeyError, ValueError):  # a parameter is missing, or is no number
        return None


def predict(rows, machine_file=lambda name: name):
    """What the model says of each row that it can express; `machine_file` gives the file to use for a machine."""
    said = ((row, said_of(row, machine_file)) for row in rows)
    return [Result(row, *found) for row, found in said if found is not None]


def errors(results):
    """|predicted / measured - 1| of each measurement once, in per cent, and the middle of predicted / measured."""
    by_row = {result.row.id: result.predicted / result.row.value for result in results}
    ratios = [
        numpy.median([by_row[row.id] for row in group])
        for group in measurements.grouped([result.row for result in results])
    ]
    return 100 * numpy.abs(numpy.array(ratios) - 1), float(numpy.median(ratios))


def is_inside(found, target):
    median, most = target
    return bool(numpy.median(found) <= median and (most is None or numpy.percentile(found, 90) <= most))


Line = collections.namedtuple("Line", "name rows expressed measured median most middle target inside")


def line(name, rows, results, target):
    if not results:
        return Line(name, rows, 0, 0, None, None, None, target, None)
    found, middle = errors(results)
    inside = is_inside(found, target) if target else None
    return Line(
        name,
        rows,
        len(results),
        len(found),
        float(numpy.median(found)),
        float(numpy.percentile(found, 90)),
        middle,
        target,
        inside,
    )


def lines(rows, results):
    """A line for each kind, and for each sub-kind of those that have several."""
    for kind in sorted({row.kind for row in rows}):
        mine = [result for result in results if result.row.kind == kind]
        mark = " *" if kind in microbenchmarks.READ_BACK else ""
        yield line(kind + mark, sum(row.kind == kind for row in rows), mine, TARGETS.get(kind))
        names = sorted({result.row.sub_kind for result in mine})
        for name in names if len(names) > 1 else []:
            of_name = [result for result in mine if result.row.sub_kind == name]
            yield line(f"  {name}", len(of_name), of_name, TARGETS.get((kind, name)))


def target_text(target):
    return f"{target[0]} / {'any' if target[1] is None else target[1]}" if target else ""


def table(rows, results):
    yield (
        f"{'kind':<24} {'rows':>5} {'expressed':>9} {'measured':>8} {'median':>7} {'90th':>7} {'middle':>7} {'target':>9}"
    )
    for found in lines(rows, results):
        text = f"{found.name:<24} {found.rows:>5} {found.expressed:>9}"
        if found.expressed:
            text += f" {found.measured:>8} {found.median:>7.1f} {found.most:>7.1f} {found.middle:>7.3f}"
            verdict = "" if found.inside is None else " inside" if found.inside else " outside"
            text += f" {target_text(found.target):>9}{verdict}"
        yield text.rstrip()
    yield "* the numbers of the machine files come from these rows: they prove the file, not the model"


def groups(rows, results):
    """How many measurements the rows are, and which rows of expressed kinds are not expressed."""
    found = measurements.grouped([result.row for result in results])
    repeated = sum(len(group) for group in found if len(group) > 1)
    several = sum(len(group) > 1 for group in found)
    yield f"{len(results)} rows are {len(found)} measurements: {repeated} rows repeat {several} of them"
    known = {result.row.id for result in results}
    lacking = [row.id for row in rows if row.kind in predictions.KINDS and row.id not in known]
    yield f"not expressed of these kinds: {', '.join(sorted(lacking)) or 'none'}"


def verdicts(rows, results):
    """Which kinds are inside their targets, how much is expressed, and the error over all."""
    inside, outside = [], []
    for name, target in TARGETS.items():
        kind, sub_kind = name if isinstance(name, tuple) else (name, None)
        mine = [result for result in results if result.row.kind == kind and sub_kind in (None, result.row.sub_kind)]
        if mine:
            text = f"{kind} ({sub_kind})" if sub_kind else kind
            (inside if is_inside(errors(mine)[0], target) else outside).append(text)
    yield f"inside the target: {', '.join(inside) or 'none'}; outside: {', '.join(outside) or 'none'}"
    yield f"expressed: {len(results)} of {len(rows)} rows, {100 * len(results) / len(rows):.1f} %"
    yield f"all: {overall(results)}"


def overall(results):
    found = errors(results)[0]
    return f"median {numpy.median(found):.1f} %, 90th percentile {numpy.percentile(found, 90):.1f} %"


def worst(results):
    def distance(result):
        return abs(result.predicted / result.row.value - 1)

    return sorted(results, key=distance, reverse=True)[:WORST]


def row_line(result):
    row = result.row
    part = max(result.parts, key=result.parts.get)
    share = 100 * result.parts[part] / sum(result.parts.values())
    given = ";".join(f"{key}={value}" if value else key for key, value in row.parameters.items())[:60]
    return (
        f"{row.id:<18} {result.predicted / row.value:>6.3f} {result.predicted:>11.4g} {row.value:>11.4g} {row.unit:<12} "
        f"{part} {share:.0f} %  {row.dtype} {given}"
    )
