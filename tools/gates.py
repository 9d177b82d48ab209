#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The house rules that a machine can check. Prints TAP: one line a rule.

usage: tools/gates.py [RULE ...]

Exceptions are in tools/gates-allow.txt, each with its reason; one that is not needed any
more fails too, so the list does not rot.
"""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("core", "include", "plugins", "tests", "tools", ".ci")
FUNCTION_LINES = 80
FILE_LINES = 800
SHOWN = 40  # problems of a rule, when all rules are checked
ALLOW = "tools/gates-allow.txt"


def source_files():
    """Paths below the root, sorted. subprojects/ has links to plugins/ and is left out."""
    for folder in FOLDERS:
        for where, folders, files in os.walk(os.path.join(ROOT, folder)):
            folders[:] = sorted(f for f in folders if not f.startswith(("build", "__")))
            for name in sorted(files):
                yield os.path.relpath(os.path.join(where, name), ROOT)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def is_script(path):
    if path.endswith((".sh", ".bash")):
        return True
    if "." in os.path.basename(path):
        return False
    with open(os.path.join(ROOT, path), "rb") as file:
        return file.read(64).startswith((b"#!/bin/sh", b"#!/usr/bin/env bash", b"#!/bin/bash"))


FILES = list(source_files())
C_FILES = [p for p in FILES if p.endswith((".c", ".h"))]
SCRIPTS = [p for p in FILES if is_script(p)]
SOURCES = C_FILES + SCRIPTS + [p for p in FILES if p.endswith(".py")]


class Allowed:
    """Lines `rule path[:name] reason`; remembers which were needed."""

    def __init__(self):
        self.reasons = {}
        self.used = set()
        self.bad = []
        for number, line in enumerate(read(ALLOW).splitlines(), 1):
            words = line.split(None, 2)
            if not words or words[0].startswith("#"):
                continue
            if len(words) < 3:
                self.bad.append(f"{ALLOW}:{number}: expected 'rule what reason', got '{line}'")
            else:
                self.reasons[tuple(words[:2])] = number

    def covers(self, rule, what):
        self.used.add((rule, what))
        return (rule, what) in self.reasons

    def problems(self, rules):
        stale = [key for key in self.reasons if key[0] in rules and key not in self.used]
        return self.bad + [
            f"{ALLOW}:{self.reasons[key]}: '{' '.join(key)}' is not needed any more" for key in stale
        ]


def run(command):
    """The problems that a tool prints; none when it exits with 0."""
    if shutil.which(command[0]) is None:
        return [f"{command[0]} is not installed (tools/install-deps.sh test)"]
    done = subprocess.run(command, cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        return []
    return done.stdout.splitlines() or [f"{command[0]} exited with {done.returncode}"]


def function_length(allowed):
    tags = subprocess.run(
        ["ctags", "--quiet", "--options=NONE", "-L", "-", "-x", "--kinds-C=f", "--language-force=C",
         "--_xformat=%{line} %{end} %{input} %{name}"],
        cwd=ROOT, text=True, input="\n".join(C_FILES), stdout=subprocess.PIPE, check=True).stdout
    problems = []
    for tag in tags.splitlines():
        start, end, path, name = tag.split(None, 3)
        # Check's START_TEST(name): the name is in the parentheses
        text = read(path).splitlines()[int(start) - 1]
        test = re.match(r"START_TEST\((\w+)\)", text)
        name = test.group(1) if test else name
        length = int(end) - int(start) + 1
        if length > FUNCTION_LINES and not allowed.covers("function-length", f"{path}:{name}"):
            problems.append(f"{path}:{start}: {name} has {length} lines, at most {FUNCTION_LINES}")
    return problems if tags else ["ctags found no function"]


def file_length(allowed):
    problems = []
    for path in SOURCES:
        length = len(read(path).splitlines())
        if length > FILE_LINES and not allowed.covers("file-length", path):
            problems.append(f"{path}: {length} lines, at most {FILE_LINES}")
    return problems


def license_line(_):
    missing = []
    for path in SOURCES:
        first = read(path).split("\n", 2)[:2]
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in first):
            missing.append(f"{path}: no SPDX line in the first two lines")
    return missing


def white_space(allowed):
    problems = []
    for path in SOURCES:
        text = read(path)
        for number, line in enumerate(text.split("\n"), 1):
            if "\t" in line and not allowed.covers("white-space", path):
                problems.append(f"{path}:{number}: tab")
            if line != line.rstrip():
                problems.append(f"{path}:{number}: white space at the end of the line")
        if text and not text.endswith("\n"):
            problems.append(f"{path}: no newline at the end")
    return problems


def leftovers(_):
    """Work that was put off belongs into an issue, dead code nowhere."""
    pattern = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|^\s*#\s*if\s+0\b")
    return [f"{path}:{number}: {line.strip()}"
            for path in SOURCES if path != "tools/gates.py"
            for number, line in enumerate(read(path).split("\n"), 1) if pattern.search(line)]


def links(_):
    """Relative links in documents lead to something."""
    documents = [name for name in sorted(os.listdir(ROOT)) if name.endswith(".md")]
    documents += [os.path.join("docs", name) for name in sorted(os.listdir(f"{ROOT}/docs"))
                  if name.endswith(".md")]
    documents += [path for path in FILES if path.endswith(".md")]
    broken = []
    for path in documents:
        for target in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", read(path)):
            if not os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)):
                broken.append(f"{path}: no '{target}'")
    return broken


def layout(_):
    problems = run(["clang-format", "--dry-run", "-Werror", "--style=file"] + C_FILES)
    places = {}
    for line in problems:
        match = re.match(r"(\S+?):(\d+):\d+: error: ", line)
        if match:
            places.setdefault(match.group(1), []).append(match.group(2))
    return [f"{path}: lines {', '.join(dict.fromkeys(lines))}: run clang-format -i"
            for path, lines in places.items()] or problems


def cppcheck(_):
    """Not of tests/: what it says there is about Check's macros and numbers it cannot follow."""
    folder = os.path.join(ROOT, "build", "cppcheck")
    os.makedirs(folder, exist_ok=True)
    return run(["cppcheck", "--quiet", "--std=c11", "--language=c", f"-j{os.cpu_count() or 1}",
                "--enable=warning,performance,portability", "--inline-suppr",
                "--error-exitcode=1", "--template={file}:{line}: {severity}: {message} [{id}]",
                "--suppressions-list=tools/cppcheck.txt",
                "--library=posix", f"--cppcheck-build-dir={folder}", "-D__GNUC__=12", "-D__linux__",
                "-D_GNU_SOURCE", "-Iinclude", "-Icore"]
               + [p for p in C_FILES if p.endswith(".c") and not p.startswith("tests/")])


