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
mkdir -p "$copy/cuda-build/tests"
cp -r "$root/cuda-build/src" "$root/cuda-build/Cargo.toml" "$copy/cuda-build"
for file in "$root"/cuda-build/*; do
    [[ -e $copy/cuda-build/${file##*/} ]] || cp -r "$file" "$copy/cuda-build"
done
cp "$here/layouts.rs" "$copy/cuda-build/tests"
cp "$root/Cargo.lock" "$copy"
sed -E 's/^members = .*/members = ["cuda-build"]/' "$root/Cargo.toml" >"$copy/Cargo.toml"
python3 "$here/patch.py" "$copy/cuda-build/src"
cd "$copy"
CARGO_TARGET_DIR=$1/target cargo test --offline --quiet -p cuda-build --test layouts
