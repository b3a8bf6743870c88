//! `cargo cuda capabilities`: the capabilities of each release, and a list in every consumer's syntax.

use std::fmt::Write as _;

use clap::Args;
use cuda_build::internal::capability::{self, Facts, Suffix, supported};
use cuda_build::internal::release;
use cuda_build::internal::{Declared, Env, ReleaseReq, Root};
use cuda_build::{Error, Plan, ToolkitVersion};
use serde_json::{Value, json};

use crate::exit_code;
use crate::failure::Failure;
use crate::options::WorkspaceOptions;
use crate::workspace::Workspace;

/// Raised when a field changes its meaning or goes away; new fields don't raise it.
const FORMAT_VERSION: u32 = 1;

/// Show which CUDA releases build for which compute capabilities, and what a list becomes for
/// nvcc, NVRTC, CMake, PyTorch and `CUDA_COMPUTE_CAP`.
#[derive(Args, Clone, Debug)]
pub struct CapabilitiesArgs {
    /// Only what this CUDA release builds for: 13 or 13.4
    #[arg(long, value_name = "RELEASE")]
    cuda: Option<ReleaseReq>,
    #[command(flatten)]
    workspace: WorkspaceOptions,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// A list to render, as in `8.0,9.0a,12.0+PTX`; by default the declared ones
    #[arg(value_name = "LIST")]
    list: Vec<String>,
}

/// A list and where it comes from.
struct Rendering {
    source: String,
    declared: Declared,
    toolkit: ToolkitVersion,
    plan: Result<Plan, Error>,
}

/// Prints the table, and the renderings of the given or declared lists. The exit code tells
/// whether every list can be built.
///
/// # Errors
/// A release that never was, a list that is not valid, a workspace that is not usable.
pub fn run(arguments: &CapabilitiesArgs, env: &Env, root: &Root) -> Result<(String, u8), Failure> {
    let toolkit = arguments.cuda.map(named_release).transpose()?;
    let renderings = if arguments.list.is_empty() {
        declared_here(toolkit, arguments.workspace.load(root, env)?.as_ref())?
    } else {
        vec![rendering(
            "command line".to_owned(),
            &arguments.list,
            toolkit.unwrap_or(release::newest()),
        )?]
    };
    let refused = renderings.iter().any(|rendering| rendering.plan.is_err());
    let code = if refused {
        exit_code::CAPABILITY
    } else {
        exit_code::SUCCESS
    };
    if arguments.json {
        return Ok((format!("{:#}\n", to_json(toolkit, &renderings)), code));
    }
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_table(toolkit, &mut text);
    for rendering in &renderings {
        let _ = write_rendering(rendering, &mut text);
    }
    Ok((text, code))
}

fn named_release(release: ReleaseReq) -> Result<ToolkitVersion, Failure> {
    let Some(minor) = release.minor else {
        return Ok(newest_of(release.major));
    };
    let release = ToolkitVersion::new(release.major, minor);
    if !release::was_released(release) {
        let message = format!("there never was a CUDA {release}");
        let example = format!("give a release such as `{}`", release::newest());
        return Err(Failure::new(exit_code::USAGE, message).hint(example));
    }
    Ok(release)
}

/// What the packages of the workspace declare, for each of their majors.
fn declared_here(
    toolkit: Option<ToolkitVersion>,
    workspace: Option<&Workspace>,
) -> Result<Vec<Rendering>, Failure> {
    let mut renderings = Vec::new();
    for package in workspace.iter().flat_map(|workspace| &workspace.packages) {
        let toolkits = match toolkit {
            Some(toolkit) => vec![toolkit],
            None if package.config.majors.is_empty() => vec![release::newest()],
            None => package
                .config
                .majors
                .iter()
                .map(|major| newest_of(*major))
                .collect(),
        };
        for toolkit in toolkits {
            let Some(items) = package.config.for_major(toolkit.major).capabilities else {
                continue;
            };
            renderings.push(rendering(package.name.clone(), items, toolkit)?);
        }
    }
    Ok(renderings)
}

/// The newest known release of a major.
fn newest_of(major: u32) -> ToolkitVersion {
    let known = (0..100)
        .rev()
        .map(|minor| ToolkitVersion::new(major, minor));
    known
        .into_iter()
        .find(|toolkit| release::facts(*toolkit).is_some())
        .unwrap_or(ToolkitVersion::new(major, 0))
}

fn rendering(
    source: String,
    items: &[String],
    toolkit: ToolkitVersion,
) -> Result<Rendering, Failure> {
    let declared = Declared::parse(items)?;
    // What is shown must not depend on the machine.
    let plan = declared.plan(toolkit, &[], None);
    Ok(Rendering {
        source,
        declared,
        toolkit,
        plan,
    })
}

/// Name and value for each consumer, in the order of the report.
fn words(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut words = vec![
        ("nvcc", plan.nvcc_gencode().join(" ")),
        ("NVRTC", plan.nvrtc_options().join(" ")),
        ("CMAKE_CUDA_ARCHITECTURES", plan.cmake()),
        ("CUDAARCHS", plan.cmake()),
        ("TORCH_CUDA_ARCH_LIST", plan.torch()),
        ("__CUDA_ARCH_LIST__", plan.arch_list_define()),
    ];
    if let Some(single) = plan.single_for(None) {
        words.push(("CUDA_COMPUTE_CAP", single.compute_cap()));
    }
    words
}