def shellcheck(_):
    # SC2317 takes functions that are called through a variable for unreachable
    return run(["shellcheck", "--severity=style", "--shell=bash", "--exclude=SC2317"] + SCRIPTS)


RULES = {
    "function-length": function_length,
    "file-length": file_length,
    "license-line": license_line,
    "white-space": white_space,
    "leftovers": leftovers,
    "links": links,
    "layout": layout,
    "shellcheck": shellcheck,
    "cppcheck": cppcheck,
}


def main():
    chosen = sys.argv[1:] or list(RULES)
    unknown = [name for name in chosen if name not in RULES]
    if unknown:
        sys.exit(f"gates.py: no rule '{unknown[0]}'; there are: {', '.join(RULES)}")
    allowed = Allowed()
    failed = False
    shown = SHOWN if len(chosen) > 1 else sys.maxsize
    print(f"1..{len(chosen) + 1}")
    checks = [(name, lambda rule=RULES[name]: rule(allowed)) for name in chosen]
    checks.append(("allow-list", lambda: allowed.problems(chosen)))
    for number, (name, check) in enumerate(checks, 1):
        problems = check()
        for problem in problems[:shown]:
            print(f"# {problem}")
        if len(problems) > shown:
            print(f"# and {len(problems) - shown} more: tools/gates.py {name}")
        print(f"{'not ok' if problems else 'ok'} {number} - gate {name}", flush=True)
        failed = failed or bool(problems)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
