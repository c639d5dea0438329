"""What programs need of the memory of a machine, and whether they fit, against published figures (docs/device-model.md)."""

import bert_texts
import pytest

from ipu_core import _native

# Bytes on each of 1472 tiles of BERT-Large inference, 24 layers that are not outlined (popliner).
TILES = 1472
BREAKDOWN = {
    "vertex state": 25.5e6 / TILES,
    "vertex code": 9.9e6 / TILES,
    "exchange code": 27.8e6 / TILES,
    "control code": 32.9e6 / TILES,
}
VARIABLES = 718.5e6 / TILES
DATA = ("weights", "accumulators", "optimizer state", "stashes", "constants", "values", "copies", "temporaries")


def product(rows, inputs, outputs, dtype="f32"):
    """A product of two tensors that the host gives."""
    return f"""
stream @a: {dtype}[{rows},{inputs}] {{ipu=0}}
stream @b: {dtype}[{inputs},{outputs}] {{ipu=0}}
stream @y: {dtype}[{rows},{outputs}] {{direction="device_to_host", ipu=0}}
entry main = @main
graph @main() -> () {{
  %a = host_load() {{stream=@a | ipu=0}} : {dtype}[{rows},{inputs}]
  %b = host_load() {{stream=@b | ipu=0}} : {dtype}[{inputs},{outputs}]
  %y = matmul(%a, %b) {{| ipu=0}} : {dtype}[{rows},{outputs}] loc("model.py":7)
  host_store(%y) {{stream=@y | ipu=0}}
  return
}}
"""


def test_the_parts_of_bert_large_inference():
    verdict = _native.judge_memory(bert_texts.inference(bert_texts.LARGE, 24, 1, 128), "gc200", outlined=False)
    found = verdict["ipus"][0]["bytes"]
    for part, published in BREAKDOWN.items():
        assert abs(found[part] / published - 1) < 0.30, part
    variables = sum(found[part] for part in DATA)
    assert abs(variables / VARIABLES - 1) < 0.15
    total = variables + sum(found[part] for part in BREAKDOWN)
    assert abs(total / (VARIABLES + sum(BREAKDOWN.values())) - 1) < 0.15
    assert verdict["fits"]


# Stages of the published pipelines, chip by chip: layers, micro-batches that wait, proportion, and the embedding.
LARGE_128 = [(3, 7, 0.15, True), (7, 5, 0.25, False), (7, 3, 0.25, False), (7, 1, 0.25, False)]
LARGE_512 = [(3, 7, 0.16, True), (7, 5, 0.21, False), (7, 3, 0.21, False), (7, 1, 0.21, False)]
BASE = [(0, 7, 0.25, True), (4, 5, 0.25, False), (4, 3, 0.25, False), (4, 1, 0.25, False)]


@pytest.mark.parametrize(
    "bert, batch, sequence, masked, stages",
    [
        (bert_texts.LARGE, 8, 128, 20, LARGE_128),
        (bert_texts.LARGE, 2, 512, 76, LARGE_512),
        (bert_texts.BASE, 32, 128, 20, BASE),
        (bert_texts.BASE, 8, 512, 76, BASE),
    ],
)
def test_published_pipelines_of_bert_fit(bert, batch, sequence, masked, stages):
    for layers, stashed, proportion, has_embedding in stages:
        text = bert_texts.training_stage(bert, layers, batch, sequence, stashed, proportion, has_embedding, masked)
        verdict = _native.judge_memory(text, "gc200")
        assert verdict["fits"], verdict["text"]


def test_bert_large_at_the_default_proportion_does_not():
    fits = [
        _native.judge_memory(bert_texts.training_stage(bert_texts.LARGE, layers, 8, 128, stashed, 0.6, has), "gc200")[
            "fits"
        ]
        for layers, stashed, _, has in LARGE_128
    ]
    assert not all(fits)


def test_a_large_product_of_the_hosts_operands_does_not_fit():
    verdict = _native.judge_memory(product(9000, 6000, 300), "gc200")
    assert [limit["kind"] for limit in verdict["limits"]] == ["tile memory", "stream"]
    assert abs(verdict["ipus"][0]["total"] / 674_752 - 1) < 0.10
    # Its operands live twice; without that it would fit.
    copies = verdict["ipus"][0]["bytes"]["copies"]
    assert copies == pytest.approx(4 * (9000 * 6000 + 6000 * 300) / TILES)
    assert verdict["ipus"][0]["total"] - copies < 638_976
    for words in (
        "out of tile memory: IPU 0 needs",
        "'bytes_per_tile' of machine 'gc200': Knowles, Hot Chips 33",
        "estimates of memory are off by about 15 %",
        "at matmul, model.py:7",
        "a f32[9000,6000] 216,000,000",
        "availableMemoryProportion",
    ):
        assert words in verdict["text"].replace(
            "a f32[9000,6000] 216,000,000", "a f32[9000,6000] 216,000,000 (model.py"
        )


