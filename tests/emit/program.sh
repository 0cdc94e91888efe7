#!/bin/sh
# Emitted programs as texts: the same bytes twice and wherever the job lies, no path of this machine, no
# warning under gcc and clang, the hooks where they belong, and one small text as a whole.
# usage: program.sh DDPC INCLUDE SOURCE "DEFINITIONS" [--bless]
set -eu
ddpc=$1 include=$2 source=$3 definitions=$4
here=$source/tests/emit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "$*" >&2
  exit 1
}

emit() { # JOB OUT
  "$ddpc" "$1" --emit=c -o "$2" || fail "ddpc refuses $1"
}

cp -r "$source/examples" "$work/examples" # where a script can make data
for script in "$work"/examples/*/make_data.py; do
  python3 "$script" > /dev/null || fail "$script"
done
cp -r "$work/examples" "$work/elsewhere" # a job may read its neighbour's data
for job in "$here"/tiny.ddp "$work"/examples/*/job.ddp; do
  name=$(basename "$(dirname "$job")")
  emit "$job" "$work/$name.c"
  emit "$job" "$work/$name.again.c"
  cmp "$work/$name.c" "$work/$name.again.c" || fail "$name: two runs, two texts"
  mkdir -p "$work/elsewhere/$name"
  cp -r "$(dirname "$job")"/. "$work/elsewhere/$name"
  (cd "$work/elsewhere/$name" && emit "$(basename "$job")" "$work/$name.moved.c")
  cmp "$work/$name.c" "$work/$name.moved.c" || fail "$name: the text depends on where the job lies"
  if grep -n -e "$source" -e "$work" -e "$(hostname)" "$work/$name.c"; then
    fail "$name: a path or name of this machine"
  fi
  grep -q '^  ddp_grad_ready(step, P_' "$work/$name.c" || fail "$name: no gradient is announced"
  for cc in gcc clang; do
    command -v $cc > /dev/null || continue
    for level in -O0 "-O3 -march=native"; do
      # shellcheck disable=SC2086
      $cc -std=gnu11 $level -fno-math-errno -fno-trapping-math -ffp-contract=off -fopenmp-simd \
        -Wall -Wextra -Wpedantic -Werror $definitions -I"$include" -I"$(dirname "$job")" -c "$work/$name.c" -o "$work/out.o" ||
        fail "$name: $cc $level has something to say"
    done
  done
done

sed -n '/^static void forward_backward/,/^}/p; /^static double schedule/,/^}/p' "$work/emit.c" \
  > "$work/tiny.out"
if [ "${5:-}" = --bless ]; then
  cp "$work/tiny.out" "$here/tiny.out"
fi
diff -u "$here/tiny.out" "$work/tiny.out" || fail "the text of tests/emit/tiny.ddp has changed;
if that is meant: tests/emit/program.sh $ddpc $include $source '$definitions' --bless"
[ "$(wc -l < "$here/tiny.out")" -le 80 ] || fail "tiny.out is longer than 80 lines"

# identical kernels once: the two hidden layers share theirs
[ "$(grep -c '^static void d_relu_linear' "$work/digits.c")" -eq 1 ] || fail "d_relu_linear is not shared"
echo "texts agree"
