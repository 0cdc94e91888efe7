#!/usr/bin/env bash
# What pages name exists: links, files of the tree, tests.
# And what must be named is: stages of the compiler, commands, environment variables, exit codes.
#   names.sh ROOT CTEST BUILD DDPC
set -euo pipefail
root=$1 ctest=$2 build=$3 ddpc=$4
bad=0
complain() { echo "$1"; bad=1; }

folders="compiler|runtime|tables|tests|tools|grammar|stdlib|examples|bench|docs|cmake"
parts="chaos|diag|dist|docs|driver|e2e|emit|format|job|net|ops|parity|passes|plan|readers|reports|runtime|sema|syntax"
not_tests='\.(c|h|md|def|ddp|sh|py|intra_node)$'
tests=$("$ctest" --test-dir "$build" -N)
for page in "$root"/*.md "$root"/docs/*.md "$root"/examples/*/*.md "$root"/tests/*/*.md; do
  folder=$(dirname "$page") name=${page#"$root"/}
  # [text](file#part): the file, and the heading if it is a page
  while read -r link; do
    file=${link%%#*} part=${link#"$file"}
    target=$folder/$file
    [ -n "$file" ] || target=$page
    [ -e "$target" ] || { complain "$name: link to $link"; continue; }
    [ -z "$part" ] || sed -n 's/^#\+ //p' "$target" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' |
      grep -qx -- "${part#\#}" || complain "$name: no heading for $link"
  done < <(grep -oE '\]\([^)]+\)' "$page" | sed 's/^](//; s/)$//' | grep -v '^https\?:' || true)
  # `compiler/...`, `tools/...`: files and folders of the tree; `e2e.faults.killed`: tests
  while read -r path; do
    [[ $path == *NAME* ]] || [ -e "$root/$path" ] || complain "$name: no $path"
  done < <(grep -oE "\`($folders)/[A-Za-z0-9_./-]+\`" "$page" | tr -d '`' || true)
  while read -r test; do
    [[ $test == *mpirun* || $test == *gloo* ]] && continue # only where that software is installed
    grep -q ": $test\$" <<<"$tests" || complain "$name: no test $test"
  done < <(grep -oE "\`($parts)\.[a-z0-9_.]+\`" "$page" | tr -d '`' | grep -vE "$not_tests" || true)
done
for stage in $("$ddpc" --help | sed -n 's/^Stages for --dump: //p' | tr -d ,); do
  grep -q "^|.*\`$stage\`" "$root/docs/architecture.md" || complain "docs/architecture.md: no stage $stage"
done
for command in $("$ddpc" --help | sed -n 's/^  ddpc \([a-z-]*\) .*/\1/p'); do
  grep -q "^| \`ddpc $command " "$root/docs/tools.md" || complain "docs/tools.md: no command $command"
done
for variable in $(sed -n 's/^ENV(\([A-Z_]*\),.*/\1/p' "$root/tables/env.def"); do
  grep -q "^| .*\`$variable\`" "$root/docs/launch.md" || complain "docs/launch.md: no variable $variable"
done
for code in $(sed -n 's/^  DDP_[A-Z]* = \([0-9]*\),.*/\1/p' "$root/runtime/include/ddp/status.h"); do
  grep -q "^| $code |" "$root/docs/launch.md" || complain "docs/launch.md: no exit code $code"
done
exit $bad
