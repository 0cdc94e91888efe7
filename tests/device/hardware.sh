#!/bin/sh
# What a program says about GPUs that are not there, too few or others than it was built for: one line, within
# two seconds.
#   hardware.sh PROBE real     linked with CUDA's own runtime, on a machine without NVIDIA's driver
#   hardware.sh PROBE sim      linked with the emulator, whose machine the environment describes
set -eu
probe=$1 linked=$2
said=$(mktemp)
trap 'rm -f "$said"' EXIT
failures=0

expect() { # STATUS "TEXT" [NAME=VALUE]... -- ARGUMENT...: TEXT must be in the one line that is printed
  status=$1 text=$2 got=0
  shift 2
  settings=
  while [ "$1" != -- ]; do
    settings="$settings $1"
    shift
  done
  shift
  # shellcheck disable=SC2086
  env $settings timeout 2 "$probe" "$@" > "$said" 2>&1 || got=$?
  if [ "$got" -ne "$status" ] || ! grep -q -F -e "$text" "$said" || [ "$(wc -l < "$said")" -ne 1 ]; then
    echo "$settings probe $*: status $got (should be $status), should say: $text" >&2
    cat "$said" >&2
    failures=$((failures + 1))
  fi
}

if [ "$linked" = real ]; then
  if [ -e /dev/nvidiactl ]; then
    echo "this machine has a driver: SKIPPED"
    exit 77
  fi
  expect 1 "this machine has no NVIDIA driver (libcuda.so.1): install it" -- 0 1 sm_90
  expect 1 "or build for CPUs (ddpc without --target)" -- 0 1 sm_90
  [ "$failures" -eq 0 ]
  exit
fi
