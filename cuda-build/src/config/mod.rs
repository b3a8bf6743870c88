//! The keys of `[package.metadata.cuda]`. `[workspace.metadata.cuda]` holds defaults for them;
//! `CUDA_BUILD_*` variables override both tables.
//!
//! ```toml
//! [package.metadata.cuda]
//! toolkit           = ">=12.2, <14"
//! majors            = [12, 13]     # CUDA majors to build wheels for
//! components        = ["cudart", { name = "cudnn", version = ">=9", optional = true }]
//! capabilities      = ["8.0", "9.0", "10.0", "12.0+PTX"]
//! single-capability = "9.0"        # for consumers that take no list
//! cudart            = "static"     # or "shared"
//! jetson            = false        # true: aarch64 Linux is a Jetson board, not a server
//! dependencies      = ["numpy"]    # Python packages that wheels require besides those in pyproject.toml
//! [package.metadata.cuda.major.12] # replaces the lists above for one CUDA major
//! components        = ["cudart"]
//! capabilities      = ["8.0", "9.0+PTX"]
//! dependencies      = ["numpy", "cupy-cuda12x"]
//! [workspace.metadata.cuda.package.candle-flash-attn] # decides for one package, also for a dependency
//! capabilities      = ["8.0", "9.0"]
//! variables         = { CUDA_ARCH = "list" } # what its build script reads, as 80,90; or "cmake", "torch", "lowest"
//! [package.metadata.cuda.wheel]
//! plain             = 12           # of which major the wheel without a label is, for `wheel --variants`
//! [package.metadata.cuda.bundle]
//! fallback          = { features = ["cpu"], default-features = false } # a build without CUDA, for `bundle`
//! ```

mod manifest;

use std::path::{Path, PathBuf};

pub use cuda_find_core::link::Cudart;

use crate::error::Error;
use cuda_find_core::capability::{Spelling, spelling};
use cuda_find_core::release::JETSON_UNIFIED_SINCE;
use cuda_find_core::sources::workspace_manifest;
use cuda_find_core::version::{Version, bounds};
use cuda_find_core::{component::Component, env::Env, root::Root, select::RequestedRelease};
use manifest::ManifestTable;

/// A component that a crate declares.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The component.
    pub component: Component,
    /// The accepted versions: `>=9` for cuDNN 9 and newer.
    pub version: Option<semver::VersionReq>,
    /// Whether the crate can be built without the component. For an optional component that is present,
    /// `cfg(cuda_have_<name>)` is set. A wheel requires an optional component only in an extra.
    pub optional: bool,
}

impl Wanted {
    /// The lowest accepted version: 9.2 for `>=9.2, <10` and for `9.2`. `None` if every older version is accepted.
    pub fn lowest_version(&self) -> Option<Version> {
        let comparators = self.version.iter().flat_map(|v| &v.comparators);
        comparators.filter_map(|it| bounds(it)[0].take()).max()
    }
}

/// What a package declares. [`Config::for_major`] returns the lists for one CUDA major.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The package's manifest, for messages.
    pub manifest: PathBuf,
    /// The accepted releases of the toolkit.
    pub toolkit: semver::VersionReq,
    /// The CUDA majors to build wheels for.
    pub majors: Vec<u32>,
    /// The CUDA release of this build, from the variable `CUDA_BUILD_RELEASE`.
    pub release: Option<RequestedRelease>,
    /// How the runtime is linked.
    pub cudart: Cudart,
    /// The capability for consumers that accept only one.
    pub single_capability: Option<String>,
    /// Whether an aarch64 Linux target is a Jetson board, not a server. From CUDA 13 on, boards use the files of
    /// servers.
    pub jetson: bool,
    components: Vec<Wanted>,
    /// Components that are required although the manifest does not require them.
    pub required_by_script: Vec<Component>,
    capabilities: Option<Vec<String>>,
    /// The package's own list, if the list of the application replaces it.
    pub replaced_capabilities: Option<Vec<String>>,
    dependencies: Vec<String>,
    per_major: Vec<PerMajor>,
    /// The capabilities of single packages, from `[workspace.metadata.cuda.package.<name>]`.
    pub packages: Vec<(String, Vec<String>)>,
    /// For each of these packages, a variable in which its build script expects the capabilities, and how.
    pub variables: Vec<(String, String, Spelling)>,
    /// The CUDA major of the wheel for installers that read no variants.
    pub plain_wheel: Option<u32>,
    /// The build without CUDA that a bundle also has.
    pub fallback: Option<Fallback>,
    /// Whether the package's library is a `cdylib`, as it is for a Python extension.
    pub cdylib: bool,
    /// The manifest of the workspace, if the package belongs to a workspace.
    pub workspace: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct PerMajor {
    major: u32,
    components: Option<Vec<Wanted>>,
    capabilities: Option<Vec<String>>,
    dependencies: Option<Vec<String>>,
}

