use cuda_build::{Build, Library};

fn main() -> Result<(), cuda_build::Error> {
    Build::new()?
        .library(Library::new("saxpy").file("kernels/saxpy.cu"))
        .run()?;
    Ok(())
}
