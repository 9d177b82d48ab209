#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/ops.md: which backend runs which operation natively, in which dtypes.

usage: mecantensor conformance --json | tools/ops-table.py [docs/ops.md]

What counts is what the suite saw: a dtype is native when most of its cases passed on the backend.
"""
import json
import sys

BEGIN, END = "<!-- table: tools/ops-table.py -->", "<!-- end of table -->"


def rows(results):
    table = {}
    for r in results:
        backend = r["device"].split(":")[0]
        cell = table.setdefault(r["op"], {"all": [], "native": {}})
        if r["dtype"] not in cell["all"]:
            cell["all"].append(r["dtype"])
        natives = cell["native"].setdefault(backend, [])
        if r["passed"] > r["unsupported"] and r["dtype"] not in natives:
            natives.append(r["dtype"])
    return table


def dtypes(names, everything):
    if not names:
        return "-"
    return "all" if names == everything and len(names) > 1 else " ".join(names)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "docs/ops.md"
    table = rows(json.load(sys.stdin)["results"])
    backends = sorted({b for cell in table.values() for b in cell["native"]})
    lines = ["| op | dtypes | " + " | ".join(backends) + " |", "|---" * (2 + len(backends)) + "|"]
    for op, cell in table.items():
        natives = [dtypes(cell["native"].get(b, []), cell["all"]) for b in backends]
        lines.append("| `" + op + "` | " + " ".join(cell["all"]) + " | " + " | ".join(natives) + " |")
    text = open(path, encoding="utf-8").read()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    with open(path, "w", encoding="utf-8") as out:
        out.write(head + BEGIN + "\n" + "\n".join(lines) + "\n" + END + tail)


main()
