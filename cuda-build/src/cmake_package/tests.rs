//! The package of components that nobody has, read as text.

use super::*;

fn found(component: Component, include: &[&str], libraries: &[&str], archives: &[&str]) -> Found {
    let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect();
    Found {
        component,
        major: 12,
        version: None,
        toolkit: None,
        include: paths(include),
        libraries: paths(libraries),
        archives: paths(archives),
        tools: Vec::new(),
        evidence: String::new(),
    }
}

fn made(found: &[&Found]) -> Result<CmakePackage, Error> {
    package(ToolkitVersion::new(12, 9), found, &|directory| {
        directory == Path::new("/usr/include")
    })
}

#[test]
fn each_library_is_where_its_component_is() {
    let cudart = found(
        Component::Cudart,
        &["/w/cuda_runtime/include"],
        &["/w/cuda_runtime/lib/libcudart.so.12"],
        &[
            "/w/cuda_runtime/lib/libcudart_static.a",
            "/w/cuda_runtime/lib/libelse.a",
        ],
    );
    let cusolver = found(
        Component::Cusolver,
        &["/w/cusolver/include", "/usr/include"],
        &[
            "/w/cusolver/lib/libcusolver.so.11",
            "/w/cusolver/lib/libcusolverMg.so.11",
        ],
        &["/w/cusolver/lib/libcusolver_static.a"],
    );
    let cublas = found(
        Component::Cublas,
        &["/w/cublas/include"],
        &["/w/$a \"b\\c/libcublas.so.12"],
        &[],
    );
    let cccl = found(Component::Cccl, &["/w/cccl/include"], &[], &[]);
    let cudnn = found(
        Component::Cudnn,
        &["/w/cudnn/include"],
        &["/w/cudnn/lib/libcudnn.so.9"],
        &[],
    );
    let nvml = found(Component::Nvml, &["/w/nvml/include"], &[], &[]);
    let package = made(&[&cudart, &cusolver, &cublas, &cccl, &cudnn, &nvml]).unwrap();
    let components: Vec<&str> = package
        .components()
        .iter()
        .map(|component| component.id())
        .collect();
    assert_eq!(
        components,
        ["cudart", "cusolver", "cublas", "cccl", "cudnn"]
    );
    let [(name, config), (version, _)] = package.files() else {
        panic!("{:?}", package.files())
    };
    assert_eq!(
        [name, version],
        [
            "CUDAComponentsConfig.cmake",
            "CUDAComponentsConfigVersion.cmake"
        ]
    );
    for line in [
        "set(_cuda_here cudart cusolver cublas cccl cudnn)",
        "set(_cuda_cusolver_links nvjitlink cublas cusparse)",
        "set(_cuda_cusolver_loads nvrtc)",
        "  add_library(CUDAComponents::cudart_static STATIC IMPORTED)",
        "    IMPORTED_LOCATION \"/w/cusolver/lib/libcusolverMg.so.11\"",
        "    IMPORTED_LOCATION \"/w/\\$a \\\"b\\\\c/libcublas.so.12\"",
        "    INTERFACE_INCLUDE_DIRECTORIES \"/w/cusolver/include\"",
        "    INTERFACE_LINK_LIBRARIES \"CUDAComponents::toolkit;CUDAComponents::cublas\")",
        "    INTERFACE_INCLUDE_DIRECTORIES \"/w/cuda_runtime/include;/w/cccl/include\"",
        "  add_library(CUDA::cusolver ALIAS CUDAComponents::cusolver)",
        "  add_library(CUDAComponents::cccl INTERFACE IMPORTED)",
    ] {
        assert!(
            config.lines().any(|found| found == line),
            "{line}\n{config}"
        );
    }
    for absent in [
        "CUDA::cudnn ALIAS",
        "libelse",
        "cusolver_static",
        "nvml",
        "\"/usr/include",
        "CUDA::cccl",
    ] {
        assert!(!config.contains(absent), "{absent}\n{config}");
    }
}

#[test]
fn names_are_those_of_cmakes_module() {
    let name = |file: &str, shared| {
        library(Path::new(file), shared)
            .unwrap()
            .map(|library| library.target)
    };
    assert_eq!(
        name("/l/libnvrtc-builtins.so.12.9", true).as_deref(),
        Some("nvrtc_builtins")
    );
    assert_eq!(name("/l/libcufile.so.0", true).as_deref(), Some("cuFile"));
    assert_eq!(
        name("/l/libcudadevrt.a", false).as_deref(),
        Some("cudadevrt")
    );
    assert_eq!(
        name("/l/libnvtx3interop.so.1", true).as_deref(),
        Some("nvtx3_interop")
    );
    assert_eq!(
        name("/l/libsanitizer-public.so", true).as_deref(),
        Some("sanitizer")
    );
    assert_eq!(name("/l/cudart.lib", true), None);
}

#[test]
fn a_path_that_cmake_takes_for_two_is_an_error() {
    for path in ["/a;b/include", "/[x/include", "/x]/include", "/include\\"] {
        let cudart = found(Component::Cudart, &[path], &[], &[]);
        let error = made(&[&cudart]).unwrap_err().to_string();
        assert!(error.contains(path), "{error}");
    }
    assert!(made(&[&found(Component::Cudart, &["/[x]/include"], &[], &[])]).is_ok());
}
