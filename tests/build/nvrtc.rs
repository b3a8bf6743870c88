//! NVRTC 11, 12 and 13 as the pip wheels have it.
#![allow(
    clippy::disallowed_methods,
    reason = "tests write source files and copy libraries"
)]

use std::fs;
use std::path::PathBuf;

use cuda_build::Engine;
use cuda_build::internal::includes::scan_file;
use cuda_build::internal::nvrtc::{Nvrtc, NvrtcFailure, Output, Program, compilations, shims};

use crate::images::Package;
use crate::support::{Components, components, nvrtc};

const MAJORS: [u32; 3] = [11, 12, 13];

/// Compiles a source as `cuda-build` does: scanned, with the shims that fit.
fn build(nvrtc: &Nvrtc, components: &Components, source: &str) -> Result<Output, NvrtcFailure> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kernel.cu");
    fs::write(&path, source).unwrap();
    let found = scan_file(&path, &[], &components.include);
    let mut options = vec!["-arch=sm_80".to_owned(), "-std=c++17".to_owned()];
    options.extend(
        components
            .include
            .iter()
            .map(|dir| format!("-I{}", dir.display())),
    );
    nvrtc.compile(&Program {
        source: source.as_bytes(),
        name: "src/kernel.cu",
        options,
        headers: shims::for_scan(&found),
    })
}

/// Runs a test once for each major that is there.
fn each(test: impl Fn(u32, &Components, &Nvrtc)) {
    for major in MAJORS {
        if let Some(components) = components(major) {
            test(major, &components, &Nvrtc::load(&components.nvrtc).unwrap());
        }
    }
}

#[test]
fn versions_and_capabilities() {
    each(|major, _, nvrtc| {
        assert_eq!(nvrtc.version().0, major);
        let supported = nvrtc.supported();
        assert!(
            supported.contains(&80) && supported.is_sorted(),
            "{supported:?}"
        );
        assert_eq!(supported.contains(&52), major < 13, "{supported:?}");
        assert_eq!(supported.contains(&120), major > 11, "{supported:?}");
    });
}

#[test]
fn architecture_decides_what_comes_out() {
    each(|_, _, nvrtc| {
        let source = "extern \"C\" __global__ void k(float* x) { *x = 1; }";
        let compile = |option: &str| {
            let before = compilations();
            let options = vec![option.to_owned()];
            let output = nvrtc
                .compile(&Program {
                    source: source.as_bytes(),
                    name: "k.cu",
                    options,
                    ..Program::default()
                })
                .unwrap();
            assert!(compilations() > before);
            assert_eq!(output.log, "");
            output.image
        };
        assert!(compile("-arch=sm_80").starts_with(b"\x7fELF"));
        let ptx = String::from_utf8(compile("-arch=compute_80")).unwrap();
        assert!(
            ptx.contains(".target sm_80") && ptx.trim_end().ends_with('}'),
            "{ptx}"
        );
        assert_eq!(
            compile("-arch=sm_80"),
            compile("-arch=sm_80"),
            "two runs differ"
        );
    });
}

#[test]
fn messages_name_file_and_line() {
    each(|_, _, nvrtc| {
        let source = "extern \"C\" __global__ void k() {\n    nonsense;\n}\n";
        let options = vec!["-arch=sm_80".to_owned()];
        let program = Program {
            source: source.as_bytes(),
            name: "kernels/é x.cu",
            options,
            headers: Vec::new(),
        };
        let failure = nvrtc.compile(&program).unwrap_err();
        assert_eq!(failure.error, "NVRTC_ERROR_COMPILATION");
        let expected = "kernels/é x.cu(2): error: identifier \"nonsense\" is undefined";
        assert!(failure.log.starts_with(expected), "{}", failure.log);

        let options = vec!["-arch=sm_7".to_owned()];
        let failure = nvrtc
            .compile(&Program {
                options,
                ..program.clone()
            })
            .unwrap_err();
        assert_eq!(failure.error, "NVRTC_ERROR_INVALID_OPTION");
        assert!(
            failure.log.contains("--gpu-architecture"),
            "{}",
            failure.log
        );

        let failure = nvrtc
            .compile(&Program {
                source: b"a\0b",
                ..program
            })
            .unwrap_err();
        assert_eq!(failure.to_string(), "the source holds a NUL at byte 1");
    });
}

#[test]
fn threads_compile_at_the_same_time() {
    each(|_, _, nvrtc| {
        let source = "extern \"C\" __global__ void k(double* x) { x[0] = sin(x[1]) * cos(x[2]); }";
        let compile = |arch: &str| {
            let options = vec![format!("-arch={arch}")];
            nvrtc
                .compile(&Program {
                    source: source.as_bytes(),
                    name: "k.cu",
                    options,
                    ..Program::default()
                })
                .unwrap()
                .image
        };
        let alone = [compile("sm_80"), compile("sm_90")];
        let together: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|i| scope.spawn(move || compile(["sm_80", "sm_90"][i % 2])))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        for (index, image) in together.iter().enumerate() {
            assert!(*image == alone[index % 2], "thread {index}");
        }
    });
}

