#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds MecanTensor in several ways and runs all of its tests.
set -euo pipefail
umask 022 # plugins in folders that others can write are refused

# One row a step: name, in --quick too (q), only in --long (l), what it does.
steps=(
  "deps     q install what is missing"
  "build    q gcc, warnings are errors"
  "test     q the whole suite, with headers, ABI and an installed copy"
  "gates    - lengths, layout, cppcheck, shellcheck"
  "asan     - AddressSanitizer and UndefinedBehaviorSanitizer, with leaks"
  "tsan     - ThreadSanitizer"
  "clang    - clang, warnings are errors, and the suite"
  "random   - conformance with seeds that no run had before"
  "fuzz     - the readers of files, briefly, from the kept corpus"
  "coverage - lines that the suite runs"
  "repro    l two builds give the same bytes"
)

usage() {
  cat <<'TEXT'
usage: tools/test.sh [--quick | --long] [--only STEP]...

  --quick       deps, build and test alone
  --long        fuzz for longer, more random conformance cases, reproducible builds
  --only STEP   just this step (may be given several times)

Steps:
TEXT
  local row name mark what
  for row in "${steps[@]}"; do
    read -r name mark what <<<"$row"
    printf '  %-9s %s%s\n' "$name" "$what" "$([ "$mark" = l ] && echo ' (with --long)')"
  done
  cat <<'TEXT'

Everything is written below build/. Logs are in build/logs/. Environment: JOBS (processes at
once), FUZZ_SECONDS (for each fuzz target), MT_CONFORMANCE_SEEDS (random conformance cases),
RANDOM_SECONDS (of the step random), MT_CONFORMANCE_SEED (its first seed).
TEXT
}

mode=normal
only=()
while [ $# -gt 0 ]; do
  case "$1" in
    --quick) mode=quick ;;
    --long) mode=long ;;
    --only)
      only+=("${2:-}")
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      echo "test.sh: unknown option '$1' (--help lists them)" >&2
      exit 2
      ;;
  esac
  shift
done
for name in "${only[@]+"${only[@]}"}"; do
  if ! printf '%s\n' "${steps[@]}" | grep -q "^$name "; then
    echo "test.sh: no step '$name' (--help lists them)" >&2
    exit 2
  fi
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C
jobs=${JOBS:-$(nproc)}
if [ "$mode" = long ]; then
  export FUZZ_SECONDS=${FUZZ_SECONDS:-60}
  export MT_CONFORMANCE_SEEDS=${MT_CONFORMANCE_SEEDS:-50}
else
  export FUZZ_SECONDS=${FUZZ_SECONDS:-5}
fi
# What the user has set must not change what is tested.
for variable in "${!MECANTENSOR_@}"; do
  unset "$variable"
done

logs=build/logs
mkdir -p "$logs"

# ---- helpers of the steps -----------------------------------------------------------------

# configure FOLDER OPTION...: a fresh folder, or the old one with these options
configure() {
  local folder=$1
  shift
  if [ -f "$folder/meson-private/coredata.dat" ]; then
    meson setup --reconfigure "$folder" -Dwerror=true "$@" && return
    rm -rf "$folder" # made by another version of meson, or left half done
  fi
  meson setup "$folder" -Dwerror=true "$@"
}

compile() {
  ninja -C "$1" -j "$jobs"
}

# count PASSED FAILED SKIPPED: adds to the step's cases
count() {
  echo "$*" >>"$logs/$step.counts"
}

# run_tests FOLDER [ARGUMENT OF MESON TEST]...; under: a command that the tests run under
under=()
run_tests() {
  local folder=$1 status=0 counts
  shift
  rm -f "$folder/meson-logs/testlog.json"
  "${under[@]+"${under[@]}"}" meson test -C "$folder" --no-rebuild --num-processes "$jobs" --print-errorlogs "$@" || status=$?
  counts=$(tools/test-counts.py "$folder")
  # shellcheck disable=SC2086 # three numbers
  count $counts
  if [ "$(cut -d' ' -f2 <<<"$counts")" != 0 ]; then
    status=1
  fi
  return $status
}

