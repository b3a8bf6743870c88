//! The sources of the search: each proposes candidates, in the order of the search, without reading them.
//!
//! 1. explicit: the API, `CUDA_BUILD_ROOTS`
//! 2. variables: `NVCC`, `CUDACXX`, `CUDA_HOME`, `CUDA_PATH` …, and those of single products, such as `CUDNN_PATH`
//! 3. in a workspace with `cuda-toolkits.lock`: the locked toolkit
//! 4. the active environment: `VIRTUAL_ENV`, `CONDA_PREFIX`, a Nix shell, Spack, the HPC SDK's module
//! 5. toolkits that `cargo cuda toolkit add` fetched
//! 6. nvcc on `PATH`
//! 7. default locations: `/usr/local/cuda`, then `/usr/local/cuda-<version>`, newest first, then the distribution's
//!    packages, then the HPC SDK
//! 8. site-packages of the Python on `PATH`
//!
//! On Windows, step 4 has `VIRTUAL_ENV` and `CONDA_PREFIX`, and steps 6 and 7 are what NVIDIA's installer made.
//!
//! Several roots are one candidate if they belong together: redist archives side by side, the outputs of a Nix shell,
//! or the directories that one variable lists.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::candidate::{Candidate, CandidateKind, SearchStep, variable_label};
use super::places::{
    archives_in, associated_roots, has_cuda, looks_like_root, on_path, site_packages_of,
    split_list, versions,
};
use super::stored::{LockedToolkit, StoredToolkits};
use crate::component::Component;
use crate::env::Env;
use crate::error::Error;
use crate::list::{joined, sort_by_key};
use crate::root::Root;
use crate::target::Target;

/// Variables that name the compiler. The root is two levels above the compiler.
const COMPILERS: [&str; 2] = ["NVCC", "CUDACXX"];

/// Variables that name a root, or a list of roots.
const ROOTS: [&str; 6] = [
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDAToolkit_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
    "CUDA_TOOLKIT_PATH",
];

/// A variable and the paths in it.
type Named = (&'static str, Vec<PathBuf>);

/// What the sources propose: candidates, locked toolkits, and remarks to report.
#[derive(Default)]
pub struct Proposals {
    /// In the order of the search.
    pub candidates: Vec<Candidate>,
    /// Reasons that some places are not among the candidates.
    pub remarks: Vec<String>,
    /// One sentence for each variable that contradicts the first.
    pub disagreements: Vec<String>,
    /// The toolkits of the lock file, newest first.
    pub locked: Vec<LockedToolkit>,
}

/// Proposes every place in the order of the search. The places in `arguments` come first.
///
/// # Errors
/// [`Error::Variable`] if `CUDA_BUILD_SOURCES` names an unknown step, [`Error::Format`] if the lock file is invalid.
pub fn candidates(
    root: &Root,
    env: &Env,
    target: &Target,
    arguments: &[PathBuf],
) -> Result<Proposals, Error> {
    let listed = listed_steps(env)?;
    let is_listed = |step| listed.is_empty() || listed.contains(&step);
    let mut steps = Steps {
        root,
        env,
        found: Proposals::default(),
    };
    steps.named(SearchStep::Argument, "argument", arguments);
    if let Some(list) = env.get("CUDA_BUILD_ROOTS") {
        let label = variable_label("CUDA_BUILD_ROOTS");
        steps.named(SearchStep::Roots, &label, &split_list(list));
    }
    steps.variables(target);
    let reads_store = is_listed(SearchStep::Locked) || is_listed(SearchStep::Stored);
    let stored = reads_store.then(|| StoredToolkits::read(root, env, target));
    if let Some(stored) = stored.as_ref().filter(|_| is_listed(SearchStep::Locked)) {
        let (locked, candidates) = stored.locked(root, env)?;
        steps.found.locked = locked;
        steps.found.candidates.extend(candidates);
    }
    steps.virtual_environment();
    steps.conda();
    if !target.is_windows() {
        steps.nix();
        steps.spack();
        steps.active_hpc_sdk();
    }
    if let Some(stored) = stored {
        steps.found.candidates.extend(stored.candidates());
        steps.found.remarks.extend(stored.unusable);
    }
    // On Windows, every user can create `C:\usr`, so nothing of it is searched.
    if target.is_windows() {
        steps.installed_on_windows();
    } else {
        steps.nvcc_on_path();
        steps.installed();
        steps.distribution();
        steps.default_hpc_sdk(target);
    }
    steps.python_on_path(target);
    let mut found = steps.found;
    (found.candidates).retain(|candidate| is_listed(candidate.step));
    if !is_listed(SearchStep::Variable) {
        found.disagreements.clear();
    }
    drop_duplicates(root, &mut found.candidates);
    Ok(found)
}

/// The steps of the search, each of which adds its candidates.
struct Steps<'s> {
    root: &'s Root,
    env: &'s Env,
    found: Proposals,
}

