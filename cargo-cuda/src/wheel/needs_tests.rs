use super::*;
use crate::package::elf::Import;

use Component::{Cublas, Cudart, Cufft, Nccl};

fn built_with(toolkit: (u32, u32), versions: &[(Component, &str)]) -> BuiltWith {
    BuiltWith {
        toolkit: ToolkitVersion::new(toolkit.0, toolkit.1),
        components: versions
            .iter()
            .map(|(c, v)| (*c, v.parse().unwrap()))
            .collect(),
    }
}

/// The newest release of a major.
fn newest(major: u32) -> BuiltWith {
    built_with((major, if major == 12 { 9 } else { 5 }), &[])
}

fn module(needed: &[&str], imports: &[(&str, &str)]) -> ElfFacts {
    let imports = imports.iter().map(|(library, symbol)| Import {
        symbol: (*symbol).to_owned(),
        library: Some((*library).to_owned()),
    });
    ElfFacts {
        needed: needed.iter().map(|&soname| soname.to_owned()).collect(),
        imports: imports.collect(),
        ..ElfFacts::default()
    }
}

/// The requirements of a module that needs these libraries.
fn of_module(needed: &[&str], major: u32) -> Vec<String> {
    let mut needs = Needs::new(newest(major));
    needs.add_module(&module(needed, &[])).unwrap();
    needs.requirements().unwrap()
}

/// The requirements that follow from a manifest.
fn of_manifest(keys: &str, major: u32) -> Vec<String> {
    declared(keys, major).requirements().unwrap()
}

fn declared(keys: &str, major: u32) -> Needs {
    Needs::declared(&config(keys), newest(major))
}

fn config(keys: &str) -> Config {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("[package]\nname = 'x'\n[package.metadata.cuda]\n{keys}\n");
    crate::output::write(&directory.path().join("Cargo.toml"), text.as_bytes()).unwrap();
    let (root, env) = (
        cuda_find_core::root::Root::system(),
        cuda_find_core::env::Env::default(),
    );
    Config::read(&root, &env, directory.path()).unwrap()
}

#[test]
fn libraries_loaded_by_name_are_required() {
    let guess = |component: Component, is_loaded: bool| Guess {
        component,
        reason: format!("feature `{component}` of cudarc"),
        is_loaded,
    };
    // No package has the driver.
    let driver = guess(Component::Driver, true);
    let guesses = [guess(Cublas, true), guess(Cufft, false), driver];
    for (keys, required, has_note) in [
        ("", &[Cublas][..], true),
        ("components = ['cublas']", &[Cublas], false),
        (
            "components = [{ name = 'cublas', optional = true }]",
            &[],
            false,
        ),
    ] {
        let config = config(keys);
        let mut needs = Needs::declared(&config, newest(13));
        let note = needs.add_loaded(&guesses, &config);
        assert!(needs.required.iter().eq(required), "{keys}: {needs:?}");
        assert_eq!(note.is_some(), has_note, "{note:?}");
        let says_how = |note: String| {
            note.contains("cublas (feature `cublas` of cudarc)")
                && note.contains("`components = [\"cublas\"]`")
        };
        assert!(note.is_none_or(says_how));
    }
}

#[test]
fn modules_require_what_they_need() {
    for (major, needed, expected) in [
        // Bounds come from the major's first release.
        (
            12,
            &[
                "libcublasLt.so.12",
                "libcublas.so.12",
                "libcudart.so.12",
                "libcurand.so.10",
                "libc.so.6",
            ][..],
            &[
                "nvidia-cuda-runtime-cu12>=12.0,<13",
                "nvidia-cublas-cu12>=12.0.1,<13",
                "nvidia-curand-cu12>=10.3.1,<11",
            ][..],
        ),
        (
            13,
            &[
                "libcudart.so.13",
                "libcublas.so.13",
                "libcufft.so.12",
                "libcuda.so.1",
            ],
            &["cuda-toolkit[cudart,nvrtc,nvjitlink,cublas,cufft]>=13.0,<14"],
        ),
        (13, &["libc.so.6", "libgcc_s.so.1"], &[]),
        // Products have bounds of their own versions.
        (13, &["libnccl.so.2"], &["nvidia-nccl-cu13>=2.27.7,<3"]),
        (12, &["libnccl.so.2"], &["nvidia-nccl-cu12>=2.16.2,<3"]),
        // Linked and loaded libraries are required too.
        (
            13,
            &["libcutensor.so.2"],
            &[
                "cuda-toolkit[nvrtc,cublas]>=13.0,<14",
                "cutensor-cu13>=2.7.0,<3",
            ],
        ),
        (
            12,
            &["libcusolver.so.11"],
            &[
                "nvidia-nvjitlink-cu12>=12.0,<13",
                "nvidia-cublas-cu12>=12.0.1,<13",
                "nvidia-cusolver-cu12>=11.4.2,<12",
                "nvidia-cusparse-cu12>=12.0.0,<13",
            ],
        ),
    ] {
        assert_eq!(of_module(needed, major), expected, "{needed:?}");
    }
    // CUDA 11 has no nvJitLink.
    assert_eq!(of_module(&["libcusparse.so.11"], 11).len(), 1);
    // Another major than the newest: the version of the build is all that is known.
    let mut needs = Needs::new(built_with((12, 9), &[(Nccl, "3.1.4")]));
    needs.required.insert(Nccl);
    let requirements = needs.requirements().unwrap();
    assert_eq!(requirements, ["nvidia-nccl-cu12>=3.1,<4"]);
}

