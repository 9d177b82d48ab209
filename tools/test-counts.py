#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of the last `meson test` in a build folder.

usage: tools/test-counts.py BUILD
Prints "PASSED FAILED SKIPPED". Programs that print TAP count by their lines, others as one
case. A program that died, ran too long or said nothing is one failure more, since meson takes
an empty TAP stream for a skip.
"""

import json
import re
import sys

LINE = re.compile(r"^(not )?ok\b(.*)", re.MULTILINE)
SKIP = re.compile(r"#\s*skip", re.IGNORECASE)


def count_one(entry):
    lines = LINE.findall(entry.get("stdout", ""))
    skipped = sum(1 for bad, rest in lines if SKIP.search(rest))
    failed = sum(1 for bad, rest in lines if bad and not SKIP.search(rest))
    passed = len(lines) - skipped - failed
    result = entry["result"]
    if result == "SKIP" and not lines:
        said_so = entry["returncode"] == 77 or "1..0" in entry.get("stdout", "")
        return (0, 0, 1) if said_so else (0, 1, 0)
    if result == "OK":
        return (passed, failed, skipped) if lines else (1, 0, 0)
    if result != "SKIP" and failed == 0:
        failed = 1
    return passed, failed, skipped


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    total = [0, 0, 0]
    with open(f"{sys.argv[1]}/meson-logs/testlog.json", encoding="utf-8") as log:
        for line in log:
            for i, number in enumerate(count_one(json.loads(line))):
                total[i] += number
    print(*total)


if __name__ == "__main__":
    main()