impl Steps<'_> {
    fn propose(&mut self, candidates: impl IntoIterator<Item = Candidate>) {
        self.found.candidates.extend(candidates);
    }

    fn scattered(&mut self, step: SearchStep, label: &str, roots: Vec<PathBuf>) {
        self.propose(Candidate::scattered(self.root, step, label, roots));
    }

    fn site_packages(&mut self, step: SearchStep, label: &str, packages: Vec<PathBuf>) {
        let candidate = |path| Candidate::new(step, label, path, CandidateKind::SitePackages);
        self.propose(packages.into_iter().map(candidate));
    }

    fn named(&mut self, step: SearchStep, label: &str, paths: &[PathBuf]) {
        self.propose(named(self.root, step, label, paths));
    }

    fn variables(&mut self, target: &Target) {
        let (root, env) = (self.root, self.env);
        let mut roots: Vec<Named> = Vec::new();
        // On Windows, nvcc is not used.
        for variable in COMPILERS.into_iter().filter(|_| !target.is_windows()) {
            if let Some(value) = env.get(variable) {
                let nvcc = compiler(root, env, Path::new(value));
                let path = root_of(&nvcc);
                self.propose(of_compiler(root, variable, &path, &nvcc));
                roots.push((variable, vec![path]));
            }
        }
        for variable in ROOTS {
            if let Some(value) = env.get(variable) {
                let paths = split_list(value);
                self.named(SearchStep::Variable, &variable_label(variable), &paths);
                roots.push((variable, paths));
            }
        }
        for variable in Component::all().flat_map(|component| component.facts().variables) {
            if let Some(path) = env.path(variable) {
                self.named(SearchStep::Product, &variable_label(variable), &[path]);
            }
        }
        self.found.disagreements = disagreements(root, &roots);
    }

    fn virtual_environment(&mut self) {
        let Some(prefix) = self.env.path("VIRTUAL_ENV") else {
            return;
        };
        let mut packages = site_packages_of(self.root, &prefix);
        if packages.is_empty() {
            // The prefix does not exist or has no site-packages. It is proposed itself, so that it is reported.
            packages.push(prefix);
        }
        let label = "virtual environment of `VIRTUAL_ENV`";
        self.site_packages(SearchStep::Environment, label, packages);
    }

    /// The prefix of the active conda environment, and the site-packages below it that contain CUDA wheels.
    ///
    /// conda-forge installs CUDA's headers and libraries in `targets/<platform>`. It also links the libraries into
    /// `lib`, beside every other library of the environment.
    fn conda(&mut self) {
        // conda-build has two environments: `PREFIX` has the libraries to link, and `BUILD_PREFIX` has the compilers.
        let mut label = "conda environment (`CONDA_PREFIX`)";
        let mut variables = vec!["CONDA_PREFIX"];
        if self.env.get("CONDA_BUILD").is_some() {
            label = "conda-build (`PREFIX`, `BUILD_PREFIX`)";
            variables = vec!["PREFIX", "BUILD_PREFIX"];
        }
        let prefixes = variables.iter().filter_map(|name| self.env.path(name));
        let prefixes: Vec<PathBuf> = prefixes.collect();
        let mut packages = Vec::new();
        for prefix in &prefixes {
            packages.extend(site_packages_of(self.root, prefix));
        }
        packages.retain(|path| has_cuda(self.root, path));
        // On Windows, compiled packages are below `Library`.
        let library = prefixes.iter().map(|prefix| prefix.join("Library"));
        let library: Vec<PathBuf> = library.filter(|path| self.root.is_dir(path)).collect();
        let prefixes = prefixes.into_iter().chain(library).collect();
        self.scattered(SearchStep::Conda, label, prefixes);
        self.site_packages(SearchStep::Conda, label, packages);
    }

    /// The CUDA packages of a Nix development shell, where each output of each component has a Nix store path of its
    /// own. nixpkgs sets `CUDAToolkit_ROOT` only while a derivation is built. In a shell, `NIX_CFLAGS_COMPILE` and
    /// `NIX_LDFLAGS` list the outputs, and nvcc is on `PATH`.
    fn nix(&mut self) {
        let mut outputs: Vec<PathBuf> = Vec::new();
        for variable in ["NIX_CFLAGS_COMPILE", "NIX_LDFLAGS"] {
            let flags = self.env.text(variable).unwrap_or_default();
            for word in flags.split_whitespace() {
                let directory = word.trim_start_matches("-L").trim_start_matches("-I");
                // The output is the parent directory: `/nix/store/…-cuda_cudart-12.8.90-dev` of
                // `/nix/store/…-cuda_cudart-12.8.90-dev/include`.
                let output = Path::new(directory).parent();
                let is_used =
                    |it: &&Path| it.is_absolute() && is_nix_cuda(it) && self.root.is_dir(it);
                outputs.extend(output.filter(is_used).map(Path::to_owned));
            }
        }
        if !outputs.is_empty() {
            let nvcc = on_path(self.root, self.env, &[Path::new("nvcc")]);
            let prefix = nvcc.as_deref().and_then(|nvcc| nvcc.parent()?.parent());
            outputs.extend(prefix.map(Path::to_owned));
        }
        let label = "Nix shell (`NIX_CFLAGS_COMPILE`, `NIX_LDFLAGS`)";
        self.scattered(SearchStep::Nix, label, outputs);
    }

    /// The view of an active Spack environment, and the prefixes that `spack load` lists.
    fn spack(&mut self) {
        let environment = self.env.path("SPACK_ENV");
        let mut prefixes = Vec::from_iter(environment.map(|path| path.join(".spack-env/view")));
        // `spack load` sets `SPACK_LOADED_HASHES`, and adds the prefixes of the loaded packages to `CMAKE_PREFIX_PATH`.
        if self.env.get("SPACK_LOADED_HASHES").is_some() {
            let loaded = split_list(self.env.get("CMAKE_PREFIX_PATH").unwrap_or_default());
            prefixes.extend(loaded.into_iter().filter(|path| is_spack_cuda(path)));
        }
        // Prefixes that do not exist are kept, so that they are reported. They come last.
        sort_by_key(&mut prefixes, |path| !self.root.is_dir(path));
        self.scattered(SearchStep::Spack, "Spack", prefixes);
    }

    /// NVIDIA's HPC SDK whose environment module is loaded.
    fn active_hpc_sdk(&mut self) {
        if let Some(home) = self.env.path("NVHPC_CUDA_HOME") {
            let label = "HPC SDK (`NVHPC_CUDA_HOME`)";
            self.scattered(SearchStep::HpcSdk, label, vec![home]);
        } else if let Some(sdk) = self.env.path("NVHPC_ROOT") {
            self.hpc_sdk("HPC SDK (`NVHPC_ROOT`)", sdk);
        }
    }

    /// The newest HPC SDK in the default location.
    fn default_hpc_sdk(&mut self, target: &Target) {
        let platform = format!("/opt/nvidia/hpc_sdk/Linux_{}", target.architecture());
        let mut sdks = versions(self.root, &self.root.locate(&platform), "").into_iter();
        if let Some(newest) = sdks.next() {
            self.hpc_sdk("HPC SDK", newest);
        }
    }

    /// One candidate for each CUDA release in an SDK. An SDK without a CUDA release is itself a candidate, so that the
    /// report names it.
    fn hpc_sdk(&mut self, label: &str, sdk: PathBuf) {
        let mut releases = versions(self.root, &sdk.join("cuda"), "");
        if releases.is_empty() {
            releases.push(sdk);
        }
        for cuda in releases {
            self.scattered(SearchStep::HpcSdk, label, vec![cuda]);
        }
    }

    fn nvcc_on_path(&mut self) {
        let Some(nvcc) = on_path(self.root, self.env, &[Path::new("nvcc")]) else {
            return;
        };
        let program = program(self.root, nvcc);
        let roots = Vec::from_iter(program.ancestors().nth(2).map(Path::to_owned));
        let (step, nvcc) = (SearchStep::SearchPath, Some(program));
        let place = Candidate::scattered(self.root, step, "nvcc on `PATH`", roots);
        self.propose(place.map(|place| Candidate { nvcc, ..place }));
    }

    /// `/usr/local/cuda`, then versioned directories beside it, newest first.
    fn installed(&mut self) {
        let root = self.root;
        let label = "default location";
        let link = root.locate("/usr/local/cuda");
        // A broken link, which removing a toolkit may leave behind, is proposed too, so that it is reported.
        if root.is_dir(&link) || root.is_link(&link) {
            self.propose([Candidate::root(SearchStep::DefaultPlace, label, &link)]);
        }
        for path in versions(root, &root.locate("/usr/local"), "cuda-") {
            self.propose([Candidate::root(SearchStep::VersionedPlace, label, path)]);
        }
    }

    /// What NVIDIA's installer for Windows made: directories below `Program Files`, newest first, and elsewhere those
    /// of the variables that it sets for each release. `CUDA_PATH` names the release that was installed last.
    fn installed_on_windows(&mut self) {
        let (root, env) = (self.root, self.env);
        let programs = env.path("ProgramFiles").unwrap_or_default();
        let default = programs.join("NVIDIA GPU Computing Toolkit/CUDA");
        let mut paths = versions(root, &default, "v");
        let names = env.variables().filter_map(|(name, _)| name.to_str());
        let names = names.filter(|name| name.starts_with("CUDA_PATH_V"));
        paths.extend(names.filter_map(|name| env.path(name)));
        for path in paths {
            self.scattered(SearchStep::VersionedPlace, "NVIDIA's installer", vec![path]);
        }
    }

    /// Where distributions put CUDA: `/opt/cuda` (Arch), `/usr` (Debian, Fedora).
    fn distribution(&mut self) {
        let root = self.root;
        let label = "distribution's CUDA";
        let opt = root.locate("/opt/cuda");
        if root.is_dir(&opt) {
            // Arch has a package of its own for CCCL.
            let mut roots = vec![opt, root.locate("/usr/include/cccl")];
            roots.retain(|path| root.is_dir(path));
            self.scattered(SearchStep::System, label, roots);
        }
        // `/usr` is a toolkit's root only if a compiler or CUDA's main header is in it.
        let signs = [
            "/usr/bin/nvcc",
            "/usr/lib/nvidia-cuda-toolkit/bin/nvcc",
            "/usr/include/cuda.h",
            "/usr/include/cuda/cuda.h",
        ];
        let usr = root.locate("/usr");
        let is_toolkit = signs.iter().any(|file| root.is_file(&root.locate(file)));
        self.found.candidates.push(if is_toolkit {
            Candidate::root(SearchStep::System, label, usr)
        } else {
            // The search reads it only if a product is requested and `holds_product` is true.
            let (step, kind) = (SearchStep::System, CandidateKind::SystemProducts);
            Candidate::new(step, "system directories", usr, kind)
        });
    }

    /// The site-packages of the Python on `PATH`. They are in the prefix two levels above the program, in `/usr/local`
    /// if the prefix is `/usr`, or in the user's `~/.local`. In a virtual environment, `python3` is a link to a program
    /// in another prefix, so the prefix of the link is tried first, then the prefix of the program.
    fn python_on_path(&mut self, target: &Target) {
        let root = self.root;
        // WSL has Windows' directories on `PATH`.
        let names = if target.is_windows() {
            ["python.exe"; 2]
        } else {
            ["python3", "python"]
        };
        let Some(python) = on_path(root, self.env, &names.map(Path::new)) else {
            return;
        };
        let mut packages: Vec<PathBuf> = Vec::new();
        for program in [python.clone(), root.resolve(&python)] {
            // On Windows, only a virtual environment has a directory for programs.
            for prefix in program.ancestors().skip(1).take(2) {
                packages.extend(site_packages_of(root, prefix));
                // pip installs into `/usr/local` for the Python of Debian and Ubuntu.
                if prefix.ends_with("usr") {
                    packages.extend(site_packages_of(root, &prefix.join("local")));
                }
            }
        }
        let label = "site-packages of the Python on `PATH`";
        if let Some(home) = self.env.path("HOME") {
            packages.extend(site_packages_of(root, &home.join(".local")));
        }
        // Site-packages without a CUDA wheel are not proposed, so they are not reported.
        packages.retain(|path| has_cuda(root, path));
        self.site_packages(SearchStep::Python, label, packages);
    }
}

