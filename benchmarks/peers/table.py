"""The results of the comparison as Markdown tables."""

import statistics

from runners import TITLES


def print_tables(results):
    """results: what one.py printed, with a line that describes the machine."""
    machine = next(result for result in results if "processor" in result)
    print(
        f"{machine['processor']} ({machine['family']}), {machine['processors']} processors, {machine['simd']}; {machine['caches']}.\n"
        f"Fused multiply-adds in f32: {machine['gflops_1']:.0f} GFLOP/s on one thread, {machine['gflops_2']:.0f} on two; "
        f"memory (triad): {machine['gbytes_1']:.1f} and {machine['gbytes_2']:.1f} GB/s.\n"
    )
    groups = {}
    for result in results:
        if "peer" in result:
            group = groups.setdefault((result["dtype"], result["mode"], result["isa"]), {})
            group.setdefault((result["case"], result["batch"]), []).append(result)
    for (dtype, mode, isa), rows in groups.items():
        title = f"{mode}, {dtype}" + (", AVX2 alone" if isa == "avx2" else "")
        print_table(title, rows, machine["gflops_2"])
    if any(dtype == "float16" for dtype, _, _ in groups):
        print_half(groups)


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def by_peer(results):
    """Peer to its runs that have figures."""
    runs = {}
    for result in results:
        if "us" in result:
            runs.setdefault(result["peer"], []).append(result)
    return runs


def print_table(title, rows, peak):
    present = {result["peer"] for results in rows.values() for result in results}
    peers = [peer for peer in TITLES if peer in present and peer != "poptorch"]
    heads = [*(f"{TITLES[peer]} µs" for peer in peers), "× eager", "× best peer", "% of peak"]
    heads += ["compile s (ours / torch.compile)", "peak MiB (ours / eager)", "where our time goes"]
    print(f"{title}:\n\n| case | batch | poptorch µs | " + " | ".join(heads) + " |")
    print("|---" * (3 + len(heads)) + "|")
    over_eager, over_best = [], []
    for (case, batch), results in rows.items():
        runs = by_peer(results)
        if "poptorch" not in runs:
            print(f"| {case} | {batch} | failed |" + " |" * len(heads))
            continue
        us = {peer: median(of, "us") for peer, of in runs.items()}
        ours = us["poptorch"]
        cells = [f"{us[peer]:.1f}" if peer in us else "-" for peer in peers]
        others = [us[peer] for peer in peers if peer in us]
        cells.append(ratio(us.get("eager"), ours, over_eager))
        cells.append(ratio(min(others, default=None), ours, over_best))
        flops = runs["eager"][0]["flops"] if "eager" in runs else 0
        cells.append(f"{100 * flops / ours / 1e3 / peak:.0f}" if flops else "-")
        compiled = f"{median(runs['compile'], 'first_call_s'):.1f}" if "compile" in runs else "-"
        cells.append(f"{median(runs['poptorch'], 'first_call_s'):.2f} / {compiled}")
        eager_mib = f"{median(runs['eager'], 'peak_mib'):.0f}" if "eager" in runs else "-"
        cells.append(f"{median(runs['poptorch'], 'peak_mib'):.0f} / {eager_mib}")
        where = list(runs["poptorch"][0]["where"].items())[:4]
        cells.append(", ".join(f"{kind} {100 * share:.0f} %" for kind, share in where))
        print(f"| {case} | {batch} | {ours:.1f} | " + " | ".join(cells) + " |")
    if over_eager:
        print(
            f"\nGeometric mean: {statistics.geometric_mean(over_eager):.2f} × eager, "
            f"{statistics.geometric_mean(over_best):.2f} × the best peer of each row.\n"
        )


def ratio(theirs, ours, into):
    if theirs is None:
        return "-"
    into.append(theirs / ours)
    return f"{theirs / ours:.2f}"


def print_half(groups):
    """Our half precision beside our single precision."""
    print("| case | mode | batch | float16 / float32 |\n|---|---|---|---|")
    for (dtype, mode, isa), rows in groups.items():
        for row, results in rows.items():
            single = by_peer(groups.get(("float32", mode, isa), {}).get(row, []))
            half = by_peer(results)
            if dtype == "float16" and "poptorch" in single and "poptorch" in half:
                share = median(half["poptorch"], "us") / median(single["poptorch"], "us")
                print(f"| {row[0]} | {mode} | {row[1]} | {share:.2f} |")
