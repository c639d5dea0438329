#!/usr/bin/env python3
"""What starting a loader with workers costs, beside torch.utils.data.DataLoader: seconds to the first batch, and memory.

    python benchmarks/data_workers.py [--workers 1 --workers 8 --workers 32] [--repeats 3]

`Sync` is poptorch's loader whose workers the program itself forks, as torch's; the others are the sharing strategies of `Async`.
Each figure is the best of some fresh programs, from the constructor (imports are done) to the first batch in hand. `first` is
the first loader of a program, `next` the second one, which finds the fork server ready. Memory is what all processes of the
program hold together, pages that they share counted once (Pss), at the first batch.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

SHARING = ("Fork", "ForkServer", "SharedMemory", "FileSystem")

PROGRAM = """
import json, os, sys, time, warnings
import torch, poptorch
warnings.filterwarnings("ignore", message="This DataLoader will create")

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        return torch.full((1024,), float(index))

def held():
    total, session = 0, os.getsid(0)
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                if int(file.read().rsplit(")", 1)[1].split()[3]) != session:
                    continue
            with open(f"/proc/{entry}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:
            pass
    return total / 1024

def main(kind, workers):
    keep, said = [], {}
    for name in ("first", "next"):
        began = time.monotonic()
        if kind == "torch":
            loader = torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=workers)
        else:
            how = dict(mode=poptorch.DataLoaderMode.Sync)
            if kind != "Sync":
                how = dict(mode=poptorch.DataLoaderMode.Async,
                           async_options=dict(sharing_strategy=poptorch.SharingStrategy[kind]))
            loader = poptorch.DataLoader(poptorch.Options(), Rows(), batch_size=8, num_workers=workers, **how)
        items = iter(loader)
        next(items)
        said[name] = time.monotonic() - began
        said.setdefault("memory", held())
        keep.append((loader, items))
    print(json.dumps(said), flush=True)

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
"""


def measured(program, kind, workers, repeats):
    """(seconds of the first loader, of the next one, MB held), the best of `repeats` programs."""
    ended = [
        subprocess.run(
            [sys.executable, program, kind, str(workers)],
            capture_output=True,
            text=True,
            check=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        for _ in range(repeats)
    ]
    said = [json.loads(program.stdout) for program in ended]
    return [min(one[name] for one in said) for name in ("first", "next", "memory")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, action="append")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    kinds = ("torch", "Sync", *SHARING)
    program = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"data_workers_{os.getpid()}.py"
    program.write_text(PROGRAM)
    try:
        print(f"{'workers':>8} {'loader':<13} {'first s':>9} {'next s':>9} {'MB held':>9}")
        for workers in arguments.workers or (1, 8, 32):
            for kind in kinds:
                first, following, memory = measured(program, kind, workers, arguments.repeats)
                print(f"{workers:>8} {kind:<13} {first:>9.2f} {following:>9.2f} {memory:>9.0f}", flush=True)
    finally:
        program.unlink()


if __name__ == "__main__":
    main()
