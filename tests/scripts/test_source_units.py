"""Sources that are translated together have different local names; none is lost."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import source_units


def make(folder, **sources):
    for name, text in sources.items():
        (folder / f"{name}.cc").write_text(text)
    return [[path.stem for path in unit] for unit in source_units.units(sorted(folder.glob("*.cc")))]


LOCAL = "namespace {{\n{}\n}}  // namespace\n"


@pytest.mark.parametrize(
    "declaration, name",
    [
        ("int now() {", "now"),
        ("[[noreturn]] void refuse(const std::string& what) {", "refuse"),
        ("std::map<int, std::vector<int>> table(const A& a) {", "table"),
        ("constexpr int64_t kMost = 3;", "kMost"),
        ("class Reader final : public Base {", "Reader"),
        ("struct Row {", "Row"),
        ("using Rows = std::vector<Row>;", "Rows"),
        ("const OpRegistration flip =", "flip"),
        ("TEST_F(Streams, wrap) {", "Streams, wrap"),
        ('IPU_REGISTER_PASS(FoldConstants, "fold-constants",', "FoldConstants"),
    ],
)
def test_equal_local_names_keep_sources_apart(tmp_path, declaration, name):
    text = LOCAL.format(declaration)
    assert make(tmp_path, a=text, b=LOCAL.format("int other() {"), c=text) == [["a", "b"], ["c"]]
    assert source_units.local_names(tmp_path / "a.cc") == {name}


def test_equal_enumerators_keep_sources_apart_unless_they_have_a_scope(tmp_path):
    one, other = "enum Operands : int {{ kNone, {} }};", "enum Places {{ kFirst = 1,\n  {},  // kNone\n}};"
    a, b = LOCAL.format(one.format("kX")), LOCAL.format(other.format("kX"))
    scoped = LOCAL.format("enum class Rows : int { kNone, kX };")
    assert make(tmp_path, a=a, b=b, c=scoped) == [["a", "c"], ["b"]]
    assert source_units.local_names(tmp_path / "a.cc") == {"Operands", "kNone", "kX"}
    assert source_units.local_names(tmp_path / "b.cc") == {"Places", "kFirst", "kX"}


def test_equal_macros_and_static_names_keep_sources_apart(tmp_path):
    assert make(tmp_path, a="#define X 1\n", b="#define X 2\n", c="static int x;\n", d="static int x;\n") == [
        ["a", "c"],
        ["b", "d"],
    ]


WITH_HEADER, WIDTH = '#include "h.h"\n', LOCAL.format("int width() {")


@pytest.mark.parametrize(
    "a, b, c, together",
    [
        (WITH_HEADER, WIDTH, WITH_HEADER, [["a", "c"], ["b"]]),
        (WIDTH, WITH_HEADER, "//\n", [["a", "c"], ["b"]]),
        (WITH_HEADER, WITH_HEADER + WIDTH, "//\n", [["a", "b", "c"]]),  # compiles with the header's name as it is
    ],
)
def test_a_name_of_a_header_keeps_away_what_does_not_include_it(tmp_path, a, b, c, together):
    folder = tmp_path / "csrc"
    folder.mkdir()
    (folder / "deep.h").write_text("inline int width(int x) { return x; }\n")
    (folder / "h.h").write_text('#include "deep.h"\n')
    assert make(folder, a=a, b=b, c=c) == together


def test_what_is_not_local_may_be_said_by_all(tmp_path):
    text = "using ipu::Shape;\nnamespace ipu {\nint f() {\n  static int now;\n}\n}  // namespace ipu\n"
    assert make(tmp_path, a=text, b=text) == [["a", "b"]]


def test_units_stay_small(tmp_path):
    lines = "//\n" * (source_units.UNIT_LINES // 2)
    assert make(tmp_path, a=lines, b=lines, c=lines) == [["a", "b"], ["c"]]


def test_a_source_that_includes_itself_stays_alone(tmp_path):
    assert make(tmp_path, a="//\n", b='#define HWY_TARGET_INCLUDE "b.cc"\n', c="//\n") == [["a", "c"], ["b"]]


def test_every_source_of_the_core_is_in_one_unit():
    sources = sorted((ROOT / "csrc").rglob("*.cc"))
    run = subprocess.run(
        [sys.executable, ROOT / "scripts" / "source_units.py", *sources], capture_output=True, text=True, check=True
    )
    printed = [path for unit in run.stdout.splitlines() for path in unit.split(";")]
    assert sorted(printed) == sorted(map(str, sources))
    assert len(run.stdout.splitlines()) < len(sources) / 4


def test_sanitizers_and_what_is_installed_build_in_units():
    presets = {
        p["name"]: p["cacheVariables"] for p in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    }
    assert [name for name, variables in presets.items() if variables.get("IPU_UNITS") == "ON"] == ["asan", "tsan"]
    assert "-DIPU_UNITS=ON" in (ROOT / "setup.py").read_text()
