#!/bin/sh
# An installed ddpc works from any folder: once with a prefix, once staged with DESTDIR and the tree moved,
# as a package would be. Nothing of the build tree is used.
# usage: install.sh BUILD SOURCE
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "$*" >&2
  exit 1
}

try() { # DDPC: compiles and trains a job that lies in a folder of its own, from another one
  mkdir -p "$work/job" "$work/cwd"
  cp "$source/tests/emit/tiny.ddp" "$source/tests/emit/rows.csv" "$work/job"
  (
    cd "$work/cwd"
    "$1" --version
    "$1" ../job/tiny.ddp -o tiny -v 2> log || fail "$(cat log)"
    if grep -q -e "$build" -e "$source" log; then
      fail "the installed compiler looks into the build tree: $(cat log)"
    fi
    ./tiny --output_dir out > said 2>&1 || fail "$(cat said)"
    [ -f out/model.safetensors ] || fail "no weights: $(cat said)"
  ) || exit 1
  rm -rf "$work/job" "$work/cwd"
}

cmake --install "$build" --prefix "$work/prefix" > "$work/installed" || fail "$(cat "$work/installed")"
try "$work/prefix/bin/ddpc"

# headers of operators come with it, and their sources
if grep -q '^DDP_CLANG_LIBRARY:FILEPATH=/' "$build/CMakeCache.txt" && ! grep -q '^DDP_LIBCLANG:BOOL=OFF' "$build/CMakeCache.txt"; then
  cp "$source/tests/install/native.ddp" "$source/tests/emit/rows.csv" "$work"
  (cd / && "$work/prefix/bin/ddpc" "$work/native.ddp" -o "$work/native" 2> "$work/said") || fail "$(cat "$work/said")"
  "$work/native" --output_dir "$work/out" > "$work/said" 2>&1 || fail "$(cat "$work/said")"
fi

DESTDIR=$work/staged cmake --install "$build" > "$work/installed" || fail "$(cat "$work/installed")"
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt")
mv "$work/staged$prefix" "$work/moved"
try "$work/moved/bin/ddpc"

# headers and library belong together: without them a clear message
rm "$work"/moved/lib*/libddp_runtime.a "$work"/moved/lib*/*/libddp_runtime.a 2> /dev/null || true
cp "$source/tests/emit/tiny.ddp" "$source/tests/emit/rows.csv" "$work"
if "$work/moved/bin/ddpc" "$work/tiny.ddp" -o "$work/tiny" 2> "$work/said"; then
  fail "compiled without a runtime library"
fi
grep -q "libddp_runtime.a and its headers are not where they belong" "$work/said" ||
  fail "$(cat "$work/said")"
# operators in C include those headers: a place in the job, not a crash
if "$work/moved/bin/ddpc" check "$source/examples/custom_op/job.ddp" > "$work/said" 2>&1; then
  fail "read a header without those it includes"
fi
grep -q "E0307\|E0911" "$work/said" || fail "$(cat "$work/said")" # E0911: built without libclang
echo "installed compiler works"
