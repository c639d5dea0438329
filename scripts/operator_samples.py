#!/usr/bin/env python3
"""Runs PyTorch's own samples of its operators on the device and writes what passes: docs/operator_samples.md.

scripts/operator_samples.py                 runs all of them, writes the table of outcomes and the page
scripts/operator_samples.py add div         runs the operators whose names begin so, and writes these rows
scripts/operator_samples.py --show add      runs them and prints every sample that does not pass; writes nothing
scripts/operator_samples.py --check [...]   runs them; fails where more samples fail than the table says; writes nothing
scripts/operator_samples.py --page          writes the page from the table
scripts/operator_samples.py --page --check  fails when the page is not what would be written
--every N, --samples N   only each N-th operator, only the first N samples of each
--jobs N                 processes to use
"""

import argparse
import multiprocessing
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "operator_samples.md"
sys.path.insert(0, str(ROOT / "tests" / "ops" / "operator_samples"))
sys.path.insert(0, str(ROOT))
os.environ.setdefault("POPTORCH_LOG_LEVEL", "ERR")

import outcomes  # noqa: E402


def run_operator(name, samples):
    """The (key, sample, outcome) of the trials of one operator, and the seconds they took."""
    import torch

    import torch_samples
    import trials

    torch.set_num_threads(1)
    began = time.monotonic()
    only = None if samples is None else range(samples)
    found = [
        ((name, form, dtype), number, outcome)
        for form, dtype, number, outcome in trials.trials(torch_samples.operators()[name], only)
    ]
    return name, found, time.monotonic() - began


def measure(names, samples, jobs, say):
    """(key, sample, outcome) of every trial of these operators."""
    if jobs == 1:
        results = (run_operator(name, samples) for name in names)
        for name, found, seconds in results:
            say(name, found, seconds)
            yield from found
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        pending = [pool.apply_async(run_operator, (name, samples)) for name in names]
        for result in pending:
            name, found, seconds = result.get()
            say(name, found, seconds)
            yield from found
        pool.close()
        pool.join()  # nobody is ended in the middle of his exit


def write_page(rows, check):
    wanted = outcomes.page(rows)
    if not check:
        PAGE.write_text(wanted)
    elif not PAGE.exists() or PAGE.read_text() != wanted:
        sys.exit("docs/operator_samples.md is not what the table says: run scripts/operator_samples.py --page")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of operator names")
    parser.add_argument("--show", action="store_true", help="print the samples that do not pass; write nothing")
    parser.add_argument("--check", action="store_true", help="compare with the table; write nothing")
    parser.add_argument("--page", action="store_true", help="only the page, from the table")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--samples", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.page:
        return write_page(outcomes.read(), arguments.check)
    if (arguments.every != 1 or arguments.samples) and not (arguments.check or arguments.show):
        sys.exit("--every and --samples are for --check and --show: a part would be written as the whole")

    import torch_samples

    known = torch_samples.operators()
    names = [n for n in known if not arguments.names or any(n.startswith(a) for a in arguments.names)]
    if not names:
        sys.exit(f"no operator of torch's samples begins with {' or '.join(arguments.names)}")

    def say(name, found, seconds):
        if not arguments.show:
            return
        print(f"{name}: {sum(o is None for _, _, o in found)} of {len(found)} in {seconds:.1f} s", flush=True)
        for key, number, outcome in found:
            if outcome is not None:
                print(f"  {key[1]}, {key[2]}, sample {number}: {outcome[0]}: {outcome[1]}", flush=True)

    measured = outcomes.count(
        (key, outcome)
        for key, _, outcome in measure(names[:: arguments.every], arguments.samples, arguments.jobs, say)
    )
    print(outcomes.percent(*outcomes.share(measured.values())), "samples pass")
    if arguments.show:
        return None
    if arguments.check:
        found = outcomes.worse(measured, outcomes.read())
        if found:
            sys.exit("more samples fail than tests/ops/operator_samples/outcomes.txt says:\n" + "\n".join(found))
        return None
    rows = {k: r for k, r in (outcomes.read() if outcomes.TABLE.exists() else {}).items() if k[0] not in names}
    rows = {k: r for k, r in rows.items() if k[0] in known}
    outcomes.write({**rows, **measured})
    write_page(outcomes.read(), check=False)
    return None


if __name__ == "__main__":
    main()
