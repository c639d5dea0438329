"""The page docs/device-model-accuracy.md and its plot, from predictions of the calibration rows."""

import html
import math
import pathlib

import accuracy
import constants

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, PLOT = ROOT / "docs/device-model-accuracy.md", ROOT / "docs/device-model-accuracy.svg"
EXPECTED = ROOT / "csrc/report/expected_errors.inc"

# Figures of reports and the kinds of rows that measured them. What is not here nothing measured.
FIGURES = {
    "training": "model-train",
    "inference": "model-infer",
    "memory": "memory-fit",
    "product": "gemm",
    "convolution": "conv",
    "reduction": "reduction",
    "rearrangement": "copy",
    "random": "prng",
    "collective": "collective-bandwidth",
    "links": "link-bandwidth",
    "host": "host-bandwidth",
}

# Why kinds and sub-kinds are further from the measurements than they should be.
REMARKS = {
    "conv (plain)": "first layers of three channels come out 1.1 to 2.2 times too fast: how the library of 2019 ran them is not known; "
    "at large batches it ran out of memory elsewhere than the planner does",
    "conv (narrow groups)": "the Mk1 ran groups of fewer than 8 channels outside the matrix unit; right within a factor of four",
    "conv (8 channels and more)": "a row of a large batch where the library ran out of memory, and 3x3 groups of 8 channels at batch 1",
    "spmm": "inner loops of sparse blocks are known by their rate only",
    "memory-fit": "partitions of stencils whose published size does not follow their least rows; of the training of nanoGPT half of what "
    "lives always: its kernels of attention, their code and in how many chunks they work are not known",
    "stencil": "14 % too fast in the middle: loops of the compiler are priced by one number an iteration; two rows on 16 IPUs are 2 to 3 "
    "times slower than on 8",
    "bsp-breakdown": "the division of one step: small fragments cost less than the numbers that stand for all of them",
    "vertex-loop": "what the compilers made of one loop is not known",
    "collective-bandwidth": "one row contradicts its own table (5.4 KiB against 25 to 30)",
    "p2p-latency": "the way to the farthest tile is not modelled",
}


def plot(results):
    """Predicted over measured, each in the unit of its row, both logarithmic."""
    size, edge = 640, 46
    values = [value for result in results for value in (result.predicted, result.row.value) if value > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    kinds = sorted({result.row.kind for result in results})

    def at(value):
        return edge + (size - 2 * edge) * (math.log10(value) - low) / (high - low)

    def point(x, y):
        return f"{at(x):.1f}", f"{size - at(y):.1f}"

    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size + 170} {size}" font-family="sans-serif" font-size="11">',
        f'<rect width="{size + 170}" height="{size}" fill="white"/>',
    ]
    for factor, dash in ((1, ""), (2, ' stroke-dasharray="4 3"'), (0.5, ' stroke-dasharray="4 3"')):
        (x1, y1), (x2, y2) = point(10.0**low, factor * 10.0**low), point(10.0**high, factor * 10.0**high)
        svg.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#999"{dash}/>')
    for power in range(low, high + 1, 2):
        x, y = at(10.0**power), size - at(10.0**power)
        svg.append(f'<text x="{x:.1f}" y="{size - 28}" text-anchor="middle">1e{power}</text>')
        svg.append(f'<text x="{edge - 6}" y="{y + 4:.1f}" text-anchor="end">1e{power}</text>')
    svg.append(f'<text x="{size / 2}" y="{size - 10}" text-anchor="middle">measured, in the unit of the row</text>')
    svg.append(
        f'<text x="14" y="{size / 2}" text-anchor="middle" transform="rotate(-90 14 {size / 2})">predicted</text>'
    )
    for number, kind in enumerate(kinds):
        colour = f"hsl({360 * number // len(kinds)},70%,42%)"
        svg.append(f'<g fill="{colour}" fill-opacity="0.6">')
        for result in results:
            if result.row.kind == kind:
                x, y = point(result.row.value, result.predicted)
                svg.append(f'<circle cx="{x}" cy="{y}" r="3"><title>{html.escape(result.row.id)}</title></circle>')
        svg.append(f'<circle cx="{size}" cy="{20 + 16 * number}" r="4"/></g>')
        svg.append(f'<text x="{size + 10}" y="{24 + 16 * number}">{html.escape(kind)}</text>')
    return "\n".join([*svg, "</svg>"]) + "\n"


