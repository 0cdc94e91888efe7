#!/usr/bin/env bash
# abi.sh CC VENDOR_INCLUDE OWN_INCLUDE: both headers give the same numbers, sizes, offsets and types of functions. The
# functions themselves are not linked: their addresses are not looked at.
set -euo pipefail
cc=$1 vendor=$2 own=$3
here=$(dirname "$0")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for kind in vendor own; do
  "$cc" -std=gnu11 -Werror -Wno-deprecated-declarations -DERRORS="\"$own/cuda_errors.def\"" -isystem "${!kind}" \
    -c "$here/abi.c" -o "$out/$kind.o"
  "$cc" "$out/$kind.o" -Wl,--unresolved-symbols=ignore-all -no-pie -o "$out/$kind"
  "$out/$kind" >"$out/$kind.txt"
done
diff "$out/vendor.txt" "$out/own.txt" && echo "$(wc -l <"$out/own.txt") lines are the same"
