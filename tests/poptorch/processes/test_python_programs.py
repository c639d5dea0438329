"""The programs that tests run by python_programs.run_program are like those of `python -c`."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import python_programs
import pytest
from python_programs import run_program

ROOT = pathlib.Path(__file__).resolve().parents[3]
REFERENCE_MODELS = pathlib.Path(python_programs.__file__).parent


def ordinary(code, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment)


def has_ended(pid):
    try:
        return "\nState:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def python_handles_sigint():
    """A program in the background of a shell script starts with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def wait_until(condition):
    while not condition():  # the time limit of the test ends a wait that is in vain
        time.sleep(0.01)


@pytest.mark.parametrize(
    "code",
    [
        "print('out'); import sys; print('err', file=sys.stderr)",
        "def fails():\n    raise ValueError('why')\nfails()",
        "import sys; sys.exit(7)",
        "import sys; sys.exit('a text')",
        "import os; os._exit(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
        "raise KeyboardInterrupt",
        "a syntax error",
        "import atexit; atexit.register(print, 'last'); print('first'); raise SystemExit(2)",
        "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start(); print('main')",
        "class Late:\n    def __del__(self):\n        print('deleted', __name__)\nkept = Late()",
        "import sys; sys.excepthook = lambda *error: print('hook', error[1]); 1 / 0",
        "import sys; print(sys.argv, __name__, '__file__' in globals(), sys.stdin.read() == '', sys.stdout.isatty())",
        "print(sorted(globals()))",
        "import __main__, pickle\nclass Own: pass\nassert type(pickle.loads(pickle.dumps(Own()))) is Own and __main__.Own is Own",
        "import sys, os; print(sys.path[0] == '', len(os.listdir('/proc/self/fd')), os.getpgid(0) == os.getpid())",
        "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(5)'], capture_output=True).stdout)",
        "import torch; print(torch.get_num_threads(), torch.get_num_interop_threads(), torch.manual_seed(1).get_state().sum())",
    ],
)
def test_a_program_gives_what_an_ordinary_process_gives(code, python_handles_sigint):
    ours, theirs = run_program(code, "one", "two words"), ordinary(code, "one", "two words")
    if "getpgid" in code:
        theirs.stdout = theirs.stdout.replace("False", "True")  # a group of its own
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)
    assert ours.args == theirs.args


def test_torch_is_loaded_at_the_start_and_poptorch_is_not():
    code = "import os, sys; print('torch' in sys.modules, 'poptorch' in sys.modules, len(os.listdir('/proc/self/task')))"
    assert run_program(code).stdout == "True False 1\n"


def test_variables_are_added_and_removed(monkeypatch):
    code = "import os; print(*(os.environ.get(name) for name in ('POPTORCH_OF_TEST', 'POPTORCH_GIVEN', 'HOME')))"
    monkeypatch.setenv("POPTORCH_OF_TEST", "inherited")
    assert run_program(code, environment={"POPTORCH_GIVEN": "given", "HOME": None}).stdout == "inherited given None\n"
    monkeypatch.delenv("POPTORCH_OF_TEST")
    assert run_program(code, environment={"HOME": "here"}).stdout == "None None here\n"
    native = "import ctypes; getenv = ctypes.CDLL(None).getenv; getenv.restype = ctypes.c_char_p; print(getenv(b'POPTORCH_GIVEN'))"
    assert run_program(native, environment={"POPTORCH_GIVEN": "given"}).stdout == "b'given'\n"


def test_variables_that_are_read_at_the_start_are_refused():
    with pytest.raises(ValueError, match="PYTHONHASHSEED needs a process of its own"):
        run_program("", environment={"PYTHONHASHSEED": "1"})


def test_modules_come_from_the_paths_of_the_test_or_of_the_request(tmp_path):
    assert run_program("import models, poptorch; print(poptorch.__file__)").stdout.startswith(str(ROOT))
    (tmp_path / "only_here.py").write_text("print('found')")
    assert run_program("import only_here", environment={"PYTHONPATH": str(tmp_path)}).stdout == "found\n"
    assert "No module named 'models'" in run_program("import models", environment={"PYTHONPATH": str(tmp_path)}).stderr
    assert run_program("import only_here", cwd=tmp_path).stdout == "found\n"


def test_the_folder_is_that_of_the_request(tmp_path, monkeypatch):
    code = "import os; print(os.getcwd())"
    assert run_program(code, cwd=tmp_path).stdout == f"{tmp_path}\n"
    monkeypatch.chdir(tmp_path)
    assert run_program(code).stdout == f"{tmp_path}\n"


