use super::*;
use crate::wheel::elf::Import;

use Component::{Cublas, Cudart, Cudnn, Cufft, Cusolver, Cusparse, Cutensor, Nccl, Nvrtc};

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
    let mut needs = Needs::default();
    let built = newest(major);
    let facts = module(needed, &[]);
    needs.add_module(&facts, major, &built).unwrap();
    needs.requirements(major, &built).unwrap()
}

/// The requirements that follow from a manifest.
fn of_manifest(keys: &str, major: u32) -> Vec<String> {
    declared(keys, major)
        .requirements(major, &newest(major))
        .unwrap()
}

fn declared(keys: &str, major: u32) -> Needs {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("[package]\nname = 'x'\n[package.metadata.cuda]\n{keys}\n");
    crate::output::write(&directory.path().join("Cargo.toml"), text.as_bytes()).unwrap();
    let (root, env) = (
        cuda_build::internal::Root::system(),
        cuda_build::internal::Env::default(),
    );
    let config = Config::read(&root, &env, directory.path()).unwrap();
    Needs::declared(&config, major)
}

#[test]
fn bounds_come_from_the_first_release() {
    let needed = [
        "libcublasLt.so.12",
        "libcublas.so.12",
        "libcudart.so.12",
        "libcurand.so.10",
        "libc.so.6",
    ];
    assert_eq!(
        of_module(&needed, 12),
        [
            "nvidia-cuda-runtime-cu12>=12.0,<13",
            "nvidia-cublas-cu12>=12.0.1,<13",
            "nvidia-curand-cu12>=10.3.1,<11",
        ]
    );
    assert_eq!(
        of_module(
            &[
                "libcudart.so.13",
                "libcublas.so.13",
                "libcufft.so.12",
                "libcuda.so.1"
            ],
            13
        ),
        ["cuda-toolkit[cudart,nvrtc,nvjitlink,cublas,cufft]>=13.0,<14"]
    );
    assert!(of_module(&["libc.so.6", "libgcc_s.so.1"], 13).is_empty());
}

#[test]
fn products_have_bounds_of_their_own_versions() {
    assert_eq!(
        of_module(&["libnccl.so.2"], 13),
        ["nvidia-nccl-cu13>=2.27.7,<3"]
    );
    assert_eq!(
        of_module(&["libnccl.so.2"], 12),
        ["nvidia-nccl-cu12>=2.16.2,<3"]
    );
    let mut needs = Needs::default();
    needs.required.insert(Nccl);
    // Another major than the newest: the version of the build is all that is known.
    let built = built_with((12, 9), &[(Nccl, "3.1.4")]);
    assert_eq!(
        needs.requirements(12, &built).unwrap(),
        ["nvidia-nccl-cu12>=3.1,<4"]
    );
}

#[test]
fn linked_and_loaded_libraries_are_required_too() {
    assert_eq!(
        of_module(&["libcutensor.so.2"], 13),
        [
            "cuda-toolkit[nvrtc,cublas]>=13.0,<14",
            "cutensor-cu13>=2.7.0,<3"
        ]
    );
    assert_eq!(
        of_module(&["libcutensor.so.2"], 12),
        ["nvidia-cublas-cu12>=12.0.1,<13", "cutensor-cu12>=2.0.0,<3"]
    );
    assert_eq!(
        of_module(&["libcusolver.so.11"], 12),
        [
            "nvidia-nvjitlink-cu12>=12.0,<13",
            "nvidia-cublas-cu12>=12.0.1,<13",
            "nvidia-cusolver-cu12>=11.4.2,<12",
            "nvidia-cusparse-cu12>=12.0.0,<13",
        ]
    );
}

#[test]
fn symbols_raise_the_lower_bound() {
    let of = |major, soname, symbol| {
        let mut needs = Needs::default();
        let built = newest(major);
        let facts = module(&[soname], &[(soname, symbol)]);
        needs.add_module(&facts, major, &built).unwrap();
        needs.requirements(major, &built).unwrap()
    };
    assert_eq!(
        of(12, "libcudart.so.12", "cudaMemcpyBatchAsync"),
        ["nvidia-cuda-runtime-cu12>=12.8,<13"]
    );
    assert_eq!(
        of(12, "libcudart.so.12", "cudaMemcpyAsync"),
        ["nvidia-cuda-runtime-cu12>=12.0,<13"]
    );
    assert_eq!(
        of(13, "libcudart.so.13", "cudaMemcpyBatchAsync"),
        ["cuda-toolkit[cudart]>=13.0,<14"]
    );
    assert_eq!(
        of(12, "libnvJitLink.so.12", "__nvJitLinkCreate_12_4"),
        ["nvidia-nvjitlink-cu12>=12.4,<13"]
    );
}

#[test]
fn symbols_without_versions_raise_the_bound_too() {
    let mut needs = Needs::default();
    let built = built_with((13, 4), &[(Nccl, "2.30.7")]);
    let mut facts = module(&["libc.so.6", "libnccl.so.2"], &[]);
    for symbol in ["PyModule_Create2", "ncclDevCommCreate", "ncclCommInitAll"] {
        facts.imports.push(Import {
            symbol: symbol.to_owned(),
            library: None,
        });
    }
    needs.add_module(&facts, 13, &built).unwrap();
    assert_eq!(
        needs.requirements(13, &built).unwrap(),
        ["nvidia-nccl-cu13>=2.30.7,<3"]
    );
}

