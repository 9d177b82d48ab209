#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh checkout to a product of two matrices: installs what is missing, builds a release
# into build/quickstart/prefix, and shows the devices found and the whole way of a matmul.
set -euo pipefail
umask 022 # plugins in folders that others can write are refused

if [ $# != 0 ]; then
  echo "usage: tools/quickstart.sh (no arguments; see README.md)" >&2
  exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build/quickstart
prefix=$PWD/$build/prefix
log=$build/build.log

tools/install-deps.sh build

mkdir -p "$build"
echo "building in $build (the log is $log)"
build_it() {
  # A folder that another version of meson made, or that was left half done, is made anew.
  { [ -f "$build/meson-private/coredata.dat" ] && meson setup --reconfigure "$build"; } ||
    { rm -rf "$build/meson-private" &&
      meson setup "$build" --buildtype=release --prefix="$prefix" --libdir=lib -Dtests=disabled; } ||
    return
  ninja -C "$build" && meson install -C "$build" --no-rebuild --quiet
}
if ! build_it >"$log" 2>&1; then
  tail -n 60 "$log" >&2
  echo "quickstart.sh: the build failed; $log has all of it" >&2
  exit 1
fi

# A command as a user would type it, and what it prints.
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}
mecantensor=$build/prefix/bin/mecantensor
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
printf '\n$ cd "%s"\n$ export LD_LIBRARY_PATH="%s/lib"\n' "$PWD" "$prefix"
printf '$ export PKG_CONFIG_PATH="%s/lib/pkgconfig"  # to build programs\n' "$prefix"
show "$mecantensor" devices
show "$mecantensor" demo -o output.mt
show "$mecantensor" info output.mt

cat <<TEXT

Next, with the two lines on top:
  $mecantensor help            the commands
  $mecantensor bench matmul    how fast it is here
  $mecantensor env             the settings, such as MECANTENSOR_BACKEND
README.md has a program in C; tools/test.sh runs every test.
TEXT
