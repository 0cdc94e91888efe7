#!/bin/sh
# A launch with more dynamic shared memory than a kernel gets unasked does not compile; one with just as much does.
#   shared.sh CXX SOURCE_FOLDER
set -u
compile() { # bytes
  printf '#include "kernels/cuda/ddp_cuda.h"\nstatic __global__ void k(int) {}\nvoid f(void *s);\nvoid f(void *s) { DDP_LAUNCH(k, 1, 32, %s, s, 0); }\n' "$1" |
    "$CXX" -std=c++20 -x c++ -fsyntax-only -I"$source/tests/cudasim/include" -I"$source/runtime" -I"$source/runtime/include" \
      -I"$source/tables" - 2>&1
}
CXX=$1 source=$2
said=$(compile 49152) || { echo "48 KiB do not compile: $said"; exit 1; }
said=$(compile 49153) && { echo "more than 48 KiB compile"; exit 1; }
case $said in
*"dynamic shared memory above 48 KiB"*) ;;
*) echo "something else is said: $said" && exit 1 ;;
esac
