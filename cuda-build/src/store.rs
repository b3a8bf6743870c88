//! Where toolkits fetched by `cargo cuda toolkit add` lie, and what each says of itself.
//!
//! The contract between the tool that writes and the search that reads:
//!
//! ```text
//! <cache>/toolkits/
//!   13.4.3-1f0c9a2e/          one consistent set, never changed once it is there
//!     toolkit.toml            written last; a directory without it is no toolkit
//!     nvidia/…                site-packages, as an installer left it
//!     nvidia_cuda_runtime-13.4.92.dist-info/ …
//!   index.toml, .locks/, .*.part/      the writer's own
//! ```

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::component::Component;
use crate::env::Env;
use crate::error::Error;
use crate::root::Root;
use crate::version::Version;

/// The file that makes a directory a stored toolkit.
pub const MANIFEST: &str = "toolkit.toml";

/// The newest `format_version` of [`MANIFEST`] that this crate reads.
pub const FORMAT_VERSION: i64 = 1;

/// The user's cache directory: `CUDA_BUILD_CACHE_DIR`, else `$XDG_CACHE_HOME/cuda-build`, else
/// `~/.cache/cuda-build`. A relative `XDG_CACHE_HOME` is ignored, as the XDG base directory
/// specification asks. `None` where no variable tells.
///
/// ```
/// use cuda_build::{Env, store};
/// let env = Env::from_pairs([("HOME", "/home/a")]);
/// assert_eq!(store::cache_dir(&env).unwrap().to_str(), Some("/home/a/.cache/cuda-build"));
/// ```
#[must_use]
pub fn cache_dir(env: &Env) -> Option<PathBuf> {
    if let Some(directory) = env.path("CUDA_BUILD_CACHE_DIR") {
        return Some(directory);
    }
    if let Some(xdg) = env.path("XDG_CACHE_HOME").filter(|path| path.is_absolute()) {
        return Some(xdg.join("cuda-build"));
    }
    env.path("HOME")
        .map(|home| home.join(".cache").join("cuda-build"))
}

/// The directory below [`cache_dir`] that holds one directory a toolkit.
#[must_use]
pub fn toolkits_dir(env: &Env) -> Option<PathBuf> {
    cache_dir(env).map(|cache| cache.join("toolkits"))
}

/// A toolkit that `cargo cuda toolkit add` put into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredToolkit {
    /// Its directory, to be searched as site-packages.
    pub path: PathBuf,
    /// Of the set as a whole: `13.4.3`, or `13.5` where the minor was put together from single
    /// packages.
    pub version: Version,
    /// Machine and system its files are for, such as `x86_64-linux`.
    pub platform: String,
    /// What was proved to be there when it was added. Names that a newer `cargo cuda` wrote and
    /// this crate does not know are left out.
    pub components: Vec<Component>,
}

impl StoredToolkit {
    /// Reads `<path>/toolkit.toml`.
    ///
    /// # Errors
    /// [`Error::Io`] where it can't be read, [`Error::Format`] where it says something else than
    /// a manifest of a known format.
    pub fn read(root: &Root, path: &Path) -> Result<Self, Error> {
        let file = path.join(MANIFEST);
        let text = root.text(&file).map_err(|source| Error::Io {
            action: "read",
            path: file.clone(),
            source,
        })?;
        Self::parse(path, &text).map_err(|reason| Error::Format {
            what: "toolkit manifest",
            reason: format!("{}: {reason}", file.display()),
        })
    }

    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let table = DeTable::parse(text)
            .map_err(|error| error.message().to_owned())?
            .into_inner();
        let value = |key: &str| table.get(key).map(|value| value.get_ref());
        let string = |key: &str| {
            value(key)
                .and_then(DeValue::as_str)
                .ok_or_else(|| format!("no string `{key}`"))
        };
        let format: i64 = value("format_version")
            .and_then(DeValue::as_integer)
            .and_then(|number| number.as_str().parse().ok())
            .ok_or("no number `format_version`")?;
        if !(1..=FORMAT_VERSION).contains(&format) {
            return Err(format!(
                "format_version {format}, this cuda-build reads up to {FORMAT_VERSION}"
            ));
        }
        let version = string("version")?
            .parse()
            .map_err(|e| format!("`version`: {e}"))?;
        let components = value("components")
            .and_then(DeValue::as_array)
            .ok_or("no array `components`")?
            .iter()
            .filter_map(|component| component.get_ref().as_str()?.parse().ok())
            .collect();
        Ok(Self {
            path: path.to_owned(),
            version,
            platform: string("platform")?.to_owned(),
            components,
        })
    }
}