/// The features of a build without CUDA.
#[derive(Clone, Debug)]
pub struct Fallback {
    /// Instead of those that are given for the builds with CUDA.
    pub features: Vec<String>,
    /// Whether the default features are enabled.
    pub default_features: bool,
}

/// The lists of a [`Config`] for one CUDA major.
#[derive(Clone, Copy)]
pub struct ForMajor<'a> {
    /// The declared components.
    pub components: &'a [Wanted],
    /// The declared capabilities; `None` if none are declared.
    pub capabilities: Option<&'a [String]>,
    /// The Python packages that the wheel requires besides those in `pyproject.toml`.
    pub dependencies: &'a [String],
}

impl Config {
    /// Reads the manifest of the package in `directory`, the workspace it belongs to, and the
    /// variables that override both.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Io`] if a manifest cannot be read; [`Error::Manifest`] if a key is unknown, or
    /// if a key or a variable has an invalid value.
    pub fn read(root: &Root, env: &Env, directory: &Path) -> Result<Self, Error> {
        let manifest = directory.join("Cargo.toml");
        let package = ManifestTable::read(root, &manifest)?;
        let mut config = Self {
            manifest,
            ..Self::default()
        };
        if let Some(path) = workspace_manifest(root, directory)? {
            let workspace = ManifestTable::read(root, &path)?;
            config.apply(&workspace.table_or_empty("workspace.metadata.cuda"))?;
            config.workspace = Some(path);
        }
        config.apply(&package.table_or_empty("package.metadata.cuda"))?;
        // Errors in these tables are ignored here, because Cargo reports them.
        let library = package.table_or_empty("lib");
        let keys = package.table_or_empty("package");
        let name = keys.text("name").ok().flatten();
        config.apply_variables(env, &name.unwrap_or_default())?;
        for key in ["crate-type", "crate_type"] {
            let types = library.texts(key).ok().flatten().unwrap_or_default();
            config.cdylib |= types.iter().any(|name| name == "cdylib");
        }
        Ok(config)
    }

