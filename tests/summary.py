#!/usr/bin/env python3
"""Ends a test run: the skipped tests by name and reason, then "N passed, N failed, N skipped" alone on its line.

usage: summary.py JUNIT_FILE    of ctest; GoogleTest programs are entries of it, whose skipped cases are listed but do
not count, since their program ran. Exit code 1 when nothing ran or something failed.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

CASE = re.compile(r"^\[  SKIPPED \] (\S+)(?: \(\d+ ms\))?$")
REASON = re.compile(r"^(?:\S+:\d+: )?Skipped$")


def skipped_cases(output):
    """(case, reason) of a GoogleTest program's output: "Skipped" and the reason stand above the case's own line."""
    lines = output.splitlines()
    found = {}
    reason = []
    collecting = False
    for line in lines:
        if line.startswith("[ RUN"):
            reason, collecting = [], False
        elif REASON.match(line):
            collecting = True
        elif match := CASE.match(line):
            # The list at the end of the output repeats the names without reasons.
            found.setdefault(match.group(1), " ".join(reason).strip())
            collecting = False
        elif collecting:
            reason.append(line.strip())
    return list(found.items())


def main():
    try:
        tests = list(ElementTree.parse(sys.argv[1]).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        sys.exit(f"summary.py: no usable report: {error}")
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    skipped = []
    for test in tests:
        name = test.get("name")
        output = test.findtext("system-out") or ""
        if test.find("failure") is not None or test.get("status") == "fail":
            counts["failed"] += 1
        elif test.find("skipped") is not None or test.get("status") in ("notrun", "disabled"):
            counts["skipped"] += 1
            lines = output.strip().splitlines()
            skipped.append((name, lines[-1] if lines else ""))
        else:
            counts["passed"] += 1
        skipped += [(f"{name}: {case}", reason) for case, reason in skipped_cases(output)]
    if skipped:
        print("skipped:")
        for name, reason in skipped:
            print(f"  {name}" + (f": {reason}" if reason else ""))
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    sys.exit(1 if counts["failed"] or not tests else 0)


if __name__ == "__main__":
    main()
