#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An installed copy, used as strangers use it: the README's example and a plugin are built
# against it through pkg-config. Prints TAP.
#
# usage: tests/install/run.sh SOURCE BUILD PREFIX LIBDIR
#   LIBDIR is relative to PREFIX. A prefix inside BUILD is installed to as it is, and then the
#   folders that are built in are tried too; any other goes below a DESTDIR.
set -euo pipefail
umask 022 # plugins in folders that others can write are refused

source=$1 build=$2 prefix=$3 libdir=$4
work=$build/tests/install/work
rm -rf "$work"
mkdir -p "$work"

case "$prefix" in
  "$build"/*)
    root=
    rm -rf "$prefix"
    ;;
  *)
    root=$work/root
    export DESTDIR=$root
    ;;
esac
bin=$root$prefix/bin
lib=$root$prefix/$libdir
export PKG_CONFIG_PATH=$lib/pkgconfig
export LD_LIBRARY_PATH=$lib
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
if [ -n "$root" ]; then
  export PKG_CONFIG_SYSROOT_DIR=$root
fi
# The plugins that the test environment names are those of the build, not the installed ones.
unset MECANTENSOR_PLUGIN_PATH MECANTENSOR_PLUGIN_PATH_ONLY

number=0
failed=0
# check NAME FUNCTION
check() {
  local name=$1 output status
  number=$((number + 1))
  # Not in a condition, where bash would ignore `set -e`.
  set +e
  output=$(
    set -e
    "$2" 2>&1
  )
  status=$?
  set -e
  if [ $status = 0 ]; then
    echo "ok $number - $name"
  else
    echo "not ok $number - $name"
    while IFS= read -r line; do echo "# $line"; done <<<"$output"
    failed=1
  fi
}
skip() {
  number=$((number + 1))
  echo "ok $number - $1 # SKIP $2"
}

install_it() {
  meson install -C "$build" --no-rebuild --quiet
}

installed_files() {
  local file missing=0
  for file in "$lib/libmecantensor.so.1" "$lib/libmecantensor.so" "$lib/pkgconfig/mecantensor.pc" \
    "$lib/pkgconfig/mecantensor-plugin.pc" "$root$prefix/include/mecantensor/mecantensor.h" \
    "$root$prefix/include/mecantensor/plugin.h"; do
    if [ ! -e "$file" ]; then
      echo "not installed: $file"
      missing=1
    fi
  done
  return "$missing"
}

# Folders of the build must not be in what is installed.
no_run_paths() {
  local file tags found=0
  while IFS= read -r file; do
    if tags=$(readelf -d "$file" 2>/dev/null) && grep -E '\((RPATH|RUNPATH)\)' <<<"$tags"; then
      echo "in $file"
      found=1
    fi
  done < <(find "$root$prefix" -type f -perm -u+r ! -name '*.h')
  return "$found"
}

# words_of ARRAY COMMAND...: what the command prints, split and unquoted as a shell does it
# (pkg-config writes a space in a path as "\ ").
words_of() {
  local name=$1 text
  shift
  text=$("$@")
  eval "$name=($text)"
}

# The first C block after the marker.
readme_example() {
  awk '/^<!-- example -->$/ { armed = 1; next }
       armed && /^```c$/ { inside = 1; next }
       inside && /^```$/ { exit }
       inside' "$source/README.md" >"$work/example.c"
  test -s "$work/example.c"
  local flags=()
  words_of flags pkg-config --cflags --libs mecantensor
  "${CC:-cc}" -std=c11 -Wall -Wextra -pedantic -Werror "$work/example.c" "${flags[@]}" \
    -o "$work/example"
}

example_output() {
  "$work/example" >"$work/example.out"
  diff - "$work/example.out" <<<$'4 5\n10 11'
}

# As a vendor does: a copy of the folder, alone.
plugin_alone() {
  cp -r "$source/plugins/null" "$work/null"
  meson setup "$work/null-build" "$work/null" -Dwerror=true
  ninja -C "$work/null-build"
}

# listed NAME: `mecantensor devices` reports the plugin as usable
listed() {
  "$bin/mecantensor" devices --json >"$work/devices.json"
  python3 - "$work/devices.json" "$1" <<'PY'
import json, sys
found = json.load(open(sys.argv[1], encoding="utf-8"))
for plugin in found["plugins"]:
    if plugin["name"] == sys.argv[2] and plugin["stage"] == "ready":
        break
else:
    sys.exit(f"no usable plugin '{sys.argv[2]}' in {found['plugins']}")
PY
}

plugin_listed() {
  MECANTENSOR_PLUGIN_PATH=$work/null-build MECANTENSOR_PLUGIN_PATH_ONLY=1 listed null
}

builtin_folder() {
  local plugin folder=()
  words_of folder pkg-config --variable=plugindir mecantensor-plugin
  for plugin in "${folder[0]}"/*.so; do
    listed "$(basename "$plugin" .so)"
  done
}

echo "1..8"
check "meson install" install_it
check "libraries, headers and .pc files are there" installed_files
check "no RPATH in what is installed" no_run_paths
check "the README's example compiles through pkg-config" readme_example
check "the README's example prints what it should" example_output
if [ ! -x "$bin/mecantensor" ]; then
  skip "plugins/null builds alone" "the command was not built"
  skip "the plugin built alone is listed" "the command was not built"
  skip "installed plugins are found without a setting" "the command was not built"
else
  check "plugins/null builds alone" plugin_alone
  check "the plugin built alone is listed" plugin_listed
  if [ -n "$root" ]; then
    skip "installed plugins are found without a setting" "the prefix is not inside the build folder"
  else
    check "installed plugins are found without a setting" builtin_folder
  fi
fi
exit $failed
