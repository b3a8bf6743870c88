"""The ways to build twelve `.cu` files, each as its own documentation has it."""

from dataclasses import dataclass, field, replace

# Linking is not what is measured, and none of the neighbours finds the runtime in this layout: each gets its place.
# Likewise each looks at the whole directory again.
LINK = """
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-env-changed=CAPABILITIES");
    println!("cargo:rerun-if-env-changed=CUDA_BUILD_CAPABILITIES");
    println!("cargo:rustc-link-search=native={}/lib64", std::env::var("CUDA_HOME").unwrap());
    for library in ["static=cudart_static", "dylib=stdc++", "dylib=rt", "dylib=dl", "dylib=pthread"] {
        println!("cargo:rustc-link-lib={library}");
    }
"""

CUDA_BUILD = """
fn main() -> Result<(), cuda_build::Error> {
    let mut library = cuda_build::Library::new("kernels").include("kernels");
    for index in 0..12 {
        library = library.file(format!("kernels/k{index:02}.cu"));
    }
    cuda_build::Build::new()?.library(library).run()?;
    Ok(())
}
"""

CC = f"""
fn main() {{
    let mut build = cc::Build::new();
    build.cuda(true).cudart("none").include("kernels");
    for capability in std::env::var("CAPABILITIES").unwrap().split(' ') {{
        build.flag(format!("-gencode=arch=compute_{{capability}},code=sm_{{capability}}"));
    }}
    for index in 0..12 {{
        build.file(format!("kernels/k{{index:02}}.cu"));
    }}
    build.compile("kernels");
{LINK}}}
"""

BINDGEN_CUDA = f"""
fn main() {{
    let out = std::env::var("OUT_DIR").unwrap();
    let mut builder = bindgen_cuda::Builder::default()
        .kernel_paths_glob("kernels/*.cu")
        .include_paths_glob("kernels/*.cuh")
        .arg("-Xcompiler=-fPIC")MORE;
    // For the first capability, it passes `--gpu-architecture`.
    for capability in std::env::var("CAPABILITIES").unwrap().split(' ').skip(1) {{
        let argument = format!("-gencode=arch=compute_{{capability}},code=sm_{{capability}}");
        builder = builder.arg(argument.leak());
    }}
    builder.build_lib(format!("{{out}}/libkernels.a"));
    println!("cargo:rustc-link-search=native={{out}}");
    println!("cargo:rustc-link-lib=static=kernels");
{LINK}}}
"""

CUDAFORGE = f"""
fn main() -> cudaforge::Result<()> {{
    let out = std::env::var("OUT_DIR").unwrap();
    let mut builder = cudaforge::KernelBuilder::new()
        .source_glob("kernels/*.cu")
        .include_path("kernels")
        .arg("-Xcompiler=-fPIC")MORE;
    // For the first capability, it passes `-gencode` itself.
    for capability in std::env::var("CAPABILITIES").unwrap().split(' ').skip(1) {{
        builder = builder.arg(&format!("-gencode=arch=compute_{{capability}},code=sm_{{capability}}"));
    }}
    builder.build_lib(format!("{{out}}/libkernels.a"))?;
    println!("cargo:rustc-link-search=native={{out}}");
    println!("cargo:rustc-link-lib=static=kernels");
{LINK}    Ok(())
}}
"""

# `Release`, because debug information has paths in it, as with `cc`.
CMAKE = f"""
fn main() {{
    let capabilities = std::env::var("CAPABILITIES").unwrap();
    let out = cmake::Config::new("kernels")MORE
        .profile("Release")
        .define("CMAKE_CUDA_ARCHITECTURES", format!("{{}}-real", capabilities.replace(' ', "-real;")))
        .build();
    println!("cargo:rustc-link-search=native={{}}/lib", out.display());
    println!("cargo:rustc-link-lib=static=kernels");
{LINK}}}
"""

CMAKE_LISTS = """
cmake_minimum_required(VERSION 3.24)
project(kernels LANGUAGES CXX CUDA)
file(GLOB sources CONFIGURE_DEPENDS k*.cu)
add_library(kernels STATIC ${sources})
set_target_properties(kernels PROPERTIES POSITION_INDEPENDENT_CODE ON)
install(TARGETS kernels ARCHIVE DESTINATION lib)
"""

CARGO_ALONE = 'fn main() {\n    println!("cargo:rerun-if-changed=kernels");\n}\n'


@dataclass
class Way:
    name: str
    # The package whose version is shown; empty for Cargo alone.
    package: str
    dependency: str
    script: str
    # Variables of the build, which name a launcher.
    env: dict[str, str] = field(default_factory=dict)
    # Under `cargo cuda build`: the script requests sm_80 alone, and the nvcc wrapper gives it the list.
    wrapped: bool = False

    @property
    def has_cache(self) -> bool:
        return bool(self.env) or self.wrapped or self.package == "cuda-build"


NINJA = CMAKE.replace("MORE", '.generator("Ninja")')
WATCH = '.watch(["kernels/all.cuh"])'
CMAKE_DEPENDENCY = 'cmake = "0.1"'
LAUNCHER = "CMAKE_CUDA_COMPILER_LAUNCHER"
WAYS = [
    Way("cuda-build", "cuda-build", 'cuda-build = { path = "OURS" }', CUDA_BUILD),
    Way("cc, parallel", "cc", 'cc = { version = "1", features = ["parallel"] }', CC),
    Way("cc", "cc", 'cc = "1"', CC),
    Way("bindgen_cuda, headers watched", "bindgen_cuda", 'bindgen_cuda = "0.1"', BINDGEN_CUDA.replace("MORE", WATCH)),
    Way("bindgen_cuda", "bindgen_cuda", 'bindgen_cuda = "0.1"', BINDGEN_CUDA.replace("MORE", "")),
    Way(
        "cudaforge, all cores, headers watched",
        "cudaforge",
        'cudaforge = "0.1"',
        CUDAFORGE.replace("MORE", ".thread_percentage(1.0)" + WATCH),
    ),
    Way("cudaforge", "cudaforge", 'cudaforge = "0.1"', CUDAFORGE.replace("MORE", "")),
    Way("CMake and Ninja", "cmake", CMAKE_DEPENDENCY, NINJA),
    Way("CMake and Make, the defaults", "cmake", CMAKE_DEPENDENCY, CMAKE.replace("MORE", "")),
    Way("CMake and Ninja, ccache", "cmake", CMAKE_DEPENDENCY, NINJA, {LAUNCHER: "ccache"}),
    Way("CMake and Ninja, sccache", "cmake", CMAKE_DEPENDENCY, NINJA, {LAUNCHER: "sccache"}),
    Way("(Cargo alone)", "", "", CARGO_ALONE),
]
# The best settings of each helper, which notice every change.
UNDER_WRAPPER = [2, 4, 6, 8]
WRAPPER = ", wrapper"
WAYS[-1:-1] = [replace(WAYS[index], name=WAYS[index].name + WRAPPER, wrapped=True) for index in UNDER_WRAPPER]