/// Drops each candidate whose place was proposed before. For example, `CUDA_HOME` and `CUDA_PATH` may name the same
/// root, and the nvcc on `PATH` may be that of the active environment.
fn drop_duplicates(root: &Root, candidates: &mut Vec<Candidate>) {
    let mut proposed = Vec::new();
    candidates.retain(|candidate| {
        // Candidates of different kinds are no duplicates. For example, only products are taken from the place that a
        // product's variable names, but another step may propose this place for its toolkit.
        let kind = [
            candidate.kind == CandidateKind::SitePackages,
            candidate.step == SearchStep::Product,
        ];
        let place = root.place(&candidate.path);
        let proposal = (place, candidate.more_roots.clone(), kind);
        // Two named compilers of one root are both kept, because one of them may be broken.
        let nvcc = candidate.named_nvcc().map(|nvcc| root.place(nvcc));
        let is_new = !proposed.iter().any(|(earlier, nvcc_of_earlier)| {
            *earlier == proposal && (nvcc.is_none() || *nvcc_of_earlier == nvcc)
        });
        proposed.push((proposal, nvcc));
        is_new
    });
}

/// The steps that `CUDA_BUILD_SOURCES` lists, with those that are never left out: arguments, `CUDA_BUILD_ROOTS` and the
/// variables of products. Empty if the variable is not set.
fn listed_steps(env: &Env) -> Result<Vec<SearchStep>, Error> {
    let Some(text) = env.text("CUDA_BUILD_SOURCES") else {
        return Ok(Vec::new());
    };
    let mut listed = vec![SearchStep::Argument, SearchStep::Roots, SearchStep::Product];
    for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
        let step = SearchStep::ALL.iter().find(|(_, id)| *id == name);
        let (step, _) = step.ok_or_else(|| {
            let known = SearchStep::ALL.map(|(_, id)| id).join(", ");
            let reason = format!("`{name}` is not a step of the search; known: {known}");
            Error::variable("CUDA_BUILD_SOURCES", reason)
        })?;
        listed.push(*step);
    }
    Ok(listed)
}

