#!/usr/bin/env bash
# The graphs of a file as sema makes them, through scan_test: cases.sh SEMA_DUMP SCAN_TEST CASES.ddp [cuda]
set -euo pipefail
graphs=$(mktemp --suffix=.ir)
trap 'rm -f "$graphs"' EXIT
"$1" "$3" | grep -v -e '^leaf ' -e '^draw ' > "$graphs"
"$2" "$graphs" "${@:4}"
