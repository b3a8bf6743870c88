//! Everything about one build that is decided before cargo starts: toolkit, capabilities, view,
//! variables, and which of Cargo's directories the build belongs in.
//!
//! Two kinds of builds:
//!
//! - **Shared** with plain `cargo`: all that needs CUDA are build scripts of the workspace itself
//!   that use cuda-build, and the command line asks for nothing else than the manifest does. The
//!   scripts find the toolkit in a file (`cuda_build::toolkit_file`) that both declare, no
//!   variable differs, and neither undoes the other's work.
//! - **Apart**: some package looks for CUDA by itself, or the command line asks for another major
//!   or other capabilities. Scripts that do not tell Cargo what they read never run again, so
//!   every environment has a build directory of its own; the final files still go to `target`.

use std::ffi::OsString;
use std::path::PathBuf;

use cuda_build::capability::Single;
use cuda_build::component::Bundle;
use cuda_build::{
    Capability, Component, Declared, Env, Plan, Root, Target, Toolkit, View, ViewPlace, driver,
};
use sha2::{Digest as _, Sha256};

use crate::environment::{self, Environment, Inputs, Setting};
use crate::failure::Failure;
use crate::graph::Graph;
use crate::output;
use crate::rustflags::{self, Addition, Configured};
use crate::toolkits::{self, Finder, Wish};
use crate::workspace::Workspace;

/// What the command line asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `--major 13`
    pub major: Option<u32>,
    /// `--capabilities 8.0,9.0`
    pub capabilities: Option<String>,
    /// `--fetch`
    pub fetch: bool,
}

/// A toolkit for a workspace, or for none.
#[derive(Debug)]
pub struct Session<'a> {
    env: &'a Env,
    root: &'a Root,
    workspace: Option<&'a Workspace>,
    target: Target,
    asked: Asked,
    /// The toolkit that was found.
    pub toolkit: Toolkit,
}

