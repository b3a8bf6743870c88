use cuda_build::{Build, Engine, Module};

fn main() -> Result<(), cuda_build::Error> {
    let engine = if cfg!(feature = "nvcc") {
        Engine::Nvcc
    } else {
        Engine::Nvrtc
    };
    Build::new()?
        .module(Module::new("kernels/reduce.cu").engine(engine))
        .run()?;
    Ok(())
}
