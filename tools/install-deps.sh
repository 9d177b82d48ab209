#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing to build MecanTensor, or to run all of its tests.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tools/install-deps.sh build|test|aarch64

  build    what the library and the command need
  test     that, and what tools/test.sh needs
  aarch64  what tools/test-aarch64.sh needs on a machine of another kind

On Debian and its relatives missing packages are installed with apt-get, by root or through
sudo (which may want a password). Elsewhere what is missing is named, and the exit code is 1.
TEXT
}

# One row a package: Debian's name, how its presence is seen, and what for.
#   command NAME     a program in PATH
#   pkg-config NAME  a library with development files
#   header NAME      the same for libraries without a .pc file
#   clang-rt NAME    a runtime library of clang
build_rows=(
  "gcc              command gcc          compiler"
  "libc6-dev        header stdio.h       C library"
  "pkg-config       command pkg-config   finds libraries"
  "meson            command meson        build system"
  "ninja-build      command ninja        build system"
  "libltdl-dev      header ltdl.h        opens plugins"
  "libjansson-dev   pkg-config jansson   JSON"
  "libxxhash-dev    pkg-config libxxhash checksums"
)
test_rows=(
  "check            pkg-config check     test framework"
  "g++              command g++          headers in C++"
  "clang            command clang        second compiler"
  "libclang-rt-dev  clang-rt fuzzer      fuzzing"
  "clang-format     command clang-format layout"
  "cppcheck         command cppcheck     static analysis"
  "shellcheck       command shellcheck   scripts"
  "universal-ctags  command ctags        function lengths"
  "gcovr            command gcovr        coverage"
  "binutils         command readelf      exported symbols"
  "util-linux       command setarch      ThreadSanitizer needs a plain address layout"
)
aarch64_rows=(
  "pkg-config              command pkg-config            finds libraries"
  "meson                   command meson                 build system"
  "ninja-build             command ninja                 build system"
  "gcc-aarch64-linux-gnu   command aarch64-linux-gnu-gcc cross compiler"
  "qemu-user               command qemu-aarch64          runs its programs"
)

present() {
  case "$1" in
    command) command -v "$2" >/dev/null ;;
    pkg-config) command -v pkg-config >/dev/null && pkg-config --exists "$2" ;;
    header) command -v gcc >/dev/null && gcc -E -include "$2" -x c /dev/null >/dev/null 2>&1 ;;
    clang-rt)
      command -v clang >/dev/null &&
        compgen -G "$(clang -print-resource-dir)/lib/*/libclang_rt.$2*.a" >/dev/null
      ;;
  esac
}

apt() {
  local run=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0)
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "install-deps.sh: not root and no sudo here; as root: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    run=(sudo "${run[@]}")
  fi
  "${run[@]}" "$@"
}

case "${1:-}" in
  build) rows=("${build_rows[@]}") ;;
  test) rows=("${build_rows[@]}" "${test_rows[@]}") ;;
  aarch64) rows=("${aarch64_rows[@]}") ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac

missing=()
reasons=()
for row in "${rows[@]}"; do
  read -r package how name why <<<"$row"
  if ! present "$how" "$name"; then
    missing+=("$package")
    reasons+=("  $package ($how $name): $why")
  fi
done
if [ ${#missing[@]} = 0 ]; then
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "install-deps.sh: no apt-get here; please install what is missing (Debian's names):" >&2
  printf '%s\n' "${reasons[@]}" >&2
  exit 1
fi
echo "installing: ${missing[*]}"
install() {
  apt install -y --no-install-recommends "${missing[@]}" 2>&1
}
# The lists of packages may be old or absent: they are fetched when the install needs it.
if ! said=$(install) && ! said=$(apt update 2>&1 && install); then
  printf '%s\n' "$said" >&2
  echo "install-deps.sh: apt-get could not install: ${missing[*]}" >&2
  exit 1
fi
for row in "${rows[@]}"; do
  read -r package how name why <<<"$row"
  if ! present "$how" "$name"; then
    echo "install-deps.sh: $package is installed, yet there is no $how $name" >&2
    exit 1
  fi
done
