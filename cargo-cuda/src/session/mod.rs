//! Everything about one build that is decided before cargo starts: toolkit, capabilities, view,
//! variables, and which of Cargo's directories the build belongs in.
//!
//! Two kinds of builds:
//!
//! - **Shared** with plain `cargo`: all that needs CUDA are build scripts of the workspace itself
//!   that use cuda-build, and the command line asks for nothing else than the manifest does. The
//!   scripts find the toolkit in a file (`cuda_build::toolkit_file`) that both declare. The two
//!   variables that differ (`Session::shared`) are none that a script of cuda-build's declares, so
//!   that neither undoes the other's work.
//! - **Apart**: some package looks for CUDA by itself, or the command line asks for another major
//!   or other capabilities. Scripts that do not tell Cargo what they read never run again, so
//!   every environment has a build directory of its own; the final files still go to `target`.
//!   A wheel is one as well: its major is named.

mod capabilities;
mod own;

use std::path::PathBuf;

use cuda_build::{Capability, Component, Declared, Env, Plan, Root, Target, Toolkit, View, driver};
use sha2::{Digest as _, Sha256};

use self::capabilities::{Capabilities, Choice};
use crate::cargo_config::{self, Configured, directory_name};
use crate::environment::{self, Environment, Inputs, Setting};
use crate::failure::Failure;
use crate::graph::Graph;
use crate::output;
use crate::runner;
use crate::rustflags::{self, Addition};
use crate::toolkits::{self, Finder, Wish};
use crate::workspace::{Package, Workspace};

pub use own::{OWN, anew, is_set, name_own, restored, users_own};

/// What the command line asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `--major 13`
    pub major: Option<u32>,
    /// `--capabilities 8.0,9.0`
    pub capabilities: Option<String>,
    /// `--fetch`
    pub fetch: bool,
    /// The name of the package whose declarations count; those of all where there is none.
    pub package: Option<String>,
    /// What cargo's own `--config` says.
    pub configs: Vec<String>,
}

/// A toolkit for a workspace, or for none.
#[derive(Debug)]
pub struct Session<'a> {
    env: &'a Env,
    root: &'a Root,
    workspace: Option<&'a Workspace>,
    target: Target,
    /// As cargo names the directory of what is built; `None` where it needs none.
    built_for: Option<String>,
    asked: Asked,
    /// What the toolkit's own compiler lists, where the tables don't know it.
    observed: Option<Vec<Capability>>,
    /// The toolkit that was found.
    pub toolkit: Toolkit,
}