/// A build that has its own directory, with all variables.
#[derive(Debug)]
pub struct Apart {
    /// The variables.
    pub environment: Environment,
    /// Cargo's build directory; `None` outside a workspace.
    pub directory: Option<PathBuf>,
    /// The search directories for rustc.
    pub rustflags: Addition,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl<'a> Session<'a> {
    /// Finds the toolkit.
    ///
    /// # Errors
    /// Where none is found, or it can't do what the command line asks for.
    pub fn find(
        env: &'a Env,
        root: &'a Root,
        workspace: Option<&'a Workspace>,
        triple: Option<&str>,
        asked: Asked,
    ) -> Result<Self, Failure> {
        let jetson = workspace.iter().flat_map(|w| &w.packages).any(|p| p.config.jetson);
        let target = toolkits::target(triple, jetson)?;
        let finder = Finder { env, root, target: target.clone(), workspace };
        let toolkit = finder.find(&Wish { major: asked.major, fetch: asked.fetch, ..Wish::default() })?;
        let session = Self { env, root, workspace, target, asked, toolkit };
        if let Some(list) = &session.asked.capabilities {
            // It is for every package alike: no reason to let the first build script find out.
            let declared = Declared::parse([list])?;
            if !declared.asks_for_gpu() {
                declared.plan(
                    session.toolkit.version(),
                    &[],
                    session.toolkit.observed_capabilities().as_deref(),
                )?;
            }
        }
        Ok(session)
    }

    /// The platform.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the build can share a directory with plain `cargo`.
    #[must_use]
    pub fn is_shared(&self, graph: &Graph) -> bool {
        // In a shell that was given variables, they are there for every script to see.
        let plain = self.env.peek(OWN).is_none();
        plain && graph.others.is_empty() && self.asked.major.is_none() && self.asked.capabilities.is_none()
    }

    /// Makes the workspace's file remember the toolkit.
    ///
    /// # Errors
    /// Where the file can't be written.
    pub fn remember(&self, workspace: &Workspace) -> Result<(), Failure> {
        let finder =
            Finder { env: self.env, root: self.root, target: self.target.clone(), workspace: self.workspace };
        toolkits::remember(&finder, &self.toolkit, workspace)
    }

    /// The toolkit as one root.
    ///
    /// # Errors
    /// Where it can't be made.
    pub fn view(&self) -> Result<View, Failure> {
        let place = match self.workspace {
            Some(workspace) => ViewPlace::below(&toolkits::views(&workspace.build_directory), &self.target),
            None => ViewPlace::from_env(self.env, &self.target)?,
        };
        // Crates that link static libraries find them where there are any; a link costs nothing.
        Ok(self.toolkit.view(&place.archives(true))?)
    }

    /// Variables and directory of a build apart.
    ///
    /// # Errors
    /// Capabilities that the toolkit can't build; a view that can't be made.
    pub fn apart(&self, graph: &Graph) -> Result<Apart, Failure> {
        let mut notes = Vec::new();
        let view = self.view()?;
        let gpus = driver::driver().map(|driver| driver.gpus).unwrap_or_default();
        let plan = self.plan(&gpus, graph, &mut notes)?;
        let single = self.single(plan.as_ref(), &gpus, graph, &mut notes)?;
        let version = self.toolkit.version();
        let cudarc = graph.cudarc.as_ref().and_then(|known| environment::cudarc_version(known, version));
        if let (Some(told), None) = (cudarc, self.env.peek("CUDARC_CUDA_VERSION"))
            && told != version.cuda_version()
        {
            notes.push(format!(
                "note: the cudarc in Cargo.lock knows no CUDA {version}; it is told \
                 CUDARC_CUDA_VERSION={told}, the newest that it knows"
            ));
        }
        let driver = self.driver_directory();
        let inputs = Inputs {
            view: &view,
            version,
            plan: plan.as_ref(),
            single: single.as_ref(),
            cudarc,
            native: self.is_configured_native().then(|| self.target.triple()),
            driver: driver.as_deref(),
            libraries: &[view.lib()],
        };
        let environment = Environment::new(&inputs, self.env);
        notes.extend(environment.conflicts());
        if let Some(name) = Environment::overridden_by_toolchain_file(self.env, self.target.triple()) {
            notes.push(format!(
                "note: {name} is set, which CMAKE_TOOLCHAIN_FILE would take the effect from: it is not set, and \
                 CMake may find libraries of another CUDA; `cmake -C {}` does not",
                view.cmake_cache().display()
            ));
        }
        let rustflags = self.rustflags(&view);
        if let Addition::Nowhere(reason) = &rustflags {
            notes.push(format!("note: {reason}"));
        }
        let directory = self.workspace.map(|workspace| self.directory(workspace, &environment, &view));
        Ok(Apart { environment, directory, rustflags, notes })
    }

    /// What the compile of CUDA code by others is for.
    fn plan(
        &self,
        gpus: &[Capability],
        graph: &Graph,
        notes: &mut Vec<String>,
    ) -> Result<Option<Plan>, Failure> {
        let version = self.toolkit.version();
        let mut items: Vec<String> = self.asked.capabilities.iter().cloned().collect();
        if items.is_empty() {
            let packages = self.workspace.iter().flat_map(|workspace| &workspace.packages);
            for list in packages.filter_map(|package| package.config.for_major(version.major).capabilities) {
                items.extend(list.iter().cloned());
            }
        }
        let declared = if !items.is_empty() {
            Declared::parse(&items)?
        } else if !gpus.is_empty() {
            notes.push(
                "note: no capabilities are declared; built for the GPU of this machine alone".to_owned(),
            );
            Declared::native()
        } else {
            if graph.others.iter().any(|other| other.takes_one) {
                notes.push(format!(
                    "note: no capabilities are declared and there is no GPU here: {} may fail or choose by \
                     itself; `--capabilities 8.0` tells, or `capabilities` in [package.metadata.cuda]",
                    Self::takers(graph)
                ));
            }
            return Ok(None);
        };
        Ok(Some(declared.plan(version, gpus, self.toolkit.observed_capabilities().as_deref())?))
    }

    fn single(
        &self,
        plan: Option<&Plan>,
        gpus: &[Capability],
        graph: &Graph,
        notes: &mut Vec<String>,
    ) -> Result<Option<Single>, Failure> {
        let Some(plan) = plan else { return Ok(None) };
        let mut packages = self.workspace.iter().flat_map(|workspace| &workspace.packages);
        if let Some(text) = packages.find_map(|package| package.config.single_capability.as_ref()) {
            let only = Declared::parse([text])?.plan(
                self.toolkit.version(),
                gpus,
                self.toolkit.observed_capabilities().as_deref(),
            )?;
            return Ok(only.single_for(None));
        }
        let single = plan.single_for(gpus.first().copied());
        if graph.others.iter().any(|other| other.takes_one)
            && self.env.peek("CUDA_COMPUTE_CAP").is_none()
            && let Some(warning) = single.as_ref().and_then(|single| single.warning(&Self::takers(graph)))
        {
            notes.push(format!("warning: {warning}"));
        }
        Ok(single)
    }

    fn takers(graph: &Graph) -> String {
        let names: Vec<&str> =
            graph.others.iter().filter(|o| o.takes_one).map(|other| other.name.as_str()).collect();
        format!("CUDA_COMPUTE_CAP (read by {})", names.join(", "))
    }

    /// Where the driver's own library can be linked with.
    fn driver_directory(&self) -> Option<PathBuf> {
        let multiarch = format!("/usr/lib/{}", self.target.multiarch());
        let places =
            [multiarch.as_str(), "/usr/lib64", "/usr/lib", "/run/opengl-driver/lib", "/usr/lib/wsl/lib"];
        let mut places = places.into_iter().filter(|_| self.is_native()).map(|place| self.root.locate(place));
        places.find(|place| self.root.is_file(&place.join("libcuda.so")))
    }

    fn is_native(&self) -> bool {
        self.target.triple().starts_with(std::env::consts::ARCH)
    }

    /// Whether CMake, left alone, chooses the compilers that the build's other C code gets.
    fn is_configured_native(&self) -> bool {
        let triple = self.target.triple();
        let own = self.env.peek("CARGO_BUILD_TARGET").is_none_or(|own| own == triple);
        own && self.is_native() && triple.ends_with("-gnu") && !self.configured().compilers
    }

    fn configured(&self) -> Configured {
        let here = std::env::current_dir().unwrap_or_default();
        Configured::read(self.root, self.env, &here, self.target.triple())
    }

    fn rustflags(&self, view: &View) -> Addition {
        let mut directories = vec![view.lib()];
        if !self.is_native() {
            // A cross linker does not look at LIBRARY_PATH.
            directories.push(view.stubs());
        }
        rustflags::search(&directories, self.target.triple(), self.configured(), self.env)
    }

    /// A directory that is another one whenever something differs that a build script may read.
    fn directory(&self, workspace: &Workspace, environment: &Environment, view: &View) -> PathBuf {
        let mut hash = Sha256::new();
        let mut field = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        field(view.root().as_os_str().as_encoded_bytes());
        for (name, value) in environment.decisive() {
            field(name.as_bytes());
            field(value.as_encoded_bytes());
        }
        for name in ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CUDAHOSTCXX", "CUDAFLAGS"] {
            field(self.env.peek(name).unwrap_or_default().as_encoded_bytes());
        }
        field(self.asked.capabilities.as_deref().unwrap_or_default().as_bytes());
        let hash: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{}-{hash}", self.toolkit.version());
        workspace.build_directory.join("cuda").join("build").join(name)
    }

