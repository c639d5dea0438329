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


def _report(arguments):
    from ipu_core import _native

    text, json = _native.report_file(arguments.file, arguments.system or "", arguments.replicas or 0)
    report = json if arguments.json else text
    if arguments.output is None:
        return report
    try:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(report)
    except OSError as error:
        sys.exit(f"poptorch: cannot write {arguments.output}: {error.strerror}")
    return ""


def _positive(word):
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"'{word}' is no whole number from 1 on")
    return int(word)


def main(words=None):
    parser = argparse.ArgumentParser(prog="poptorch", description=__doc__.split(": ")[1].strip().capitalize())
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    machine = commands.add_parser("machine", help="the numbers of a machine, each with its source")
    machine.add_argument("machine", nargs="?", metavar="NAME|PATH", help="default: POPTORCH_EMULATED_SYSTEM, or pod16")
    machine.add_argument("--diff", nargs=2, metavar=("A", "B"), help="the numbers in which two machines differ")
    machine.add_argument("--list", action="store_true", help="the names that are known")
    machine.set_defaults(run=_machine)
    report = commands.add_parser(
        "report",
        help="whether a compiled program fits, and how long a run takes and why",
        description="Reports on an executable that a front end saved, or on a machine form as text. No device is needed.",
    )
    report.add_argument("file", metavar="FILE", help='"-": a text from standard input')
    report.add_argument("--json", action="store_true", help="all figures as JSON (docs/report-schema.md)")
    report.add_argument("--system", metavar="NAME|PATH", help="default: POPTORCH_EMULATED_SYSTEM, or pod16")
    report.add_argument("--replicas", type=_positive, metavar="N", help="default: those it was compiled for")
    report.add_argument("--output", metavar="PATH", help="writes it there")
    report.set_defaults(run=_report)
    arguments = parser.parse_args(words)
    from ipu_core import Error

    try:
        sys.stdout.write(arguments.run(arguments))
    except Error as error:
        sys.exit(f"poptorch: {error}")


if __name__ == "__main__":
    main()
