//! The ways to build the twelve files, each as its own documentation has it.

/// One way.
pub struct Way {
    pub name: &'static str,
    /// The package whose version is shown.
    pub package: &'static str,
    /// A line of `[build-dependencies]`.
    pub dependency: &'static str,
    /// `build.rs`.
    pub script: &'static str,
    /// Further files of the project.
    pub files: &'static [(&'static str, &'static str)],
    /// Variables for the build.
    pub env: &'static [(&'static str, &'static str)],
}

impl Way {
    /// A name for a directory.
    pub fn id(&self) -> String {
        self.name
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { '-' })
            .collect()
    }

    pub fn has_launcher(&self) -> bool {
        !self.env.is_empty()
    }

    /// Not so for the row that shows what Cargo itself takes.
    pub fn compiles(&self) -> bool {
        !self.package.is_empty()
    }
}

pub const WAYS: [Way; 13] = [
    Way {
        name: "cuda-build",
        package: "cuda-build",
        dependency: "cuda-build = { path = CUDA_BUILD }",
        script: CUDA_BUILD,
        files: &[],
        env: &[],
    },
    Way {
        name: "cuda-build, ccache",
        package: "cuda-build",
        dependency: "cuda-build = { path = CUDA_BUILD }",
        script: CUDA_BUILD,
        files: &[],
        env: &[("CUDA_BUILD_LAUNCHER", "ccache")],
    },
    Way {
        name: "cc, parallel",
        package: "cc",
        dependency: "cc = { version = \"1\", features = [\"parallel\"] }",
        script: CC,
        files: &[],
        env: &[],
    },
    Way {
        name: "cc",
        package: "cc",
        dependency: "cc = \"1\"",
        script: CC,
        files: &[],
        env: &[],
    },
    Way {
        name: "bindgen_cuda, headers watched",
        package: "bindgen_cuda",
        dependency: "bindgen_cuda = \"0.1\"",
        script: BINDGEN_CUDA_WATCH,
        files: &[],
        env: &[],
    },
    Way {
        name: "bindgen_cuda",
        package: "bindgen_cuda",
        dependency: "bindgen_cuda = \"0.1\"",
        script: BINDGEN_CUDA,
        files: &[],
        env: &[],
    },
    Way {
        name: "cudaforge, all cores, headers watched",
        package: "cudaforge",
        dependency: "cudaforge = \"0.1\"",
        script: CUDAFORGE_WATCH,
        files: &[],
        env: &[],
    },
    Way {
        name: "cudaforge",
        package: "cudaforge",
        dependency: "cudaforge = \"0.1\"",
        script: CUDAFORGE,
        files: &[],
        env: &[],
    },
    Way {
        name: "CMake and Ninja",
        package: "cmake",
        dependency: "cmake = \"0.1\"",
        script: CMAKE_NINJA,
        files: &[("kernels/CMakeLists.txt", CMAKE_LISTS)],
        env: &[],
    },
    Way {
        name: "CMake and Make, the defaults",
        package: "cmake",
        dependency: "cmake = \"0.1\"",
        script: CMAKE,
        files: &[("kernels/CMakeLists.txt", CMAKE_LISTS)],
        env: &[],
    },
    Way {
        name: "CMake and Ninja, ccache",
        package: "cmake",
        dependency: "cmake = \"0.1\"",
        script: CMAKE_NINJA,
        files: &[("kernels/CMakeLists.txt", CMAKE_LISTS)],
        env: &[("CMAKE_CUDA_COMPILER_LAUNCHER", "ccache")],
    },
    Way {
        name: "CMake and Ninja, sccache",
        package: "cmake",
        dependency: "cmake = \"0.1\"",
        script: CMAKE_NINJA,
        files: &[("kernels/CMakeLists.txt", CMAKE_LISTS)],
        env: &[("CMAKE_CUDA_COMPILER_LAUNCHER", "sccache")],
    },
    Way {
        name: "(Cargo alone)",
        package: "",
        dependency: "",
        script: CARGO_ALONE,
        files: &[],
        env: &[],
    },
];

const CARGO_ALONE: &str = r#"
fn main() {
    println!("cargo:rerun-if-changed=kernels");
}
"#;

const CUDA_BUILD: &str = r#"
fn main() -> Result<(), cuda_build::Error> {
    let mut library = cuda_build::Library::new("kernels").include("kernels");
    for index in 0..12 {
        library = library.file(format!("kernels/k{index:02}.cu"));
    }
    cuda_build::Build::new()?.library(library).run()?;
    Ok(())
}
"#;

