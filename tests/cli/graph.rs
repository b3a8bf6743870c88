//! Which packages look for CUDA by themselves: seen in what their build scripts are given.

use std::fs;
use std::path::Path;

use crate::project::{Project, checkout};

const PACKAGE: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// Notes whether it was given a root, and does not say so by name.
const SCRIPT: &str = r#"
fn main() {
    println!("cargo::rustc-env=GIVEN={}", std::env::var_os(["CU", "DA_PATH"].concat()).is_some());
}
"#;

fn project(name: &str) -> Option<Project> {
    let project = Project::bare(name, &[13])?;
    project.write(
        "Cargo.toml",
        &(PACKAGE.replace("NAME", name) + "[workspace]\n"),
    );
    project.write("build.rs", SCRIPT);
    project.write(
        "src/main.rs",
        "fn main() { println!(\"{}\", env!(\"GIVEN\")); }\n",
    );
    Some(project)
}

/// Whether the build script was given a root.
fn is_given(project: &Project) -> bool {
    let run = project.run(&["run", "-q"]);
    run.succeeded();
    run.stdout.trim().parse().unwrap()
}

#[test]
fn what_a_build_script_leaves_to_others_is_seen_when_it_comes_and_goes() {
    let Some(project) = project("left-to-others") else {
        return;
    };
    project.write("README.md", "This works without CUDA.\n");
    project.write(
        "native/CMakeLists.txt",
        "# Not CUDA: too many machines have none\nproject(native C)\n",
    );
    project.write("native/other.c", "/* what CUDA calls a kernel */\n");
    assert!(!is_given(&project), "prose");
    for (file, text) in [
        ("native/CMakeLists.txt", "find_package(CUDAToolkit)\n"),
        ("Makefile", "kernel.o: kernel.cu\n\t$(NVCC) -c $<\n"),
        ("native/deep/find.cmake", "find_library(BLAS cublas)\n"),
        ("meson.build", "add_languages('cuda')\n"),
        ("src/kernels/scale.cu", ""),
        ("gpu.rs", "const NAME: &str = \"CUDA_HOME\";\n"),
        ("build/gpu.rs", "const NAME: &str = \"CUDA_HOME\";\n"),
    ] {
        let before = fs::read_to_string(project.path.join(file)).ok();
        project.write(file, text);
        assert!(is_given(&project), "{file}");
        match before {
            Some(before) => project.write(file, &before),
            None => fs::remove_file(project.path.join(file)).unwrap(),
        }
        assert!(!is_given(&project), "{file} is gone");
    }

    // A script in a directory of its own, with modules.
    let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
    let moved = manifest.replace("edition", "build = \"script/main.rs\"\nedition");
    project.write("script/gpu.rs", "\n");
    project.write("script/main.rs", &format!("mod gpu;\n{SCRIPT}"));
    project.write("Cargo.toml", &moved);
    assert!(!is_given(&project));
    project.write(
        "script/gpu.rs",
        "#![allow(dead_code)]\nconst NAME: &str = \"CUDA_HOME\";\n",
    );
    assert!(is_given(&project), "a module");
    project.write("script/gpu.rs", "\n");

    project.write(
        "Cargo.toml",
        &format!("{moved}[package.metadata.system-deps]\ncublas = \"12\"\n"),
    );
    assert!(is_given(&project), "libraries for `system-deps`");
    let with_helper = format!("{moved}[build-dependencies]\nfinder = {{ path = \"finder\" }}\n");
    project.write("Cargo.toml", &with_helper);
    project.write("finder/Cargo.toml", &PACKAGE.replace("NAME", "finder"));
    project.write("finder/src/lib.rs", "pub fn find() {}\n");
    assert!(!is_given(&project));
    project.write("finder/src/lib.rs", "mod place;\n");
    project.write(
        "finder/src/place.rs",
        "pub fn find() -> bool { std::env::var(\"CUDA_PATH\").is_ok() }\n",
    );
    assert!(is_given(&project), "a crate for build scripts");
}

#[test]
fn device_code_of_other_packages_and_helpers_with_cuda_build_count_for_nothing() {
    let Some(project) = project("neighbours") else {
        return;
    };
    let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
    let members = "members = [\"gpu\"]\n[build-dependencies]\nfinder = { path = \"finder\" }\n";
    project.write("Cargo.toml", &(manifest + members));
    project.write("gpu/Cargo.toml", &PACKAGE.replace("NAME", "gpu"));
    project.write("gpu/src/lib.rs", "");
    project.write("gpu/kernels/scale.cu", "");
    let cuda_build = checkout().join("cuda-build");
    let dependency = format!("[dependencies]\ncuda-build = {{ path = {cuda_build:?} }}\n");
    project.write(
        "finder/Cargo.toml",
        &(PACKAGE.replace("NAME", "finder") + &dependency),
    );
    project.write("finder/src/lib.rs", "pub use cuda_build::Build;\n");
    fs::copy(
        checkout().join("templates/native-app/Cargo.lock"),
        project.path.join("Cargo.lock"),
    )
    .unwrap();
    // Its own device code is compiled through that crate too.
    project.write("kernels/own.cu", "");
    assert!(!is_given(&project));
    assert!(!project.target.join("cuda/build").exists());
}

#[test]
fn features_are_those_of_the_package_that_one_is_in() {
    let Some(project) = project("outer") else {
        return;
    };
    // An older edition's resolver gives features to the package in the current directory alone.
    let manifest = fs::read_to_string(project.path.join("Cargo.toml"))
        .unwrap()
        .replace("2024", "2018");
    project.write("Cargo.toml", &(manifest + "members = [\"inner\"]\n"));
    let inner = PACKAGE.replace("NAME", "inner") + "[features]\ngpu = []\n";
    project.write("inner/Cargo.toml", &inner);
    project.write(
        "inner/src/lib.rs",
        "#[cfg(not(feature = \"gpu\"))]\ncompile_error!(\"no feature\");\n",
    );
    let inside = |arguments: &[&str], directory: &str| {
        let mut command = project.command(arguments);
        command.current_dir(project.path.join(directory));
        crate::support::Finished::of(command.output().unwrap())
    };
    inside(&["build", "--features", "gpu"], "inner").succeeded();
    inside(&["build", "--features", "gpu"], "inner/src").succeeded();
    inside(
        &[
            "build",
            "--features",
            "gpu",
            "--manifest-path",
            "inner/Cargo.toml",
        ],
        "",
    )
    .succeeded();
    // The same words elsewhere are another question.
    inside(&["build", "--features", "gpu"], "").failed(1, &["gpu"]);
}

#[test]
fn a_target_directory_of_cargos_own_config_is_the_only_one() {
    let Some(project) = project("configured-target") else {
        return;
    };
    let elsewhere = project.path.parent().unwrap().join("elsewhere");
    let config = format!("build.target-dir={elsewhere:?}");
    for arguments in [&["build"][..], &["build", "--major", "13"]] {
        let mut command = project.command(arguments);
        // Cargo takes the variable first.
        command
            .args(["--config", &config])
            .env_remove("CARGO_TARGET_DIR");
        crate::support::Finished::of(command.output().unwrap()).succeeded();
        let made = |directory: &Path| directory.join("cuda").is_dir();
        assert!(made(&elsewhere) && !project.path.join("target").exists());
    }
}
