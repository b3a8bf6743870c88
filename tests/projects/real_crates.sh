#!/usr/bin/env bash
# Published crates, unchanged, on components of Python's packages alone: which of them build bare,
# with the usual root variables set by hand, and with `cargo cuda build`. Prints a table, and for
# each failure its first error.
#
#   tests/projects/real_crates.sh [--slow] [--work DIR] [NAME …]
#
# Wants cargo, gcc, readelf, nm, and uv or pip; no GPU and no driver. `--slow` adds candle and
# llama.cpp (minutes to an hour; llama.cpp also wants CMake and libclang); one of them that is named
# is built without it. Gigabytes of components are fetched once into DIR (a temporary directory
# where none is given).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
slow=0 work='' only=()
while (($#)); do
    case $1 in
        --slow) slow=1 ;;
        --work) work=$2; shift ;;
        *) only+=("$1") ;;
    esac
    shift
done
# The rows below, so that a name that is none of them does not pass for a run without failures.
mapfile -t names < <(sed -nE 's/^ *crate ([^ ]+-[0-9.]+) .*/\1/p' "${BASH_SOURCE[0]}")
for name in ${only[@]+"${only[@]}"}; do
    if [[ " ${names[*]} " != *" $name "* ]]; then
        printf 'no crate is named %s here; there are:\n' "$name" >&2
        printf '  %s\n' "${names[@]}" >&2
        exit 2
    fi
done
work=${work:-$(mktemp -d)}
mkdir -p "$work"
work=$(cd "$work" && pwd)

program=${CARGO_CUDA:-}
if [[ -z $program ]]; then
    target=$(realpath -m "${CARGO_TARGET_DIR:-$here/target}")
    # With a triple named the program would be elsewhere.
    env -u CARGO_BUILD_TARGET CARGO_TARGET_DIR="$target" \
        cargo build --quiet --manifest-path "$here/Cargo.toml" -p cargo-cuda
    program=$target/debug/cargo-cuda
