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
  (
    while [ "$1" != -- ]; do
      export "${1?}"
      shift
    done
    shift
    exec timeout 2 "$probe" "$@"
  ) > "$said" 2>&1 || got=$?
  if [ "$got" -ne "$status" ] || ! grep -q -F -e "$text" "$said" || [ "$(wc -l < "$said")" -ne 1 ]; then
    echo "$*: status $got (should be $status), should say: $text" >&2
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
  expect 1 "this machine has no NVIDIA driver" -- count
  [ "$failures" -eq 0 ]
  exit
fi

expect 0 "cudasim, 80.0 GiB, sm_90" -- 0 1 sm_90
expect 0 "My GPU, 16.0 GiB, sm_86" CUDASIM_SM=86 CUDASIM_MEMORY=17179869184 "CUDASIM_NAME=My GPU" -- 0 1 sm_80
# the driver
expect 1 "this machine has no NVIDIA driver" CUDASIM_DRIVER=0 -- 0 1 sm_90
expect 1 "driver is for CUDA 12.2 and this program needs 13.0 or later: update" CUDASIM_DRIVER=12020 -- 0 1 sm_90
expect 0 "sm_90" CUDASIM_DRIVER=13010 -- 0 1 sm_90
expect 1 "restart the machine" CUDASIM_FAIL=cudaGetDeviceCount:1=803 -- 0 1 sm_90
expect 1 "start nvidia-fabricmanager" CUDASIM_FAIL=cudaSetDevice:1=802 -- 0 1 sm_90
expect 1 "another process holds the GPU" CUDASIM_FAIL=cudaSetDevice:1=46 -- 0 1 sm_90
# how many GPUs
expect 1 "shows this program no GPU:" CUDASIM_DEVICES=0 -- 0 1 sm_90
expect 1 "no GPU (CUDA_VISIBLE_DEVICES=7):" CUDASIM_DEVICES=0 CUDA_VISIBLE_DEVICES=7 -- 0 1 sm_90
expect 0 "sm_90" CUDASIM_DEVICES=2 -- 1 2 sm_90
expect 2 "4 ranks on this host and 2 GPUs visible: a rank trains on a GPU of its own; start 2" CUDASIM_DEVICES=2 -- 0 4 sm_90
expect 2 "3 ranks on this host and 2 GPUs visible (CUDA_VISIBLE_DEVICES=4,5)" CUDASIM_DEVICES=2 CUDA_VISIBLE_DEVICES=4,5 -- 2 0 sm_90
expect 0 "3" CUDASIM_DEVICES=3 -- count
expect 1 "shows this program no GPU" CUDASIM_DEVICES=0 -- count
expect 1 "no NVIDIA driver" CUDASIM_DRIVER=0 -- count
# its architecture
expect 0 "sm_90" -- 0 1 sm_80,sm_90
expect 1 "was built for sm_80 and GPU 0 is sm_90: build it again with --target cuda:sm_90" -- 0 1 sm_80
expect 1 "was built for sm_80, sm_100 and GPU 1 is sm_90" CUDASIM_DEVICES=2 -- 1 2 sm_80,sm_100
expect 0 "sm_90" -- 0 1 sm_80,ptx_80
expect 1 "was built for sm_100" -- 0 1 sm_100,ptx_100
expect 1 "was built for sm_86" CUDASIM_SM=80 -- 0 1 sm_86

# One GPU is visible to each rank: its own, or the same one to all.
pipe=$(mktemp -u)
mkfifo "$pipe"
first=$(mktemp)
trap 'rm -f "$said" "$pipe" "$first"' EXIT
CUDASIM_DEVICES=1 "$probe" 0 2 sm_90 hold < "$pipe" > "$first" &
exec 3> "$pipe"
while ! [ -s "$first" ]; do :; done
expect 2 "2 ranks on this host and 1 GPU visible, which another rank has already taken" CUDASIM_DEVICES=1 -- 1 2 sm_90
exec 3>&-
wait
expect 0 "sm_90" CUDASIM_DEVICES=1 -- 1 2 sm_90

[ "$failures" -eq 0 ] || exit 1
echo "what is missing is said"
