struct ResolvedToolkit {
    root: PathBuf,
    include_dir: PathBuf,
    found: cuda_find::Toolkit,
}

fn resolve_cuda_toolkit() -> Result<ResolvedToolkit, Box<dyn Error>> {
    let search = cuda_find::Search::new().release(">=13");
    let headers = cuda_find::Kind::Headers;
    let found = search
        .need_kind("cudart", headers)
        .need_kind("curand", headers)
        .find()?;
    found.print_cargo_directives();
    let include_dir = found.component("cudart")?.include_dirs()[0].clone();
    let root = include_dir.parent().unwrap().to_owned();
    Ok(ResolvedToolkit {
        root,
        include_dir,
        found,
    })
}

fn bindgen_builder(toolkit: &ResolvedToolkit) -> bindgen::Builder {
    let directories = toolkit.found.include_dirs();
    bindgen::builder()
        .clang_args(
            directories
                .iter()
                .map(|directory| format!("-I{}", directory.display())),
        )
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
}