#[test]
fn include_directories_with_spaces_and_letters() {
    let directory = tempfile::Builder::new()
        .prefix("inc é ß ")
        .tempdir()
        .unwrap();
    fs::write(directory.path().join("own.h"), "#define OWN 7\n").unwrap();
    each(|_, _, nvrtc| {
        let options = vec![
            "-arch=sm_80".to_owned(),
            format!("-I{}", directory.path().display()),
        ];
        let source = "#include <own.h>\nextern \"C\" __global__ void k(int* x) { *x = OWN; }";
        nvrtc
            .compile(&Program {
                source: source.as_bytes(),
                name: "k.cu",
                options,
                ..Program::default()
            })
            .unwrap();
    });
}

/// Each shim does what a kernel wants of it, with nothing said.
const USES_SHIMS: &str = r#"
static_assert(sizeof(int8_t) == 1 && sizeof(std::uint16_t) == 2 && sizeof(int32_t) == 4 && sizeof(uint64_t) == 8, "");
static_assert(sizeof(uintptr_t) == sizeof(void*) && sizeof(std::size_t) == 8 && sizeof(ptrdiff_t) == 8, "");
static_assert(INT_MAX == 2147483647 && INT_MIN == -2147483647 - 1 && CHAR_BIT == 8 && UINT_MAX == 4294967295u, "");
static_assert(LONG_MAX == 9223372036854775807L && UINT64_MAX == 18446744073709551615ULL && SIZE_MAX == ULONG_MAX, "");
static_assert(INT64_MIN == -9223372036854775807LL - 1 && UINT8_C(200) == 200 && INT8_MIN == -128, "");
static_assert(FLT_MAX > 3.4e38f && DBL_MAX > 1.7e308 && DBL_EPSILON < 3e-16 && FLT_DIG == 6, "");
#if INT_MAX < SHRT_MAX || CHAR_BIT != 8
#error limits are not for the preprocessor
#endif
struct Pair { char a; double b; };
extern "C" __global__ void k(uint8_t* bytes, double* x, float* f, int* out, size_t n) {
    assert(n > 0);
    memcpy(bytes, bytes + 64, n);
    memset(bytes, 0, n);
    std::memmove(bytes, bytes + 1, n);
    out[0] = memcmp(bytes, bytes + 8, n) + (int)strlen((const char*)bytes);
    out[1] = offsetof(Pair, b);
    std::nullptr_t null = nullptr;
    out[2] = null == NULL;
    x[0] = std::sqrt(x[1]) + std::pow(x[1], x[2]) + std::fabs(x[3]) + M_PI + std::sin(x[0]) + sqrt(x[4]);
    x[1] = std::isnan(x[2]) ? HUGE_VAL : -HUGE_VAL;
    f[0] = INFINITY + NAN + std::fma(f[0], f[1], f[2]);
    printf("%d", out[0]);
    int* memory = (int*)std::malloc(4);
    free(memory);
    bool yes = true;
    out[3] = yes;
}
"#;

#[test]
fn shims_do_what_kernels_want() {
    let includes: String = shims::names()
        .map(|name| format!("#include <{name}>\n"))
        .collect();
    each(|_, components, nvrtc| {
        let output = build(nvrtc, components, &(includes.clone() + USES_SHIMS))
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(output.log, "");
    });
}

#[test]
fn without_shims_there_is_no_stdint() {
    each(|_, _, nvrtc| {
        let options = vec!["-arch=sm_80".to_owned()];
        let program = Program {
            source: b"#include <stdint.h>\n",
            name: "k.cu",
            options,
            headers: Vec::new(),
        };
        assert!(
            nvrtc
                .compile(&program)
                .unwrap_err()
                .log
                .contains("stdint.h")
        );
    });
}

/// Compiles, and says nothing of macros.
fn check_beside(components: &Components, nvrtc: &Nvrtc, source: &str) {
    let output =
        build(nvrtc, components, source).unwrap_or_else(|e| panic!("{nvrtc:?}: {e}\n{source}"));
    assert!(
        !output.log.contains("redefinition"),
        "{nvrtc:?}: {}\n{source}",
        output.log
    );
}

#[test]
fn shims_beside_toolkit_headers() {
    const HEADERS: [&str; 9] = [
        "cuda_fp16.h",
        "cuda_bf16.h",
        "cuda_runtime.h",
        "cooperative_groups.h",
        "cuda/std/cstdint",
        "cuda/std/climits",
        "cuda/std/cmath",
        "cuda/std/type_traits",
        "cuda/atomic",
    ];
    each(|major, components, nvrtc| {
        let shims: String = shims::names()
            .map(|name| format!("#include <{name}>\n"))
            .collect();
        let mut all = String::new();
        // The CUB of CUDA 11 includes `<utility>`: it can't be compiled by NVRTC.
        let cub = (major > 11).then_some("cub/block/block_reduce.cuh");
        for header in HEADERS.into_iter().chain(cub) {
            let line = format!("#include <{header}>\n");
            // Shims first: the toolkit's headers do not ask whether a macro is there already.
            check_beside(components, nvrtc, &format!("{shims}{line}"));
            all += &line;
        }
        check_beside(components, nvrtc, &format!("{all}{shims}{USES_SHIMS}"));
        check_beside(components, nvrtc, &format!("{shims}{all}{USES_SHIMS}"));
    });
}