def kinds_text(rows, results):
    yield "| kind | rows | expressed | measured | median % | 90th % | middle | target | |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for found in accuracy.lines(rows, results):
        name = "&nbsp;&nbsp;" + found.name.strip() if found.name.startswith(" ") else found.name.replace(" *", " \\*")
        text = f"| {name} | {found.rows} | {found.expressed} |"
        if found.expressed:
            verdict = "" if found.inside is None else "inside" if found.inside else "**outside**"
            text += f" {found.measured} | {found.median:.1f} | {found.most:.1f} | {found.middle:.2f} |"
            text += f" {accuracy.target_text(found.target)} | {verdict} |"
        else:
            text += " | | | | | |"
        yield text


def constants_text(rows, results):
    yield "| constant | value | meaning | rows | as it is | without | 0.8 × | 1.2 × |"
    yield "|---|---|---|---|---|---|---|---|"
    as_it_is = {result.row.id: result for result in results}
    for constant, changes in constants.worth(rows):
        moved = {
            result.row.id for change in changes for result in change if result != as_it_is.get(result.row.id)
        } & set(as_it_is)
        found = [
            accuracy.overall([result for result in change if result.row.id in moved]) if moved else ""
            for change in (results, *changes)
        ]
        value = f"{constant.value:g}" + (" (chosen)" if constant.is_chosen else "")
        text = f"| `{constant.name}` | {value} | {constant.meaning} | {len(moved)} | {' | '.join(found)} |"
        yield text.replace("median ", "").replace(" 90th percentile ", " ").replace(" %,", " /").replace(" %", "")


def quick_part(rows, results):
    """All that one prediction says."""
    yield "# Accuracy of the device model"
    yield ""
    yield "Written by `benchmarks/device_model.py`; the model is [device-model.md](device-model.md), the measurements are"
    yield "`benchmarks/device_model/calibration.csv`. An error is |predicted / measured − 1|; a measurement that several rows repeat counts once;"
    yield "middle is the median of predicted / measured. Kinds with \\* are where numbers of the machine files come from: they prove the files,"
    yield "not the model."
    yield ""
    yield from kinds_text(rows, results)
    yield ""
    for sentence in [*accuracy.groups(rows, results), *accuracy.verdicts(rows, results)]:
        yield f"- {sentence}"
    yield ""
    yield "![Predicted over measured](device-model-accuracy.svg)"
    yield ""
    yield "## What is missed, and why"
    yield ""
    for name, remark in REMARKS.items():
        yield f"- {name}: {remark}."
    yield ""
    yield "## Decided without a source"
    yield ""
    yield f"Besides the constants below. The first {len(constants.CHOICES)} count as constants, the others are rules without a number. Where rows are named, the"
    yield "decision was made with their errors in view, so these rows do not judge it."
    yield ""
    for choice, seen in (constants.CHOICES | constants.RULES).items():
        yield f"- {choice} ({seen})"
    yield ""
    yield "The twenty worst rows, predicted / measured, and their largest part:"
    yield ""
    yield "```"
    yield from (accuracy.row_line(result) for result in accuracy.worst(results))
    yield "```"
    yield ""
    yield "## Fitted constants"
    yield ""
    yield "Median and 90th percentile of the rows that a constant changes, in per cent: as it is, if it says nothing, and if it is a fifth"
    yield "smaller or larger. Those that change no row are used by kinds that are not expressed yet."
    yield ""


def expected_errors(rows, results):
    """Lines of the table that reports read, of the kinds that are among the rows."""
    by_kind = {found.name.removesuffix(" *"): found for found in accuracy.lines(rows, results)}
    for figure, kind in FIGURES.items():
        if found := by_kind.get(kind):
            is_own = str(found.name.endswith("*")).lower()
            numbers = f"{found.median:.1f}, {found.most:.1f}, {found.measured}"
            yield f'{{"{figure}", "{kind}", {numbers}, {is_own}}},'


def expected_text(rows, results):
    return "// Written by benchmarks/device_model.py.\n" + "\n".join(expected_errors(rows, results)) + "\n"


def write(rows, results):
    EXPECTED.write_text(expected_text(rows, results))
    PAGE.write_text("\n".join([*quick_part(rows, results), *constants_text(rows, results)]) + "\n")
    PLOT.write_text(plot(results))


def stale(rows, results):
    """The files that are not what would be written; of the page, what one prediction says."""
    quick = "\n".join(quick_part(rows, results)) + "\n"
    old_page, old_plot, old_errors = (path.read_text() if path.exists() else "" for path in (PAGE, PLOT, EXPECTED))
    found = [] if old_page.startswith(quick) else [PAGE.name]
    found += [] if old_plot == plot(results) else [PLOT.name]
    return found if old_errors == expected_text(rows, results) else [*found, EXPECTED.name]
