#!/bin/sh
# The command line of `ddpc fmt`.
# usage: fmt.sh DDPC
set -eu
ddpc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
complain() {
  echo "$*" >&2
  failures=$((failures + 1))
}
expect() { # STATUS ARGUMENT...: output in said, messages in told
  status=$1
  shift
  got=0
  "$ddpc" fmt "$@" >said 2>told <input || got=$?
  [ "$got" -eq "$status" ] || { complain "fmt $*: status $got, should be $status"; cat said told >&2; }
}
says() { # FILE TEXT
  grep -q -F -e "$2" "$1" || { complain "should say: $2"; cat "$1" >&2; }
}
holds() { # FILE TEXT: all of it
  [ "$(cat "$1")" = "$2" ] || { complain "$1 should hold: $2"; cat "$1" >&2; }
}
good='edition 1

const a = 1'
: >input
write() { # FILE: not canonical
  printf 'edition 1\nconst   a=1\n' >"$1"
}

# in place, mode kept, links kept, nothing left beside
write a.ddp
write b.ddp
chmod 640 a.ddp
ln -s b.ddp link.ddp
expect 0 a.ddp link.ddp
holds a.ddp "$good"
holds b.ddp "$good"
holds said ""
[ "$(stat -c %a a.ddp)" = 640 ] || complain "the mode of a.ddp changed"
[ -L link.ddp ] || complain "link.ddp is no link any more"
[ "$(ls)" = "$(printf 'a.ddp\nb.ddp\ninput\nlink.ddp\nsaid\ntold')" ] || complain "files: $(ls)"

# a canonical file is not written
touch -d 2001-01-01 a.ddp
before=$(stat -c '%i %y' a.ddp)
expect 0 a.ddp
[ "$(stat -c '%i %y' a.ddp)" = "$before" ] || complain "a.ddp was written"

# --check and --diff write nothing
write c.ddp
write d.ddp
cp c.ddp was.ddp
expect 1 --check a.ddp c.ddp b.ddp d.ddp
holds said 'c.ddp
d.ddp'
expect 0 --check a.ddp b.ddp
holds said ""
expect 0 --diff a.ddp c.ddp
holds said '--- c.ddp
+++ c.ddp (canonical)
@@ -1,2 +1,3 @@
 edition 1
-const   a=1
+
+const a = 1'
"$ddpc" fmt --diff c.ddp >patch
expect 1 --check --diff c.ddp
says said "+const a = 1"
cmp -s c.ddp was.ddp || complain "c.ddp was written"
if command -v patch >/dev/null; then
  cp c.ddp patched.ddp
  patch -s patched.ddp patch && holds patched.ddp "$good"
fi

# a file with errors is not touched; the others are formatted
printf 'edition 1\nconst   a=\n' >broken.ddp
cp broken.ddp was.ddp
expect 1 broken.ddp c.ddp
says told "broken.ddp:2:10: error[E0201]"
cmp -s broken.ddp was.ddp || complain "broken.ddp was written"
holds c.ddp "$good"
expect 1 --check broken.ddp
expect 1 --diff broken.ddp

# byte order mark, ends of lines, no end of the last line, an empty file
printf '\357\273\277edition 1\r\n\r\nconst a = 1' >dos.ddp
expect 1 --check dos.ddp
expect 0 --diff dos.ddp
says said 'No newline at end of file'
expect 0 dos.ddp
printf '%s\n' "$good" | cmp -s - dos.ddp || complain "dos.ddp is not canonical"
: >empty.ddp
expect 1 empty.ddp
says told "E0202"

# standard input
write input
expect 0 -
holds said "$good"
expect 1 --check -
holds said "<stdin>"
expect 0 --diff -
says said "+const a = 1"
cp broken.ddp input
expect 1 -
holds said ""
says told "<stdin>:2:10: error"

# misuse
expect 2 nothing.ddp
says told "cannot read nothing.ddp"
expect 2 .
expect 2
says told "which files?"
expect 2 --json a.ddp
mkdir locked
write locked/a.ddp
chmod 555 locked
if [ ! -w locked ]; then # not as root
  expect 2 locked/a.ddp
  says told "cannot write locked/a.ddp"
fi
chmod 755 locked
[ "$failures" -eq 0 ]
