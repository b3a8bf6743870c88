use cuda_build::{Build, Library};

fn main() -> Result<(), cuda_build::Error> {
    Build::new()?
        .library(
            Library::new("flashattentionv3")
                .file("hkernel/flash_api.cu")
                .glob("hkernel/flash_fwd_*_sm90.cu")
                .exclude("hkernel/*_e4m3_*.cu")
                .capabilities(["9.0a"])
                .jobs(2)
                .flags([
                    "-U__CUDA_NO_HALF_OPERATORS__",
                    "-U__CUDA_NO_HALF_CONVERSIONS__",
                    "-U__CUDA_NO_BFLOAT16_OPERATORS__",
                    "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
                    "-U__CUDA_NO_BFLOAT162_OPERATORS__",
                    "-U__CUDA_NO_BFLOAT162_CONVERSIONS__",
                    "--default-stream=per-thread",
                    "--expt-relaxed-constexpr",
                    "--expt-extended-lambda",
                    "--use_fast_math",
                    "--ptxas-options=--register-usage-level=10",
                ]),
        )
        .run()?;
    Ok(())
}