fn write_table(toolkit: Option<ToolkitVersion>, out: &mut String) -> std::fmt::Result {
    if let Some(toolkit) = toolkit {
        write_toolkit(toolkit, out)?;
    }
    writeln!(
        out,
        "{:<11} {:<10} {:>5} {:>7} {:>5} {:>5}  devices",
        "capability", "generation", "from", "gone in", "a", "f"
    )?;
    for row in rows(toolkit) {
        let shown = |release: Option<ToolkitVersion>| {
            release.map_or("-".to_owned(), |release| release.to_string())
        };
        writeln!(
            out,
            "{:<11} {:<10} {:>5} {:>7} {:>5} {:>5}  {}{}",
            row.capability.to_string(),
            row.architecture,
            row.min_cuda.to_string(),
            shown(row.max_cuda),
            shown(row.arch_specific_since),
            shown(row.family_since),
            row.example,
            if row.jetson == Some(true) && !row.example.contains("Jetson") {
                " (Jetson)"
            } else {
                ""
            },
        )?;
    }
    Ok(())
}

fn write_toolkit(toolkit: ToolkitVersion, out: &mut String) -> std::fmt::Result {
    let targets: Vec<String> = supported(toolkit).iter().map(ToString::to_string).collect();
    writeln!(out, "CUDA {toolkit}")?;
    let Some(facts) = release::facts(toolkit) else {
        writeln!(
            out,
            "  newer than {}, the newest known here: at least {}",
            release::newest(),
            targets.join(" ")
        )?;
        return writeln!(out);
    };
    writeln!(out, "  builds for {}", targets.join(" "))?;
    let (major, minor) = facts.ptx_isa;
    writeln!(
        out,
        "  PTX {major}.{minor}; without an architecture option, nvcc compiles for {}",
        facts.default_capability
    )?;
    writeln!(
        out,
        "  host compilers: gcc up to {}, clang up to {}",
        facts.gcc_max, facts.clang_max
    )?;
    if let Some(floor) = release::driver_floor(toolkit.major) {
        writeln!(out, "  drivers: {} or newer for SASS", floor)?;
    }
    if let Some(driver) = facts.driver {
        writeln!(out, "           {driver} or newer for its newest PTX")?;
    }
    writeln!(out)
}

fn rows(toolkit: Option<ToolkitVersion>) -> impl Iterator<Item = &'static Facts> {
    let oldest = ToolkitVersion::new(release::OLDEST_MAJOR, 0);
    capability::all().filter(move |row| match toolkit {
        Some(toolkit) => row.built_by(None, toolkit),
        None => row.max_cuda.is_none_or(|max| max > oldest),
    })
}

fn write_rendering(rendering: &Rendering, out: &mut String) -> std::fmt::Result {
    let Rendering {
        source,
        declared,
        toolkit,
        plan,
    } = rendering;
    writeln!(out, "\n{source}: {declared}, with CUDA {toolkit}")?;
    match plan {
        Ok(plan) => {
            for (consumer, value) in words(plan) {
                writeln!(out, "  {consumer}: {value}")?;
            }
            let warning = plan.single_for(None).and_then(|single| single.warning);
            warning
                .iter()
                .try_for_each(|warning| writeln!(out, "  note: {warning}"))
        }
        Err(error) => writeln!(
            out,
            "  error: {}",
            format!("{error:?}").replace('\n', "\n  ")
        ),
    }
}

fn to_json(toolkit: Option<ToolkitVersion>, renderings: &[Rendering]) -> Value {
    let text = |release: Option<ToolkitVersion>| release.map(|release| release.to_string());
    let table: Vec<Value> = rows(toolkit)
        .map(|row| {
            json!({
                "capability": row.capability.to_string(),
                "generation": row.architecture,
                "devices": row.example,
                "jetson": row.jetson,
                "min_cuda": row.since(None).map(|release| release.to_string()),
                "removed_in": text(row.max_cuda),
                "arch_specific_since": text(row.since(Some(Suffix::ArchSpecific))),
                "family_since": text(row.since(Some(Suffix::Family))),
            })
        })
        .collect();
    let of_toolkit = toolkit.map(|toolkit| {
        let facts = release::facts(toolkit);
        json!({
            "version": toolkit.to_string(),
            "known": facts.is_some(),
            "targets": supported(toolkit).iter().map(ToString::to_string).collect::<Vec<_>>(),
            "default": facts.map(|facts| facts.default_capability.to_string()),
            "ptx_isa": facts.map(|facts| format!("{}.{}", facts.ptx_isa.0, facts.ptx_isa.1)),
            "gcc_max": facts.map(|facts| facts.gcc_max),
            "clang_max": facts.map(|facts| facts.clang_max),
            "driver_for_sass": release::driver_floor(toolkit.major),
            "driver_for_ptx": facts.and_then(|facts| facts.driver),
        })
    });
    let lists: Vec<Value> = renderings
        .iter()
        .map(|rendering| {
            let renderings = rendering.plan.as_ref().ok().map(|plan| {
                let single = plan.single_for(None).map(|single| single.compute_cap());
                json!({
                    "nvcc": plan.nvcc_gencode(),
                    "nvrtc": plan.nvrtc_options(),
                    "cmake": plan.cmake(),
                    "cudaarchs": plan.cmake(),
                    "torch": plan.torch(),
                    "arch_list": plan.arch_list_define(),
                    "cuda_compute_cap": single,
                })
            });
            let problem = rendering.plan.as_ref().err();
            json!({
                "source": rendering.source,
                "declared": rendering.declared.to_string(),
                "toolkit": rendering.toolkit.to_string(),
                "plan": rendering.plan.as_ref().ok().map(ToString::to_string),
                "renderings": renderings,
                "problem": problem.map(|error| json!({ "message": error.to_string(), "hints": error.hints() })),
            })
        })
        .collect();
    json!({ "format_version": FORMAT_VERSION, "toolkit": of_toolkit, "capabilities": table, "lists": lists })
}