    /// What may be the reason of a build that failed: libraries that somebody may have asked the
    /// linker for, and that this toolkit does not have.
    #[must_use]
    pub fn lacks(&self) -> Vec<String> {
        let facts = || Component::all().map(Component::facts).filter(|facts| facts.bundle == Bundle::Toolkit);
        let absent: Vec<&str> = facts()
            .filter(|facts| {
                !facts.libraries.is_empty() && facts.package(self.toolkit.version().major).is_some()
            })
            .filter(|facts| self.toolkit.get(facts.component).is_none_or(|found| found.libraries.is_empty()))
            .map(|facts| facts.id)
            .collect();
        let mut hints = Vec::new();
        if !absent.is_empty() {
            hints.push(format!(
                "hint: this CUDA {} has no shared libraries of {}; if one of them is what was not found: \
                 `cargo cuda toolkit add {} --components {}` with those that you need",
                self.toolkit.version(),
                absent.join(", "),
                self.toolkit.version().major,
                absent[0],
            ));
        }
        let archives: Vec<&str> = facts()
            .filter_map(|facts| Some((facts, self.toolkit.get(facts.component)?)))
            .filter(|(_, found)| !found.libraries.is_empty())
            .flat_map(|(facts, found)| facts.archives.iter().filter(|name| found.archive(name).is_none()))
            .filter_map(|name| name.strip_prefix("lib").unwrap_or(name).strip_suffix(".a").or(Some(name)))
            .collect();
        if !archives.is_empty() {
            hints.push(format!(
                "hint: it has no static {}: Python's packages carry hardly any. Where a crate links them \
                 statically, switch on its feature for linking dynamically (`dynamic-link` or the like), or \
                 name a toolkit that has them: an installation of NVIDIA's, or conda's `-static` packages",
                archives.join(", ")
            ));
        }
        hints
    }