/// A build that has its own directory, with all variables.
#[derive(Debug)]
pub struct Apart {
    /// The variables.
    pub environment: Environment,
    /// The toolkit as one root.
    pub view: View,
    /// Cargo's build directory; `None` outside a workspace.
    pub directory: Option<PathBuf>,
    /// What it is built for; `None` where nothing says.
    pub plan: Option<Plan>,
    /// Where rustc is to look for static libraries.
    pub search: Vec<PathBuf>,
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
        let jetson = declaring(workspace, &asked)
            .iter()
            .any(|package| package.config.jetson);
        let named = cargo_config::build_target(root, env, &asked.configs);
        let target = toolkits::target(triple, named.as_deref(), jetson)?;
        let built_for = triple.or(named.as_deref()).map(directory_name);
        let finder = Finder {
            env,
            root,
            target: target.clone(),
            workspace,
        };
        // Outside a workspace anything may be built.
        let compiler = workspace.is_none();
        let wish = Wish {
            major: asked.major,
            fetch: asked.fetch,
            compiler,
            ..Wish::default()
        };
        let toolkit = finder.find(&wish)?;
        let observed = toolkit.observed_capabilities();
        if let Some(list) = &asked.capabilities {
            // It is for every package alike: no reason to let the first build script find out.
            let declared = Declared::parse([list])?;
            if !declared.asks_for_gpu() {
                declared.plan(toolkit.version(), &[], observed.as_deref())?;
            }
        }
        Ok(Self {
            env,
            root,
            workspace,
            target,
            built_for,
            asked,
            observed,
            toolkit,
        })
    }

    /// The same for the packages that are built: what those that look for CUDA by themselves call
    /// is not known, so that they get a toolkit with nvcc where there is one.
    ///
    /// # Errors
    /// As [`Session::find`].
    pub fn fitting(mut self, graph: &Graph) -> Result<Self, Failure> {
        if !graph.others.is_empty() && self.toolkit.get(Component::Nvcc).is_none() {
            let (major, fetch) = (self.asked.major, self.asked.fetch);
            let wish = Wish {
                major,
                fetch,
                compiler: true,
                ..Wish::default()
            };
            self.toolkit = self.finder().find(&wish)?;
            self.observed = self.toolkit.observed_capabilities();
        }
        Ok(self)
    }

    fn finder(&self) -> Finder<'a> {
        Finder {
            env: self.env,
            root: self.root,
            target: self.target.clone(),
            workspace: self.workspace,
        }
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
        plain
            && graph.others.is_empty()
            && self.asked.major.is_none()
            && self.asked.capabilities.is_none()
    }

    /// Makes the workspace's file remember the toolkit.
    ///
    /// # Errors
    /// Where the file can't be written.
    pub fn remember(&self, workspace: &Workspace) -> Result<(), Failure> {
        toolkits::remember(&self.finder(), &self.toolkit, workspace)
    }

    /// The toolkit as one root.
    ///
    /// # Errors
    /// Where it can't be made.
    pub fn view(&self) -> Result<View, Failure> {
        let place = toolkits::view_place(self.env, self.workspace, &self.target)?;
        // Crates that link static libraries find them where there are any; a link costs nothing.
        Ok(self.toolkit.view(&place.archives(true), self.root)?)
    }

    /// What a shared build gets besides the remembered toolkit: two variables that Cargo and build
    /// scripts see too. cuda-build declares neither, so that no script runs again for them but one
    /// that asks for it itself.
    ///
    /// `CUDA_BUILD_VIEWS` says where views are kept, and not what is in them. `LIBRARY_PATH` is the
    /// linker's own: a crate without a build script (`#[link(name = "cudart")]`) has nobody who
    /// could find CUDA for it, and is not another crate for what the linker reads.
    #[must_use]
    pub fn shared(&self, view: Option<&View>, workspace: &Workspace) -> Vec<Setting> {
        let mut all: Vec<Setting> = self.views(workspace).into_iter().collect();
        // A cross linker does not look at it, and that of build scripts would find what is not its own.
        if let Some(view) = view.filter(|_| self.target.is_native()) {
            all.extend(environment::linker(
                view,
                self.driver_directory().as_deref(),
                self.env,
            ));
        }
        all
    }

    /// What a build has to say of the search.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.toolkit
            .warnings()
            .iter()
            .map(|warning| format!("warning: {warning}"))
    }

    /// Where views are kept, for build scripts; nothing where the user says.
    fn views(&self, workspace: &Workspace) -> Option<Setting> {
        let name = toolkits::VIEWS.to_owned();
        let value = toolkits::views(&workspace.build_directory).into();
        let meaning = "where views are kept: build scripts with cuda-build";
        self.env.peek(&name).is_none().then_some(Setting {
            name,
            value,
            meaning,
        })
    }

    /// Variables and directory of a build apart.
    ///
    /// # Errors
    /// Capabilities that the toolkit can't build; a view that can't be made.
    pub fn apart(&self, graph: &Graph) -> Result<Apart, Failure> {
        let view = self.view()?;
        let gpus = driver::driver()
            .map(|driver| driver.gpus)
            .unwrap_or_default();
        let version = self.toolkit.version();
        let Capabilities {
            plan,
            single,
            mut notes,
        } = Choice {
            env: self.env,
            version,
            observed: self.observed.as_deref(),
            packages: &declaring(self.workspace, &self.asked),
            asked: self.asked.capabilities.as_deref(),
            gpus: &gpus,
            graph,
        }
        .make()?;
        let cudarc = graph
            .cudarc
            .as_ref()
            .and_then(|known| environment::cudarc_version(known, version));
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
            cross: (!self.target.is_native()).then(|| self.target.triple()),
            driver: driver.as_deref(),
            libraries: &[view.lib()],
        };
        let environment = Environment::new(&inputs, self.env);
        notes.extend(environment.conflicts());
        // Build scripts are told what was found, and not where else it might have been.
        notes.extend(self.warnings());
        // Only where the file would be set otherwise: not for another platform, nor where the user has one.
        let free = self.env.peek("CMAKE_TOOLCHAIN_FILE").is_none();
        let overridden = |triple| Environment::overridden_by_toolchain_file(self.env, triple);
        if let Some(name) = inputs.native.filter(|_| free).and_then(overridden) {
            notes.push(format!(
                "note: {name} is set, which CMAKE_TOOLCHAIN_FILE would take the effect from: it is not set, and \
                 CMake may find libraries of another CUDA; `cmake -C {}` does not",
                view.cmake_cache().display()
            ));
        }
        let directory = self
            .workspace
            .map(|workspace| self.directory(workspace, &environment, &view));
        let mut search = vec![view.lib()];
        if !self.target.is_native() {
            // A cross linker does not look at LIBRARY_PATH.
            search.push(view.stubs());
        }
        Ok(Apart {
            environment,
            view,
            directory,
            plan,
            search,
            notes,
        })
    }

    /// Where the driver's own library can be linked with.
    fn driver_directory(&self) -> Option<PathBuf> {
        let multiarch = format!("/usr/lib/{}", self.target.multiarch());
        let places = [
            multiarch.as_str(),
            "/usr/lib64",
            "/usr/lib",
            "/run/opengl-driver/lib",
            "/usr/lib/wsl/lib",
        ];
        let mut places = places
            .into_iter()
            .filter(|_| self.target.is_native())
            .map(|place| self.root.locate(place));
        places.find(|place| self.root.is_file(&place.join("libcuda.so")))
    }

    /// Whether CMake, left alone, chooses the compilers that the build's other C code gets.
    fn is_configured_native(&self) -> bool {
        let triple = self.target.triple();
        let own = self.env.peek("CARGO_BUILD_TARGET");
        let own = own.is_none_or(|own| directory_name(&own.to_string_lossy()) == triple);
        own && self.target.is_native() && triple.ends_with("-gnu") && !self.configured().compilers
    }

    fn configured(&self) -> Configured {
        let here = std::env::current_dir().unwrap_or_default();
        Configured::read(
            self.root,
            self.env,
            &here,
            self.target.triple(),
            &self.asked.configs,
        )
    }

    /// The directory that cargo puts what it builds for a named target into.
    #[must_use]
    pub fn built_for(&self) -> Option<&str> {
        self.built_for.as_deref()
    }

    /// Whether the user has no program of their own between cargo and what it runs.
    #[must_use]
    pub fn runs_directly(&self) -> bool {
        let name = runner::variable_name(self.target.triple());
        let configured = self.configured();
        self.env.peek(&name).is_none() && !configured.runner && !configured.unknown
    }

    /// The program that Cargo's configuration puts in front of rustc.
    #[must_use]
    pub fn rustc_wrapper(&self) -> Option<PathBuf> {
        self.configured().wrapper
    }

    /// Where the search directories of a build apart go, so that rustc gets them from cargo.
    #[must_use]
    pub fn rustflags(&self, apart: &Apart) -> Addition {
        let flags = rustflags::flags(&apart.search, driver::nixos_directory(self.root));
        rustflags::add(flags, self.target.triple(), self.configured(), self.env)
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
        for name in [
            "NVCC_PREPEND_FLAGS",
            "NVCC_APPEND_FLAGS",
            "NVCC_CCBIN",
            "CUDAHOSTCXX",
            "CUDAFLAGS",
        ] {
            field(self.env.peek(name).unwrap_or_default().as_encoded_bytes());
        }
        field(
            self.asked
                .capabilities
                .as_deref()
                .unwrap_or_default()
                .as_bytes(),
        );
        let hash: String = hash
            .finalize()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("{}-{hash}", self.toolkit.version());
        workspace
            .build_directory
            .join("cuda")
            .join("build")
            .join(name)
    }

    /// All variables of a build apart, with what build scripts with cuda-build and Cargo are told.
    ///
    /// # Errors
    /// Where the toolkit's file can't be written.
    pub fn variables(&self, apart: &Apart) -> Result<Vec<Setting>, Failure> {
        let mut all = apart.environment.settings.clone();
        if let (Some(workspace), Some(directory)) = (self.workspace, &apart.directory) {
            let file = directory.join("cuda").join("toolkit.toml");
            output::write_if_changed(&file, self.toolkit.to_toml()?.as_bytes())?;
            all.push(Setting {
                name: "CUDA_BUILD_TOOLKIT".to_owned(),
                value: file.into(),
                meaning: "the toolkit: build scripts with cuda-build",
            });
            all.extend(self.views(workspace));
        }
        if let Some(list) = &self.asked.capabilities {
            all.push(Setting {
                name: "CUDA_BUILD_CAPABILITIES".to_owned(),
                value: list.into(),
                meaning: "capabilities: build scripts with cuda-build",
            });
        }
        if let Some(major) = self.asked.major {
            all.push(Setting {
                name: "CUDA_BUILD_MAJOR".to_owned(),
                value: major.to_string().into(),
                meaning: "the CUDA major: build scripts with cuda-build",
            });
        }
        Ok(all)
    }
}

/// The packages whose declarations count.
fn declaring<'a>(workspace: Option<&'a Workspace>, asked: &Asked) -> Vec<&'a Package> {
    let packages = workspace
        .into_iter()
        .flat_map(|workspace| &workspace.packages);
    packages
        .filter(|package| {
            asked
                .package
                .as_ref()
                .is_none_or(|name| package.name == *name)
        })
        .collect()
}
