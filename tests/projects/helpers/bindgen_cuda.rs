fn toolkit() -> &'static cuda_find::Toolkit {
    static TOOLKIT: std::sync::OnceLock<cuda_find::Toolkit> = std::sync::OnceLock::new();
    TOOLKIT.get_or_init(|| {
        let search = cuda_find::Search::new()
            .need("nvcc")
            .need_kind("cudart", cuda_find::Kind::Headers);
        let toolkit = search.find().unwrap_or_else(|error| panic!("{error:?}"));
        toolkit.print_cargo_directives();
        toolkit
    })
}

fn nvcc() -> std::process::Command {
    let mut command = std::process::Command::new(toolkit().nvcc().expect("nvcc was needed"));
    command.args(
        toolkit()
            .include_dirs()
            .iter()
            .map(|directory| format!("-I{}", directory.display())),
    );
    command
}

fn cuda_include_dir() -> Option<PathBuf> {
    if cfg!(feature = "ci-check") {
        return Some("ci".into());
    }
    let include = toolkit().component("cudart").ok()?.include_dirs().first()?;
    Some(include.parent()?.to_owned())
}

fn compute_cap() -> Result<usize, Error> {
    println!("cargo:rerun-if-env-changed=CUDA_COMPUTE_CAP");
    let cap = std::env::var("CUDA_COMPUTE_CAP").unwrap_or_else(|_| {
        let mut query = std::process::Command::new("nvidia-smi");
        let output = query
            .args(["--query-gpu=compute_cap", "--format=csv,noheader"])
            .output();
        let output = output
            .expect("`nvidia-smi` failed: set CUDA_COMPUTE_CAP")
            .stdout;
        String::from_utf8_lossy(&output)
            .lines()
            .next()
            .expect("a GPU")
            .replace('.', "")
    });
    println!("cargo:rustc-env=CUDA_COMPUTE_CAP={cap}");
    toolkit()
        .capabilities(&cap)
        .unwrap_or_else(|error| panic!("{error:?}"));
    Ok(cap.parse().expect("CUDA_COMPUTE_CAP is a number"))
}