#[test]
fn symbols_raise_the_lower_bound() {
    for (major, soname, symbol, expected) in [
        (
            12,
            "libcudart.so.12",
            "cudaMemcpyBatchAsync",
            "nvidia-cuda-runtime-cu12>=12.8,<13",
        ),
        (
            12,
            "libcudart.so.12",
            "cudaMemcpyAsync",
            "nvidia-cuda-runtime-cu12>=12.0,<13",
        ),
        (
            13,
            "libcudart.so.13",
            "cudaMemcpyBatchAsync",
            "cuda-toolkit[cudart]>=13.0,<14",
        ),
        (
            12,
            "libnvJitLink.so.12",
            "__nvJitLinkCreate_12_4",
            "nvidia-nvjitlink-cu12>=12.4,<13",
        ),
    ] {
        let mut needs = Needs::new(newest(major));
        needs
            .add_module(&module(&[soname], &[(soname, symbol)]))
            .unwrap();
        assert_eq!(needs.requirements().unwrap(), [expected], "{symbol}");
    }
}

#[test]
fn symbols_without_versions_raise_the_bound_too() {
    let mut needs = Needs::new(built_with((13, 4), &[(Nccl, "2.30.7")]));
    let mut facts = module(&["libc.so.6", "libnccl.so.2"], &[]);
    for symbol in ["PyModule_Create2", "ncclDevCommCreate", "ncclCommInitAll"] {
        facts.imports.push(Import {
            symbol: symbol.to_owned(),
            library: None,
        });
    }
    needs.add_module(&facts).unwrap();
    assert_eq!(
        needs.requirements().unwrap(),
        ["nvidia-nccl-cu13>=2.30.7,<3"]
    );
}

#[test]
fn between_compared_versions_the_build_is_the_bound() {
    let mut needs = Needs::new(built_with((12, 4), &[(Cublas, "12.4.5.8")]));
    let facts = module(
        &["libcublas.so.12"],
        &[("libcublas.so.12", "cublasDgemmGroupedBatched")],
    );
    needs.add_module(&facts).unwrap();
    assert_eq!(
        needs.requirements().unwrap(),
        ["nvidia-cublas-cu12>=12.4.5,<13"]
    );
}

#[test]
fn manifests_require_what_they_declare() {
    let raised = "components = [{ name = 'cudnn', version = '>=9.15' }]\n\
                  [package.metadata.cuda.major.12]\ncomponents = [{ name = 'cublas', version = '>=12.4' }]";
    for (major, keys, expected) in [
        (
            13,
            "cudart = 'shared'\ncomponents = ['cudart', 'nvrtc', 'cublas', 'nvcc', 'cccl', 'cuda-driver']",
            &["cuda-toolkit[cudart,nvrtc,cublas]>=13.0,<14"][..],
        ),
        // The static runtime is in the module.
        (
            12,
            "components = ['cudart', 'nvrtc']",
            &["nvidia-cuda-nvrtc-cu12>=12.0,<13"],
        ),
        (
            13,
            raised,
            &[
                "cuda-toolkit[nvrtc,cublas]>=13.0,<14",
                "nvidia-cudnn-cu13>=9.15,<10",
            ],
        ),
        (12, raised, &["nvidia-cublas-cu12>=12.4,<13"]),
        // cuBLAS 13.2 came with CUDA 13.1.
        (
            13,
            "components = [{ name = 'cublas', version = '>=13.2' }]",
            &["cuda-toolkit[nvrtc,cublas]>=13.1,<14"],
        ),
        // The version of one major does not limit another.
        (
            13,
            "components = [{ name = 'cublas', version = '>=12.4' }]",
            &["cuda-toolkit[nvrtc,cublas]>=13.0,<14"],
        ),
        // nvJitLink is as new as its users.
        (
            12,
            "components = [{ name = 'cusparse', version = '>=12.3' }]",
            &[
                "nvidia-nvjitlink-cu12>=12.4,<13",
                "nvidia-cusparse-cu12>=12.3,<13",
            ],
        ),
    ] {
        assert_eq!(of_manifest(keys, major), expected, "{keys}");
    }
}

