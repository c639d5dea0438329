"""What holds for every test.

No outcome depends on draws: Hypothesis and the generators of torch, NumPy and Python start from fixed seeds, whatever ran before.
POPTORCH_TEST_FRESH=1 draws anew and prints the seed; `--hypothesis-seed=N` repeats such a run. `--random-order-seed=N` runs the
tests in another order. `--occupied-ipu` runs them while something else is attached to IPU 0, as a session may be that an earlier
test left to the garbage collector.
"""

import gc
import importlib.util
import os
import pathlib
import random
import secrets
import signal
import sys
import zlib

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

VARIABLES = pytest.StashKey()  # what is set before any test file is read
NOTES = pytest.StashKey()  # how to repeat this run
DRAWING = pytest.StashKey()  # files that draw when they are read
OCCUPANT = pytest.StashKey()  # the session that is attached to IPU 0 by --occupied-ipu
OCCUPYING_PROGRAM = "entry main = @main\ngraph @main() -> () {\n  return\n}\n"

# A folder here is called tensorflow, and pytest puts this one on the path: without TensorFlow, `import tensorflow` would succeed.
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:] = [folder for folder in sys.path if folder != str(HERE)]

PRODUCTS = ("POPTORCH_", "POPART_", "IPU_", "POPDIST_", "TF_POPLAR_", "POPLAR_")
COMMON = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}  # that check is a clock
settings.register_profile("repeatable", derandomize=True, **COMMON)
settings.register_profile("fresh", derandomize=False, print_blob=True, **COMMON)  # where CI is set, it is on
settings.load_profile("repeatable")
# Hypothesis also draws constants that it reads in the modules imported so far: draws would depend on the tests before.
assert callable(providers._get_local_constants)
providers._get_local_constants = lambda: providers._local_constants


def product_variables():
    return {name: value for name, value in os.environ.items() if name.startswith(PRODUCTS)}


def pytest_addoption(parser):
    parser.addoption("--random-order-seed", type=int, help="shuffle test files, and tests within each, by this seed")
    parser.addoption("--occupied-ipu", action="store_true", help="another session is attached to IPU 0")


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its option
def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell ignores it for what runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[VARIABLES] = product_variables()
    config.stash[NOTES] = []
    config.stash[DRAWING] = []
    if config.option.hypothesis_seed is None and os.environ.get("POPTORCH_TEST_FRESH", "0") != "0":
        config.option.hypothesis_seed = str(secrets.randbelow(2**32))  # pytest-xdist hands it to its workers
    if config.option.hypothesis_seed is not None:
        settings.load_profile("fresh")
        config.stash[NOTES].append(f"fresh draws; to repeat them: --hypothesis-seed={config.option.hypothesis_seed}")
    if config.option.random_order_seed is not None:
        config.stash[NOTES].append(f"random order; to repeat it: --random-order-seed={config.option.random_order_seed}")


def collects(config, folder):
    """Is the folder, or a part of it, among what this run was asked for?"""
    asked = [config.invocation_params.dir.joinpath(argument.split("::")[0]).resolve() for argument in config.args]
    return folder.is_dir() and any(folder.is_relative_to(path) or path.is_relative_to(folder) for path in asked)