# Tests of the build itself: once is enough, in the plain build.
plain_only=(--no-suite headers --no-suite abi --no-suite install)

# ---- the steps ----------------------------------------------------------------------------

step_deps() {
  tools/install-deps.sh test
}

step_build() {
  CC=gcc CXX=g++ configure build/test --buildtype=debugoptimized --prefix="$PWD/build/test/prefix"
  compile build/test
}

step_test() {
  step_build
  run_tests build/test
}

step_gates() {
  local status=0
  tools/gates.py | tee "$logs/gates.tap" || status=$?
  count "$(grep -c '^ok' "$logs/gates.tap")" "$(grep -c '^not ok' "$logs/gates.tap")" 0
  return $status
}

step_asan() {
  CC=gcc CXX=g++ configure build/asan --buildtype=debugoptimized \
    -Db_sanitize=address,undefined -Db_lundef=false
  compile build/asan
  # Every eighth case: it is some 10 times slower.
  MT_CONFORMANCE_SEEDS=${MT_CONFORMANCE_SEEDS:-1} MT_CONFORMANCE_THIN=${MT_CONFORMANCE_THIN:-8} \
    CK_TIMEOUT_MULTIPLIER=4 \
    ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1 \
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    run_tests build/asan "${plain_only[@]}" --timeout-multiplier 4
}

step_tsan() {
  CC=gcc CXX=g++ configure build/tsan --buildtype=debugoptimized \
    -Db_sanitize=thread -Db_lundef=false
  compile build/tsan
  # Its shadow memory has fixed places, which random addresses may run into.
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    under=(setarch "$(uname -m)" -R)
  fi
  # It is some 25 times slower: one seed, and every tenth case.
  MT_CONFORMANCE_SEEDS=1 MT_CONFORMANCE_THIN=${MT_CONFORMANCE_THIN:-10} CK_TIMEOUT_MULTIPLIER=6 \
    TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:second_deadlock_stack=1 \
    run_tests build/tsan "${plain_only[@]}" --timeout-multiplier 6
}

# With the fuzz targets, which need clang, so that one build serves both steps.
build_clang() {
  CC=clang CXX=clang++ configure build/clang --buildtype=debugoptimized -Dfuzz=true
  compile build/clang
}

step_clang() {
  build_clang
  MT_CONFORMANCE_SEEDS=${MT_CONFORMANCE_SEEDS:-1} run_tests build/clang "${plain_only[@]}" --no-suite fuzz
}

# Every run has other seeds; the log and the summary tell which, so that a failure repeats with
# MT_CONFORMANCE_SEED.
step_random() {
  local seed=${MT_CONFORMANCE_SEED:-$(date +%s)} seconds=${RANDOM_SECONDS:-40}
  [ "$mode" != long ] || seconds=${RANDOM_SECONDS:-1800}
  step_build
  echo "random conformance for $seconds s from seed $seed"
  MT_CONFORMANCE_SEED=$seed MT_CONFORMANCE_SECONDS=$seconds \
    run_tests build/test conformance --timeout-multiplier 10
}

step_fuzz() {
  build_clang
  run_tests build/clang --suite fuzz
}

