#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds the core for aarch64 and runs its unit and conformance tests under qemu-user.
set -euo pipefail
umask 022 # plugins in folders that others can write are refused

usage() {
  cat <<'TEXT'
usage: tools/test-aarch64.sh [ARGUMENT OF MESON TEST]...

The ABI and the core hold no assumption of x86: this shows it. Takes some minutes (an emulator
runs the tests), so tools/test.sh does not do it.

Needs a Debian-like system: the libraries come from the arm64 packages of the system's own
apt sources, and are unpacked below build/aarch64 without being installed. Everything is
written there. Environment: JOBS (processes at once), MT_CONFORMANCE_SEEDS (1).
TEXT
}

case "${1:-}" in
  -h | --help)
    usage
    exit 0
    ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C
jobs=${JOBS:-$(nproc)}
work=$PWD/build/aarch64
root=$work/root
packages=(libc6-dev libltdl-dev libjansson-dev libxxhash-dev check)
for variable in "${!MECANTENSOR_@}"; do
  unset "$variable"
done

tools/install-deps.sh aarch64

# apt with folders of its own, where nothing is installed yet: it fetches the packages and all
# that they depend on.
fetch_packages() {
  local apt=$work/apt
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  : >"$apt/status"
  cat >"$apt/apt.conf" <<TEXT
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Debug::NoLocking "true";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Cache::archives "$apt/archives";
TEXT
  export APT_CONFIG=$apt/apt.conf
  # A source that has no arm64 packages is no failure: those that are needed are asked for next.
  apt-get -qq update || true
  apt-get -qq install -y --download-only "${packages[@]}"
  unset APT_CONFIG
}

unpack() {
  local package
  echo "unpacking the arm64 packages of: ${packages[*]}"
  fetch_packages >"$work/apt.log" 2>&1 || {
    tail -20 "$work/apt.log" >&2
    echo "test-aarch64.sh: the arm64 packages could not be fetched ($work/apt.log)" >&2
    exit 1
  }
  mkdir -p "$root"
  for package in "$work"/apt/archives/*.deb; do
    dpkg-deb -x "$package" "$root"
  done
  touch "$root/.complete"
}

mkdir -p "$work"
if [ ! -e "$root/.complete" ]; then
  rm -rf "$root"
  unpack
fi

cat >"$work/cross.ini" <<TEXT
[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', '$root']

[properties]
sys_root = '$root'
pkg_config_libdir = '$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig'
needs_exe_wrapper = true

[built-in options]
c_args = ['--sysroot=$root']
c_link_args = ['--sysroot=$root']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'armv8-a'
endian = 'little'
TEXT

if [ ! -f "$work/build/meson-private/coredata.dat" ]; then
  rm -rf "$work/build"
  meson setup "$work/build" --cross-file "$work/cross.ini" -Dwerror=true
fi
ninja -C "$work/build" -j "$jobs"
export MT_CONFORMANCE_SEEDS=${MT_CONFORMANCE_SEEDS:-1}
meson test -C "$work/build" --no-rebuild --num-processes "$jobs" --print-errorlogs -t 10 \
  --suite unit --suite conformance "$@"
