//! NVRTC 11, 12 and 13 as the pip wheels have it.
#![allow(
    clippy::disallowed_methods,
    reason = "tests write source files and copy libraries"
)]

use std::fs;

use cuda_build::nvrtc::{CompiledProgram, Nvrtc, Program, shims};
use cuda_build::{Build, Engine, Module};
use cuda_find_core::{env::Env, root::Root};

use crate::components::site_packages;
use crate::images::Package;
use crate::support::{components, nvrtc};

/// Compiles a source for one architecture, without shims.
fn compile(
    nvrtc: &Nvrtc,
    name: &str,
    source: &[u8],
    arch: &str,
) -> Result<CompiledProgram, String> {
    nvrtc.compile(&Program {
        source,
        name,
        options: vec![format!("-arch={arch}")],
        ..Program::default()
    })
}

/// Compiles a source as a build script does, and returns the warnings. None may be about macros.
fn build(major: u32, source: &str) -> String {
    let package = tempfile::tempdir().unwrap();
    let path = package.path();
    fs::write(path.join("k.cu"), source).unwrap();
    fs::write(path.join("Cargo.toml"), "[package]\n[workspace]\n").unwrap();
    let env = Env::from_pairs([("CARGO_MANIFEST_DIR", path), ("OUT_DIR", path)])
        .with("CUDA_BUILD_ROOTS", site_packages(major))
        .with("CUDA_BUILD_CAPABILITIES", "8.0")
        .with("TARGET", "x86_64-unknown-linux-gnu");
    let module = Module::new("k.cu").engine(Engine::Nvrtc);
    let build = Build::from_env(env, Root::system()).unwrap();
    let built = build.module(module).run();
    let built = built.unwrap_or_else(|error| panic!("{error}\n{source}"));
    let warnings = built.compiled.warnings.join("\n");
    assert!(!warnings.contains("redefinition"), "{warnings}\n{source}");
    warnings
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
    out[1] = offsetof(Pair, b);
    std::nullptr_t null = nullptr;
    out[2] = null == NULL;
    x[0] = std::sqrt(x[1]) + std::pow(x[1], x[2]) + std::fabs(x[3]) + M_PI + std::sin(x[0]) + sqrt(x[4]);
    x[1] = std::isnan(x[2]) ? HUGE_VAL : -HUGE_VAL;
    f[0] = INFINITY + NAN + std::fma(f[0], f[1], f[2]);
    printf("%d", out[1]);
    int* memory = (int*)std::malloc(4);
    free(memory);
    bool yes = true;
    out[3] = yes;
}
"#;

#[test]
fn a_file_that_is_no_nvrtc() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("libnvrtc.so.12");
    let error = || Nvrtc::load(&path).err().unwrap().to_string();
    let missing = error();
    assert!(missing.contains("No such file"), "{missing}");
    fs::write(&path, "no library").unwrap();
    let error = error();
    assert!(
        error.contains("libnvrtc.so.12: ") && error.contains("file too short"),
        "{error}"
    );
}

mod online {
    use super::*;

    #[test]
    fn the_architecture_decides_the_output() {
        for major in [11, 12, 13] {
            let nvrtc = nvrtc(major);
            assert_eq!(nvrtc.version().0, major);
            let source = b"extern \"C\" __global__ void k(float* x) { *x = 1; }";
            let image = |arch| compile(&nvrtc, "k.cu", source, arch).unwrap().image;
            assert!(image("sm_80").starts_with(b"\x7fELF"));
            assert_eq!(image("sm_80"), image("sm_80"), "two runs differ");
            let ptx = String::from_utf8(image("compute_80")).unwrap();
            assert!(
                ptx.contains(".target sm_80") && ptx.trim_end().ends_with('}'),
                "{ptx}"
            );
        }
    }