def pytest_sessionstart(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    for note in session.config.stash[NOTES] if reporter else ():
        reporter.write_line(note)


def pytest_terminal_summary(terminalreporter, config):
    for note in config.stash[NOTES]:
        terminalreporter.write_line(note)
    if importlib.util.find_spec("tensorflow") is None and collects(config, HERE / "tensorflow"):
        terminalreporter.write_line("left out: tests/tensorflow, because there is no TensorFlow here")


def fresh_seed(config):
    """The seed of a run that draws anew, or nothing."""
    return config.option.hypothesis_seed


def seed_generators(config, name):
    """The same numbers for the same name: a checksum, not hash(), which differs between processes."""
    seed = zlib.crc32(f"{fresh_seed(config) or ''} {name}".encode())
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:  # a test that does not import it does not pay for it
        sys.modules["torch"].default_generator.manual_seed(seed)
    return seed


def own_name(item):
    """pytest-xdist adds groups to the id of a test."""
    return f"{item.path.name}::{item.name}"


def long_files():
    """{file: place} of the test files that take longest, in the order in which they begin."""
    listing = pathlib.Path(__file__).with_name("long_files.txt")
    lines = listing.read_text().splitlines() if listing.exists() else []
    return {pathlib.Path(line).name: place for place, line in enumerate(lines) if not line.startswith("#")}


def pytest_collection_modifyitems(config, items):
    seed = config.option.random_order_seed
    if seed is None:
        places = long_files()
        items.sort(key=lambda item: places.get(item.path.name, len(places) + 1))
    else:
        order = lambda name: random.Random(f"{seed} {name}").random()
        items.sort(key=lambda item: (order(item.path.name), order(own_name(item))))


def pytest_collection_finish(session):
    """A file that sets a variable when it is read changes the tests of other files, in an order nobody chose."""
    before, after = session.config.stash[VARIABLES], product_variables()
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        raise pytest.UsageError(f"a test file changes the environment when it is imported: {', '.join(changed)}")
    drawing = session.config.stash[DRAWING]
    if drawing:
        raise pytest.UsageError(f"these draw from a global generator when they are imported: {', '.join(drawing)}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """A file that draws when it is read would draw something else after another file: it takes a generator of its own."""
    before = drawn_so_far()
    report = yield
    after = drawn_so_far()
    if any(before[name] != after[name] for name in before):
        collector.config.stash[DRAWING].append(collector.nodeid)
    return report


def drawn_so_far():
    states = {"random": random.getstate()}
    if "numpy" in sys.modules:
        kind, key, *rest = sys.modules["numpy"].random.get_state()
        states["numpy"] = (kind, key.tobytes(), rest)
    if "torch" in sys.modules:
        states["torch"] = sys.modules["torch"].get_rng_state().numpy().tobytes()
    return states


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """What several tests share is the same whichever of them comes first."""
    if fixturedef.scope != "function":
        seed_generators(request.config, f"{fixturedef.baseid} {fixturedef.argname}")
    return (yield)


@pytest.fixture(autouse=True)
def a_test_draws_the_same_whatever_ran_before(request):
    seed = seed_generators(request.config, own_name(request.node))
    for value in vars(request.module).values():  # generators that the file keeps for its tests
        if isinstance(value, random.Random):
            value.seed(seed)
        elif "numpy" in sys.modules and isinstance(value, sys.modules["numpy"].random.Generator):
            value.bit_generator.state = type(value.bit_generator)(seed).state
        elif "torch" in sys.modules and isinstance(value, sys.modules["torch"].Generator):
            value.manual_seed(seed)


@pytest.fixture(autouse=True)
def a_test_finds_any_ipu_attached(request):
    """With --occupied-ipu."""
    if request.config.option.occupied_ipu and OCCUPANT not in request.config.stash and "idle_ipus" not in request.fixturenames:
        import ipu_core

        session = ipu_core.compile(OCCUPYING_PROGRAM)
        session.run({})
        if session.first_ipu == 0:
            request.config.stash[OCCUPANT] = session


@pytest.fixture
def idle_ipus(request):
    """No session of an earlier test is attached: for tests that name IPUs by number or need the whole machine."""
    if OCCUPANT in request.config.stash:
        del request.config.stash[OCCUPANT]
    gc.collect()


@pytest.fixture
def fuzz_seed(request):
    """Where a fuzzer begins: IPU_FUZZ_SEED, or a fixed seed, or that of a run which draws anew."""
    seed = int(os.environ.get("IPU_FUZZ_SEED") or fresh_seed(request.config) or 20261121)
    print(f"IPU_FUZZ_SEED={seed}")  # pytest shows it when the test fails
    return seed


@pytest.fixture(autouse=True)
def a_test_leaves_the_variables_of_the_environment_as_they_were():
    before = product_variables()
    yield
    assert product_variables() == before, "the test changes the environment of the tests after it; use monkeypatch.setenv"


@pytest.fixture(autouse=True)
def lines_of_one_test_do_not_count_as_repeats_in_the_next():
    yield
    log = sys.modules.get("poptorch._impl.log")
    if log is not None and "poptorch.poptorch_core" in sys.modules:
        log.set_max_repeat_logs(None)
