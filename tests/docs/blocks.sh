#!/usr/bin/env bash
# Every block of a page that is marked ```ddp goes through `ddpc check`.
#   blocks.sh DDPC PAGE
# The first block is a whole job. A later one that begins with `edition` is a whole file too; any other
# one takes the place of the parts of the first job that it declares itself (its dataset, its model ...).
# "```ddp NAME" keeps a block as file NAME, which later blocks import. What must be reported stands
# on its line, `# error E0405: message` or `# warning W...`; the message may be left out. Nothing else may
# be reported. Data files that blocks name are made empty: `check` does not read them.
set -euo pipefail
ddpc=$(realpath "$1") page=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Blocks to files line_N.ddp, N: the block's line on the page; the first job's parts to part_*.
awk '
  /^```ddp/ { inside = 1; file = NF > 1 ? $2 : "line_" NR ".ddp"; n++; next }
  /^```/ { if (inside) close(file); inside = 0; next }
  inside { print > file; if (n == 1) job[++lines] = $0 }
  inside && !NF { print "" > file }
  END {
    for (i = 1; i <= lines; i++) {
      if (job[i] ~ /^edition/) part = ""
      else if (job[i] ~ /^[a-z]/) part = "part_" substr(job[i], 1, index(job[i], " ") - 1)
      if (part != "") print job[i] > part
    }
  }' "$page"

complete() { # a part of a job to a whole one
  grep -q '^edition' "$1" && return
  { echo "edition 1"; cat "$1"; for part in part_*; do
      grep -q "^${part#part_} " "$1" || cat "$part"
    done; } >whole
  mv whole "$1"
}

for name in $(grep -ohE '"[A-Za-z0-9_./-]+\.(csv|gz|idx)"' ./*.ddp part_* | tr -d '"' | sort -u); do
  mkdir -p "$(dirname "$name")" && touch "$name"
done

bad=0 count=0
for file in $(ls ./*.ddp | sort -V); do
  complete "$file"
  count=$((count + 1))
  "$ddpc" check "$file" >/dev/null 2>reported || true
  awk -v file="${file#./}" '
    { gsub(/\r/, "") }
    FILENAME == "reported" {
      if (match($0, /^[^:]*:[0-9]+:[0-9]+: (error|warning)\[[EW][0-9]+\]: /)) {
        split($0, at, ":")
        text = substr($0, RSTART + RLENGTH)
        match($0, /(error|warning)\[[EW][0-9]+\]/)
        code = substr($0, RSTART, RLENGTH)
        sub(/\[/, " ", code); sub(/\]/, "", code)
        have[at[2] " " code] = text
      } else if (/^ddpc: |internal/) { print file ": " $0; bad = 1 }
      next
    }
    match($0, /# (error|warning) [EW][0-9]+/) {
      rest = substr($0, RSTART + 2)
      code = substr(rest, 1, RLENGTH - 2)
      text = substr(rest, RLENGTH - 1)
      sub(/^: /, "", text)
      want[FNR " " code] = text
    }
    END {
      for (k in want)
        if (!(k in have)) { print file ": missing  " k ": " want[k]; bad = 1 }
        else if (want[k] != "" && want[k] != have[k]) {
          print file ": line " k ": \"" have[k] "\" is not \"" want[k] "\""; bad = 1
        }
      for (k in have) if (!(k in want)) { print file ": reported " k ": " have[k]; bad = 1 }
      exit bad
    }' reported "$file" || bad=1
done
[ "$count" -gt 1 ] || { echo "no blocks in $page"; exit 1; }
[ "$bad" = 0 ] || {
  echo "line_N.ddp: the block at line N of $page; lines count from there, in parts one more"
  exit 1
}
echo "$count blocks"
