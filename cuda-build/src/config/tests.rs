use std::fs;

use super::*;
use cuda_find_core::sources::workspace_root;

#[expect(
    clippy::disallowed_methods,
    reason = "tests write the manifests that are then read"
)]
fn put(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn write(directory: &Path, text: &str) {
    put(&directory.join("Cargo.toml"), text);
}

fn read(manifest: &str, env: &Env) -> Result<Config, Error> {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), manifest);
    Config::read(&Root::system(), env, directory.path())
}

#[test]
fn a_list_for_one_package_comes_before_the_general_list() {
    let manifest = "[package]\nname = \"flash-attn\"\n[package.metadata.cuda]\ncapabilities = [\"9.0a\"]\n\
                    [workspace.metadata.cuda.package.flash-attn]\ncapabilities = [\"8.0\"]\n\
                    [workspace.metadata.cuda.package.other]\ncapabilities = [\"7.5\"]\n";
    let list = |variables: &[(&str, &str)]| {
        let config = read(manifest, &Env::from_pairs(variables.iter().copied())).unwrap();
        assert_eq!(config.replaced_capabilities.as_deref().unwrap(), ["9.0a"]);
        config.for_major(13).capabilities.unwrap().to_owned()
    };
    let general = ("CUDA_BUILD_CAPABILITIES", "12.0");
    assert_eq!(list(&[general]), ["8.0"]);
    let for_package = ("CUDA_BUILD_CAPABILITIES_FLASH_ATTN", "9.0");
    assert_eq!(list(&[general, for_package]), ["9.0"]);
}

#[test]
fn every_key_is_read() {
    let config = read(
        r#"
        [package]
        name = "x"
        [package.metadata.cuda]
        toolkit = ">=12.2, <14"
        majors = [12, 13]
        components = ["cudart", { name = "cudnn", version = ">=9", optional = true }]
        capabilities = ["8.0", "12.0+PTX"]
        cudart = "shared"
        single-capability = "8.0"
        jetson = true
        dependencies = ["numpy"]
        [package.metadata.cuda.major.12]
        capabilities = ["7.0"]
        components = ["cudart"]
        dependencies = ["cupy-cuda12x"]
        [package.metadata.cuda.wheel]
        plain = 12
        "#,
        &Env::default(),
    )
    .unwrap();
    assert_eq!(config.majors, [12, 13]);
    assert_eq!(config.cudart, Cudart::Shared);
    assert!(config.jetson);
    assert_eq!(config.single_capability.as_deref(), Some("8.0"));
    let thirteen = config.for_major(13);
    assert_eq!(thirteen.capabilities.unwrap(), ["8.0", "12.0+PTX"]);
    assert!(thirteen.components[1].optional);
    assert_eq!(thirteen.components[1].component, Component::Cudnn);
    let twelve = config.for_major(12);
    assert_eq!(twelve.capabilities.unwrap(), ["7.0"]);
    assert_eq!(twelve.components.len(), 1);
    assert_eq!(twelve.dependencies, ["cupy-cuda12x"]);
    assert_eq!(thirteen.dependencies, ["numpy"]);
    assert_eq!(config.plain_wheel, Some(12));
}

#[test]
fn version_requirements_have_a_lowest_version() {
    let lowest = |version: &str| {
        let wanted = Wanted {
            component: Component::Cudnn,
            version: Some(version.parse().unwrap()),
            optional: false,
        };
        wanted.lowest_version().map(|version| version.to_string())
    };
    for (requirement, expected) in [
        (">=9.2, <10", "9.2"),
        ("9", "9"),
        ("~9.2.1", "9.2.1"),
        ("=9.10", "9.10"),
        (">9.2", "9.3"),
        (">=9.2, >9.4.0", "9.4.1"),
        ("9.*", "9"),
    ] {
        assert_eq!(
            lowest(requirement).as_deref(),
            Some(expected),
            "{requirement}"
        );
    }
    for requirement in ["*", "<10", "<=9.4"] {
        assert_eq!(lowest(requirement), None, "{requirement}");
    }
}

#[test]
fn bad_values_name_file_and_key() {
    for (line, expected) in [
        (
            "capabilites = ['8.0']",
            "Cargo.toml:4: `package.metadata.cuda.capabilites`: unknown key; the known keys are ",
        ),
        ("capabilities = [80]", "expected a list of strings"),
        ("toolkit = 'new'", "not a version requirement"),
        (
            "components = ['cublass']",
            "`cublass` is not a CUDA component",
        ),
        ("cudart = 'dynamic'", "neither `static` nor `shared`"),
        ("majors = ['13']", "list of CUDA majors"),
        ("driver = '580'", "Cargo.toml:4: `package.metadata.cuda.d"),
        ("wheel = { nam = 'x' }", "package.metadata.cuda.wheel.nam"),
    ] {
        let text = format!("[package]\nname = 'a'\n[package.metadata.cuda]\n{line}\n");
        let error = read(&text, &Env::default()).unwrap_err().to_string();
        assert!(
            error.contains(expected) && error.contains("Cargo.toml"),
            "{error}"
        );
    }
}

#[test]
fn package_beats_workspace_and_variables_beat_both() {
    let directory = tempfile::tempdir().unwrap();
    let tables = "[workspace]\nmembers = ['a']\nexclude = ['a', 'b']\n[workspace.metadata.cuda]\n\
                  cudart = 'shared'\ncapabilities = ['8.0']\n[workspace.metadata.cuda.major.12]\n\
                  capabilities = ['7.0']\ncomponents = ['cublas']\n";
    write(directory.path(), tables);
    let (package, excluded) = (directory.path().join("a"), directory.path().join("b"));
    let tables = "[package]\nname = 'a'\n[package.metadata.cuda]\ncapabilities = ['9.0']\n\
                  [package.metadata.cuda.major.12]\ncomponents = ['cufft']\n[lib]\ncrate-type = ['cdylib']\n";
    write(&package, tables);
    write(&excluded, "[package]\nname = 'b'\n");
    let read = |env: Env| Config::read(&Root::system(), &env, &package).unwrap();
    let config = read(Env::default());
    assert_eq!((config.cudart, config.cdylib), (Cudart::Shared, true));
    assert_eq!(config.for_major(13).capabilities.unwrap(), ["9.0"]);
    // Tables are merged key by key: what the package declares beats the workspace's list for one major.
    let twelve = config.for_major(12);
    assert_eq!(twelve.capabilities.unwrap(), ["9.0"]);
    assert_eq!(twelve.components[0].component, Component::Cufft);
    let env = Env::from_pairs([
        ("CUDA_BUILD_CAPABILITIES", "7.5+PTX"),
        ("CUDA_BUILD_CUDART", "static"),
    ]);
    let config = read(env);
    assert_eq!(config.cudart, Cudart::Static);
    for major in [12, 13] {
        assert_eq!(config.for_major(major).capabilities.unwrap(), ["7.5+PTX"]);
    }
    let root = Root::system();
    let config = Config::read(&root, &Env::default(), &excluded).unwrap();
    assert_eq!((config.cudart, config.cdylib), (Cudart::Static, false));
    let workspace = workspace_root(&root, &package.join("src"));
    assert_eq!(workspace.as_deref(), Some(directory.path()));
    assert_eq!(workspace_root(&root, &excluded), Some(excluded));
}