    #[test]
    fn messages_name_file_and_line() {
        for major in [11, 12, 13] {
            let nvrtc = nvrtc(major);
            let fails =
                |source: &[u8], arch| compile(&nvrtc, "kernels/é x.cu", source, arch).unwrap_err();
            let source = b"extern \"C\" __global__ void k() {\n    nonsense;\n}\n";
            let error = "kernels/é x.cu(2): error: identifier \"nonsense\" is undefined";
            let error = format!("NVRTC_ERROR_COMPILATION\n{error}");
            let failure = fails(source, "sm_80");
            assert!(failure.starts_with(&error), "{failure}");
            let failure = fails(source, "sm_7");
            assert!(failure.starts_with("NVRTC_ERROR_INVALID_OPTION\n"));
            assert!(failure.contains("--gpu-architecture"), "{failure}");
            let without_shims = fails(b"#include <stdint.h>\n", "sm_80");
            assert!(without_shims.contains("stdint.h"), "{without_shims}");
            let failure = fails(b"a\0b", "sm_80");
            assert_eq!(failure, "the source holds a NUL at byte 1");
        }
    }

    #[test]
    #[ignore = "minutes: every header that NVRTC gets from this crate"]
    fn shims_work_alone_and_beside_toolkit_headers() {
        let headers = [
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
        let include = |name: &str| format!("#include <{name}>\n");
        for major in [11, 12, 13] {
            let shims: String = shims::names().map(include).collect();
            let log = build(major, &format!("{shims}{USES_SHIMS}"));
            assert_eq!(log, "");
            let mut all = String::new();
            // The CUB of CUDA 11 includes `<utility>`: NVRTC cannot compile it.
            let cub = (major > 11).then_some("cub/block/block_reduce.cuh");
            for header in headers.into_iter().chain(cub) {
                // Shims first: the toolkit's headers define a macro even if it is defined already.
                build(major, &format!("{shims}{}", include(header)));
                all += &include(header);
            }
            build(major, &format!("{all}{shims}{USES_SHIMS}"));
            build(major, &format!("{shims}{all}{USES_SHIMS}"));
        }
    }

    /// With NVRTC, CCCL alone would unroll lists of types up to 16, which takes most of the time of small kernels.
    #[test]
    fn cccl_unrolls_as_far_as_with_nvcc() {
        let source = "#include <cuda/std/limits>\n\
                      static_assert(_CCCL_META_UNROLL_LIMIT == EXPECTED);\n\
                      __global__ void kernel() {}\n";
        for engine in [Engine::Nvcc, Engine::Nvrtc] {
            let mut package = Package::new(source, Some(engine), &[]);
            package.options = vec!["-DEXPECTED=10"];
            assert_eq!(package.build("out", "8.0").0, ["sm_80"]);
            package.options = vec!["-DEXPECTED=12", "-D_CCCL_META_UNROLL_LIMIT=12"];
            assert_eq!(package.build("own-limit", "8.0").0, ["sm_80"]);
        }
    }

    /// The builtins are found beside an NVRTC that has no `RUNPATH`, as that of some wheels.
    #[test]
    fn builtins_beside_an_nvrtc_without_runpath() {
        let path = components(12).nvrtc;
        let directory = tempfile::tempdir().unwrap();
        let (major, minor) = nvrtc(12).version();
        let name = format!("libnvrtc-builtins.so.{major}.{minor}");
        let mut builtins = fs::read(path.with_file_name(&name)).unwrap();
        let mut library = fs::read(&path).unwrap();
        assert!(replace(&mut library, b"$ORIGIN:\0", b"/nowhere\0"));
        // The SONAME must differ from that of the builtins which other tests have loaded.
        let other = name.replace("builtins.so", "builtinz.so");
        let in_library = replace(&mut library, name.as_bytes(), other.as_bytes());
        assert!(in_library | replace(&mut builtins, name.as_bytes(), other.as_bytes()));
        let copy = directory.path().join("libnvrtc.so.12");
        fs::write(&copy, library).unwrap();
        fs::write(directory.path().join(name), builtins).unwrap();
        let source = b"extern \"C\" __global__ void k(float* x) { *x = sinf(*x); }";
        let output = compile(&Nvrtc::load(&copy).unwrap(), "k.cu", source, "sm_80");
        let output = output.unwrap_or_else(|error| panic!("{error}"));
        assert!(output.image.starts_with(b"\x7fELF"));
    }

    /// Replaces each occurrence. Returns whether there was one.
    fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) -> bool {
        assert_eq!(old.len(), new.len());
        let mut replaced = false;
        for at in 0..=bytes.len() - old.len() {
            if bytes[at..].starts_with(old) {
                bytes[at..at + new.len()].copy_from_slice(new);
                replaced = true;
            }
        }
        replaced
    }
}
