#!/usr/bin/env bash
# Fetches the newest release of every CUDA major from the package index, and builds a template with
# the newest of all. Tests pin their versions; this script finds out what a new release breaks.
# It is not part of `cargo test`. Run it by hand or on a schedule: tests/canary.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export CUDA_BUILD_CACHE_DIR=$place/cache
unset UV_EXCLUDE_NEWER UV_CONSTRAINT PIP_CONSTRAINT VIRTUAL_ENV CUDA_HOME CUDA_PATH NVCC

cargo build --locked -p cargo-cuda
cuda=("${CARGO_TARGET_DIR:-$root/target}/debug/cargo-cuda" cuda)
cd "$place"

never_released=22
major=11
while true; do
    code=0
    "${cuda[@]}" toolkit add "$major" || code=$?
    if ((code == never_released)); then break; fi
    if ((code != 0)); then exit "$code"; fi
    major=$((major + 1))
done
if ((major == 11)); then
    echo 'the index has no CUDA 11' >&2
    exit 1
fi

"${cuda[@]}" toolkit list
(cd "$place" && "${cuda[@]}" new --vcs none app && cd app &&
    sed -i "s#git = \"[^\"]*\"#path = \"$root/cuda-build\"#" Cargo.toml && "${cuda[@]}" build)
echo "canary: the newest release of each major was fetched; CUDA $((major - 1)) built the template"