/// The candidates for directories that the user named: roots, virtual environments, site-packages, directories of
/// archives. All roots of a list are one candidate, because nixpkgs lists each output of each component as a root.
fn named(root: &Root, step: SearchStep, label: &str, paths: &[PathBuf]) -> Vec<Candidate> {
    let mut proposed = Vec::new();
    let mut roots = Vec::new();
    for path in paths {
        // A path that does not exist or is relative cannot be used. It becomes a candidate of its own, so that it is
        // reported.
        if !root.is_dir(path) || (path.is_relative() && step != SearchStep::Argument) {
            proposed.push(Candidate::root(step, label, path));
            continue;
        }
        let mut packages = site_packages_of(root, path);
        packages.insert(0, path.clone());
        packages.retain(|path| has_cuda(root, path));
        let archives = archives_in(root, path);
        if looks_like_root(root, path) || (packages.is_empty() && archives.is_empty()) {
            roots.push(path.clone());
        }
        roots.extend(archives);
        for path in packages {
            let kind = CandidateKind::SitePackages;
            proposed.push(Candidate::new(step, label, path, kind));
        }
    }
    // Roots come first, then the site-packages with further components.
    let scattered = Candidate::scattered(root, step, label, roots);
    scattered.into_iter().chain(proposed).collect()
}

