use cuda_build::{Build, Library};

fn main() -> Result<(), cuda_build::Error> {
    let build = Build::new()?;
    let mut paged = Library::new("mistralrspagedattention")
        .glob("src/cuda/*.cu")
        .flags([
            "-U__CUDA_NO_HALF_OPERATORS__",
            "-U__CUDA_NO_HALF_CONVERSIONS__",
            "-U__CUDA_NO_HALF2_OPERATORS__",
            "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
            "--default-stream=per-thread",
            "--expt-relaxed-constexpr",
            "--expt-extended-lambda",
            "--use_fast_math",
        ]);
    if build
        .plan()?
        .lowest()
        .is_some_and(|lowest| lowest.major >= 8)
    {
        paged = paged.define("ENABLE_FP8", None);
    }
    let mut fa3 = Library::new("mistralrsfa3paged")
        .file("src/cuda/fa3/fa3_decode_api.cu")
        .glob("third_party/flash-attention/hopper/flash_*.cu")
        .glob("third_party/flash-attention/hopper/instantiations/*_paged_split_sm90.cu")
        .capabilities(["9.0a"])
        .jobs(1)
        .include("src/cuda/fa3")
        .include("third_party/flash-attention/hopper")
        .define("CUTLASS_DEBUG_TRACE_LEVEL", "0")
        .host_flag("-fvisibility=hidden")
        .flags([
            "--default-stream=per-thread",
            "--expt-relaxed-constexpr",
            "--expt-extended-lambda",
            "--use_fast_math",
            "-diag-suppress=20013",
        ]);
    for name in [
        "CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED",
        "CUTLASS_ENABLE_GDC_FOR_SM90",
        "NDEBUG",
        "FLASHATTENTION_DISABLE_BACKWARD",
        "FLASHATTENTION_DISABLE_CAUSAL",
        "FLASHATTENTION_DISABLE_CLUSTER",
        "FLASHATTENTION_DISABLE_SM8x",
        "FLASHATTENTION_DISABLE_LOCAL",
        "FLASHATTENTION_DISABLE_APPENDKV",
        "FLASHATTENTION_DISABLE_SOFTCAP",
        "FLASHATTENTION_PACKGQA_ONLY",
        "FLASHATTENTION_VARLEN_ONLY",
    ] {
        fa3 = fa3.define(name, None);
    }
    build.library(paged).library(fa3).run()?;
    Ok(())
}