    /// The configuration for one CUDA major. A list in the table `major.<n>` replaces the general list.
    pub fn for_major(&self, major: u32) -> ForMajor<'_> {
        // The package's tables were read after the workspace's, and each key of theirs replaces the workspace's key.
        let tables = || (self.per_major.iter().rev()).filter(|table| table.major == major);
        let components = tables().find_map(|table| table.components.as_ref());
        let capabilities = tables().find_map(|table| table.capabilities.as_ref());
        let dependencies = tables().find_map(|table| table.dependencies.as_deref());
        ForMajor {
            components: components.unwrap_or(&self.components),
            capabilities: capabilities
                .or(self.capabilities.as_ref())
                .map(Vec::as_slice),
            dependencies: dependencies.unwrap_or(&self.dependencies),
        }
    }

    /// Whether an aarch64 build is for a Jetson board whose CUDA differs from that of servers.
    pub fn is_for_jetson(&self) -> bool {
        let is_unified = |release: RequestedRelease| release.major >= JETSON_UNIFIED_SINCE;
        self.jetson && !self.release.is_some_and(is_unified)
    }

    /// The CUDA majors for which the table `major.<n>` replaces the list of components.
    pub fn majors_with_components(&self) -> impl Iterator<Item = u32> {
        let tables = (self.per_major.iter()).filter(|table| table.components.is_some());
        tables.map(|table| table.major)
    }

    /// The components that are optional for at least one CUDA major.
    pub fn optional_components(&self) -> impl Iterator<Item = Component> {
        let lists_of_majors = (self.per_major.iter()).filter_map(|table| table.components.as_ref());
        let lists = std::iter::once(&self.components).chain(lists_of_majors);
        let optional = lists.flatten().filter(|wanted| wanted.optional);
        optional.map(|wanted| wanted.component)
    }

    /// Requires a component for every CUDA major. It is in the lists as an optional one, so that its `cfg` is set.
    pub(crate) fn require(&mut self, component: Component) {
        self.required_by_script.push(component);
        let of_majors = (self.per_major.iter_mut()).filter_map(|table| table.components.as_mut());
        for list in std::iter::once(&mut self.components).chain(of_majors) {
            if !list.iter().any(|wanted| wanted.component == component) {
                list.push(Wanted {
                    component,
                    version: None,
                    optional: true,
                });
            }
        }
    }

    fn apply(&mut self, table: &ManifestTable) -> Result<(), Error> {
        table.check_keys(KEYS)?;
        set(&mut self.toolkit, table.requirement("toolkit")?);
        set(&mut self.majors, table.numbers("majors")?);
        set(&mut self.cudart, table.parsed("cudart", parse_cudart)?);
        self.single_capability =
            (table.text("single-capability")?).or(self.single_capability.take());
        set(&mut self.jetson, table.flag("jetson")?);
        let components = table.components("components")?;
        let capabilities = table.texts("capabilities")?;
        let dependencies = table.texts("dependencies")?;
        // A key of the package beats the workspace's, also the workspace's for one major.
        for special in &mut self.per_major {
            special.components.take_if(|_| components.is_some());
            special.capabilities.take_if(|_| capabilities.is_some());
            special.dependencies.take_if(|_| dependencies.is_some());
        }
        set(&mut self.components, components);
        self.capabilities = capabilities.or(self.capabilities.take());
        set(&mut self.dependencies, dependencies);
        for (name, special) in table.tables("major")? {
            let reason = || format!("`{name}` is not a CUDA major such as `13`");
            let major = name.parse().map_err(|_| table.wrong("major", reason()))?;
            special.check_keys("components capabilities dependencies")?;
            self.per_major.push(PerMajor {
                major,
                components: special.components("components")?,
                capabilities: special.texts("capabilities")?,
                dependencies: special.texts("dependencies")?,
            });
        }
        for (name, special) in table.tables("package")? {
            special.check_keys("capabilities variables")?;
            for (variable, spelling) in special.entries("variables", spelling)? {
                self.variables.push((name.clone(), variable, spelling));
            }
            let list = special.texts("capabilities")?;
            self.packages.extend(list.map(|list| (name, list)));
        }
        if let Some(bundle) = table.table("bundle")? {
            bundle.check_keys("fallback")?;
            if let Some(fallback) = bundle.table("fallback")? {
                fallback.check_keys("features default-features")?;
                self.fallback = Some(Fallback {
                    features: fallback.texts("features")?.unwrap_or_default(),
                    default_features: fallback.flag("default-features")?.unwrap_or(true),
                });
            }
        }
        if let Some(wheel) = table.table("wheel")? {
            wheel.check_keys("plain")?;
            set(&mut self.plain_wheel, wheel.number("plain")?.map(Some));
        }
        Ok(())
    }

    fn apply_variables(&mut self, env: &Env, package: &str) -> Result<(), Error> {
        self.release = RequestedRelease::from_env(env)?;
        let cudart = parsed_variable(env, "CUDA_BUILD_CUDART", parse_cudart)?;
        set(&mut self.cudart, cudart);
        // The list for this package alone decides before the list for all packages.
        let for_package = capabilities_variable(package);
        let in_workspace = self.packages.iter().find(|(name, _)| name == package);
        let list = (env.text(&for_package).map(|text| vec![text]))
            .or_else(|| in_workspace.map(|(_, list)| list.clone()))
            .or_else(|| env.text("CUDA_BUILD_CAPABILITIES").map(|text| vec![text]));
        if let Some(list) = list {
            self.replaced_capabilities = self.capabilities.replace(list);
            // The variable applies to every major, so it also replaces the lists of `major.<n>`.
            for special in &mut self.per_major {
                special.capabilities = None;
            }
        }
        Ok(())
    }
}

const KEYS: &str = "toolkit majors components capabilities cudart single-capability jetson dependencies major package \
     wheel bundle";

/// The variable with the capabilities of one package: `CUDA_BUILD_CAPABILITIES_CANDLE_FLASH_ATTN`.
pub fn capabilities_variable(package: &str) -> String {
    let name = package.to_ascii_uppercase().replace('-', "_");
    format!("CUDA_BUILD_CAPABILITIES_{name}")
}

/// Replaces a default with a declared value.
fn set<T>(value: &mut T, declared: Option<T>) {
    if let Some(declared) = declared {
        *value = declared;
    }
}

fn parse_cudart(text: &str) -> Result<Cudart, String> {
    match text {
        "static" => Ok(Cudart::Static),
        "shared" => Ok(Cudart::Shared),
        _ => Err(format!("`{text}` is neither `static` nor `shared`")),
    }
}

/// The value of a variable, if it is set.
pub(crate) fn parsed_variable<T>(
    env: &Env,
    name: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Error> {
    let parsed = env.text(name).map(|text| parse(&text)).transpose();
    parsed.map_err(|reason| Error::variable(name, reason))
}

/// The bytes of a size such as `200 MiB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let parse = || {
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let unit = match unit.trim_start() {
            "kB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(unit)
    };
    parse().ok_or_else(|| format!("`{text}` is not a size such as `200 MiB`"))
}

#[cfg(test)]
mod tests;