/// Candidates for a compiler that a variable names: its root `path`, and site-packages below `path`.
/// Redist archives below `path` are not proposed.
fn of_compiler(root: &Root, variable: &str, path: &Path, nvcc: &Path) -> Vec<Candidate> {
    let (step, label) = (SearchStep::Variable, variable_label(variable));
    let mut candidates = named(root, step, &label, &[path.to_owned()]);
    candidates.retain(|candidate| candidate.kind == CandidateKind::SitePackages);
    let nvcc = Some(nvcc.to_owned());
    let compiler = Candidate::root(step, label, path);
    candidates.insert(0, Candidate { nvcc, ..compiler });
    candidates
}

/// The directory above a program's `bin` directory. A relative path is returned unchanged.
fn root_of(program: &Path) -> PathBuf {
    let above = if program.is_absolute() {
        program.ancestors().nth(2)
    } else {
        None
    };
    above.unwrap_or(program).to_owned()
}

/// The path of a compiler. A bare name is looked up on `PATH`, as in a shell and in CMake; if it is
/// not found there, it is returned unchanged.
fn compiler(root: &Root, env: &Env, value: &Path) -> PathBuf {
    if value.is_absolute() {
        return program(root, value.to_owned());
    }
    let nvcc = Some(value).filter(|name| name.iter().count() == 1);
    match nvcc.and_then(|name| on_path(root, env, &[name])) {
        Some(nvcc) if nvcc.is_absolute() => program(root, nvcc),
        found => found.unwrap_or_else(|| value.to_owned()),
    }
}

