//! `cargo cuda new` and `cargo cuda init`: packages from templates.

use std::path::{Path, PathBuf};

use clap::Args;
use cuda_find_core::command::{self, Invocation};
use cuda_find_core::{env::Env, root::Root};
use toml_edit::{DocumentMut, TomlError};

use crate::failure::{Failure, Result};
use crate::template::{self, Changes, Template};
use crate::{exit_code, output, process};

/// Create a package that builds CUDA code
#[derive(Args, Clone, Debug)]
pub struct NewArgs {
    /// The directory to create
    path: PathBuf,
    /// What the package contains
    #[arg(long, value_enum, default_value_t)]
    template: Template,
    /// The name of the package; by default that of the directory
    #[arg(long)]
    name: Option<String>,
    /// The version control system, as for `cargo new`: git, hg, pijul, fossil, none
    #[arg(long, value_name = "VCS")]
    vcs: Option<String>,
    #[command(flatten)]
    origin: CudaBuildSource,
}

/// Add CUDA to the package in the current directory
///
/// Adds dependencies and capabilities to Cargo.toml, and build.rs with an example kernel. No file is overwritten.
#[derive(Args, Clone, Debug)]
pub struct InitArgs {
    /// The template that is added
    #[arg(long, value_enum, default_value_t)]
    template: Template,
    #[command(flatten)]
    origin: CudaBuildSource,
}

/// Where the package gets cuda-build from.
#[derive(Args, Clone, Debug)]
struct CudaBuildSource {
    /// A checkout of cuda-build to depend on, instead of its git repository
    #[arg(long, value_name = "DIRECTORY")]
    cuda_build_path: Option<PathBuf>,
}

/// Creates the package, and returns a text for the user, and cargo's exit code.
pub fn new(arguments: &NewArgs, env: &Env, root: &Root) -> Result<(String, u8)> {
    let origin = arguments.origin.dependency(root)?;
    let template = arguments.template;
    // Cargo checks the name and the directory, adds the package to a workspace, and makes a repository.
    let kind = if template.is_library() {
        "--lib"
    } else {
        "--bin"
    };
    let cargo = env.peek("CARGO").unwrap_or("cargo".as_ref());
    let mut call = Invocation::new(cargo).args(["new", kind]);
    for (option, value) in [("--name", &arguments.name), ("--vcs", &arguments.vcs)] {
        call = call.args(value.iter().flat_map(|value| [option, value.as_str()]));
    }
    let code = process::run(&call.args(["--"]).args([&arguments.path]), env)?;
    if code != exit_code::SUCCESS {
        return Ok((String::new(), code));
    }
    let mut package = ManifestFile::read(&arguments.path, root)?;
    for file in template.files(&package.name) {
        output::write(&arguments.path.join(&file.path), file.content.as_bytes())?;
    }
    package.add(template, &origin, true)?;
    // `--fetch` fetches a toolkit on a machine without CUDA.
    let next = match template {
        Template::Python => "wheel",
        Template::Sys => "test",
        _ => "run",
    };
    let directory = command::quoted(arguments.path.as_os_str());
    let text = format!("next commands:\n  cd {directory}\n  cargo cuda {next} --fetch\n");
    Ok((text, exit_code::SUCCESS))
}