/// All toolkits below `directory`, in the order of their names; for each that can't be read, why.
/// Directories without a manifest, such as one that is being written, are not toolkits.
pub fn stored_toolkits(root: &Root, directory: &Path) -> Vec<Result<StoredToolkit, Error>> {
    root.names(directory)
        .into_iter()
        .filter(|name| !name.as_encoded_bytes().starts_with(b"."))
        .map(|name| directory.join(name))
        .filter(|path| root.is_file(&path.join(MANIFEST)))
        .map(|path| StoredToolkit::read(root, &path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_variable_then_xdg_then_home() {
        let home = Env::from_pairs([("HOME", "/home/a")]);
        let xdg = home.clone().with("XDG_CACHE_HOME", "/var/cache/a");
        let own = xdg.clone().with("CUDA_BUILD_CACHE_DIR", "/data/cuda");
        let text = |env: &Env| cache_dir(env).map(|p| p.display().to_string());
        assert_eq!(text(&home).as_deref(), Some("/home/a/.cache/cuda-build"));
        assert_eq!(text(&xdg).as_deref(), Some("/var/cache/a/cuda-build"));
        assert_eq!(text(&own).as_deref(), Some("/data/cuda"));
        assert_eq!(
            text(&home.with("XDG_CACHE_HOME", "relative")).as_deref(),
            Some("/home/a/.cache/cuda-build")
        );
        assert_eq!(text(&Env::from_pairs([("PATH", "/bin")])), None);
    }

    const GOOD: &str = r#"
        format_version = 1
        version = "13.4.3"
        platform = "x86_64-linux"
        components = ["cudart", "nvrtc", "from-the-future"]
    "#;

    #[test]
    fn reads_what_it_knows() {
        let toolkit = StoredToolkit::parse(Path::new("/s/13.4.3-0"), GOOD).unwrap();
        assert_eq!(toolkit.version.to_string(), "13.4.3");
        assert_eq!(toolkit.components, [Component::Cudart, Component::Nvrtc]);
    }

    #[test]
    fn refuses_a_newer_format_and_a_broken_one() {
        let parse = |text: &str| StoredToolkit::parse(Path::new("/s"), text).unwrap_err();
        assert!(parse(&GOOD.replace("= 1", "= 2")).contains("format_version 2"));
        assert!(parse(&GOOD.replace("format_version", "x")).contains("no number `format_version`"));
        assert!(
            parse(&GOOD.replace("version = \"13.4.3\"", "version = \"new\"")).contains("`version`")
        );
        assert!(!parse("=").is_empty());
    }

    #[test]
    fn a_directory_being_written_is_no_toolkit() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, manifest: Option<&str>| {
            let path = directory.path().join(name);
            #[allow(clippy::disallowed_methods, reason = "prepares a real directory")]
            std::fs::create_dir_all(&path).unwrap();
            if let Some(text) = manifest {
                #[allow(clippy::disallowed_methods, reason = "prepares a real directory")]
                std::fs::write(path.join(MANIFEST), text).unwrap();
            }
        };
        put("13.4.3-a", Some(GOOD));
        put("13.4.3-b", None);
        put(".13.4.3-c.7.part", Some(GOOD));
        put("13.4.3-d", Some("format_version = 9"));
        let found = stored_toolkits(&Root::system(), directory.path());
        assert_eq!(found.len(), 2);
        assert!(found[0].is_ok() && found[1].is_err());
    }
}
