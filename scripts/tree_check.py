"""The command of a check that reads a tree of sources and prints each line that breaks a rule."""

import argparse
import pathlib
import sys


def main(doc, violations, verdict):
    """Args: violations: from the root of the tree to lines; verdict: what to end with if there are any, {count} of them."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    found = list(violations(parser.parse_args().root))
    for line in found:
        print(line)
    if found:
        sys.exit(verdict.format(count=len(found)))
