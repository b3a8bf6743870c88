//! What a command builds, beside what Cargo says that it builds.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use cargo_cuda::cargo_arguments::CargoOptions;
use cargo_cuda::selection::{CargoCommand, Scope, Selection};
use cargo_metadata::MetadataCommand;
use cuda_find_core::env::Env;

/// Two programs, a library with features, a procedural macro, dependencies of every kind, for several platforms.
fn workspace(place: &Path) {
    let write = |path: &str, text: &str| {
        let path = place.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let root = "[workspace]\nmembers = [\"crates/*\"]\ndefault-members = [\"crates/app\", \"crates/base\"]\n\
                resolver = \"2\"\n";
    write("Cargo.toml", root);
    let package = |name: &str, rest: &str| {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}"
        );
        write(&format!("crates/{name}/Cargo.toml"), &manifest);
    };
    package(
        "app",
        "[dependencies]\nbase = { path = \"../base\", features = [\"fast\"] }\nmacros = { path = \"../macros\" }\n\
         [target.'cfg(windows)'.dependencies]\nwindows-link = \"0.2\"\n\
         [target.'cfg(target_arch = \"aarch64\")'.dependencies]\nfnv = \"1\"\n\
         [build-dependencies]\ncc = \"1\"\nbase = { path = \"../base\" }\n[dev-dependencies]\nitoa = \"1\"\n",
    );
    package(
        "base",
        "[features]\ndefault = [\"std\"]\nstd = []\nfast = [\"dep:memchr\"]\nextra = [\"dep:bitflags\"]\n[dependencies]\n\
         memchr = { version = \"2\", optional = true, default-features = false }\n\
         bitflags = { version = \"2\", optional = true }\n[dev-dependencies]\nhelp = { path = \"../help\" }\n",
    );
    package("help", "[dependencies]\nmemchr = \"2\"\n");
    package(
        "macros",
        "[lib]\nproc-macro = true\n[dependencies]\nunicode-ident = \"1\"\n",
    );
    package(
        "tool",
        "[dependencies]\nbase = { path = \"../base\", default-features = false }\n",
    );
    for path in [
        "app/src/main.rs",
        "app/build.rs",
        "app/src/bin/second.rs",
        "tool/src/main.rs",
    ] {
        write(&format!("crates/{path}"), "fn main() {}\n");
    }
    for path in [
        "base/src/lib.rs",
        "help/src/lib.rs",
        "macros/src/lib.rs",
        "base/tests/all.rs",
    ] {
        write(&format!("crates/{path}"), "");
    }
    write("crates/base/examples/shown.rs", "fn main() {}\n");
    write("crates/tool/benches/timed.rs", "fn main() {}\n");
}

/// Packages with their features: `base 0.1.0 default,std`.
type Packages = BTreeSet<String>;

/// What Cargo itself builds, by its unstable list of units.
fn built(place: &Path, command: &str, arguments: &[&str]) -> Packages {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(place).env("RUSTC_BOOTSTRAP", "1");
    cargo
        .arg(command)
        .args(arguments)
        .args(["--unit-graph", "-Zunstable-options"]);
    let done = cargo.output().unwrap();
    let messages = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command} {arguments:?}: {messages}");
    let graph: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let unit = |unit: &serde_json::Value| {
        let id = unit["pkg_id"].as_str().unwrap();
        let (place, fragment) = id.split_once('#').unwrap();
        let last = place.rsplit('/').next().unwrap();
        let (name, version) = fragment.split_once('@').unwrap_or((last, fragment));
        let features = unit["features"].as_array().unwrap().iter();
        let features: Vec<&str> = features.map(|it| it.as_str().unwrap()).collect();
        format!("{name} {version} {}", features.join(","))
    };
    graph["units"]
        .as_array()
        .unwrap()
        .iter()
        .map(unit)
        .collect()
}

fn selected(place: &Path, command: &str, arguments: &[&str]) -> Packages {
    let words: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let options = CargoOptions::parse(&words);
    let manifest = place.join(
        options
            .value("--manifest-path")
            .unwrap_or("Cargo.toml".to_owned()),
    );
    let metadata = MetadataCommand::new()
        .manifest_path(&manifest)
        .exec()
        .unwrap();
    let command = CargoCommand {
        name: command,
        options: &options,
        manifest: Some(&manifest),
        default_platform: "x86_64-unknown-linux-gnu",
    };
    let env = Env::from_process();
    let selection = Selection::read(&metadata, &command, Scope::Command, &env).unwrap();
    let packages = selection.packages.iter();
    let shown = packages.map(|it| format!("{} {} {}", it.name, it.version, it.features.join(",")));
    shown.collect()
}

/// Whether the package is among `others` with more features.
fn has_less_than_one(package: &str, others: &Packages) -> bool {
    let (name, features) = package.rsplit_once(' ').unwrap();
    others.iter().any(|other| {
        let (other_name, others) = other.rsplit_once(' ').unwrap();
        let others: Vec<&str> = others.split(',').collect();
        let mut features = features.split(',').filter(|feature| !feature.is_empty());
        name == other_name && features.all(|feature| others.contains(&feature))
    })
}

mod online {
    use super::*;

    #[test]
    fn the_selection_is_what_cargo_builds() {
        let place = tempfile::tempdir().unwrap();
        let place = &place.path().canonicalize().unwrap();
        workspace(place);
        let path = format!("path+file://{}/crates/app", place.display());
        let mut all = BTreeSet::new();
        for line in [
            "build",
            "build -p app",
            "build -p tool",
            "build --package=t*",
            "build -p app@0.1.0",
            "build -p PATH",
            "build -p memchr",
            "build -p app -p tool",
            "build --workspace",
            "build --workspace --exclude app",
            "build --manifest-path crates/tool/Cargo.toml",
            "build -p base --features extra",
            "build --workspace --features base/extra",
            "build -p base --all-features",
            "build -p base --no-default-features",
            "build --bin second",
            "build --workspace --bin tool",
            "build --workspace --bin t*",
            "build --workspace --bins",
            "build --lib",
            "build -p app --target aarch64-unknown-linux-gnu",
            "build -p base --example shown",
            "build --release --locked -j2 -p app",
            "run -p tool",
            "run --workspace --exclude app",
            "test",
            "test -p app",
            "test -p base --test all",
            "test --workspace --lib",
            "bench -p tool",
            "check --all-targets",
            "check -p base --tests",
            "check -p base --profile test",
            "doc",
            "doc -p tool --no-deps",
        ] {
            let line = line.replace("PATH", &path);
            let mut words = line.split_whitespace();
            let command = words.next().unwrap();
            let arguments: Vec<&str> = words.collect();
            let selected = selected(place, command, &arguments);
            // `run` has no list of units. Without an option for a target, it builds what `build` builds.
            let built = match command {
                "run" => built(place, "build", &arguments),
                _ => built(place, command, &arguments),
            };
            all.insert(built.clone());
            let missing: Vec<_> = built.difference(&selected).collect();
            assert!(missing.is_empty(), "{line}: {missing:?}");
            // A selected package that is also a build dependency is printed with the features of both.
            let extra = selected.difference(&built);
            let extra: Vec<_> = extra.filter(|it| !has_less_than_one(it, &built)).collect();
            assert!(extra.is_empty(), "{line}: {extra:?}");
        }
        assert!(all.len() > 15, "the selections differ: {}", all.len());
    }
}
