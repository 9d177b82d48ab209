#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh FUZZER CORPUS: FUZZ_SECONDS (default 5) of FUZZER, starting from CORPUS, which
# stays as it is. A single allocation above 16 MiB counts as a failure: inputs are small.
set -eu
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
"$1" -max_total_time="${FUZZ_SECONDS:-5}" -malloc_limit_mb=16 -rss_limit_mb=1024 -timeout=10 \
  -print_final_stats=1 -artifact_prefix="${FUZZ_ARTIFACTS:-./}" "$found" "$2"
