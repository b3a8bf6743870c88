use cuda_build::{Build, Library, ToolkitVersion};

/// The options that all libraries have.
fn library(name: &str) -> Library {
    Library::new(name).flags([
        "-U__CUDA_NO_HALF_OPERATORS__",
        "-U__CUDA_NO_HALF_CONVERSIONS__",
        "-U__CUDA_NO_HALF2_OPERATORS__",
        "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
        "--default-stream=per-thread",
        "--expt-relaxed-constexpr",
        "--expt-extended-lambda",
        "--use_fast_math",
    ])
}

/// Sources that need 8.0.
const FROM_8_0: [&str; 5] = [
    "kernels/*/marlin_*.cu",
    "kernels/*/*_fp8*.cu",
    "kernels/*/*_wmma.cu",
    "kernels/cutlass_moe/moe_data.cu",
    "kernels/cutlass_moe/grouped_mm_*.cu",
];

fn main() -> Result<(), cuda_build::Error> {
    let mut build = Build::new()?;
    let mut general = library("mistralrsquant")
        .glob("kernels/*/*.cu")
        .exclude("kernels/*/*dummy*.cu");
    let mut from_8_0 = library("mistralrsquant80")
        .exclude("kernels/*/*dummy*.cu")
        .exclude("kernels/*/*_sm90.cu");
    for pattern in FROM_8_0 {
        general = general.exclude(pattern);
        from_8_0 = from_8_0.glob(pattern);
    }
    let for_9_0 = library("mistralrsquant90").glob("kernels/*/*_cutlass_sm90.cu");
    let deep_gemm = library("mistralrsdeepgemm")
        .file("third_party/deepgemm_sm90/mistralrs_deepgemm_sm90.cu")
        .define("MISTRALRS_DEEPGEMM_SOURCE_HASH", env!("CARGO_PKG_VERSION"))
        .include("third_party/deepgemm_sm90")
        .include("third_party/deepgemm_sm90/include");
    if build.is_skipped() || build.toolkit()?.version() >= ToolkitVersion::new(12, 8) {
        build = build.library(deep_gemm.capabilities(["9.0a"]));
    }
    build
        .library(general)
        .library(from_8_0.capabilities([">=8.0"]))
        .library(for_9_0.capabilities(["9.0a"]))
        .run()?;
    Ok(())
}
