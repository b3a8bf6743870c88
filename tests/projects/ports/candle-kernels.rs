use cuda_build::{Build, Engine, Library, Module};

fn main() -> Result<(), cuda_build::Error> {
    let build = Build::new()?;
    let mut moe = Library::new("moe")
        .glob("src/moe/*.cu")
        .glob("src/mm*/*.cu")
        .glob("src/mm*.cu")
        .flags(["--default-stream=per-thread", "--expt-relaxed-constexpr"]);
    // WMMA with bf16 needs 8.0.
    if build
        .plan()?
        .lowest()
        .is_some_and(|lowest| lowest.major < 8)
    {
        moe = moe.define("NO_BF16_KERNEL", None);
    }
    let modules = Module::new("src/*.cu")
        .exclude("src/mm*.cu")
        .engine(Engine::Nvcc)
        .flag("--expt-relaxed-constexpr");
    build.modules(modules).library(moe).run()?;
    Ok(())
}
