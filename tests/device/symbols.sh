#!/bin/sh
# What libddp_cuda.a calls and looks up by name is there: in NVIDIA's libraries and in the stand-ins.
#   symbols.sh ARCHIVE PREFIX=LIBRARY...     cuda=libcudart.so cublasLt=libcublasLt.so nccl=libnccl.so.2
# Functions that are linked are the undefined symbols of the archive, those of libraries that are opened at run time
# are texts in it.
set -eu
archive=$1
shift
bad=0
needed() { # PREFIX
  { nm -u "$work/archive.a" 2> /dev/null | sed 's/^ *U //'; strings "$work/archive.a"; } | grep -E "^$1[A-Z][A-Za-z0-9_]*$" | sort -u
}
there() { # LIBRARY
  case $1 in
    *.a) nm --defined-only "$1" ;;
    *) nm -D --defined-only "$1" ;;
  esac 2> /dev/null | sed 's/^[0-9a-f]* [A-Za-z] //; s/@.*//' | sort -u
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strip -g -o "$work/archive.a" "$archive" # names of types are texts, too, where it can be debugged
for pair; do
  prefix=${pair%%=*} library=${pair#*=}
  needed "$prefix" > "$work/needed"
  there "$library" > "$work/there"
  comm -23 "$work/needed" "$work/there" > "$work/missing"
  [ -s "$work/there" ] || { echo "$library: no symbols"; bad=1; }
  if [ -s "$work/missing" ]; then
    sed "s|^|$library lacks |" "$work/missing"
    bad=1
  fi
  echo "$library: $(wc -l < "$work/needed") functions of ${prefix} are used"
done
exit $bad