#[test]
fn between_compared_versions_the_build_is_the_bound() {
    let mut needs = Needs::default();
    let facts = module(
        &["libcublas.so.12"],
        &[("libcublas.so.12", "cublasDgemmGroupedBatched")],
    );
    let built = built_with((12, 4), &[(Cublas, "12.4.5.8")]);
    needs.add_module(&facts, 12, &built).unwrap();
    assert_eq!(
        needs.requirements(12, &built).unwrap(),
        ["nvidia-cublas-cu12>=12.4.5,<13"]
    );
}

#[test]
fn declared_components_are_required() {
    let keys = "cudart = 'shared'\ncomponents = ['cudart', 'nvrtc', 'cublas', 'nvcc', 'cccl', 'cuda-driver']";
    assert_eq!(
        of_manifest(keys, 13),
        ["cuda-toolkit[cudart,nvrtc,cublas]>=13.0,<14"]
    );
    let is_static = "components = ['cudart', 'nvrtc']";
    assert_eq!(
        of_manifest(is_static, 12),
        ["nvidia-cuda-nvrtc-cu12>=12.0,<13"]
    );
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
    assert_eq!(declared(keys, 11).extras(11), [Cufft].into());
    // A module that needs an optional component always requires it.
    let mut needs = declared(keys, 13);
    let facts = module(&["libcufft.so.12"], &[]);
    needs.add_module(&facts, 13, &newest(13)).unwrap();
    assert_eq!(
        needs.requirements(13, &newest(13)).unwrap(),
        [
            "cuda-toolkit[nvrtc,nvjitlink,cufft]>=13.0,<14",
            "cuda-toolkit[nvjitlink]>=13.0,<14; extra == 'nvjitlink'",
        ]
    );
}

#[test]
fn manifest_raises_a_bound_per_major() {
    let keys = "components = [{ name = 'cudnn', version = '>=9.15' }]\n\
                [package.metadata.cuda.major.12]\ncomponents = [{ name = 'cublas', version = '>=12.4' }]";
    assert_eq!(
        of_manifest(keys, 13),
        [
            "cuda-toolkit[nvrtc,cublas]>=13.0,<14",
            "nvidia-cudnn-cu13>=9.15,<10"
        ]
    );
    assert_eq!(of_manifest(keys, 12), ["nvidia-cublas-cu12>=12.4,<13"]);
    // cuBLAS 13.2 came with CUDA 13.1.
    let keys = "components = [{ name = 'cublas', version = '>=13.2' }]";
    assert_eq!(
        of_manifest(keys, 13),
        ["cuda-toolkit[nvrtc,cublas]>=13.1,<14"]
    );
    // The version of one major does not limit another.
    let keys = "components = [{ name = 'cublas', version = '>=12.4' }]";
    assert_eq!(
        of_manifest(keys, 13),
        ["cuda-toolkit[nvrtc,cublas]>=13.0,<14"]
    );
}

#[test]
fn nvjitlink_is_as_new_as_its_users() {
    let keys = "components = [{ name = 'cusparse', version = '>=12.3' }]";
    assert_eq!(
        of_manifest(keys, 12),
        [
            "nvidia-nvjitlink-cu12>=12.4,<13",
            "nvidia-cusparse-cu12>=12.3,<13"
        ]
    );
    assert_eq!(
        of_module(&["libcusparse.so.11"], 11).len(),
        1,
        "CUDA 11 has no nvJitLink"
    );
}

#[test]
fn lto_ir_bounds_nvjitlink_by_the_compiler() {
    let of = |component: Component| {
        let mut needs = Needs::default();
        needs.required.insert(component);
        needs.has_lto_ir = true;
        needs.requirements(13, &built_with((13, 4), &[])).unwrap()
    };
    assert_eq!(
        of(Component::Nvjitlink),
        ["cuda-toolkit[nvjitlink]>=13.4,<14"]
    );
    assert_eq!(of(Cudart), ["cuda-toolkit[cudart]>=13.0,<14"]);
}

#[test]
fn a_version_line_of_its_own_must_be_known() {
    let mut needs = Needs::default();
    needs.required.insert(Component::Cccl);
    let built = built_with((12, 9), &[]);
    let error = needs.requirements(12, &built).unwrap_err();
    assert!(error.to_string().contains("`cccl`"), "{error}");
    let built = built_with((12, 9), &[(Component::Cccl, "12.9.27")]);
    assert_eq!(
        needs.requirements(12, &built).unwrap(),
        ["nvidia-cuda-cccl-cu12>=12.9.27,<13"]
    );
}

/// Each edge that matters at run time leads to a component with a package, so it is in the requirements.
#[test]
fn required_packages_exist_for_every_dependency() {
    for component in [Cudnn, Cusolver, Cusparse, Cutensor, Nvrtc] {
        for major in [12, 13] {
            for needed in with_dependencies(&[component].into(), major) {
                assert!(
                    needed.facts().package(major).is_some(),
                    "{component} {needed}"
                );
            }
        }
    }
}