def test_the_time_limit_kills_the_program_and_its_children(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        run_program("import time; time.sleep(1000)", timeout=0.01)

    def run_out(*_):
        raise TimeoutError

    def run_out_when_both_have_started():
        wait_until(lambda: len(os.listdir(tmp_path)) == 2)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    code = """
import os, pathlib, sys, time
print("started", flush=True)
print("and", file=sys.stderr)
os.fork()
pathlib.Path(sys.argv[1], str(os.getpid())).touch()
time.sleep(1000)
"""
    before = signal.signal(signal.SIGUSR1, run_out)
    try:
        thread = threading.Thread(target=run_out_when_both_have_started)
        thread.start()
        with pytest.raises(subprocess.TimeoutExpired) as raised:
            run_program(code, tmp_path)
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (raised.value.stdout, raised.value.stderr) == ("started\n", "and\n")
    wait_until(lambda: all(map(has_ended, os.listdir(tmp_path))))
    assert run_program("print('next')").stdout == "next\n"


def test_large_output_does_not_block():
    result = run_program("import sys\nfor _ in range(20):\n    sys.stdout.write('a' * 100_000)\n    sys.stderr.write('b' * 100_000)")
    assert (len(result.stdout), len(result.stderr)) == (2_000_000, 2_000_000)


def test_large_programs_and_texts_of_other_alphabets_arrive():
    code = "text = '" + "ä" * 1_000_000 + "'\nprint(len(text), 'Ω', __import__('sys').argv[1])"
    assert run_program(code, "€").stdout == "1000000 Ω €\n"


def test_programs_share_nothing():
    change = (
        "import os, random, sys, numpy, torch\nvalue = 1\nos.environ['POPTORCH_LEFT'] = '1'\ntorch.left = 1\nos.chdir('/')\n"
        "torch.rand(5)\nrandom.seed(1)\nimport poptorch"
    )
    assert run_program(change).returncode == 0
    look = (
        "import os, random, sys, numpy, torch\n"
        "assert not hasattr(torch, 'left') and 'value' not in globals() and 'poptorch' not in sys.modules\n"
        "assert 'POPTORCH_LEFT' not in os.environ and os.getcwd() != '/'\n"
        "print(random.random(), numpy.random.rand(), torch.rand(1).item())"
    )
    draws = [run_program(look).stdout.split() for _ in range(2)]
    assert [len(set(drawn)) for drawn in zip(*draws)] == [2, 2, 2]


CLIENT = f"""
import os, sys
sys.path.insert(0, {str(REFERENCE_MODELS)!r})
import python_programs
print(python_programs.run_program("import os; print(os.getppid())").stdout.strip(), flush=True)
"""


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)", "python_programs.run_program('import os; os.kill(os.getppid(), 9)')"])
def test_the_server_ends_with_its_client(end):
    client = ordinary(CLIENT + end)
    assert not client.stderr or "the server of programs has ended" in client.stderr
    wait_until(lambda: has_ended(client.stdout.strip()))


def test_a_program_ends_with_its_client(tmp_path):
    program = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1], str(os.getpid())).touch(); time.sleep(1000)"
    code = CLIENT + f"python_programs.run_program({program!r}, {str(tmp_path)!r})"
    client = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    wait_until(lambda: os.listdir(tmp_path))
    client.kill()
    client.wait()
    wait_until(lambda: has_ended(*os.listdir(tmp_path)))


def test_a_forked_process_has_a_server_of_its_own():
    code = CLIENT + (
        "child = os.fork()\n"
        "print(python_programs.run_program('import os; print(os.getppid())').stdout.strip(), flush=True)\n"
        "if child:\n    os.waitpid(child, 0)\n    print(python_programs.run_program('print(1)').returncode)\n"
    )
    pids = ordinary(code).stdout.split()
    assert len(pids) == 4 and pids[3] == "0" and len(set(pids[:3])) == 2


def test_sitecustomize_runs_before_each_program(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os\nif 'PROVE_PROGRAMS' in os.environ:\n    print('customized')")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    assert run_program("print('ran')", environment={"PYTHONPATH": path, "PROVE_PROGRAMS": "1"}).stdout == "customized\nran\n"
    assert run_program("print('ran')", environment={"PYTHONPATH": path}).stdout == "ran\n"


PROVED = """
import poptorch
import pytest
from python_programs import run_program


@pytest.mark.shows("createPoptorchError")
def test_in_a_program():
    done = run_program("import poptorch; assert poptorch.createPoptorchError('x').message == 'x'")
    assert done.returncode == 0, done.stderr


@pytest.mark.shows("createPoptorchError")
def test_by_nothing():
    assert run_program("import poptorch; poptorch.createPoptorchError").returncode == 0
"""


@pytest.mark.slow
def test_names_are_replaced_in_programs_too_when_marks_are_proved(tmp_path):
    (tmp_path / "test_a.py").write_text(PROVED)
    command = [sys.executable, ROOT / "scripts" / "prove_marks.py", "--tests", tmp_path, "createPoptorchError"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stderr == "test_a.py::test_by_nothing passes without createPoptorchError\n", result.stdout
