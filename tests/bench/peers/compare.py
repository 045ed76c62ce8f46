#!/usr/bin/env python3
"""compare.py DIRECTORY: what run.sh measured there, as tables and as compare.json.

Reads SCENARIO-COLLECTIVE-LIBRARY-ROUND.json: lists of records with "bytes" and "time_us". A size's time is the least of
its medians over the rounds: what else the machine does only ever adds to it. The ratio is Foldcast's time over the better
of the others'.
"""
import collections
import json
import math
import pathlib
import sys

NAMES = {"foldcast": "foldcast", "openmpi": "open mpi", "mpich": "mpich"}


def read(directory):
    """{(scenario, collective): {bytes: {library: least median}}}"""
    tables = collections.defaultdict(lambda: collections.defaultdict(dict))
    for path in sorted(directory.glob("*-*-*-*.json")):
        scenario, collective, library, _ = path.stem.split("-")
        try:
            records = json.loads(path.read_text())
        except ValueError:
            print(f"left out: {path.name} is no JSON")
            continue
        for record in records:
            if record["bytes"] == 0 and collective != "barrier":
                continue  # nothing was moved, so nothing is compared
            times = tables[scenario, collective][record["bytes"]]
            median = record["time_us"]["median"]
            times[library] = min(median, times.get(library, math.inf))
    return tables


def rows_of(sizes):
    for size, times in sorted(sizes.items()):
        others = [times[name] for name in ("openmpi", "mpich") if name in times]
        comparable = others and "foldcast" in times
        yield size, times, times["foldcast"] / min(others) if comparable else None


def show(scenario, collective, sizes):
    print(f"\n# {collective}, {scenario}: microseconds, least of the medians")
    print(f"{'size':>10}" + "".join(f"{name:>12}" for name in NAMES.values()) + f"{'ratio':>8}")
    ratios = []
    for size, times, ratio in rows_of(sizes):
        cells = (f"{times[name]:12.2f}" if name in times else f"{'-':>12}" for name in NAMES)
        print(f"{size:>10}" + "".join(cells) + (f"{ratio:8.2f}" if ratio else f"{'-':>8}"))
        if ratio:
            ratios.append(ratio)
    if not ratios:
        return None
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"# geometric mean of the ratios to the better of the others: {mean:.3f}")
    return mean


def main():
    directory = pathlib.Path(sys.argv[1])
    result = []
    for (scenario, collective), sizes in read(directory).items():
        mean = show(scenario, collective, sizes)
        rows = [{"bytes": size, "time_us": times, "ratio": ratio} for size, times, ratio in rows_of(sizes)]
        result.append({"scenario": scenario, "collective": collective, "sizes": rows, "geometric_mean": mean})
    (directory / "compare.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"\nraw data: {directory}")
    return 0 if result else 1


if __name__ == "__main__":
    sys.exit(main())