#[test]
fn optional_components_are_extras() {
    let keys = "components = ['nvrtc', { name = 'cufft', optional = true }, { name = 'nvjitlink', optional = true }]";
    assert_eq!(
        of_manifest(keys, 12),
        [
            "nvidia-cuda-nvrtc-cu12>=12.0,<13",
            "nvidia-nvjitlink-cu12>=12.0,<13; extra == 'nvjitlink'",
            "nvidia-nvjitlink-cu12>=12.0,<13; extra == 'cufft'",
            "nvidia-cufft-cu12>=11.0.0,<12; extra == 'cufft'",
        ]
    );
    assert_eq!(
        of_manifest(keys, 13),
        [
            "cuda-toolkit[nvrtc]>=13.0,<14",
            "cuda-toolkit[nvjitlink]>=13.0,<14; extra == 'nvjitlink'",
            "cuda-toolkit[nvjitlink,cufft]>=13.0,<14; extra == 'cufft'",
        ]
    );
    // CUDA 11 has no nvJitLink.
    assert_eq!(declared(keys, 11).extras(), [Cufft].into());
    // A module that needs an optional component always requires it.
    let mut needs = declared(keys, 13);
    let facts = module(&["libcufft.so.12"], &[]);
    needs.add_module(&facts).unwrap();
    assert_eq!(
        needs.requirements().unwrap(),
        [
            "cuda-toolkit[nvrtc,nvjitlink,cufft]>=13.0,<14",
            "cuda-toolkit[nvjitlink]>=13.0,<14; extra == 'nvjitlink'",
        ]
    );
}

#[test]
fn lto_ir_bounds_nvjitlink_by_the_compiler() {
    let of = |component: Component| {
        let mut needs = Needs::new(built_with((13, 4), &[]));
        needs.required.insert(component);
        needs.has_lto_ir = true;
        needs.requirements().unwrap()
    };
    assert_eq!(
        of(Component::Nvjitlink),
        ["cuda-toolkit[nvjitlink]>=13.4,<14"]
    );
    assert_eq!(of(Cudart), ["cuda-toolkit[cudart]>=13.0,<14"]);
}

#[test]
fn a_version_line_of_its_own_must_be_known() {
    let mut needs = Needs::new(built_with((12, 9), &[]));
    needs.required.insert(Component::Cccl);
    let error = needs.requirements().unwrap_err();
    assert!(error.to_string().contains("`cccl`"), "{error}");
    needs.built_with = built_with((12, 9), &[(Component::Cccl, "12.9.27")]);
    assert_eq!(
        needs.requirements().unwrap(),
        ["nvidia-cuda-cccl-cu12>=12.9.27,<13"]
    );
}

#[test]
fn libraries_of_another_major_are_errors() {
    for (soname, expected) in [
        (
            "libcudart.so.12",
            "needs `libcudart.so.12` of CUDA 12, but the package is for CUDA 13",
        ),
        (
            "libcusolver.so.11",
            "of CUDA 11 or CUDA 12, but the package",
        ),
        (
            "libcudart.so.99",
            "of a CUDA that cargo-cuda does not support, but",
        ),
        ("libnvrtc-builtins.so.12.0", "of CUDA 12, but"),
    ] {
        let error = component_of(soname, 13).unwrap_err().message;
        assert!(error.contains(expected), "{error}");
    }
    let cudart = component_of("libcudart.so.12", 12).unwrap();
    assert_eq!(cudart, Some(Cudart));
    assert_eq!(component_of("libnvinfer.so.10", 12).unwrap(), None);
    let error = check_major(14).unwrap_err().message;
    assert!(error.contains("CUDA 14 are not supported"), "{error}");
}
