#!/usr/bin/env bash
# without_cuda.sh SOURCE BUILD: what is for GPUs compiles and passes its tests where no CUDA is installed: against the
# emulator's headers, linked with its stand-ins. BUILD is a folder of this test's own.
set -euo pipefail
source=$1 build=$2
# OFF, since find_program looks again for what was not found
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDP_NVCC=OFF "-DDDP_TESTS=cudasim;device" \
  -DDDP_LIBCLANG=OFF ${DDP_LAUNCHER:+"-DCMAKE_C_COMPILER_LAUNCHER=$DDP_LAUNCHER" "-DCMAKE_CXX_COMPILER_LAUNCHER=$DDP_LAUNCHER"} \
  >"$build.log" || { cat "$build.log"; exit 1; }
grep -q "no CUDA toolkit" "$build.log"
cd "$build"
programs=$(ninja -t targets all | sed -nE 's/^((device|cudasim)_[a-z_]+_(test|probe|sim)): .*/\1/p' | grep -vE '_(address|thread)$')
# shellcheck disable=SC2086 # names without spaces
ninja -j2 ddp_cuda ddp_device cublasltsim ncclsim $programs >"$build.log" || { tail -40 "$build.log"; exit 1; }
ctest -R '^(device|cudasim\.(nccl|kernels|collectives))\.' -E '_(address|thread)\.' --no-tests=error >"$build.log" ||
  { tail -40 "$build.log"; exit 1; }
tail -4 "$build.log"