// Linking is not what is measured, and none of the neighbours finds the runtime in this layout:
// each is told where it is. Likewise each is told to look at the whole directory again.
macro_rules! link {
    () => {
        r#"
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-env-changed=CAPABILITIES");
    println!("cargo:rustc-link-search=native={}/lib64", std::env::var("CUDA_HOME").unwrap());
    for library in ["static=cudart_static", "dylib=stdc++", "dylib=rt", "dylib=dl", "dylib=pthread"] {
        println!("cargo:rustc-link-lib={library}");
    }
"#
    };
}

const CC: &str = concat!(
    r#"
fn main() {
    let mut build = cc::Build::new();
    build.cuda(true).cudart("none").include("kernels");
    for capability in std::env::var("CAPABILITIES").unwrap().split(' ') {
        build.flag(format!("-gencode=arch=compute_{capability},code=sm_{capability}"));
    }
    for index in 0..12 {
        build.file(format!("kernels/k{index:02}.cu"));
    }
    build.compile("kernels");
"#,
    link!(),
    "}\n"
);

macro_rules! bindgen_cuda {
    ($more:literal) => {
        concat!(
            r#"
fn main() {
    let out = std::env::var("OUT_DIR").unwrap();
    let mut builder = bindgen_cuda::Builder::default()
        .kernel_paths_glob("kernels/*.cu")
        .include_paths_glob("kernels/*.cuh")
        .arg("-Xcompiler=-fPIC")"#,
            $more,
            r#";
    // For the first capability, it passes `--gpu-architecture`.
    for capability in std::env::var("CAPABILITIES").unwrap().split(' ').skip(1) {
        let argument = format!("-gencode=arch=compute_{capability},code=sm_{capability}");
        builder = builder.arg(argument.leak());
    }
    builder.build_lib(format!("{out}/libkernels.a"));
    println!("cargo:rustc-link-search=native={out}");
    println!("cargo:rustc-link-lib=static=kernels");
"#,
            link!(),
            "}\n"
        )
    };
}

const BINDGEN_CUDA: &str = bindgen_cuda!("");

const BINDGEN_CUDA_WATCH: &str = bindgen_cuda!("\n        .watch([\"kernels/all.cuh\"])");

macro_rules! cudaforge {
    ($more:literal) => {
        concat!(
            r#"
fn main() -> cudaforge::Result<()> {
    let out = std::env::var("OUT_DIR").unwrap();
    let mut builder = cudaforge::KernelBuilder::new()
        .source_glob("kernels/*.cu")
        .include_path("kernels")
        .arg("-Xcompiler=-fPIC")"#,
            $more,
            r#";
    // For the first capability, it passes `-gencode` itself.
    for capability in std::env::var("CAPABILITIES").unwrap().split(' ').skip(1) {
        builder = builder.arg(&format!("-gencode=arch=compute_{capability},code=sm_{capability}"));
    }
    builder.build_lib(format!("{out}/libkernels.a"))?;
    println!("cargo:rustc-link-search=native={out}");
    println!("cargo:rustc-link-lib=static=kernels");
"#,
            link!(),
            "    Ok(())\n}\n"
        )
    };
}

const CUDAFORGE: &str = cudaforge!("");

const CUDAFORGE_WATCH: &str =
    cudaforge!("\n        .thread_percentage(1.0)\n        .watch([\"kernels/all.cuh\"])");

macro_rules! cmake {
    ($generator:literal) => {
        concat!(
            r#"
fn main() {
    let capabilities = std::env::var("CAPABILITIES").unwrap();
    let out = cmake::Config::new("kernels")"#,
            $generator,
            r#"
        .define("CMAKE_CUDA_ARCHITECTURES", format!("{}-real", capabilities.replace(' ', "-real;")))
        .build();
    println!("cargo:rustc-link-search=native={}/lib", out.display());
    println!("cargo:rustc-link-lib=static=kernels");
"#,
            link!(),
            "}\n"
        )
    };
}

const CMAKE: &str = cmake!("");

const CMAKE_NINJA: &str = cmake!("\n        .generator(\"Ninja\")");

const CMAKE_LISTS: &str = r#"
cmake_minimum_required(VERSION 3.24)
project(kernels LANGUAGES CXX CUDA)
file(GLOB sources CONFIGURE_DEPENDS k*.cu)
add_library(kernels STATIC ${sources})
set_target_properties(kernels PROPERTIES POSITION_INDEPENDENT_CODE ON)
install(TARGETS kernels ARCHIVE DESTINATION lib)
"#;
