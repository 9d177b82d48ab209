#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libmecantensor.so and the plugins export and need. Prints TAP.

usage: check.py LIBRARY INCLUDE_FOLDER SYMBOLS_TXT PLUGIN_FOLDER...

symbols.txt has one released symbol a line, with the version that brought it. Lines are only
ever added: a symbol that goes away breaks programs that are linked against it.
"""

import pathlib
import re
import subprocess
import sys

SONAME = "libmecantensor.so.1"
NODE = "MECANTENSOR_1"
ENTRY = "mt_plugin_query_v1"


def lines_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def exports(path):
    """Name of each exported symbol to the version node it is bound to ('' for none)."""
    found = {}
    for line in lines_of("readelf", "--wide", "--dyn-syms", str(path)):
        words = line.split()
        if len(words) < 8 or not words[0].endswith(":") or words[6] in ("UND", "ABS", "Ndx"):
            continue
        if words[4] in ("GLOBAL", "WEAK") and words[5] in ("DEFAULT", "PROTECTED"):
            name, _, node = words[7].partition("@")
            found[name] = node.lstrip("@")
    return found


def dynamic(path):
    """Pairs (tag, value) of the dynamic section, e.g. ('NEEDED', 'libc.so.6')."""
    pattern = re.compile(r"\((\w+)\).*\[(.*)\]")
    matches = (pattern.search(line) for line in lines_of("readelf", "--wide", "-d", str(path)))
    return [match.groups() for match in matches if match]


def declared(include):
    """Functions that the public headers mark with MT_API."""
    names = set()
    for header in sorted(pathlib.Path(include).glob("mecantensor/*.h")):
        text = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*(?:\\\n[^\n]*)*", "",
                      header.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for declaration in re.findall(r"\bMT_API\b([^;{]*)", text):
            name = re.search(r"\b(mt_\w+)\s*\(", declaration)
            if name is None:
                raise SystemExit(f"{header}: cannot read the declaration 'MT_API{declaration}'")
            names.add(name.group(1))
    return names


def released(path):
    symbols = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line and not line.startswith("#"):
            words = line.split()
            if len(words) != 2 or words[0] in symbols:
                raise SystemExit(f"{path}:{number}: expected 'SYMBOL VERSION' once, got '{line}'")
            symbols[words[0]] = words[1]
    return symbols


def check_library(library, include, symbols_txt):
    exported = exports(library)
    names = set(exported)
    wanted = declared(include)
    known = released(symbols_txt)
    yield ("the headers declare functions", [] if wanted else ["none found"])
    yield ("every declared function is exported", sorted(wanted - names))
    yield ("every exported symbol is declared", sorted(names - wanted))
    yield (f"every symbol is bound to {NODE}",
           sorted(f"{name}@{exported[name]}" for name in names if exported[name] != NODE))
    yield ("every released symbol is exported", sorted(set(known) - names))
    yield (f"every exported symbol is listed in {symbols_txt.name}", sorted(names - set(known)))
    sonames = [value for tag, value in dynamic(library) if tag == "SONAME"]
    yield (f"SONAME is {SONAME}", [] if sonames == [SONAME] else [str(sonames)])


def check_plugin(path):
    needed = [value for tag, value in dynamic(path) if tag == "NEEDED"]
    names = set(exports(path))
    yield (f"{path.name} exports {ENTRY} alone", [] if names == {ENTRY} else sorted(names))
    yield (f"{path.name} does not need the core",
           [value for value in needed if value.startswith("libmecantensor")])
    yield (f"{path.name} has no SONAME", [v for tag, v in dynamic(path) if tag == "SONAME"])


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    library, include, symbols_txt = (pathlib.Path(argument) for argument in sys.argv[1:4])
    results = list(check_library(library, include, symbols_txt))
    for folder in sys.argv[4:]:
        plugins = sorted(pathlib.Path(folder).glob("*.so"))
        results.append((f"{pathlib.Path(folder).name} was built", [] if plugins else [folder]))
        for plugin in plugins:
            results += check_plugin(plugin)
    failed = False
    print(f"1..{len(results)}")
    for number, (name, problems) in enumerate(results, 1):
        print(f"{'not ok' if problems else 'ok'} {number} - {name}")
        for problem in problems:
            print(f"# {problem}")
        failed = failed or bool(problems)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
