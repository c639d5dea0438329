#!/usr/bin/env python3
"""Runs a Python program as if by itself, and notes when it first printed a text that begins with a word.

scripts/first_line.py FILE WORD PROGRAM [ARGUMENT ...]

Appends "seconds<tab>first line" and "seconds<tab>the rest" to FILE. It runs in this process: with nothing between it and the
terminal, its progress bar and its lines stay in order.
"""

import pathlib
import runpy
import sys
import time


class Watched:
    """A stream that notes when a text that begins with the word is first written to it."""

    def __init__(self, stream, word):
        self.stream, self.word, self.at = stream, word, None

    def write(self, text):
        if self.at is None and text.startswith(self.word):
            self.at = time.monotonic()
        return self.stream.write(text)

    def __getattr__(self, name):
        return getattr(self.stream, name)


def main():
    began = time.monotonic()
    file, word, *sys.argv = sys.argv[1:]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).resolve().parent)
    sys.stdout = watched = Watched(sys.stdout, word)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        sys.stdout = watched.stream
        ended = time.monotonic()
        first = ended if watched.at is None else watched.at
        with open(file, "a") as steps:
            steps.write(f"{first - began:.1f}\tfirst line\n{ended - first:.1f}\tthe rest\n")


if __name__ == "__main__":
    main()