step_coverage() {
  # Threads count in the same counters: without atomic updates gcov finds negative counts.
  CC=gcc CXX=g++ configure build/coverage --buildtype=debugoptimized -Db_coverage=true \
    -Dc_args=-fprofile-update=atomic
  compile build/coverage
  find build/coverage -name '*.gcda' -delete
  MT_CONFORMANCE_SEEDS=1 MT_CONFORMANCE_THIN=8 run_tests build/coverage "${plain_only[@]}"
  gcovr --root . --object-directory build/coverage --filter core/ --filter plugins/ \
    --filter tools/ --csv --output "$logs/coverage.csv"
  # Files from the least covered up, the total last; plugins are built through links.
  awk -F, 'NR > 1 && $2 { printf "%6.1f%%  %5d lines  %s\n", 100 * $3 / $2, $2, $1 }' \
    "$logs/coverage.csv" | sed 's#  subprojects/#  plugins/#' | sort -n >"$logs/coverage.txt"
  awk -F, '
    NR > 1 { lines += $2; covered += $3 }
    END { printf "%6.1f%%  %5d lines  all\n", 100 * covered / lines, lines }
  ' "$logs/coverage.csv" >>"$logs/coverage.txt"
  cat "$logs/coverage.txt"
}

step_repro() {
  local folder
  for folder in build/repro-a build/repro-b; do
    rm -rf "$folder"
    CC=gcc configure "$folder" --buildtype=release -Dtests=disabled
    compile "$folder"
  done
  local file same=0 different=0
  while read -r file; do
    if cmp "build/repro-a/$file" "build/repro-b/$file"; then
      same=$((same + 1))
    else
      different=$((different + 1))
    fi
  done < <(cd build/repro-a && find . -type f \( -name '*.so*' -o -name mecantensor \) ! -path '*/meson-*')
  count $same $different 0
  [ $different = 0 ] && [ $same -gt 0 ]
}

# ---- running them -------------------------------------------------------------------------

wanted() {
  local name=$1 mark=$2
  if [ ${#only[@]} -gt 0 ]; then
    printf '%s\n' "${only[@]}" | grep -qx "$name"
  else
    case "$mode$mark" in
      quickq | normalq | normal- | long?) return 0 ;;
      *) return 1 ;;
    esac
  fi
}

# What the log of a failed step says, without a megabyte of compiler commands.
show_log() {
  echo "---- $1, the last lines ----"
  tail -n 150 "$1"
  echo "---- end of $1 ----"
}

summary=()
passed=0 failed=0 skipped=0
# Sets step_status; never called in a condition, where bash would ignore `set -e`.
run_step() {
  local what=$1 start=$SECONDS status=0 p=0 f=0 s=0 word=ok a b c
  printf '== %-9s %s\n' "$step" "$what"
  rm -f "$logs/$step.counts"
  set +e
  (
    set -e
    "step_$step"
  ) >"$logs/$step.log" 2>&1
  status=$?
  set -e
  if [ -f "$logs/$step.counts" ]; then
    while read -r a b c; do
      p=$((p + a)) f=$((f + b)) s=$((s + c))
    done <"$logs/$step.counts"
  fi
  if [ $status != 0 ]; then
    word=FAILED
    if [ $f = 0 ]; then
      f=1 # the step itself
    fi
    show_log "$logs/$step.log"
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  summary+=("$(printf '%-9s %-7s %4d s  %5d passed %4d failed %4d skipped' \
    "$step" "$word" $((SECONDS - start)) "$p" "$f" "$s")")
  echo "   $word, $((SECONDS - start)) s"
  if [ "$step" = random ]; then
    grep '^random conformance' "$logs/random.log" | sed 's/^/   /'
  fi
  if [ "$step" = coverage ] && [ $status = 0 ]; then
    echo "   lines covered, least first (all files: $logs/coverage.txt):"
    head -n 12 "$logs/coverage.txt"
    tail -n 1 "$logs/coverage.txt"
  fi
  step_status=$status
}

for row in "${steps[@]}"; do
  read -r step mark what <<<"$row"
  if ! wanted "$step" "$mark"; then
    continue
  fi
  run_step "$what"
  if [ "$step_status" != 0 ] && { [ "$step" = deps ] || [ "$step" = build ]; }; then
    echo "the other steps need this one"
    break
  fi
done

echo
printf '%s\n' "${summary[@]}"
printf 'total %d s\n' "$SECONDS"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
