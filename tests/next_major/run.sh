#!/usr/bin/env bash
# Patches a fictitious CUDA major (the newest plus one) and a fictitious component, cuFOO, into a copy of the tables,
# and runs layouts.rs beside this file with the copy. Nothing but the tables is changed.
#
# usage: tests/next_major/run.sh DIRECTORY    the copy, and what is built of it, go there
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
copy=$1/copy

rm -rf "$copy"
mkdir -p "$copy/cuda-find-core/tests"
cp -r "$root/cuda-find-core/src" "$root/cuda-find-core/Cargo.toml" "$copy/cuda-find-core"
for file in "$root"/cuda-find-core/*; do
    [[ -e $copy/cuda-find-core/${file##*/} ]] || cp -r "$file" "$copy/cuda-find-core"
done
cp "$here/layouts.rs" "$copy/cuda-find-core/tests"
cp "$root/Cargo.lock" "$copy"
sed -E 's/^members = .*/members = ["cuda-find-core"]/' "$root/Cargo.toml" >"$copy/Cargo.toml"
python3 "$here/patch.py" "$copy/cuda-find-core/src"
cd "$copy"
CARGO_TARGET_DIR=$1/target cargo test --offline --quiet -p cuda-find-core --test layouts
