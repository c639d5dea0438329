"""The progress bar of a compilation, on stderr: drawn as it goes on a terminal, one line at the end elsewhere."""

import contextlib
import sys
import time

_PHASES = 3
_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}]{postfix}"


class _Progress:
    def __init__(self, bar=None):
        self._bar = bar
        self.done = 0

    def advance(self, phase):
        self.done += 1
        if self._bar is not None:
            self._bar.set_postfix_str(phase, refresh=False)
            self._bar.update(1)


@contextlib.contextmanager
def compilation_progress(show):
    """Yields an object with `advance(phase)`; draws a bar when `show`."""
    if not show or sys.stderr is None:
        yield _Progress()
        return
    from tqdm import tqdm

    if sys.stderr.isatty():
        with tqdm(
            total=_PHASES, desc="Graph compilation", bar_format=_FORMAT, file=sys.stderr, leave=True, mininterval=0
        ) as bar:
            yield _Progress(bar)
        return
    progress, started = _Progress(), time.monotonic()
    yield progress
    if progress.done == _PHASES:
        elapsed = time.monotonic() - started
        line = tqdm.format_meter(
            progress.done, _PHASES, elapsed, prefix="Graph compilation", bar_format=_FORMAT, ncols=80, postfix=""
        )
        sys.stderr.write(line.rstrip() + "\n")
