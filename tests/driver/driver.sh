#!/bin/sh
# The command line of ddpc: what it says and with which exit status it ends.
# usage: driver.sh DDPC SOURCE
set -eu
ddpc=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$source/tests/emit/tiny.ddp" "$source/tests/emit/rows.csv" "$work"
cd "$work"
failures=0

expect() { # STATUS "TEXT" ARGUMENT...: text must be in what is printed
  status=$1 text=$2
  shift 2
  got=0
  "$ddpc" "$@" > said 2>&1 || got=$?
  if [ "$got" -ne "$status" ] || { [ -n "$text" ] && ! grep -q -F -e "$text" said; }; then
    echo "ddpc $*: status $got (should be $status), should say: $text" >&2
    cat said >&2
    failures=$((failures + 1))
  fi
}

expect 0 "ddpc JOB -o OUT" --help
expect 0 "Stages for --dump: job, means" -h
expect 0 "ddpc 0." --version
expect 0 "ddpc plan JOB" plan --help
expect 2 "which job?"
expect 2 "one job at a time" tiny.ddp other.ddp
expect 2 "did you mean \`--target\`?" --tagret=cpu tiny.ddp
expect 2 "there is no option \`-q\`" -q tiny.ddp
expect 2 "\`--output\` needs a value" tiny.ddp -o
expect 2 "takes no value" tiny.ddp --keep=yes
expect 2 "is given twice" tiny.ddp -o a -o b
expect 2 "has no meaning here" plan tiny.ddp -o a
expect 2 "is not NAME=VALUE" tiny.ddp -D hidden
expect 1 "there is no target \`riscv\`" --target riscv tiny.ddp
# targets of the job: the block of that name, with its -march
{ cat tiny.ddp; printf '%s\n' 'target old {' '  backend = cpu' '  march = "x86-64-v2"' '}' \
  'target h200 {' '  backend = cuda' '  arch = sm_90' '}' 'sweep {' '  seed in 0..3' '}'; } > targets.ddp
expect 0 '.march = "x86-64-v2"' --target old targets.ddp --emit=c
expect 0 '.march = "native"' targets.ddp --emit=c
expect 0 '.march = "cuda:sm_90"' --target h200 targets.ddp --emit=c
expect 0 "static const int sm[] = {90, 0};" --target h200 targets.ddp --emit=cu
expect 0 "static const int sm[] = {80, 90, 100, 0};" --target cuda targets.ddp --emit=cu
expect 0 ".ptx = 0," --target cuda:sm_90a targets.ddp --emit=cu
expect 0 "compiled by ddpc 0.1.0 for cuda:sim" --target cuda:sim targets.ddp --emit=cu
expect 0 "" check --target h200 targets.ddp
expect 2 "a program for CPUs has no such text" --emit=cu targets.ddp
expect 1 "did you mean \`old\`?" check --target olt targets.ddp
expect 2 "c can be written, and for GPUs cu" --emit=cuda tiny.ddp
expect 2 "there is no stage \`nope\`" --dump=nope tiny.ddp
expect 2 "needs --dump=STAGE" --from-ir tiny.ddp
expect 2 "cannot write nowhere/train" tiny.ddp -o nowhere/train
expect 1 "cannot read \`nothing.ddp\`" nothing.ddp
expect 1 "E0713" -D nothing=1 tiny.ddp --emit=c
expect 0 "E0405: " explain E0405
expect 0 "E0405: " explain e0405
expect 0 "train.warmup_steps: float" explain warmup_steps
expect 2 "did you mean \`warmup_steps\`?" explain warmup_step
expect 2 "ddpc explain E0405|KEY" explain
expect 0 "" check tiny.ddp
expect 0 "buckets: 1;" plan tiny.ddp
expect 0 "graph train training {" --dump=job tiny.ddp
expect 0 "out grad" --dump=grad tiny.ddp
expect 0 "program train" --dump=nests tiny.ddp
expect 0 "buckets: 1;" --dump=plan tiny.ddp
expect 0 "ddp_main(&job, argc, argv)" tiny.ddp --emit=c

# every stage reads back what a stage before it printed
for stage in job means fold cast grad dce2 widen; do
  "$ddpc" --dump=$stage tiny.ddp > $stage.ir
  expect 0 "graph train training {" --from-ir $stage.ir --dump=dce
done
"$ddpc" --dump=means tiny.ddp > means.ir
"$ddpc" --dump=fold tiny.ddp > fold.ir
"$ddpc" --from-ir means.ir --dump=fold > again.ir
expect 0 "program train" --from-ir widen.ir --dump=nests
expect 1 "error" --from-ir tiny.ddp --dump=fold

# the C compiler: missing, refusing; no file is left behind
DDPC_CC=no-such-compiler expect 2 "install gcc or clang, or name one with DDPC_CC" tiny.ddp -o train
expect 2 "choose one with --target cpu:MARCH" --target cpu:no-such-march tiny.ddp -o train
if ls | grep -q '^train'; then
  echo "a failed run leaves files: $(ls)" >&2
  failures=$((failures + 1))
fi
expect 0 "" --target cpu:x86-64-v2 tiny.ddp -o train --keep
[ -f train.c ] && [ -x train ] || failures=$((failures + 1))

[ "$failures" -eq 0 ] || exit 1
echo "the command line behaves"
