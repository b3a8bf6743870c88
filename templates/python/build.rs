fn main() -> Result<(), cuda_build::Error> {
    cuda_build::Build::new()?.module("kernels/axpy.cu").run()?;
    Ok(())
}
