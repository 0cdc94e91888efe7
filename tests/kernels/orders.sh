#!/bin/bash
# orders.sh PROGRAM ORDER..: runs a test in orders of threads and blocks, with memory of the device closed to the host.
# Its output, a digest of results, must be the same in each: nothing may depend on who comes first.
set -u
program=$1
for order in "${@:2}"; do
  got=$(CUDASIM_ORDER=$order CUDASIM_PROTECT=${PROTECT-1} "$program") || { echo "fails in order $order: $got"; exit 1; }
  [ "${want:=$got}" = "$got" ] || { printf 'order %s gives\n%s\nbut the first one\n%s\n' "$order" "$got" "$want"; exit 1; }
done
