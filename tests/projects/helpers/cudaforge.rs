impl CudaToolkit {
    /// Auto-detect CUDA toolkit installation
    pub fn detect() -> Result<Self> {
        Self::found(cuda_find::Search::new())
    }

    /// Create toolkit from explicit nvcc path
    pub fn from_nvcc_path(nvcc_path: PathBuf) -> Result<Self> {
        let root = nvcc_path.parent().and_then(|bin| bin.parent());
        let root = root.ok_or_else(|| Error::CudaToolkitNotFound(nvcc_path.clone()))?;
        Self::found(cuda_find::Search::new().place(root))
    }

    fn found(search: cuda_find::Search) -> Result<Self> {
        let absent = |error: cuda_find::Error| Error::NvccNotFound(format!("{error:?}"));
        let toolkit = search
            .need("nvcc")
            .need("cudart")
            .without_linking()
            .find()
            .map_err(absent)?;
        toolkit.print_cargo_directives();
        let cudart = toolkit.component("cudart").map_err(absent)?;
        Ok(Self {
            nvcc_path: toolkit.nvcc().unwrap_or("nvcc".as_ref()).to_owned(),
            include_dir: cudart.include_dirs()[0].clone(),
            lib_dir: cudart.dirs(cuda_find::Kind::Shared).remove(0),
            version: Some(toolkit.release().to_string()),
            include_dirs: toolkit.include_dirs(),
        })
    }

    pub(crate) fn nvcc(&self) -> Command {
        let mut command = Command::new(&self.nvcc_path);
        command.args(
            self.include_dirs
                .iter()
                .map(|directory| format!("-I{}", directory.display())),
        );
        command
    }
}