/// The path by which to start nvcc. The caller derives the root from this path.
///
/// nvcc looks for `nvcc.profile` beside argv\[0\] and does not follow links. If the profile is there, as
/// in a `bin` directory of links, the path is used unchanged. Otherwise the path may be a single link
/// to an nvcc elsewhere, so links are resolved.
fn program(root: &Root, nvcc: PathBuf) -> PathBuf {
    let has_profile = |program: &Path| root.is_file(&program.with_file_name("nvcc.profile"));
    if has_profile(&nvcc) {
        return nvcc;
    }
    let real = root.resolve(&nvcc);
    // A link to a program with another name, such as ccache, is a wrapper. A wrapper is started by the link.
    if real.ends_with("nvcc") || has_profile(&real) {
        real
    } else {
        nvcc
    }
}

/// Compares each variable with the first in `named`, and returns a sentence for each that disagrees. A
/// variable may list several paths; two variables agree if they have one place in common.
fn disagreements(root: &Root, named: &[Named]) -> Vec<String> {
    let places = |paths: &[PathBuf]| -> Vec<OsString> {
        let beside = paths.iter().flat_map(|path| associated_roots(root, path));
        let all = paths.iter().cloned().chain(beside);
        all.map(|path| root.place(&path)).collect()
    };
    let shown = |(variable, paths): &Named| {
        let paths = joined(paths.iter().map(|path| path.display()), ", ");
        format!("`{variable}` ({paths})")
    };
    let mut named = named.iter().filter(|(_, paths)| !paths.is_empty());
    let Some(first) = named.next() else {
        return Vec::new();
    };
    let places_of_first = places(&first.1);
    let differs = |(_, paths): &&Named| {
        let mut places = places(paths).into_iter();
        !places.any(|place| places_of_first.contains(&place))
    };
    let sentence = |other: &Named| {
        let (variable, first, other) = (first.0, shown(first), shown(other));
        format!(
            "{first} and {other} name different places; `{variable}` takes precedence, and the other is used only for \
             components missing there"
        )
    };
    named.filter(differs).map(sentence).collect()
}

/// Whether a Nix store path is an output of a CUDA component. A shell lists many other store paths.
fn is_nix_cuda(output: &Path) -> bool {
    let name = output.file_name().and_then(|name| name.to_str());
    let Some((_hash, name)) = name.and_then(|name| name.split_once('-')) else {
        return false;
    };
    let facts = Component::all().map(Component::facts);
    let mut known_names = facts.flat_map(|facts| facts.redist.iter().chain(facts.nix));
    // A name is `cuda_cudart-13.0.96`, or `cuda13.0-cudnn-9.12.0` in newer nixpkgs.
    name.starts_with("cuda") || known_names.any(|known| name.starts_with(known))
}

/// Whether a prefix belongs to a Spack package with a CUDA component: `…/cuda-12.4.0-<hash>`, or `…/cuda/12.4.0` if
/// Spack is configured to use `{name}/{version}`.
fn is_spack_cuda(prefix: &Path) -> bool {
    let last = prefix.iter().rev().take(2).filter_map(|part| part.to_str());
    let mut packages = Component::all().flat_map(|component| component.facts().spack);
    packages.any(|package| {
        let mut rests = last.clone().filter_map(|name| name.strip_prefix(package));
        rests.any(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}