def test_weights_of_a_program_lie_as_their_product_wants_them():
    text = product(9000, 6000, 300).replace("stream @b: f32[6000,300] {ipu=0}", "variable @b: f32[6000,300] {ipu=0}")
    text = text.replace("host_load() {stream=@b | ipu=0}", "variable.read() {variable=@b}")
    copies = _native.judge_memory(text, "gc200")["ipus"][0]["bytes"]["copies"]
    assert copies == pytest.approx(4 * 9000 * 6000 / TILES)


def test_three_arrays_fit_a_mk1():
    size = 16_185_000
    variables = "\n".join(f"variable @{name}: f32[{size}] {{ipu=0}}" for name in "abc")
    text = f"""
{variables}
entry main = @main
graph @main() -> () {{
  %a = variable.read() {{variable=@a}} : f32[{size}]
  %b = variable.read() {{variable=@b}} : f32[{size}]
  %c = variable.read() {{variable=@c}} : f32[{size}]
  %d = add(%a, %b) {{| ipu=0}} : f32[{size}]
  %e = add(%d, %c) {{| ipu=0}} : f32[{size}]
  variable.assign(%e) {{variable=@a}}
  return
}}
"""
    verdict = _native.judge_memory(text, "gc2")
    assert verdict["verdict"] == "fits" and verdict["limits"] == []


def limits(text, machine="gc200", **options):
    return {limit["kind"]: limit for limit in _native.judge_memory(text, machine, **options)["limits"]}


def passed_through(size):
    return f"""
stream @x: f32[{size}] {{ipu=0}}
stream @y: f32[{size}] {{direction="device_to_host", ipu=0}}
entry main = @main
graph @main() -> () {{
  %x = host_load() {{stream=@x | ipu=0}} : f32[{size}]
  host_store(%x) {{stream=@y | ipu=0}}
  return
}}
"""