/// Adds CUDA to the package in the current directory, and returns a line for each change.
pub fn init(arguments: &InitArgs, root: &Root) -> Result<String> {
    let origin = arguments.origin.dependency(root)?;
    let template = arguments.template;
    let mut package = ManifestFile::read(Path::new(""), root)?;
    let table = package.manifest.get("package");
    let build = table.and_then(|table| table.get("build"));
    let has_other_script = build.is_some_and(|build| build.as_str() != Some("build.rs"));
    let mut lines = Vec::new();
    for file in template.files(&package.name) {
        let path = Path::new(&file.path);
        // The package has sources and tests of its own.
        if path.starts_with("src") || path.starts_with("tests") {
            continue;
        }
        lines.push(if file.path == "build.rs" && has_other_script {
            "not written: build.rs, because Cargo.toml has `build`: the package needs a build script with the \
             template's calls of cuda-build"
                .to_owned()
        } else if !root.exists(path) {
            output::write(path, file.content.as_bytes())?;
            format!("wrote {}", file.path)
        } else if root.text(path).is_ok_and(|old| old == file.content) {
            format!("unchanged: {}", file.path)
        } else {
            format!("{} exists: merge the template's version by hand", file.path)
        });
    }
    let changes = package.add(template, &origin, false)?;
    let (added, different) = (changes.added, changes.different);
    for (what, keys) in [("added to", added), ("not changed in", different)] {
        lines.extend(keys.iter().map(|key| format!("{what} Cargo.toml: {key}")));
    }
    let library = package.manifest.get("lib");
    let kinds = library.and_then(|library| library.get("crate-type")?.as_array());
    let mut kinds = kinds.into_iter().flatten();
    if template == Template::Python && !kinds.any(|kind| kind.as_str() == Some("cdylib")) {
        let text = "not added to Cargo.toml: `[lib] crate-type = [\"cdylib\"]`, which a Python module needs; programs \
                    and tests cannot link a `cdylib`";
        lines.push(text.to_owned());
    }
    let name = template.name();
    lines.push(format!(
        "`cargo cuda new --template {name} example` makes a package with all files of the template\n"
    ));
    Ok(lines.join("\n"))
}

impl CudaBuildSource {
    /// The key and the value of the dependency on cuda-build.
    fn dependency(&self, root: &Root) -> Result<(&'static str, String)> {
        let Some(checkout) = &self.cuda_build_path else {
            return Ok(("git", env!("CARGO_PKG_REPOSITORY").to_owned()));
        };
        let path = checkout.join("cuda-build");
        if !root.is_file(&path.join("Cargo.toml")) {
            let message = format!("{} has no crate `cuda-build`", checkout.display());
            let hint = "give `--cuda-build-path` the directory of a checkout of cuda-build";
            return Err(Failure::usage(message).hint(hint));
        }
        Ok(("path", root.resolve(&path).to_string_lossy().into_owned()))
    }
}

/// The `Cargo.toml` of the package that is changed.
struct ManifestFile {
    /// The package's name.
    name: String,
    path: PathBuf,
    manifest: DocumentMut,
}

impl ManifestFile {
    fn read(directory: &Path, root: &Root) -> Result<Self> {
        let path = directory.join("Cargo.toml");
        let invalid = |reason: &str, hint: &str| {
            let message = format!("could not read {}: {}", path.display(), reason.trim_end());
            Failure::configuration(message).hint(hint)
        };
        let text = root.text(&path).map_err(|error| {
            let hint = "change to the directory of a package, or create one with `cargo cuda new`";
            invalid(&error.to_string(), hint)
        })?;
        let manifest: DocumentMut = text.parse().map_err(|error: TomlError| {
            invalid(&error.to_string(), "correct the syntax of the file")
        })?;
        let package = manifest.get("package");
        let Some(name) = package.and_then(|table| table.get("name")?.as_str()) else {
            let hint = "change to the directory of a member of the workspace";
            return Err(invalid("it has no `[package]` with a name", hint));
        };
        let name = name.to_owned();
        Ok(Self {
            name,
            path,
            manifest,
        })
    }

    /// Adds the tables of the template.
    fn add(
        &mut self,
        template: Template,
        (key, value): &(&str, String),
        is_new: bool,
    ) -> Result<Changes> {
        let template = template.manifest(&self.name);
        let changes =
            template::add_to_manifest(&mut self.manifest, &template, (key, value), is_new)
                .map_err(|error| Failure::other(error.to_string()))?;
        output::write_if_changed(&self.path, self.manifest.to_string().as_bytes())?;
        Ok(changes)
    }
}
