#!/usr/bin/env bash
# The tests of images with other releases of nvcc: 13.0 and 13.5 from PyPI, 11.8 and 12.4 from Debian.
#   tests/nvcc-versions.sh [RELEASE …]      one or more of 11.8 12.4 13.0 13.5; all by default
# Toolkits are unpacked below the user's cache directory, and nothing is installed: Debian's are laid over /usr and /etc
# in a mount namespace, which needs root, a kernel with overlayfs, and x86_64. 12.4 needs a g++ up to 13 on this machine.
# The mirror is that of apt, or DEBIAN_MIRROR.
# TESTS=added_capability runs only that test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache=${CUDA_BUILD_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/cuda-build}/tests/nvcc
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | awk '!/security/ { print; exit }' || true)}

from_pypi() { # RELEASE CCCL
    [ -e "$cache/$1/done" ] && return
    rm -rf "${cache:?}/$1"
    local names=(nvidia-cuda-{nvcc,crt,runtime,nvrtc} nvidia-nvvm)
    python3 -m pip install --quiet --no-deps --target "$cache/$1" "${names[@]/%/==$1.*}" "nvidia-cuda-cccl==$2"
    touch "$cache/$1/done"
}

from_debian() { # RELEASE SUITE PACKAGE…
    local release=$1 suite=$2 package file index="$cache/$2.packages"
    [ -e "$cache/$release/done" ] && return
    rm -rf "${cache:?}/$release"
    mkdir -p "$cache/$release"
    [ -n "$mirror" ] || { echo 'set DEBIAN_MIRROR to the address of a Debian mirror' >&2; exit 1; }
    for component in main non-free; do
        curl -fsS "${mirror%/}/dists/$suite/$component/binary-amd64/Packages.xz" | xz -d
    done > "$index"
    for package in "${@:3}"; do
        file=$(awk -v name="$package" '$1 == "Package:" { found = $2 == name }
            found && $1 == "Filename:" { print $2; exit }' "$index")
        curl -fsS --retry 5 -o "$cache/$release.deb" "${mirror%/}/$file"
        # Most of nvidia-cuda-dev are static libraries that no test links.
        dpkg-deb --fsys-tarfile "$cache/$release.deb" |
            tar -x -C "$cache/$release" --exclude './usr/lib/x86_64-linux-gnu/libcu[bfirsl]*.a' \
                --exclude './usr/lib/x86_64-linux-gnu/libnp*.a' --exclude './usr/lib/x86_64-linux-gnu/libnv*.a'
        rm "$cache/$release.deb"
    done
    touch "$cache/$release/done"
}

over_usr() { # RELEASE COMMAND…
    # shellcheck disable=SC2016
    unshare --mount bash -ec '
        for place in usr etc; do
            mount -t overlay -o "lowerdir=$0/$place:/$place" overlay "/$place"
        done
        exec "$@"' "$cache/$1" "${@:2}"
}

releases=("$@")
[ $# = 0 ] && releases=(11.8 12.4 13.0 13.5)
for release in "${releases[@]}"; do
    around=()
    export CUDA_BUILD_TEST_CUDA=$cache/$release
    case $release in
        13.0) from_pypi 13.0 '13.0.*' ;;
        13.5) from_pypi 13.5 '13.3.5.*' ;;
        11.8)
            from_debian 11.8 bookworm nvidia-cuda-toolkit nvidia-cuda-dev libcudart11.0 libnvrtc11.2 \
                libnvrtc-builtins11.8 libcu++-dev libcub-dev libthrust-dev gcc-11-base cpp-11 gcc-11 g++-11 \
                libgcc-11-dev libstdc++-11-dev
            ;;
        12.4)
            from_debian 12.4 trixie nvidia-cuda-toolkit nvidia-cuda-dev libcudart12 libnvrtc12 \
                libnvrtc-builtins12.4 libcu++-dev libcub-dev libthrust-dev
            ;;
        *) echo "no release $release here" >&2 && exit 2 ;;
    esac
    case $release in
        11.8 | 12.4) around=(over_usr "$release") CUDA_BUILD_TEST_CUDA=/usr ;;
    esac
    echo "== nvcc $release"
    "${around[@]}" cargo test -p cargo-cuda --test build -- --nocapture --include-ignored "${TESTS:-images::}"
done
