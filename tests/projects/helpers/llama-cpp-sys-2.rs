fn link_cuda() {
    let find = |kind| {
        let mut search = cuda_find::Search::new()
            .need_kind("cudart", kind)
            .need_kind("cublas", kind);
        if !cfg!(feature = "cuda-no-vmm") {
            search = search.need("cuda-driver");
        }
        search.find()
    };
    let is_windows = cfg!(target_os = "windows");
    let archives = (!is_windows)
        .then(|| find(cuda_find::Kind::Static).ok())
        .flatten();
    archives
        .unwrap_or_else(|| find(cuda_find::Kind::Shared).unwrap())
        .print_cargo_directives();
}
