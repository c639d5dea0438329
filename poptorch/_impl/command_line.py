"""The command `poptorch`: what the compiler knows, without a program."""

import argparse
import os
import sys


def _machine(arguments):
    from ipu_core import _native

    if arguments.diff:
        return _native.machine_difference(*arguments.diff)
    if arguments.list:
        return "\n".join(_native.machine_names()) + "\n"
    return _native.describe_machine(arguments.machine or os.environ.get("POPTORCH_EMULATED_SYSTEM") or "pod16")


def main(words=None):
    parser = argparse.ArgumentParser(prog="poptorch", description=__doc__.split(": ")[1].strip().capitalize())
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    machine = commands.add_parser("machine", help="the numbers of a machine, each with its source")
    machine.add_argument("machine", nargs="?", metavar="NAME|PATH", help="default: POPTORCH_EMULATED_SYSTEM, or pod16")
    machine.add_argument("--diff", nargs=2, metavar=("A", "B"), help="the numbers in which two machines differ")
    machine.add_argument("--list", action="store_true", help="the names that are known")
    machine.set_defaults(run=_machine)
    arguments = parser.parse_args(words)
    from ipu_core import Error

    try:
        sys.stdout.write(arguments.run(arguments))
    except Error as error:
        sys.exit(f"poptorch: {error}")


if __name__ == "__main__":
    main()
