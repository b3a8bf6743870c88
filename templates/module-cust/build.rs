fn main() -> Result<(), cuda_build::Error> {
    cuda_build::Build::new()?.module("kernels/saxpy.cu").run()?;
    Ok(())
}
