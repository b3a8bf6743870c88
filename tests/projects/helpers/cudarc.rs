use cuda_find::{Component, Error, Kind, Search, Toolkit};

/// Finds the toolkit, with the components that a feature is named after if they are linked.
fn find(releases: &str) -> Result<Toolkit, Error> {
    let is_dynamic = cfg!(feature = "dynamic-linking");
    let mut search = Search::new().release(releases);
    for (feature, _) in std::env::vars().filter(|_| is_dynamic || cfg!(feature = "static-linking"))
    {
        let feature = feature
            .strip_prefix("CARGO_FEATURE_")
            .unwrap_or_default()
            .to_lowercase();
        let component = match feature.split('_').next().unwrap_or_default() {
            "driver" => "cuda-driver",
            "runtime" => "cudart",
            "cublaslt" => "cublas",
            "cusolvermg" => "cusolver",
            name => name,
        };
        search = match (Component::try_from(component), feature.as_str()) {
            (Ok(_), "cublaslt") if is_dynamic => search.need_library("cublasLt"),
            (Ok(_), "cusolvermg") => search.need_library("cusolverMg"),
            (Ok(component), "cufile") if is_dynamic => {
                search.need(component).need_library("cufile_rdma")
            }
            (Ok(component), _) if is_dynamic || component == Component::Driver => {
                search.need(component)
            }
            (Ok(component), _) => search.need_kind(component, Kind::Static),
            (Err(_), _) => search,
        };
    }
    search.find()
}

#[allow(unused)]
fn cuda_version_from_build_system() -> (usize, usize) {
    match find("*").map(|toolkit| toolkit.release()) {
        Ok(found) => {
            let mut supported = SUPPORTED_CUDA_VERSIONS.iter().map(|it| it.0);
            let fits = |&(major, minor): &(usize, usize)| {
                major == found.major as usize && minor <= found.minor as usize
            };
            supported
                .find(fits)
                .unwrap_or_else(|| panic!("Unsupported cuda toolkit version: `{found}`"))
        }
        Err(error) if cfg!(feature = "fallback-latest") => {
            println!(
                "cargo:warning=using the latest CUDA: {}",
                error.to_string().replace('\n', " ")
            );
            SUPPORTED_CUDA_VERSIONS[0].0
        }
        Err(error) => panic!("{error:?}"),
    }
}

#[allow(unused)]
fn dynamic_linking(major: usize, _: usize) {
    find(&major.to_string()).unwrap().print_cargo_directives();
}

#[allow(unused)]
fn link_searches(major: usize, _: usize) -> Vec<PathBuf> {
    find(&major.to_string()).unwrap().library_dirs()
}

fn product_version(component: &str, supported: &[((u32, u32), bool)]) -> (u32, u32) {
    let toolkit = Search::new().need_kind(component, Kind::Headers).find();
    let version = toolkit
        .as_ref()
        .ok()
        .and_then(|toolkit| toolkit.component(component).ok()?.version());
    let found = version.map(|version| (version.part(0) as u32, version.part(1) as u32));
    match found.filter(|found| supported.iter().any(|it| it.0 == *found)) {
        Some(found) => found,
        None if cfg!(feature = "fallback-latest") => supported[0].0,
        None => panic!("{component} {found:?} is not supported {:?}", toolkit.err()),
    }
}

#[allow(unused)]
fn nccl_version_from_build_system() -> (u32, u32) {
    product_version("nccl", SUPPORTED_NCCL_VERSIONS)
}

#[allow(unused)]
fn cudnn_version_from_build_system() -> (u32, u32) {
    product_version("cudnn", SUPPORTED_CUDNN_VERSIONS)
}

#[allow(unused)]
fn cutensor_version_from_build_system() -> (u32, u32) {
    product_version("cutensor", SUPPORTED_CUTENSOR_VERSIONS)
}