def test_a_stream_that_is_refused():
    """149,766,584 bytes are, by a machine that has memory for them."""
    found = limits(passed_through(149_766_584 // 4))["stream"]
    assert (found["needed"], found["allowed"]) == (149_766_584, 128 * 2**20) and found["subject"] in "xy"
    assert "stream" not in limits(passed_through(2**25))


def test_replicas_beyond_the_system():
    assert limits(passed_through(8), "pod4", replicas=5)["ipus"]["needed"] == 5
    assert limits(passed_through(8), "pod4", replicas=4) == {}


def test_io_tiles_are_taken_from_those_that_hold_variables():
    text = """
variable @w: f32[160000] {ipu=0}
entry main = @main
graph @main() -> () {
  %w = variable.read() {variable=@w} : f32[160000]
  variable.assign(%w) {variable=@w}
  return
}
"""
    tiles = {io: _native.judge_memory(f"module {{io_tiles={io}}}" + text, "toy") for io in (0, 8, 12, 16)}
    weights = {io: of["ipus"][0]["bytes"]["weights"] for io, of in tiles.items()}
    assert weights == {0: 40_000, 8: 80_000, 12: 160_000, 16: 640_000}
    assert "io tiles" not in [limit["kind"] for limit in tiles[12]["limits"]]
    assert {limit["kind"] for limit in tiles[16]["limits"]} == {"tile memory", "io tiles"}
    assert "16 tiles of each IPU are reserved for I/O; it has 16 and needs some that compute" in tiles[16]["text"]


def test_io_tiles_hold_what_they_move_beside_the_others():
    def text(tiles):
        aside = 'exchange="overlap_loops", ipu=0, tile_set="io"'
        return f"module {{io_tiles={tiles}}}" + passed_through(2**23).replace("| ipu=0", f"| {aside}")

    found = limits(text(64), "gc200")["io tiles"]
    assert (found["ipu"], found["needed"]) == (0, 2 * 2**25 / 64) and found["allowed"] == 638_976
    assert "io tiles" not in limits(text(128), "gc200")


def passes(number):
    """So many passes over sizes of their own."""
    lines = [
        f"  %x{i} = iota() {{shape=[{8 * i + 8}]}} : i32[{8 * i + 8}]\n  %y{i} = neg(%x{i}) : i32[{8 * i + 8}]"
        for i in range(number)
    ]
    return "entry main = @main\ngraph @main() -> () {\n" + "\n".join(lines) + "\n  return\n}\n"


def test_code_must_lie_where_code_can():
    found = limits(passes(8000))["code"]
    assert found["allowed"] == 212_992 < found["needed"]
    assert "code" not in limits(passes(1000))


def test_ops_that_come_again_run_the_code_of_the_first():
    layers = bert_texts.inference(bert_texts.BASE, 2, 1, 128), bert_texts.inference(bert_texts.BASE, 12, 1, 128)
    code = [_native.judge_memory(text, "gc200")["ipus"][0]["code"] for text in layers]
    assert code[0] <= code[1] < 1.1 * code[0]
    unrolled = [_native.judge_memory(text, "gc200", outlined=False)["ipus"][0]["code"] for text in layers]
    assert unrolled[1] > 2 * unrolled[0]


def test_one_exchange_gives_a_tile_no_more_than_it_holds():
    """Proportion 1 bounds the plan by a tile; an exchange that rearranges all of the memory has no bound."""
    size = 300_000_000
    text = f"""
stream @x: f32[{size // 1000},1000] {{ipu=0}}
stream @y: f32[1000,{size // 1000}] {{direction="device_to_host", ipu=0}}
entry main = @main
graph @main() -> () {{
  %x = host_load() {{stream=@x | ipu=0}} : f32[{size // 1000},1000]
  %t = transpose(%x) {{perm=[1,0] | ipu=0}} : f32[1000,{size // 1000}]
  host_store(%t) {{stream=@y | ipu=0}}
  return
}}
"""
    assert limits(text)["receive"]["needed"] > 638_976


def test_the_peak_inside_of_a_loop_has_what_lies_around_it():
    text = """
variable @w: f32[512,512] {ipu=0}
variable @m: f32[512,512] {ipu=0, role="optimizer_state"}
variable @far: f32[512,512] {ipu=0, role="optimizer_state", remote_buffer=@states}
variable @g: f32[512] {ipu=0, role="accumulator"}
remote_buffer @states: f32[512,512] {entries=1}
ring @kept: f32[256,512] {capacity=3}
stream @x: f32[256,512] {ipu=0}
stream @y: f32[256,512] {direction="device_to_host", ipu=0}
entry main = @main
graph @body(%i: i32[], %h: f32[256,512], %u: f32[512,512]) -> (f32[256,512]) {
  %product = matmul(%h, %u) {| ipu=0} : f32[256,512] loc("model.py":5)
  %next = tanh(%product) {| ipu=0} : f32[256,512]
  return %next
}
graph @main() -> () {
  %w = variable.read() {variable=@w} : f32[512,512]
  %x = host_load() {stream=@x | ipu=0} : f32[256,512]
  %first = tanh(%x) {| ipu=0} : f32[256,512] loc("model.py":3)
  %last = loop(%first, %w) {body=@body, trip=4, carried=1} : f32[256,512]
  %sum = add(%last, %x) {| ipu=0} : f32[256,512]
  host_store(%sum) {stream=@y | ipu=0}
  return
}
"""
    (ipu,) = _native.judge_memory(text, "gc200")["ipus"]
    assert ipu["peak"] == ("matmul", "model.py:5")
    largest = {name: (cause, size, line) for name, _, cause, size, line in ipu["largest"]}
    half_mib = 256 * 512 * 4
    assert largest["w"] == ("weights", 2 * half_mib, "") and largest["m"] == ("optimizer state", 2 * half_mib, "")
    assert largest["kept"] == ("stashes", 3 * half_mib, "") and largest["g"] == ("accumulators", 2048, "")
    assert largest["x"] == ("values", half_mib, "") and largest["first"] == ("values", half_mib, "model.py:3")
    assert largest["product"] == ("values", half_mib, "model.py:5") and "far" not in largest
    assert ipu["bytes"]["temporaries"] > 0 and ipu["bytes"]["copies"] == 0
    assert ipu["total"] == pytest.approx(sum(ipu["bytes"].values()))


def test_verdicts_are_those_of_each_ipu():
    """Of two IPUs the second has what does not fit."""
    text = """
variable @small: f32[64] {ipu=0}
variable @large: f32[250000000] {ipu=1}
entry main = @main
graph @main() -> () {
  return
}
"""
    verdict = _native.judge_memory(text, "pod4")
    assert [ipu["ipu"] for ipu in verdict["ipus"]] == [0, 1]
    assert [(limit["kind"], limit["ipu"]) for limit in verdict["limits"]] == [("tile memory", 1)]
    assert verdict["ipus"][0]["bytes"]["weights"] == pytest.approx(256 / TILES)
    assert verdict["ipus"][0]["total"] - verdict["ipus"][0]["bytes"]["stacks"] == pytest.approx(128)


def test_limits_of_one_kind_are_said_together():
    """The fullest IPU in full, the others in one line; the source once."""
    variables = "\n".join(f"variable @v{i}: f32[{250_000_000 + 1_000_000 * i}] {{ipu={i}}}" for i in range(7))
    near = "variable @near: f32[220000000] {ipu=7}"
    text = f"{variables}\n{near}\nentry main = @main\ngraph @main() -> () {{\n  return\n}}\n"
    verdict = _native.judge_memory(text, "pod16")
    said = verdict["text"].split("\n  near:")[0]
    assert said.count("\n") == 3 and said.count("limit:") == 1
    assert said.startswith("out of tile memory: IPU 6 needs ")
    assert "\n  also:     IPUs 5, 4, 3, 2 and 2 more need up to " in said
    assert "\n  also:     IPU 7 needs " in said and said.endswith("638,976 fit")
    assert [limit["ipu"] for limit in verdict["limits"]] == [6, 5, 4, 3, 2, 1, 0, 7]
