//! `cargo cuda new` and `cargo cuda init`: packages from templates.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Args;
use cuda_build::internal::command::{self, Invocation};
use cuda_build::internal::{Env, Root};

use crate::failure::Failure;
use crate::template::manifest::{self, Changed, CudaBuild};
use crate::template::{File, Template};
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
    origin: Origin,
}

/// Add CUDA to the package in the current directory
///
/// Adds dependencies and capabilities to Cargo.toml, and build.rs with an example kernel. No file is overwritten.
#[derive(Args, Clone, Debug)]
pub struct InitArgs {
    /// The template that is added
    #[arg(long, value_enum, default_value_t)]
    template: Template,
    /// Only write .vscode/settings.json, with which rust-analyzer checks through `cargo cuda`
    #[arg(long, conflicts_with = "template")]
    vscode: bool,
    #[command(flatten)]
    origin: Origin,
}

/// Where the package gets cuda-build from.
#[derive(Args, Clone, Debug)]
struct Origin {
    /// A checkout of cuda-build to depend on, instead of its git repository
    #[arg(long, value_name = "DIRECTORY")]
    cuda_build_path: Option<PathBuf>,
}

/// The git repository of cuda-build, from the `repository` key of this program's `Cargo.toml`.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// rust-analyzer checks and runs build scripts with these commands.
const VSCODE: &str = r#"{
    "rust-analyzer.check.overrideCommand": [
        "cargo", "cuda", "check", "--workspace", "--message-format=json", "--all-targets"
    ],
    "rust-analyzer.cargo.buildScripts.overrideCommand": [
        "cargo", "cuda", "check", "--quiet", "--workspace", "--message-format=json", "--all-targets", "--keep-going"
    ]
}
"#;

/// Creates the package, and returns the next commands, with cargo's exit code.
pub fn new(arguments: &NewArgs, env: &Env, root: &Root) -> Result<(String, u8), Failure> {
    let cuda_build = arguments.origin.dependency(root)?;
    let template = arguments.template;
    let name = arguments.name.as_deref().map(OsStr::new);
    let name = name.or(arguments.path.file_name()).unwrap_or_default();
    check_name(template, &name.to_string_lossy())?;
    // Cargo checks the name and the directory, adds the package to a workspace, and makes a repository.
    let kind = match template.is_library() {
        true => "--lib",
        false => "--bin",
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
    let package = Package::read(&arguments.path, root)?;
    for file in template.files(&package.name) {
        output::write(&arguments.path.join(&file.path), file.content.as_bytes())?;
    }
    package.add(template, &cuda_build, false)?;
    let text = format!(
        "next commands:\n  cd {}\n  {}\n",
        command::quoted(arguments.path.as_os_str()),
        next(template)
    );
    Ok((text, exit_code::SUCCESS))
}

/// Words that Python does not accept as the name of a module, and packages of NVIDIA that a wheel would hide. Cargo refuses
/// the keywords that are also keywords of Rust.
const REFUSED_IN_PYTHON: [&str; 26] = [
    "False", "None", "True", "and", "assert", "class", "cuda", "def", "del", "elif", "except",
    "finally", "from", "global", "import", "is", "lambda", "nonlocal", "not", "nvidia", "or",
    "pass", "raise", "try", "with", "yield",
];

fn check_name(template: Template, name: &str) -> Result<(), Failure> {
    if template != Template::Python || !REFUSED_IN_PYTHON.contains(&name) {
        return Ok(());
    }
    let message = format!(
        "the Python package cannot be named `{name}`: that is a keyword of Python, or the name of a package of NVIDIA"
    );
    let hint = format!("choose another name, such as `{name}-ext`");
    Err(Failure::new(exit_code::USAGE, message).hint(hint))
}

/// The first command for the new package. `--fetch` fetches a toolkit on a machine without CUDA.
fn next(template: Template) -> &'static str {
    match template {
        Template::Python => "cargo cuda wheel --fetch",
        Template::Sys => "cargo cuda test --fetch",
        _ => "cargo cuda run --fetch",
    }
}

