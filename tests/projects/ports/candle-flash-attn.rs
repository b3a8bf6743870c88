use cuda_build::{Build, Library};

fn main() -> Result<(), cuda_build::Error> {
    Build::new()?
        .library(
            Library::new("flashattention")
                .glob("kernels/*.cu")
                .capabilities([">=8.0"])
                .jobs(2)
                .flags([
                    "-U__CUDA_NO_HALF_OPERATORS__",
                    "-U__CUDA_NO_HALF_CONVERSIONS__",
                    "-U__CUDA_NO_HALF2_OPERATORS__",
                    "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
                    "--default-stream=per-thread",
                    "--expt-relaxed-constexpr",
                    "--expt-extended-lambda",
                    "--use_fast_math",
                ]),
        )
        .run()?;
    Ok(())
}