#[test]
fn cub_kernel_with_stdint() {
    let source = "#include <stdint.h>\n#include <cub/block/block_reduce.cuh>\n#include <cuda_fp16.h>\n\
                  extern \"C\" __global__ void total(const uint32_t* x, uint64_t* y, __half* h) {\n    \
                  using Reduce = cub::BlockReduce<uint32_t, 128>;\n    \
                  __shared__ typename Reduce::TempStorage storage;\n    \
                  uint32_t sum = Reduce(storage).Sum(x[threadIdx.x]);\n    \
                  if (threadIdx.x == 0) { *y = sum; *h = __float2half(1.0f); }\n}\n";
    for major in [12, 13] {
        let Some(components) = components(major) else {
            continue;
        };
        let nvrtc = Nvrtc::load(&components.nvrtc).unwrap();
        let output = build(&nvrtc, &components, source).unwrap_or_else(|e| panic!("{e}"));
        assert!(output.image.starts_with(b"\x7fELF"));
        assert!(!output.log.contains("redefinition"), "{}", output.log);
    }
}

/// With NVRTC, CCCL alone would unroll lists of types up to 16, which takes most of the time of small kernels.
#[test]
fn cccl_unrolls_as_far_as_with_nvcc() {
    let source = "#include <cuda/std/limits>\n\
                  static_assert(_CCCL_META_UNROLL_LIMIT == EXPECTED);\n\
                  __global__ void kernel() {}\n";
    for engine in [Engine::Nvcc, Engine::Nvrtc] {
        let Some(mut package) = Package::new(source, Some(engine)) else {
            return;
        };
        package.options = vec!["-DEXPECTED=10"];
        assert_eq!(package.build("out", "8.0").0, ["sm_80"]);
        package.options = vec!["-DEXPECTED=12", "-D_CCCL_META_UNROLL_LIMIT=12"];
        assert_eq!(package.build("own-limit", "8.0").0, ["sm_80"]);
    }
}

#[test]
fn a_file_that_is_no_nvrtc() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("libnvrtc.so.12");
    fs::write(&text, "no library").unwrap();
    let said = Nvrtc::load(&text).unwrap_err().to_string();
    assert!(
        said.contains("libnvrtc.so.12: ") && said.contains("file too short"),
        "{said}"
    );
    let missing = Nvrtc::load(&directory.path().join("libnvrtc.so.13"))
        .unwrap_err()
        .to_string();
    assert!(missing.contains("No such file"), "{missing}");
}

/// The builtins are found beside an NVRTC that has no `RUNPATH`, as that of some wheels.
#[test]
fn builtins_beside_an_nvrtc_without_runpath() {
    let Some(found) = components(12) else { return };
    let directory = tempfile::tempdir().unwrap();
    let lib = found.nvrtc.parent().unwrap();
    let (major, minor) = nvrtc(12).unwrap().version();
    // Its SONAME must differ from that of the builtins which other tests have loaded.
    let mut builtins = fs::read(lib.join(format!("libnvrtc-builtins.so.{major}.{minor}"))).unwrap();
    let mut library = fs::read(&found.nvrtc).unwrap();
    replace(&mut library, b"$ORIGIN:\0", b"/nowhere\0");
    let (old, new) = (
        format!("builtins.so.{major}.{minor}"),
        format!("builtinz.so.{major}.{minor}"),
    );
    let replaced = replace(&mut library, old.as_bytes(), new.as_bytes());
    assert!(replaced + replace(&mut builtins, old.as_bytes(), new.as_bytes()) > 1);
    let path: PathBuf = directory.path().join("libnvrtc.so.12");
    fs::write(&path, library).unwrap();
    fs::write(
        directory
            .path()
            .join(format!("libnvrtc-builtins.so.{major}.{minor}")),
        builtins,
    )
    .unwrap();
    let nvrtc = Nvrtc::load(&path).unwrap();
    let source = "extern \"C\" __global__ void k(float* x) { *x = sinf(*x); }";
    let options = vec!["-arch=sm_80".to_owned()];
    let output = nvrtc.compile(&Program {
        source: source.as_bytes(),
        name: "k.cu",
        options,
        ..Program::default()
    });
    assert!(
        output
            .unwrap_or_else(|e| panic!("{e}"))
            .image
            .starts_with(b"\x7fELF")
    );
}

/// Replaces each occurrence, and says how many there were; at least one.
fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) -> usize {
    assert_eq!(old.len(), new.len());
    let places: Vec<usize> = bytes
        .windows(old.len())
        .enumerate()
        .filter(|(_, window)| *window == old)
        .map(|(at, _)| at)
        .collect();
    for &at in &places {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    assert!(
        !places.is_empty(),
        "{} is not in the file",
        String::from_utf8_lossy(old)
    );
    places.len()
}
