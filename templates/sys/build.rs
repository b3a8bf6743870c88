fn main() -> Result<(), cuda_build::Error> {
    cuda_build::Build::new()?.run()?;
    Ok(())
}