    /// All variables of a build apart, with what build scripts with cuda-build and Cargo are told.
    ///
    /// # Errors
    /// Where the toolkit's file can't be written.
    pub fn variables(&self, apart: &Apart) -> Result<Vec<Setting>, Failure> {
        let mut all = apart.environment.settings.clone();
        let mut tell = |name: &str, value: OsString, meaning| {
            all.push(Setting { name: name.to_owned(), value, meaning });
        };
        if let (Some(workspace), Some(directory)) = (self.workspace, &apart.directory) {
            let file = directory.join("cuda").join("toolkit.toml");
            output::write_if_changed(&file, self.toolkit.to_toml()?.as_bytes())?;
            tell("CUDA_BUILD_TOOLKIT", file.into(), "the toolkit: build scripts with cuda-build");
            let views = toolkits::views(&workspace.build_directory);
            tell("CUDA_BUILD_VIEWS", views.into(), "where views are kept: build scripts with cuda-build");
        }
        if let Addition::Variable(name, value) = &apart.rustflags {
            tell(name, value.clone(), "where rustc looks for static libraries");
        }
        if let Some(list) = &self.asked.capabilities {
            all.push(Setting {
                name: "CUDA_BUILD_CAPABILITIES".to_owned(),
                value: list.into(),
                meaning: "capabilities: build scripts with cuda-build",
            });
        }
        Ok(all)
    }
}

/// Adds the variable that names the others, so that another `cargo cuda` under this one does not
/// take them for the user's wish. Capabilities are the user's.
pub fn name_own(variables: &mut Vec<Setting>) {
    let names = variables.iter().map(|setting| setting.name.as_str());
    let own: Vec<&str> =
        names.filter(|name| !LISTS.contains(name) && *name != "CUDA_BUILD_CAPABILITIES").collect();
    let value = own.join(" ").into();
    variables.push(Setting { name: OWN.to_owned(), value, meaning: "which of these are not the user's own" });
}

/// Names the variables that are our own doing.
pub const OWN: &str = "CUDA_BUILD_ENVIRONMENT";

/// Variables that hold more than ours.
const LISTS: [&str; 3] = ["PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH"];

/// The user's own environment: without what an earlier `cargo cuda env` or `exec` put there, which
/// would be taken for the user's wish.
#[must_use]
pub fn users_own(env: &Env) -> Env {
    let Some(own) = env.peek(OWN).map(|own| own.to_string_lossy().into_owned()) else { return env.clone() };
    let own: Vec<&str> = own.split(' ').collect();
    let view = own.contains(&"CUDA_ROOT").then(|| env.peek("CUDA_ROOT")).flatten().map(PathBuf::from);
    let kept = env.variables().filter(|(name, _)| !own.iter().any(|own| name == own));
    Env::from_pairs(kept.map(|(name, value)| {
        let list = LISTS.iter().any(|list| name == *list);
        if !list {
            return (name.to_owned(), value.to_owned());
        }
        let ours = |path: &PathBuf| view.as_ref().is_some_and(|view| path.starts_with(view));
        let rest = std::env::split_paths(value).filter(|path| !ours(path));
        (name.to_owned(), std::env::join_paths(rest).unwrap_or_else(|_| value.to_owned()))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_there_before_is_not_the_users() {
        let env = Env::from_pairs([
            ("CUDA_BUILD_ENVIRONMENT", "CUDA_ROOT NVCC"),
            ("CUDA_ROOT", "/v"),
            ("NVCC", "/v/bin/nvcc"),
            ("CUDA_HOME", "/own"),
            ("PATH", "/v/bin:/bin"),
            ("CUDA_PATH", "/v:/x"),
        ]);
        let own = users_own(&env);
        let left: Vec<_> = own.variables().map(|(n, v)| (n.to_str().unwrap(), v.to_str().unwrap())).collect();
        assert_eq!(left[0], ("CUDA_BUILD_ENVIRONMENT", "CUDA_ROOT NVCC"));
        assert_eq!(left[1..], [("CUDA_HOME", "/own"), ("CUDA_PATH", "/v:/x"), ("PATH", "/bin")]);
    }
}
