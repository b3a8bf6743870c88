//! Every layout that CUDA is found in: what the search says and chooses, and what Cargo is told,
//! against texts that were read by a person.
//!
//! `tests/layouts/<name>.txt` lists the files, `<name>.expected.txt` holds what has to come out.
//! `CUDA_BUILD_TEST_BLESS=1` rewrites the expected texts; read the difference before committing.

use std::fmt::Write as _;
use std::fs;

use cargo_cuda::report::Diagnosis;
use cargo_cuda::toolkits::{Finder, PackageNeeds};
use cuda_build::{Build, Component, Library, Toolkit};
use cuda_find_core::{env::Env, root::Root, target::Target};

use crate::layout_files::{Layout, directory};

impl Layout {
    pub fn environment(&self) -> Env {
        Env::from_pairs(self.env.clone())
    }

    pub fn target(&self) -> Target {
        let target = Target::from_triple(&self.triple).unwrap();
        let target = target.built_on(&self.host);
        if self.jetson {
            target.on_jetson()
        } else {
            target
        }
    }

    /// What `cargo cuda doctor -v` prints of the search, and the toolkit that it chooses.
    fn doctor(&self, env: &Env) -> (String, Option<Toolkit>) {
        let root = Root::below(&self.root);
        let outcome = Finder::new(env, &root, &self.target(), &PackageNeeds::default()).outcome();
        let outcome = outcome.unwrap();
        let mut diagnosis = Diagnosis::of_search(&outcome);
        let toolkit = outcome.toolkit.ok();
        if let Some(toolkit) = &toolkit {
            diagnosis.set_verdict(toolkit, self.target().is_native(), true);
        }
        (
            anstream::adapter::strip_str(&diagnosis.text(true)).to_string(),
            toolkit,
        )
    }

    /// A crate with one module or library and the declared components, as its build script sees this machine.
    fn build(&self, env: Env) -> Build {
        let package = self.root.join("package");
        let out = self.root.join("out");
        fs::create_dir_all(&package).unwrap();
        fs::create_dir_all(&out).unwrap();
        let components: Vec<String> = self
            .components
            .iter()
            .map(|name| format!("{name:?}"))
            .collect();
        let jetson = if self.jetson { "jetson = true\n" } else { "" };
        let manifest = format!(
            "[package]\nname = \"p\"\nversion = \"0.1.0\"\n[package.metadata.cuda]\ncapabilities = [\"8.0\"]\n\
             components = [{}]\n{jetson}",
            components.join(", ")
        );
        fs::write(package.join("Cargo.toml"), manifest).unwrap();
        let env = env
            .with("CARGO_MANIFEST_DIR", &package)
            .with("OUT_DIR", &out)
            .with("TARGET", self.triple.as_str())
            .with("HOST", self.host.as_str());
        let build = Build::from_env(env, Root::below(&self.root)).unwrap();
        if self.library {
            build.library(Library::new("k").file("k.cu"))
        } else {
            build.module("k.cu")
        }
    }

    /// Everything that is compared.
    fn outcome(&self) -> String {
        let (doctor, chosen) = self.doctor(&self.environment());
        let mut text = format!("== doctor ==\n{doctor}");
        let build = self.build(self.environment());
        let _ = writeln!(
            text,
            "== a crate with a {} that declares {} ==",
            if self.library { "library" } else { "module" },
            self.components.join(", ")
        );
        match build.toolkit() {
            Ok(toolkit) => {
                let _ = writeln!(text, "CUDA {}", toolkit.version());
                for chosen in toolkit.components() {
                    let _ = writeln!(text, "{chosen} from {}", chosen.origin);
                }
                for note in toolkit.notes() {
                    let _ = writeln!(text, "note: {note}");
                }
                for directory in toolkit.include_dirs() {
                    let _ = writeln!(text, "-I {}", directory.display());
                }
                for line in build.directives(toolkit).to_lines().unwrap() {
                    if !line.starts_with("cargo::rerun-if-") {
                        let _ = writeln!(text, "{line}");
                    }
                }
                agree(
                    &chosen.expect("what a build script finds, doctor finds"),
                    toolkit,
                );
            }
            Err(error) => {
                let _ = writeln!(text, "error: {error:?}");
            }
        }
        self.portable(&text)
    }
}

/// Doctor and build script choose the same toolkit: doctor requests more components, and each component that the build
/// script has is the same in doctor's toolkit.
fn agree(doctor: &Toolkit, build: &Toolkit) {
    // `cargo cuda` requests nvcc first, because any crate may call it; a module needs none, and takes
    // the first source that has NVRTC.
    let has_nvcc = |toolkit: &Toolkit| toolkit.get(Component::Nvcc).is_some();
    if doctor.version() != build.version() && has_nvcc(doctor) && !has_nvcc(build) {
        return;
    }
    assert_eq!(
        doctor.version(),
        build.version(),
        "doctor and build script choose different toolkits"
    );
    let file = doctor.to_toml().unwrap();
    for block in build.to_toml().unwrap().split("\n\n").skip(1) {
        assert!(
            file.contains(block.trim_end()),
            "doctor does not report:\n{block}\nbut:\n{file}"
        );
    }
}

fn check(name: &str) {
    let layout = Layout::load(name);
    let outcome = layout.outcome();
    let path = directory().join(format!("{name}.expected.txt"));
    if std::env::var_os("CUDA_BUILD_TEST_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &outcome).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        outcome == expected,
        "{name}: got\n{outcome}\nexpected\n{expected}\n(CUDA_BUILD_TEST_BLESS=1 rewrites it)"
    );
}

