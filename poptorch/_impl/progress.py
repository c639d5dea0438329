"""The progress bar of a compilation, on stderr."""

import contextlib
import sys


class _Progress:
    def __init__(self, bar):
        self._bar = bar

    def advance(self, phase):
        if self._bar is not None:
            self._bar.set_postfix_str(phase)
            self._bar.update(1)


@contextlib.contextmanager
def compilation_progress(show):
    """Yields an object with `advance(phase)`; draws a bar when `show` and stderr is a terminal."""
    if not show or not sys.stderr.isatty():
        yield _Progress(None)
        return
    from tqdm import tqdm

    with tqdm(
        total=3,
        desc="Graph compilation",
        bar_format="{desc}: {percentage:3.0f}%|{bar}| {postfix} [{elapsed}]",
        file=sys.stderr,
        leave=False,
    ) as bar:
        yield _Progress(bar)
