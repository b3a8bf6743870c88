//! The stubs of a view: what linkers make of them, and for which machine they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use cuda_build::Component;
use cuda_build::internal::{Root, ViewPlace};
use tempfile::TempDir;

use crate::components::site_packages;
use crate::support::{dynamic, everything_in, output, succeeds};
use crate::view::{target, view_at, with_nvml};

/// What `cuda.h` and `nvml.h` declare, by the preprocessor: the versions of names that programs
/// get with and without per-thread streams, and the old names.
fn declared(
    include: &[&Path],
    header: &str,
    prefix: &str,
    definitions: &[&str],
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for definition in definitions {
        let place = TempDir::new().unwrap();
        let source = place.path().join("a.c");
        fs::write(
            &source,
            format!("#include <stddef.h>\n#include <{header}>\n"),
        )
        .unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-E", "-P"]).arg(definition).arg(&source);
        include.iter().for_each(|directory| {
            gcc.arg("-I").arg(directory);
        });
        let text = succeeds(&mut gcc);
        for before in text.split('(') {
            let word = before
                .trim_end()
                .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap();
            let rest = word.strip_prefix(prefix).unwrap_or_default();
            if rest.starts_with(|c: char| c.is_ascii_uppercase()) {
                names.insert(word.to_owned());
            }
        }
    }
    names
}

#[test]
fn every_linker_takes_the_stubs_for_every_function() {
    for (major, at_least) in [(11, 500), (12, 600), (13, 700)] {
        let Some(components) = with_nvml(major) else {
            return;
        };
        let place = TempDir::new().unwrap();
        let view = view_at(
            &[&components[0], &components[1]],
            &place.path().join("view"),
        );
        let include = view.include();
        let versions = [
            "-DX",
            "-D__CUDA_API_VERSION_INTERNAL",
            "-DCUDA_API_PER_THREAD_DEFAULT_STREAM",
        ];
        let cuda = declared(&[&include], "cuda.h", "cu", &versions);
        let nvml = declared(
            &[&include],
            "nvml.h",
            "nvml",
            &["-DX", "-DNVML_NO_UNVERSIONED_FUNC_DEFS"],
        );
        assert!(nvml.len() > 200, "{}", nvml.len());
        let mut c = String::new();
        for name in cuda.iter().chain(&nvml) {
            c.push_str(&format!("extern int {name}();\n"));
        }
        c.push_str("void *table[] = {");
        cuda.iter()
            .chain(&nvml)
            .for_each(|name| c.push_str(&format!("{name},")));
        c.push_str(
            "};\n#include <stdio.h>\nconst char *text(int) __asm__(\"nvmlErrorString\");\n\
             int main(void) { printf(\"%d %d %s\\n\", cuInit(0), nvmlInit_v2(), text(12)); }\n",
        );
        let source = place.path().join("all.c");
        fs::write(&source, c).unwrap();
        let loaded = place.path().join("driver");
        fs::create_dir(&loaded).unwrap();
        for name in ["libcuda.so", "libnvidia-ml.so"] {
            let stub = view.stubs().join(name);
            fs::copy(&stub, loaded.join(format!("{name}.1"))).unwrap();
            let printed = succeeds(Command::new("readelf").arg("-aW").arg(&stub));
            let warnings = printed
                .lines()
                .filter(|l| l.contains("Warning:") || l.contains("Error:"));
            assert_eq!(
                warnings.collect::<Vec<_>>(),
                Vec::<&str>::new(),
                "{name} {major}"
            );
        }
        let symbols = succeeds(
            Command::new("readelf")
                .args(["--dyn-syms", "-W"])
                .arg(view.stubs().join("libcuda.so")),
        );
        let count = symbols
            .lines()
            .filter(|line| line.contains(" FUNC "))
            .count();
        assert!(count >= at_least, "CUDA {major}: {count} names");
        let mut tried = 0;
        for linker in ["bfd", "gold", "lld", "mold"] {
            let program = place.path().join(linker);
            let flag = format!("-fuse-ld={linker}");
            let there = output(Command::new("gcc").args([&flag, "-Wl,--version"]))
                .status
                .success();
            if !there {
                assert_ne!(linker, "bfd", "the usual linker is not there");
                continue;
            }
            tried += 1;
            let mut gcc = Command::new("gcc");
            gcc.arg(&flag)
                .arg("-w")
                .arg(&source)
                .arg("-o")
                .arg(&program)
                .arg("-L")
                .arg(view.stubs());
            succeeds(gcc.args(["-lcuda", "-lnvidia-ml"]));
            let needed = dynamic(&program, "NEEDED");
            for library in ["libcuda.so.1", "libnvidia-ml.so.1"] {
                assert!(
                    needed.iter().any(|name| name == library),
                    "{linker}: {needed:?}"
                );
            }
            assert!(
                dynamic(&program, "RUNPATH").is_empty() && dynamic(&program, "RPATH").is_empty()
            );
            let printed = succeeds(Command::new(&program).env("LD_LIBRARY_PATH", &loaded));
            assert_eq!(printed, "34 12 stub library\n", "{linker}, CUDA {major}");
        }
        assert!(tried > 0);
    }
}

#[test]
fn a_stub_for_another_machine() {
    let Some(components) = site_packages(13) else {
        return;
    };
    let place = TempDir::new().unwrap();
    let mut at = ViewPlace::at(
        &place.path().join("view"),
        &target("aarch64-unknown-linux-gnu"),
    );
    at.components = Some(vec![Component::Cudart]);
    let view = everything_in(&[&components])
        .view(&at, &Root::system())
        .unwrap();
    assert!(view.contains("targets/sbsa-linux/lib"));
    let stub = view.stubs().join("libcuda.so");
    let printed = succeeds(Command::new("readelf").arg("-aW").arg(&stub));
    assert!(
        printed.contains("AArch64") && printed.contains("libcuda.so.1"),
        "{printed}"
    );
    assert!(!printed.contains("Warning:"), "{printed}");
}