#[test]
#[ignore = "minutes: components do not depend on the order of places"]
fn every_order_of_every_listing() {
    for entry in fs::read_dir(directory()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name
            .strip_suffix(".txt")
            .filter(|name| !name.ends_with(".expected"));
        if let Some(layout) = name.map(Layout::load)
            && let Some(variable) = &layout.orders
        {
            every_order(&layout, variable);
        }
    }
}

/// Components don't depend on the order of a list, whose parts don't overlap.
fn every_order(layout: &Layout, variable: &str) {
    let (_, value) = layout
        .env
        .iter()
        .find(|(name, _)| name == variable)
        .unwrap();
    let separator = if value.contains(';') { ";" } else { ":" };
    let places: Vec<&str> = value.split(separator).collect();
    let components = |value: String| -> Vec<String> {
        let build = layout.build(layout.environment().with(variable, value));
        let toolkit = build.toolkit().unwrap();
        toolkit
            .components()
            .iter()
            .map(|c| format!("{} {:?} {:?} {:?}", c, c.libraries, c.tools, c.include))
            .collect()
    };
    let first = components(places.join(separator));
    // Each of up to six places anywhere; of more, as many orders by chance, the same in every run.
    let mut chance = 1_u64;
    for number in 0..720 {
        let (mut rest, mut order, mut digits) = (places.clone(), Vec::new(), number);
        if places.len() > 6 {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            digits = usize::try_from(chance >> 33).unwrap();
        }
        while !rest.is_empty() {
            order.push(rest.remove(digits % rest.len()));
            digits /= rest.len() + 1;
        }
        assert_eq!(components(order.join(separator)), first, "{order:?}");
        // Fewer places have fewer orders.
        if places.len() <= 6 && number + 1 == (1..=places.len()).product::<usize>() {
            break;
        }
    }
}

macro_rules! layouts {
    ($($test:ident: $name:literal)*) => {
        $(#[test] fn $test() { check($name); })*

        /// A listing without a test proves nothing.
        #[test]
        fn every_listing_has_a_test() {
            let mut known = vec![$(format!("{}.txt", $name)),*];
            known.sort();
            let mut files: Vec<String> = fs::read_dir(directory()).unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name.ends_with(".txt") && !name.ends_with(".expected.txt"))
                .collect();
            files.sort();
            assert_eq!(files, known);
        }
    };
}

layouts! {
    arch_12_4: "arch-12.4"
    conda_12_4: "conda-12.4"
    conda_base_and_venv: "conda-base-and-venv"
    conda_home: "conda-home"
    conda_sbsa_and_tegra: "conda-sbsa-and-tegra"
    conda_top_level: "conda-top-level"
    conda_top_level_nvcc: "conda-top-level-nvcc"
    conda_windows_12_6: "conda-windows-12.6"
    cudnn_path: "cudnn-path"
    debian_11_8: "debian-11.8"
    debian_12_4: "debian-12.4"
    debian_12_4_facade: "debian-12.4-facade"
    fedora_12_4: "fedora-12.4"
    hpc_sdk_24_5: "hpc-sdk-24.5"
    hpc_sdk_24_5_home: "hpc-sdk-24.5-home"
    hpc_sdk_24_5_path: "hpc-sdk-24.5-path"
    jetson_12_4: "jetson-12.4"
    jetson_undeclared: "jetson-undeclared"
    nix_list_12_4: "nix-list-12.4"
    nix_shell_12_4: "nix-shell-12.4"
    pip_11_8: "pip-11.8"
    pip_12_0: "pip-12.0"
    pip_12_9: "pip-12.9"
    pip_13_0: "pip-13.0"
    pip_13_0_home: "pip-13.0-home"
    pip_13_4: "pip-13.4"
    pip_13_5: "pip-13.5"
    pip_and_nvcc_12_4: "pip-and-nvcc-12.4"
    pip_and_nvcc_by_roots: "pip-and-nvcc-by-roots"
    pip_dist_packages: "pip-dist-packages"
    pip_mixed_headers: "pip-mixed-headers"
    pip_placeholders: "pip-placeholders"
    pip_products: "pip-products"
    pip_user_site: "pip-user-site"
    pip_uv_links: "pip-uv-links"
    pip_windows_12_9: "pip-windows-12.9"
    pip_windows_13_5: "pip-windows-13.5"
    pip_without_metadata: "pip-without-metadata"
    redist_12_4: "redist-12.4"
    redist_13_0: "redist-13.0"
    redist_cross: "redist-cross"
    redist_mixed_cicc: "redist-mixed-cicc"
    redist_mixed_crt: "redist-mixed-crt"
    redist_roots_12_4: "redist-roots-12.4"
    redist_two_machines: "redist-two-machines"
    redist_two_majors: "redist-two-majors"
    redist_two_releases: "redist-two-releases"
    spack_12_4: "spack-12.4"
    stored_cross: "stored-cross"
    ubuntu_26_04: "ubuntu-26.04"
    usr_local_12_4: "usr-local-12.4"
    usr_local_and_cudnn_from_apt: "usr-local-and-cudnn-from-apt"
    usr_local_cross_12_4: "usr-local-cross-12.4"
    usr_local_cross_jetson_12_4: "usr-local-cross-jetson-12.4"
    usr_local_partial: "usr-local-partial"
    windows_13_1: "windows-13.1"
    windows_cudnn: "windows-cudnn"
    windows_cudnn_other_major: "windows-cudnn-other-major"
    windows_cudnn_path: "windows-cudnn-path"
    windows_library: "windows-library"
    windows_roots_12_6: "windows-roots-12.6"
    wsl_12_4: "wsl-12.4"
    wrong_machine: "wrong-machine"
    wrong_machine_compiler: "wrong-machine-compiler"
}
