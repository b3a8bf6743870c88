//! What the tables say, against the tools and packages that they speak of.

use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::{Component, ToolkitVersion};
use cuda_find_core::{
    capability::{observed_from_ptxas_help, supported},
    component::release_of,
    release,
};

use crate::support::{output, text};
use crate::wheels::wheels;

fn toolkit(version: &str) -> ToolkitVersion {
    version.parse().unwrap()
}

/// The package that carries nvcc's parts, and the directory they lie in.
fn nvcc_package(version: &str) -> (PathBuf, &'static str) {
    let (package, directory) = match toolkit(version).major {
        11 => ("nvidia-cuda-nvcc-cu11", "nvidia/cuda_nvcc"),
        12 => ("nvidia-cuda-nvcc-cu12", "nvidia/cuda_nvcc"),
        _ => ("nvidia-cuda-nvcc", "nvidia/cu13"),
    };
    (wheels(&[&format!("{package}=={version}")]), directory)
}

#[test]
#[ignore = "minutes: the table of capabilities is what ten releases of ptxas list"]
fn ptxas_of_every_generation_lists_what_the_table_holds() {
    let versions = [
        "11.7.99", "11.8.89", "12.0.76", "12.4.131", "12.6.85", "12.8.61", "12.9.86", "13.0.88",
        "13.4.92", "13.5.37",
    ];
    for version in versions {
        let (place, directory) = nvcc_package(version);
        let ptxas = place.join(directory).join("bin/ptxas");
        let observed = observed_from_ptxas_help(&text(&output(Command::new(ptxas).arg("--help"))));
        assert_eq!(observed, supported(toolkit(version)), "ptxas {version}");
    }
}

/// The include directory with this release's `crt/host_config.h`.
fn crt_include(version: &str) -> PathBuf {
    let (place, directory) = match toolkit(version).major {
        13 => (
            wheels(&[&format!("nvidia-cuda-crt=={version}")]),
            "nvidia/cu13",
        ),
        _ => nvcc_package(version),
    };
    place.join(directory).join("include")
}

/// What the header prints for the machine's g++ if it calls itself another compiler.
fn refused(include: &Path, macros: &str) -> Option<String> {
    let mut gcc = Command::new("g++");
    gcc.args([
        "-E",
        "-x",
        "c++",
        "-D__CUDACC__",
        "-D__NVCC__",
        "-U__GNUC__",
        "-U__GNUC_MINOR__",
    ]);
    gcc.args(macros.split(' ')).arg("-I").arg(include);
    let output = output(gcc.args(["-include", "crt/host_config.h", "/dev/null"]));
    let text = text(&output);
    let error = text
        .lines()
        .find(|line| line.contains("#error"))
        .map(str::to_owned);
    // An old compiler that glibc's headers do not know is no matter of this table.
    assert!(
        output.status.success() || !text.contains("No such file"),
        "{text}"
    );
    error
}

fn gcc(major: u32) -> String {
    format!("-D__GNUC__={major} -D__GNUC_MINOR__=1")
}

fn clang(major: u32) -> String {
    format!(
        "-D__GNUC__=4 -D__GNUC_MINOR__=2 -D__clang__=1 -D__clang_major__={major} -D__clang_minor__=1"
    )
}

#[test]
#[ignore = "minutes: the table of host compilers is what fifteen headers accept"]
fn host_config_accepts_the_compilers_in_the_table() {
    let versions = [
        "11.7.99", "11.8.89", "12.0.76", "12.2.91", "12.2.140", "12.4.131", "12.6.85", "12.8.61",
        "12.9.86", "13.0.88", "13.1.115", "13.2.78", "13.3.73", "13.4.92", "13.5.37",
    ];
    for version in versions {
        let include = crt_include(version);
        let facts = release::facts(toolkit(version)).unwrap();
        // The one bound that moved within a minor; the table has the later one.
        let clang_max = if version == "12.2.91" {
            15
        } else {
            facts.clang_max
        };
        for (family, max) in [
            (gcc as fn(u32) -> String, facts.gcc_max),
            (clang, clang_max),
        ] {
            assert_eq!(refused(&include, &family(max)), None, "{version}");
            let error = refused(&include, &family(max + 1)).unwrap_or_default();
            assert!(error.contains("unsupported"), "{version}: {max}: {error}");
        }
    }
}

/// Every exact pin of a metapackage belongs to its release.
#[test]
fn component_versions_belong_to_the_release_that_pins_them() {
    let mut checked = 0;
    for version in [
        "11.8.0", "12.0.1", "12.1.1", "12.2.0", "12.5.1", "12.6.3", "12.9.1", "13.0.2", "13.2.1",
        "13.4.3",
    ] {
        let place = wheels(&[&format!("cuda-toolkit=={version}")]);
        let info = place.join(format!("cuda_toolkit-{version}.dist-info"));
        let metadata = std::fs::read_to_string(info.join("METADATA")).unwrap();
        for line in metadata
            .lines()
            .filter_map(|line| line.strip_prefix("Requires-Dist: "))
        {
            let Some((package, rest)) = line.split_once("==") else {
                continue;
            };
            let pin = rest.split(".*").next().unwrap();
            let major = toolkit(version).major;
            let Some(component) =
                Component::all().find(|c| c.facts().package(major) == Some(package))
            else {
                continue;
            };
            // CCCL has a line of its own from 13.3 on, and its packages say what they fit.
            if component == Component::Cccl {
                continue;
            }
            // nvJPEG 12.2.0.2 belongs to CUDA 12.1.1 and is newer than the first version of 12.2.
            if component == Component::Nvjpeg && toolkit(version).minor == 1 {
                continue;
            }
            assert_eq!(
                release_of(component, &pin.parse().unwrap()),
                Some(toolkit(version)),
                "{version}: {line}"
            );
            checked += 1;
        }
    }
    assert!(checked > 150, "{checked}");
}
