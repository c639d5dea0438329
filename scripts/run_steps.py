"""Runs the steps of a table side by side: what a step needs ends before it begins, and at most so many run at once.

A step that fails does not stop steps that do not need it: one run shows all that is broken. Budgets are for the reader: a step that
takes longer is named at the end, and fails nothing.
"""

import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

COUNTED = re.compile(r"^(?:\d+ passed.*|\[  PASSED  \].*)$", re.M)  # of pytest, and of GoogleTest
STATUS = re.compile(r"\[\s*(\d+%|\d+/\d+)\]")  # of pytest, and of ninja


@dataclasses.dataclass(frozen=True)
class Step:
    """`needs` names earlier steps; `aside` gives way to other steps; a `warning` may fail and the run passes all the same."""

    name: str
    budget: int  # seconds on two slow cores, with what compilers made before in ccache
    command: list
    needs: tuple = ()
    environment: dict = dataclasses.field(default_factory=dict)
    aside: bool = False
    warning: bool = False


@dataclasses.dataclass
class Result:
    step: Step
    state: str = "waiting"  # running, passed, failed, left out
    began: float = 0.0
    seconds: float = 0.0
    code: int = 0
    process: subprocess.Popen = None


def duration(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class Run:
    """One run of a table. Logs of steps lie in `folder`."""

    def __init__(self, steps, folder, at_once=2, root=None, every=30.0, show=print):
        self.results = {step.name: Result(step) for step in steps}
        self.folder, self.at_once, self.root, self.every, self.show = pathlib.Path(folder), at_once, root, every, show
        self.changed = threading.Condition()
        self.began = time.monotonic()

    def run(self):
        """Runs everything; the exit code of the first step that failed, or 0."""
        try:
            with self.changed:
                while not self._is_done():
                    self._begin_steps()
                    if not self.changed.wait(self.every):
                        self.show(self._progress())
        finally:
            self._end_running()
        self.show(self.table())
        failed = [result.code for result in self.results.values() if result.state == "failed" and not result.step.warning]
        return next(iter(failed), 0)

    def _is_done(self):
        return all(result.state not in ("waiting", "running") for result in self.results.values())

    def _begin_steps(self):
        for result in self.results.values():
            if result.state != "waiting":
                continue
            needed = [self.results[name].state for name in result.step.needs]
            if any(state in ("failed", "left out") for state in needed):
                result.state = "left out"
                self.show(f"left out     {result.step.name}: what it needs failed")
            elif all(state == "passed" for state in needed) and self._has_room(result.step.aside):
                self._begin(result)

    def _has_room(self, aside):
        """Steps that give way to others have one place of their own."""
        running = [r for r in self.results.values() if r.state == "running" and r.step.aside == aside]
        return len(running) < (1 if aside else self.at_once)

    def log_of(self, result):
        return self.folder / (re.sub(r"\W+", "_", result.step.name) + ".log")

    def _begin(self, result):
        step = result.step
        # A third of what another step gets. At 19, other processes of the machine would leave it nothing.
        command = ["nice", "-n", "5", *step.command] if step.aside else step.command
        with open(self.log_of(result), "wb") as log:
            result.process = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.root,
                env={**os.environ, **step.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=os.setpgrp,  # a group that can be ended as a whole; a session would be a group of the scheduler, too
            )
        result.state, result.began = "running", time.monotonic()
        threading.Thread(target=self._wait, args=(result,), daemon=True).start()

    def _wait(self, result):
        code = result.process.wait()
        with self.changed:
            result.seconds = time.monotonic() - result.began
            result.code = code if code >= 0 else 128 - code
            result.state = "failed" if code else "passed"
            text = self.log_of(result).read_text(errors="replace")
            if code:
                self.show(f"--- {result.step.name} failed, code {result.code}; what it printed:\n{text}--- end of {result.step.name}")
            else:
                counted = COUNTED.findall(text)
                self.show(f"passed {duration(result.seconds):>6} {result.step.name}" + (f": {counted[-1]}" if counted else ""))
            self.changed.notify_all()

    def _progress(self):
        """One line: how far what runs is."""
        parts = []
        for result in self.results.values():
            if result.state == "running":
                found = STATUS.findall(self.log_of(result).read_text(errors="replace"))
                parts.append(result.step.name + (f" {found[-1]}" if found else ""))
        return f"{duration(time.monotonic() - self.began):>6} " + "; ".join(parts)

    def _end_running(self):
        for result in self.results.values():
            if result.state == "running":
                try:
                    os.killpg(result.process.pid, signal.SIGTERM)
                except ProcessLookupError:
                    pass

    def table(self):
        """Step, budget, time; what took longer than its budget is marked, and named at the end."""
        rows = [f"{'step':44} {'budget':>7} {'time':>7}"]
        over = []
        for result in self.results.values():
            is_over = result.seconds > result.step.budget
            over += [result.step.name] if is_over else []
            time_ = duration(result.seconds) if result.began else "-"
            mark = result.state if result.state != "passed" else "over budget" if is_over else ""
            if result.state == "failed" and result.step.warning:
                mark = "failed, which is a warning"
            rows.append(f"{result.step.name:44} {duration(result.step.budget):>7} {time_:>7}  {mark}".rstrip())
        rows.append(f"{'all':44} {'':7} {duration(time.monotonic() - self.began):>7}")
        if over:
            rows.append("over budget: " + ", ".join(over))
        return "\n".join(rows)
