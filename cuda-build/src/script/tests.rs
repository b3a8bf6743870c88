//! `Build` with a toolkit of empty files.

use std::fs;

use super::Build;
use crate::compile::{Format, Library, Module};
use crate::error::Error;
use cuda_find_core::{component::Component, directive::Directives, env::Env, root::Root};

struct Place(tempfile::TempDir);

impl Place {
    /// A package, and a root with the runtime, NVRTC and these libraries of CUDA 12.4.
    fn new(metadata: &str, libraries: &[&str]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let manifest = format!("[package]\nname = \"p\"\n[package.metadata.cuda]\n{metadata}");
        place.write("package/Cargo.toml", &manifest);
        place.write("package/k.cu", "");
        place.write("cuda/include/cuda.h", "#define CUDA_VERSION 12040\n");
        place.write("cuda/include/cuda_runtime.h", "");
        for library in ["cudart", "nvrtc"].iter().chain(libraries) {
            place.write(&format!("cuda/lib64/lib{library}.so.12"), "");
        }
        place.write("cuda/lib64/libcudart_static.a", "");
        place.write("cuda/lib64/libnvrtc-builtins.so.12.4", "");
        fs::create_dir(place.path("out")).unwrap();
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn build(&self) -> Build {
        self.build_for("x86_64-unknown-linux-gnu", "0")
    }

    fn build_for(&self, target: &str, skip: &str) -> Build {
        let env = Env::from_pairs([("TARGET", target), ("CUDA_BUILD_SKIP", skip)])
            .with("CARGO_MANIFEST_DIR", self.path("package"))
            .with("OUT_DIR", self.path("out"))
            .with("CUDA_HOME", self.path("cuda"))
            .with("CUDA_BUILD_CACHE_DIR", self.path("cache"));
        Build::from_env(env, Root::below(self.0.path())).unwrap()
    }

    fn generated(&self) -> String {
        fs::read_to_string(self.path("out/cuda_build.rs")).unwrap()
    }
}

/// The directives of a build.
fn built(build: &Build) -> String {
    let mut directives = Directives::default();
    build.run_with_toolkit(&mut directives).unwrap();
    directives.to_lines().unwrap().join("\n") + "\n"
}

#[test]
fn a_script_without_code_writes_an_empty_source() {
    let place = Place::new("", &[]);
    built(&place.build());
    assert!(place.generated().contains("pub mod modules {"));
    assert!(place.generated().contains("CAPABILITY_LIST: &str = \"\""));
}

#[test]
fn equal_names_are_refused() {
    let place = Place::new("capabilities = [\"8.0\"]", &[]);
    let library = || Library::new("a").file("k.cu");
    let libraries = place.build().library(library()).library(library());
    let modules = place
        .build()
        .module("k.cu")
        .module(Module::new("x.cu").named("K"));
    for (build, expected) in [
        (libraries, "two libraries are named `a`"),
        (modules, "the modules k.cu and x.cu are both named `K`"),
    ] {
        let error = build.toolkit().unwrap_err();
        let is_usage = matches!(
            &error,
            Error::Find(cuda_find_core::error::Error::Usage { .. })
        );
        assert!(is_usage);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// The components of the newest declared major are not needed for an older toolkit.
#[test]
fn the_lists_of_the_found_major_are_used() {
    let metadata = "majors = [12, 13]\n[package.metadata.cuda.major.12]\ncomponents = [\"cublas\"]\n\
                    [package.metadata.cuda.major.13]\ncomponents = [\"cufft\"]\n";
    let place = Place::new(metadata, &["cublas", "cublasLt"]);
    place.write("cuda/include/cublas_api.h", "#define CUBLAS_VER_MAJOR 12\n");
    place.write("cuda/include/cublas_v2.h", "");
    let directives = built(&place.build());
    assert!(directives.contains("libcublas.so.12"), "{directives}");
    let without = Place::new(metadata, &[]);
    assert!(without.build().toolkit().is_err());
}

#[test]
fn a_script_requires_components() {
    let metadata = "components = [{ name = \"cufft\", optional = true }]\n\
                    [package.metadata.cuda.major.12]\ncomponents = [\"cudart\"]\n";
    let place = Place::new(metadata, &[]);
    let build = place.build();
    build.toolkit().unwrap();
    let build = build.component(Component::Cufft);
    let error = build.toolkit().unwrap_err().to_string();
    let expected = "CUDA component `cufft` not found (required by the build script)";
    assert!(error.contains(expected), "{error}");
    place.write("cuda/lib64/libcufft.so.11", "");
    place.write("cuda/include/cufft.h", "#define CUFFT_VER_MAJOR 11\n");
    let lines = built(&build);
    assert!(lines.contains("libcufft.so.11"), "{lines}");
    assert!(
        lines.contains("cargo::rustc-cfg=cuda_have_cufft"),
        "{lines}"
    );
}

#[test]
fn a_module_does_not_change_the_release() {
    let place = Place::new("", &[]);
    let build = place.build();
    assert_eq!(build.toolkit().unwrap().version().to_string(), "12.4");
    let build = build.module("k.cu");
    assert!(build.toolkit().unwrap().get(Component::Nvrtc).is_some());
    // Meanwhile, another release was installed.
    place.write("cuda/include/cuda.h", "#define CUDA_VERSION 12050\n");
    assert!(
        build
            .module(Module::new("k.cu").named("l"))
            .toolkit()
            .is_err()
    );
}

#[test]
fn unsupported_platforms_can_be_skipped() {
    let place = Place::new(
        "capabilities = [\"8.0\", \"12.0+PTX\"]\ncomponents = [{ name = \"cudnn\", optional = true }]",
        &[],
    );
    let build = place.build_for("aarch64-apple-darwin", "1").module("k.cu");
    assert_eq!(build.plan().unwrap().to_string(), "8.0, 12.0+PTX");
    let mut directives = Directives::default();
    build
        .run_skipped("CUDA_BUILD_SKIP", &mut directives)
        .unwrap();
    let lines = directives.to_lines().unwrap();
    assert_eq!(
        lines[..7],
        [
            "cargo::rustc-cfg=cuda_part=\"k\"",
            "cargo::rustc-check-cfg=cfg(cuda_build_skipped)",
            "cargo::rustc-check-cfg=cfg(cuda_since, values(any()))",
            "cargo::rustc-check-cfg=cfg(cuda_capability, values(any()))",
            "cargo::rustc-check-cfg=cfg(cuda_part, values(any()))",
            "cargo::rustc-cfg=cuda_build_skipped",
            "cargo::rustc-check-cfg=cfg(cuda_have_cudnn)",
        ]
    );
    assert!(lines[7].contains("built without CUDA"), "{lines:?}");
    assert!(place.generated().contains("pub static K: &[u8]"));
    let error = place
        .build_for("aarch64-apple-darwin", "0")
        .toolkit()
        .unwrap_err();
    let shown = format!("{error:?}");
    assert!(
        shown.contains("only Linux") && shown.contains("`CUDA_BUILD_SKIP=1`"),
        "{shown}"
    );
}

#[test]
fn parts_are_compiled_for_what_they_are_written_for() {
    let place = Place::new("capabilities = [\"8.0\", \"9.0\", \"8.6+PTX\"]", &[]);
    for name in ["src/a.cu", "src/b.cu", "src/moe_c.cu"] {
        place.write(&format!("package/{name}"), "");
    }
    let mut build = place
        .build()
        .modules(
            Module::new("src/*.cu")
                .exclude("src/moe_*.cu")
                .capabilities(["9.0a"]),
        )
        .module(Module::new("k.cu").capabilities(["12.0f"]))
        .module(Module::new("k.cu").named("all").format(Format::Ptx));
    let mut directives = Directives::default();
    build.assign_capabilities(&mut directives).unwrap();
    let plan = build.plan().unwrap();
    let plans = build.code.plans_of_modules(&plan).unwrap();
    let plans: Vec<String> = plans
        .iter()
        .map(|(name, plan)| format!("{name}: {plan}"))
        .collect();
    assert_eq!(plans, ["a: 9.0a", "b: 9.0a", "all: compute_80", "k: "]);
    let warning = "`k` is left out: it is written for other capabilities than 8.0, 8.6+PTX, 9.0";
    assert_eq!(
        directives.to_lines().unwrap()[0],
        format!("cargo::warning={warning}")
    );
}

#[test]
fn wrong_parts_are_refused() {
    let place = Place::new("capabilities = [\"8.0\"]", &[]);
    let flagged = |flag: &str| place.build().module(Module::new("k.cu").flag(flag));
    for (build, expected) in [
        (
            flagged("-gencode=arch=compute_90a,code=sm_90a"),
            "chooses capabilities",
        ),
        (flagged("--gpu-architecture=sm_90a"), "chooses capabilities"),
        (place.build().modules("none/*.cu"), "matches `none/*.cu`"),
        (
            place.build().modules(Module::new("*.cu").exclude("k*")),
            "and not `k*`",
        ),
    ] {
        let error = build.run().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