fi
# It is started in other directories than this one; a bare name is looked for on `PATH`.
if [[ $program == */* ]]; then program=$(realpath "$program"); fi
# What another toolkit could be found by. The tests mean the one that they name.
unset CUDA_HOME CUDA_PATH CUDA_ROOT CUDA_TOOLKIT_ROOT_DIR CUDA_TOOLKIT_PATH CUDA_LIBRARY_PATH CUDAToolkit_ROOT \
    CUDACXX NVCC CUDARC_CUDA_VERSION CMAKE_TOOLCHAIN_FILE VIRTUAL_ENV CONDA_PREFIX LD_LIBRARY_PATH LIBRARY_PATH \
    CUDA_BUILD_TOOLKIT CUDA_BUILD_ROOTS CUDA_BUILD_SOURCES CUDA_BUILD_RELEASE CUDA_BUILD_CAPABILITIES \
    CUDA_BUILD_VIEWS CUDA_BUILD_ENVIRONMENT CUDA_BUILD_ENVIRONMENT_VIEW
# And what puts the programs elsewhere, or builds them otherwise.
unset CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_BUILD_BUILD_DIR CARGO_BUILD_TARGET RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

# toolkit RELEASE: a store with this release and nothing else
toolkit() {
    export CUDA_BUILD_CACHE_DIR=$work/cuda-$1
    if ! ls -d "$CUDA_BUILD_CACHE_DIR"/toolkits/*/nvidia >/dev/null 2>&1; then
        (cd "$work" && "$program" cuda toolkit add "$1" --components cudart,nvrtc,cublas,curand >&2)
    fi
    site=$(ls -d "$CUDA_BUILD_CACHE_DIR"/toolkits/*/nvidia)
    root=$site/cu13
    [[ -d $root ]] || root=$site/cuda_runtime
}

# project NAME DEPENDENCIES MAIN: a fresh package
project() {
    package=$work/$1
    rm -rf "$package"
    mkdir -p "$package/src"
    printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2024"\n[dependencies]\n%s\n[workspace]\n' "$2" >"$package/Cargo.toml"
    printf '%s\n' "$3" >"$package/src/main.rs"
}

# The line that says what is missing, where there is one; cargo's own heading otherwise.
first_error() {
    local pattern
    for pattern in 'could not find native static library `[^`]*`' 'unable to find library -l[A-Za-z]+' \
        'cannot find -l[A-Za-z]+' 'CMake Error.*' 'Could not find a cuda installation' \
        'Unsupported cuda toolkit version.*[0-9]' 'Failed to execute `nvcc`[^,]*' 'nvcc[^:]*: (not found|No such file.*)' \
        'Unable to find libclang' 'nvidia-smi.*' 'No such file or directory' 'error: .*'; do
        if grep -m1 -oE "$pattern" "$1" | sed 1q | cut -c1-90 | grep .; then return; fi
    done
    echo 'see the log'
}

# CUDA's libraries that a file is linked with; curl's only begins like one.
needed() {
    readelf -d "$1" | sed -nE '/\[libcurl/d; s/.*NEEDED.*\[(lib(cu|nv|npp|OpenCL)[^]]*)\]/\1/p' | sort
}

# uses FILE: for each of CUDA's libraries that FILE needs, how many of its functions FILE calls
# (`nm -u`), and the first of them; "not found" where the library's file is nowhere here.
uses() {
    local library file names
    while read -r library; do
        file=$(find "$CUDA_BUILD_CACHE_DIR/toolkits" -name "$library" -print -quit)
        # The driver's library is nowhere here: what was linked with is the view's stub.
        [[ -n $file ]] || file=$(find "$(built)/../.cuda/view/" -path '*/stubs/*' -name "${library%%.so*}.so" -print -quit 2>/dev/null)
        if [[ -z $file ]]; then
            printf '    %s: not found\n' "$library"
            continue
        fi
        names=$(comm -12 <(nm -u "$1" | sed -E 's/.* U //; s/@.*//' | sort -u) \
            <(nm -D --defined-only "$file" | sed -E 's/.* //; s/@.*//' | sort -u))
        printf '    %s: %s functions, such as %s\n' "$library" "$(grep -c . <<<"$names")" "$(head -n 1 <<<"$names")"
    done < <(needed "$1")
}

# Cargo's directory of what was built last: `cargo cuda` has another than cargo.
built() {
    local latest=$package/target/cargo-cuda/latest
    if [[ -d $latest/debug ]]; then echo "$(realpath "$latest")/debug"; else echo "$package/target/debug"; fi
}

rows=()
# way NAME LABEL COMMAND…: builds from an empty target directory
way() {
    local name=$1 label=$2 started=$SECONDS file found=''
    shift 2
    rm -rf "$package/target"
    if (cd "$package" && "$@") >"$package/$label.log" 2>&1; then
        [[ -x $(built)/app ]] || found='AND THERE IS NO PROGRAM '
        # The program, and libraries that its crates have built, each once.
        while read -r file; do
            [[ -n $(needed "$file") ]] || continue
            found+="${file##*/}: $(needed "$file" | tr '\n' ' ')"
            if readelf -d "$file" | grep -E 'RPATH|RUNPATH' | grep -q "$CUDA_BUILD_CACHE_DIR\|/.cuda/view"; then
                found+='AND A SEARCH PATH TO THEM '
            fi
            printf '  %s\n%s\n' "$file" "$(uses "$file")" >&2
        done < <(
            echo "$(built)/app"
            find "$(built)" -type f -name 'lib*.so*' -printf '%f %p\n' 2>/dev/null |
                sort -u -k1,1 | cut -d' ' -f2-
        )
        rows+=("$name|$label|builds in $((SECONDS - started)) s|$found")
    else
        rows+=("$name|$label|fails|$(first_error "$package/$label.log")")
    fi
    printf '%s\n' "${rows[-1]}" >&2
}

# crate NAME RELEASE DEPENDENCIES MAIN [OPTION…]
crate() {
    local name=$1 release=$2
    if ((${#only[@]})) && [[ " ${only[*]} " != *" $name "* ]]; then return; fi
    toolkit "$release"
    project "$name" "$3" "$4"
    shift 4
    way "$name" bare cargo build
    way "$name" 'by hand' env CUDA_HOME="$root" CUDA_PATH="$root" CUDA_ROOT="$root" CUDA_TOOLKIT_ROOT_DIR="$root" \
        CUDAToolkit_ROOT="$root" PATH="$root/bin:$PATH" LIBRARY_PATH="$root/lib" cargo build
    way "$name" 'cargo cuda' "$program" cuda build "$@"
}

cudarc_main='use cudarc::{cublas, cublaslt, curand, driver, nvrtc, runtime};
fn main() {
    let (mut v, mut w, mut handle) = (0, 0, std::ptr::null_mut());
    unsafe {
        println!("{:?}", driver::sys::cuDriverGetVersion(&mut v));
        println!("{:?}", runtime::sys::cudaRuntimeGetVersion(&mut v));
        println!("{:?}", nvrtc::sys::nvrtcVersion(&mut v, &mut w));
        println!("{:?}", curand::sys::curandGetVersion(&mut v));
        println!("{:?}", cublas::sys::cublasCreate_v2(&mut handle));
        println!("{:?}", cublaslt::sys::cublasLtGetVersion());
    }
}'
cudarc() {
    printf 'cudarc = { version = "=0.19.10", default-features = false, features = ["std", "driver", "runtime", "nvrtc", "cublas", "cublaslt", "curand", "%s", "dynamic-linking"] }' "$1"
}
cust_main='fn main() { println!("{:?}", cust::CudaApiVersion::get()); }'

crate cudarc-13.4 13.4 "$(cudarc cuda-version-from-build-system)" "$cudarc_main"
crate cudarc-13.5 13.5 "$(cudarc cuda-version-from-build-system)" "$cudarc_main"
crate cudarc-12.9 12.9 "$(cudarc cuda-12090)" "$cudarc_main"
crate cust-13.4 13.4 'cust = "=0.3.2"' "$cust_main"
crate cust-12.9 12.9 'cust = "=0.3.2"' "$cust_main"
if ((slow || ${#only[@]})); then
    crate candle-13.4 13.4 'candle-core = { version = "=0.11.1", features = ["cuda"] }' \
        'fn main() { println!("{:?}", candle_core::Device::new_cuda(0).map(|_| ())); }' --capabilities 8.0
    export GGML_CUDA_FA=OFF
    llama_main='fn main() { unsafe { llama_cpp_sys_2::llama_backend_init(); println!("{}", llama_cpp_sys_2::llama_supports_gpu_offload()); } }'
    crate llama-13.4 13.4 'llama-cpp-sys-2 = { version = "=0.1.161", features = ["cuda", "dynamic-link"] }' \
        "$llama_main" --capabilities 8.0
    crate llama-static-13.4 13.4 'llama-cpp-sys-2 = { version = "=0.1.161", features = ["cuda"] }' \
        "$llama_main" --capabilities 8.0
fi

printf '\n| crate, CUDA | way | result | libraries it needs, or its first error |\n|---|---|---|---|\n'
printf '%s\n' "${rows[@]}" | sed -E 's/\|/ | /g; s/^/| /; s/ *$/ |/'
