#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles alone, in C11 and C++17, without a warning. Prints TAP.
#
# usage: tests/headers/run.sh INCLUDE_FOLDER HEADER...
set -euo pipefail

include=$1
shift
strict=(-Wall -Wextra -pedantic -Werror -Wundef -Wshadow -fsyntax-only "-I$include")
number=0
failed=0

# check NAME COMMAND...
check() {
  local name=$1 output
  shift
  number=$((number + 1))
  if output=$("$@" 2>&1); then
    echo "ok $number - $name"
  else
    echo "not ok $number - $name"
    while read -r line; do echo "# $line"; done <<<"$output"
    failed=1
  fi
}

echo "1..$(($# * 4))"
for header in "$@"; do
  for compiler in gcc clang g++ clang++; do
    language=(-std=c11 -Wstrict-prototypes -x c)
    case "$compiler" in *++) language=(-std=c++17 -Wold-style-cast -x c++) ;; esac
    if ! command -v "$compiler" >/dev/null; then
      number=$((number + 1))
      echo "ok $number - $header $compiler # SKIP $compiler is not installed"
      continue
    fi
    # Twice, so that the include guard is tried too.
    check "$header $compiler ${language[0]}" "$compiler" "${strict[@]}" \
      -include "mecantensor/$header" -include "mecantensor/$header" "${language[@]}" /dev/null
  done
done
exit $failed
