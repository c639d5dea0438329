"""How many random examples a test tries."""

import os


def examples(count: int) -> int:
    """`count`, or the part of it that the default tier tries: `scripts/test` says by how much to divide."""
    return -(-count // int(os.environ.get("POPTORCH_EXAMPLES_DIVISOR", "1")))