/// Adds CUDA to the package in the current directory, and returns a line for each change.
pub fn init(arguments: &InitArgs, root: &Root) -> Result<String, Failure> {
    if arguments.vscode {
        return vscode(root);
    }
    let cuda_build = arguments.origin.dependency(root)?;
    let package = Package::read(Path::new(""), root)?;
    check_name(arguments.template, &package.name)?;
    let mut text = String::new();
    // The sources of the package are not from the template.
    let is_source = |file: &File| file.path.starts_with("src/") || file.path.starts_with("tests/");
    let mut files = arguments.template.files(&package.name);
    files.retain(|file| !is_source(file));
    for file in files {
        let path = Path::new(&file.path);
        let other_script = manifest::other_build_script(&package.manifest);
        if let ("build.rs", Some(named)) = (file.path.as_str(), other_script) {
            text.push_str(&format!(
                "not written: build.rs, because Cargo.toml has `build = {named}`; the template has\n\n{}\n",
                indented(&file.content)
            ));
        } else if !root.exists(path) {
            output::write(path, file.content.as_bytes())?;
            text.push_str(&format!("wrote {}\n", file.path));
        } else if root.text(path).is_ok_and(|old| old == file.content) {
            text.push_str(&format!("unchanged: {}\n", file.path));
        } else {
            text.push_str(&format!("not overwritten: {}; ", file.path));
            text.push_str(&format!(
                "the template has\n\n{}\n",
                indented(&file.content)
            ));
        }
    }
    let sources = ["src/main.rs", "src/lib.rs"];
    let has_sources = sources.iter().any(|path| root.exists(Path::new(path)));
    let changed = package.add(arguments.template, &cuda_build, has_sources)?;
    for key in changed.added {
        text.push_str(&format!("added to Cargo.toml: {key}\n"));
    }
    for key in changed.kept {
        text.push_str(&format!("not changed in Cargo.toml: {key}\n"));
    }
    if let Some(crate_type) = changed.left_out {
        text.push_str(&format!(
            "not added to Cargo.toml: lib.crate-type = {crate_type}, which a Python module needs, but which programs and \
             tests of the package cannot use\n"
        ));
    }
    text.push_str(&format!(
        "a package with sources that use this: cargo cuda new --template {} example\n",
        arguments.template.name()
    ));
    Ok(text)
}

fn indented(text: &str) -> String {
    let lines = text.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("    {line}\n"),
    });
    lines.collect()
}

fn vscode(root: &Root) -> Result<String, Failure> {
    let path = Path::new(".vscode/settings.json");
    if root.exists(path) {
        let (path, add) = (path.display(), indented(VSCODE));
        return Ok(format!("not overwritten: {path}; add\n\n{add}"));
    }
    output::write(path, VSCODE.as_bytes())?;
    Ok(format!("wrote {}\n", path.display()))
}

impl Origin {
    fn dependency(&self, root: &Root) -> Result<CudaBuild, Failure> {
        let Some(path) = &self.cuda_build_path else {
            return match REPOSITORY {
                "" => Err(Failure::new(
                    exit_code::USAGE,
                    "this build of cargo-cuda has no address of a git repository for the dependency on cuda-build",
                )
                .hint("add `--cuda-build-path <checkout of cuda-build>`")),
                url => Ok(CudaBuild::Git(url.to_owned())),
            };
        };
        // A checkout has the crate in a directory of its name.
        let found = [path.join("cuda-build"), path.clone()]
            .into_iter()
            .find(|path| {
                let manifest = root.text(&path.join("Cargo.toml")).unwrap_or_default();
                manifest::package_name(&manifest)
                    .is_ok_and(|name| name.as_deref() == Some("cuda-build"))
            });
        let found = found.ok_or_else(|| {
            let message = format!("{} has no crate `cuda-build`", path.display());
            Failure::new(exit_code::USAGE, message)
                .hint("give `--cuda-build-path` the directory of a checkout of cuda-build")
        })?;
        Ok(CudaBuild::Path(
            root.resolve(&found).to_string_lossy().into_owned(),
        ))
    }
}

/// The package that is changed.
struct Package {
    name: String,
    path: PathBuf,
    manifest: String,
}

impl Package {
    fn read(directory: &Path, root: &Root) -> Result<Self, Failure> {
        let path = directory.join("Cargo.toml");
        let invalid = |reason: String| {
            let message = format!("could not read {}: {}", path.display(), reason.trim_end());
            Failure::new(exit_code::CONFIGURATION, message)
        };
        let manifest = root.text(&path).map_err(|error| {
            invalid(error.to_string())
                .hint("change to the directory of a package, or create one with `cargo cuda new`")
        })?;
        let name = manifest::package_name(&manifest)
            .map_err(|error| invalid(error.to_string()).hint("correct the syntax of the file"))?;
        let name = name.ok_or_else(|| {
            invalid("it has no `[package]` with a name".to_owned())
                .hint("change to the directory of a member of the workspace")
        })?;
        Ok(Self {
            name,
            path,
            manifest,
        })
    }

    /// Adds the tables of the template to the manifest.
    fn add(
        &self,
        template: Template,
        cuda_build: &CudaBuild,
        has_sources: bool,
    ) -> Result<Changed, Failure> {
        let template = template.manifest(&self.name);
        let added = manifest::add(&self.manifest, &template, cuda_build, has_sources);
        let changed = added.map_err(|error| {
            Failure::new(exit_code::CONFIGURATION, error.to_string().trim_end())
                .hint("correct the syntax of Cargo.toml")
        })?;
        output::write_if_changed(&self.path, changed.text.as_bytes())?;
        Ok(changed)
    }
}
