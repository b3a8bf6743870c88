//! The capability table and the renderings, against the tools that they speak of.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cuda_build::{Build, Capability, Plan, ToolkitVersion};
use cuda_build::{
    driver::Driver,
    nvrtc::{Nvrtc, Program},
};
use cuda_find_core::capability::{observed_from_ptxas_help, supported};
use cuda_find_core::{capability::Declared, env::Env, root::Root};

use crate::support::{components, output, text, toolkit13};

/// Declarations that between them hold suffixes, PTX alone, several of one number, and everything.
const DECLARATIONS: &[&str] = &[
    "8.0",
    "8.0 9.0a 12.0+PTX",
    "12.0 8.0 9.0",
    "9.0 9.0a compute_90a",
    "10.0f compute_100",
    "10.0a 10.0f compute_100f compute_80",
    "12.0f 12.1",
    "compute_75",
    "all",
    "all-major",
];

/// nvcc's options for the images of a plan.
fn gencode(plan: &Plan) -> Vec<String> {
    let option =
        |c: &Capability, code: String| format!("-gencode=arch={},code={code}", c.compute());
    let real = plan.real.iter().map(|c| option(c, c.sm()));
    let ptx = plan.ptx.iter().map(|c| option(c, c.compute()));
    real.chain(ptx).collect()
}

fn version(toolkit: &Path) -> ToolkitVersion {
    let text = text(&output(
        Command::new(toolkit.join("bin/nvcc")).arg("--version"),
    ));
    let number = text
        .split("release ")
        .nth(1)
        .and_then(|rest| rest.split(',').next());
    number.unwrap_or_default().parse().unwrap()
}

fn plan(declared: &str, toolkit: ToolkitVersion) -> Plan {
    Declared::parse([declared])
        .unwrap()
        .plan(toolkit, &[], None)
        .unwrap()
}

/// The images that nvcc would make with these options: `elf 90a`, `ptx 120` …
fn dry_run(toolkit: &Path, options: &[String]) -> Result<BTreeSet<String>, String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("k.cu"), "__global__ void k() {}\n").unwrap();
    let mut command = Command::new(toolkit.join("bin/nvcc"));
    command
        .current_dir(dir.path())
        .args(["--dryrun", "-c", "k.cu", "-o", "k.o"])
        .args(options);
    let output = output(&mut command);
    let text = text(&output);
    if !output.status.success() {
        return Err(text);
    }
    let images = text.split("--image3=kind=").skip(1).map(|rest| {
        let mut parts = rest.split(',');
        let kind = parts.next().unwrap_or_default();
        let sm = parts
            .next()
            .and_then(|part| part.strip_prefix("sm="))
            .unwrap_or_default();
        format!("{kind} {sm}")
    });
    Ok(images.collect())
}

fn images(plan: &Plan) -> BTreeSet<String> {
    let real = plan.real.iter().map(|c| format!("elf {}", c.digits()));
    let ptx = plan.ptx.iter().map(|c| format!("ptx {}", c.digits()));
    real.chain(ptx).collect()
}

#[test]
fn ptxas_lists_what_the_table_holds() {
    let toolkit = toolkit13();
    let help = text(&output(
        Command::new(toolkit.join("bin/ptxas")).arg("--help"),
    ));
    assert_eq!(
        observed_from_ptxas_help(&help),
        supported(version(&toolkit))
    );
}

#[test]
fn nvcc_builds_exactly_the_plan() {
    let toolkit = toolkit13();
    for declared in DECLARATIONS {
        let plan = plan(declared, version(&toolkit));
        let made = dry_run(&toolkit, &gencode(&plan)).unwrap();
        assert_eq!(made, images(&plan), "{declared}");
    }
}

/// Every pair of variants of one number: the plan refuses those that nvcc refuses, and no other.
#[test]
fn the_plan_refuses_the_pairs_that_nvcc_refuses() {
    let toolkit = toolkit13();
    let version = version(&toolkit);
    let targets = supported(version);
    let (mut refused, mut accepted) = (0, 0);
    for (index, &first) in targets.iter().enumerate() {
        for &second in targets[index + 1..]
            .iter()
            .filter(|second| second.base() == first.base())
        {
            for ptx in [false, true] {
                let mut built = Plan {
                    real: vec![first, second],
                    ptx: Vec::new(),
                };
                if ptx {
                    built = Plan {
                        real: vec![second],
                        ptx: vec![first],
                    };
                }
                let ours = Declared::parse([built.to_string()])
                    .unwrap()
                    .plan(version, &[], None);
                match dry_run(&toolkit, &gencode(&built)) {
                    Ok(_) => {
                        assert_eq!(ours.unwrap(), built);
                        accepted += 1;
                    }
                    Err(text) => {
                        assert!(text.contains("The same GPU code"), "{text}");
                        assert!(
                            ours.unwrap_err()
                                .to_string()
                                .contains("can't both be compiled to SASS")
                        );
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(refused > 0 && accepted > 0, "{refused} {accepted}");
}

#[test]
fn nvrtc_compiles_for_every_option() {
    let toolkit = toolkit13();
    let nvrtc = Nvrtc::load(&toolkit.join("lib/libnvrtc.so.13")).unwrap();
    for declared in [
        "all",
        "9.0a 10.0a 10.0f 12.1f compute_90a compute_100f compute_120",
    ] {
        let plan = plan(declared, version(&toolkit));
        let real = plan.real.iter().map(|capability| capability.sm());
        let names = real.chain(plan.ptx.iter().map(|capability| capability.compute()));
        for option in names.map(|name| format!("--gpu-architecture={name}")) {
            let source = "__global__ void k() {}\n";
            let program = Program {
                source: source.as_bytes(),
                name: "k.cu",
                options: vec![option.clone()],
                headers: Vec::new(),
            };
            let image = nvrtc.compile(&program).unwrap().image;
            if option.contains("=sm_") {
                assert!(image.starts_with(b"\x7fELF"), "{option}");
            } else {
                let target = option.split('_').next_back().unwrap_or_default();
                let ptx = String::from_utf8(image).unwrap();
                assert!(
                    ptx.contains(&format!(".target sm_{target}\n")),
                    "{option}:\n{ptx}"
                );
            }
        }
    }
}

/// The query for GPUs is a value of the build, so a machine without a GPU tests the whole way.
#[test]
fn a_native_build_is_for_the_gpus_that_the_driver_reports() {
    let components = components(12);
    let package = tempfile::tempdir().unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    std::fs::write(
        package.path().join("k.cu"),
        "extern \"C\" __global__ void k() {}\n",
    )
    .unwrap();
    std::fs::write(
        package.path().join("Cargo.toml"),
        "[package]\nname = \"k\"\n[package.metadata.cuda]\ncapabilities = [\"native\"]\n",
    )
    .unwrap();
    let site_packages = components.nvrtc.ancestors().nth(4).unwrap();
    let env = Env::from_pairs([
        ("CARGO_MANIFEST_DIR", text(package.path())),
        ("OUT_DIR", text(package.path())),
        ("TARGET", "x86_64-unknown-linux-gnu".to_owned()),
        ("CUDA_BUILD_ROOTS", text(site_packages)),
    ]);
    let gpus = || {
        Ok(Driver {
            version: "12.4".parse().unwrap(),
            gpus: vec![Capability::new(8, 6), Capability::new(7, 5)],
            library: "libcuda.so.1".to_owned(),
        })
    };
    let build = Build::from_env(env, Root::system()).unwrap();
    let built = build.module("k.cu").with_driver(gpus).run().unwrap();
    assert_eq!(built.plan.unwrap().to_string(), "7.5, 8.6");
}
