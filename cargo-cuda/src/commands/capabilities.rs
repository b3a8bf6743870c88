//! `cargo cuda capabilities`: the capabilities of each release, and lists of capabilities in the
//! syntax of each consumer.

use clap::Args;
use cuda_build::internal::capability::{self, CapabilityFacts, Suffix, supported};
use cuda_build::internal::config::Config;
use cuda_build::internal::{Declared, Env, RequestedRelease, Root, release};
use cuda_build::{Plan, ToolkitVersion};
use serde::Serialize;

use crate::exit_code;
use crate::failure::Failure;
use crate::project::WorkspaceOptions;
use crate::report::{self, Problem};
use crate::workspace::Package;

/// Show compute capabilities, and convert lists for nvcc, CMake, PyTorch
#[derive(Args, Clone, Debug)]
pub struct CapabilitiesArgs {
    /// Show only the capabilities of this CUDA release: 13 or 13.4
    #[arg(long, value_name = "RELEASE")]
    cuda: Option<RequestedRelease>,
    #[command(flatten)]
    workspace: WorkspaceOptions,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// The list to convert, such as `8.0,9.0a,12.0+PTX`; by default the declared lists
    #[arg(value_name = "LIST")]
    list: Vec<String>,
}

#[derive(Serialize)]
struct Report {
    toolkit: Option<Toolkit>,
    capabilities: Vec<Row>,
    lists: Vec<List>,
}

/// One release and its limits. `known` is false if the release is newer than the tables of this
/// program.
#[derive(Serialize)]
struct Toolkit {
    version: String,
    known: bool,
    targets: Vec<String>,
    default: Option<String>,
    ptx_isa: Option<String>,
    gcc_max: Option<u32>,
    clang_max: Option<u32>,
    driver_for_sass: Option<&'static str>,
    driver_for_ptx: Option<&'static str>,
}

#[derive(Serialize)]
struct Row {
    capability: String,
    generation: &'static str,
    devices: &'static str,
    jetson: Option<bool>,
    min_cuda: Option<String>,
    removed_in: Option<String>,
    arch_specific_since: Option<String>,
    family_since: Option<String>,
}

/// A list of capabilities and its source.
#[derive(Serialize)]
struct List {
    source: String,
    declared: String,
    toolkit: String,
    plan: Option<String>,
    renderings: Option<Renderings>,
    problem: Option<Problem>,
}

/// A list in the syntax of each consumer.
#[derive(Serialize)]
struct Renderings {
    nvcc: Vec<String>,
    nvrtc: Vec<String>,
    cmake: String,
    cudaarchs: String,
    torch: String,
    arch_list: String,
    cuda_compute_cap: Option<String>,
    /// The reason why `CUDA_COMPUTE_CAP` covers less than the list, if it does.
    warning: Option<String>,
}

/// Returns the table, and the given or declared lists in each syntax. The exit code is
/// [`exit_code::CAPABILITY`] if a release cannot build one of the lists.
pub fn run(arguments: &CapabilitiesArgs, env: &Env, root: &Root) -> Result<(String, u8), Failure> {
    let release = arguments.cuda.map(named_release).transpose()?;
    let lists = if arguments.list.is_empty() {
        let workspace = arguments.workspace.load(root, env)?;
        declared_here(release, arguments.workspace.packages(workspace.as_ref()))?
    } else {
        let release = release.unwrap_or(release::newest());
        vec![List::new("command line", &arguments.list, release)?]
    };
    let code = match lists.iter().any(|list| list.problem.is_some()) {
        true => exit_code::CAPABILITY,
        false => exit_code::SUCCESS,
    };
    let oldest = ToolkitVersion::new(release::OLDEST_MAJOR, 0);
    let rows = capability::all().filter(|row| match release {
        Some(release) => row.built_by(None, release),
        None => row.removed_in.is_none_or(|max| max > oldest),
    });
    let report = Report {
        toolkit: release.map(Toolkit::new),
        capabilities: rows.map(Row::new).collect(),
        lists,
    };
    let text = match arguments.json {
        true => report::json(&report),
        false => report.text(),
    };
    Ok((text, code))
}

fn named_release(release: RequestedRelease) -> Result<ToolkitVersion, Failure> {
    let Some(minor) = release.minor else {
        return Ok(newest_of(release.major));
    };
    let release = ToolkitVersion::new(release.major, minor);
    if !release::was_released(release) {
        let message = format!("CUDA {release} was never released");
        let example = format!("give a release such as `{}`", release::newest());
        return Err(Failure::new(exit_code::USAGE, message).hint(example));
    }
    Ok(release)
}

/// The lists that packages declare, for `release` or for each of their majors.
fn declared_here<'a>(
    release: Option<ToolkitVersion>,
    packages: impl Iterator<Item = &'a Package>,
) -> Result<Vec<List>, Failure> {
    let mut lists = Vec::new();
    for package in packages {
        let releases =
            release.map_or_else(|| releases_of(&package.config), |release| vec![release]);
        for release in releases {
            if let Some(items) = package.config.for_major(release.major).capabilities {
                lists.push(List::new(&package.name, items, release)?);
            }
        }
    }
    Ok(lists)
}

/// The newest known release of each major that a package declares. If it declares none, the newest
/// known release.
fn releases_of(config: &Config) -> Vec<ToolkitVersion> {
    if config.majors.is_empty() {
        return vec![release::newest()];
    }
    config
        .majors
        .iter()
        .map(|major| newest_of(*major))
        .collect()
}

/// The major and the plan of each declared list. The GPUs of this machine do not affect the plans.
pub(super) fn declared_plans<'a>(
    packages: impl Iterator<Item = &'a Package>,
) -> Result<Vec<(u32, Plan)>, Failure> {
    let mut plans = Vec::new();
    for package in packages {
        for release in releases_of(&package.config) {
            if let Some(items) = package.config.for_major(release.major).capabilities {
                let plan = Declared::parse(items)?.plan(release, &[], None)?;
                plans.push((release.major, plan));
            }
        }
    }
    Ok(plans)
}

fn newest_of(major: u32) -> ToolkitVersion {
    (0..100)
        .rev()
        .map(|minor| ToolkitVersion::new(major, minor))
        .find(|release| release::facts(*release).is_some())
        .unwrap_or(ToolkitVersion::new(major, 0))
}

impl Toolkit {
    fn new(release: ToolkitVersion) -> Self {
        let facts = release::facts(release);
        Self {
            version: release.to_string(),
            known: facts.is_some(),
            targets: supported(release).iter().map(ToString::to_string).collect(),
            default: facts.map(|facts| facts.default_capability.to_string()),
            ptx_isa: facts.map(|facts| format!("{}.{}", facts.ptx_isa.0, facts.ptx_isa.1)),
            gcc_max: facts.map(|facts| facts.gcc_max),
            clang_max: facts.map(|facts| facts.clang_max),
            driver_for_sass: release::driver_floor(release.major),
            driver_for_ptx: facts.and_then(|facts| facts.driver),
        }
    }
}

impl Row {
    fn new(row: &'static CapabilityFacts) -> Self {
        let text = |release: Option<ToolkitVersion>| release.map(|release| release.to_string());
        Self {
            capability: row.capability.to_string(),
            generation: row.architecture,
            devices: row.example,
            jetson: row.jetson,
            min_cuda: text(row.since(None)),
            removed_in: text(row.removed_in),
            arch_specific_since: text(row.since(Some(Suffix::ArchSpecific))),
            family_since: text(row.since(Some(Suffix::Family))),
        }
    }
}

impl List {
    fn new(source: &str, items: &[String], release: ToolkitVersion) -> Result<Self, Failure> {
        let declared = Declared::parse(items)?;
        // No GPUs are passed, because the report must not depend on the machine.
        let plan = declared.plan(release, &[], None);
        Ok(Self {
            source: source.to_owned(),
            declared: declared.to_string(),
            toolkit: release.to_string(),
            plan: plan.as_ref().ok().map(ToString::to_string),
            renderings: plan.as_ref().ok().map(Renderings::new),
            problem: plan.as_ref().err().map(Problem::from),
        })
    }
}

impl Renderings {
    fn new(plan: &Plan) -> Self {
        let single = plan.single_for(None);
        Self {
            nvcc: plan.nvcc_gencode(),
            nvrtc: plan.nvrtc_options(),
            cmake: plan.cmake(),
            cudaarchs: plan.cmake(),
            torch: plan.torch(),
            arch_list: plan.arch_list_define(),
            cuda_compute_cap: single.as_ref().map(|single| single.compute_cap()),
            warning: single.and_then(|single| single.warning),
        }
    }
}

impl Report {
    fn text(&self) -> String {
        let mut lines: Vec<String> = self.toolkit.iter().flat_map(Toolkit::lines).collect();
        lines.push(format!(
            "{:<11} {:<10} {:>5} {:>7} {:>5} {:>5}  devices",
            "capability", "generation", "since", "removed", "a", "f"
        ));
        lines.extend(self.capabilities.iter().map(Row::line));
        lines.push(
            "a, f: the CUDA release that added the variant for one capability (9.0a), for a family (10.0f)".to_owned(),
        );
        lines.extend(self.lists.iter().flat_map(List::lines));
        lines.join("\n") + "\n"
    }
}

impl Toolkit {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("CUDA {}", self.version)];
        let targets = self.targets.join(" ");
        if let (Some(ptx), Some(default), Some(gcc), Some(clang)) =
            (&self.ptx_isa, &self.default, self.gcc_max, self.clang_max)
        {
            lines.push(format!("  builds for {targets}"));
            lines.push(format!(
                "  PTX {ptx}; without an architecture option, nvcc compiles for {default}"
            ));
            lines.push(format!(
                "  host compilers: gcc up to {gcc}, clang up to {clang}"
            ));
        } else {
            let newest = release::newest();
            lines.push(format!(
                "  newer than CUDA {newest}, the newest known release; builds for at least {targets}"
            ));
        }
        if let Some(driver) = self.driver_for_sass {
            lines.push(format!("  drivers: {driver} or newer for SASS"));
        }
        if let Some(driver) = self.driver_for_ptx {
            lines.push(format!("           {driver} or newer for its newest PTX"));
        }
        lines.push(String::new());
        lines
    }
}

impl Row {
    fn line(&self) -> String {
        let jetson = match self.jetson == Some(true) && !self.devices.contains("Jetson") {
            true => " (Jetson)",
            false => "",
        };
        let or_dash = |release: &Option<String>| release.clone().unwrap_or("-".to_owned());
        format!(
            "{:<11} {:<10} {:>5} {:>7} {:>5} {:>5}  {}{jetson}",
            self.capability,
            self.generation,
            or_dash(&self.min_cuda),
            or_dash(&self.removed_in),
            or_dash(&self.arch_specific_since),
            or_dash(&self.family_since),
            self.devices,
        )
    }
}

impl List {
    fn lines(&self) -> Vec<String> {
        let (source, declared, release) = (&self.source, &self.declared, &self.toolkit);
        let mut lines = vec![
            String::new(),
            format!("{source}: {declared}, with CUDA {release}"),
        ];
        if let Some(renderings) = &self.renderings {
            lines.push(format!("  nvcc: {}", renderings.nvcc.join(" ")));
            lines.push(format!("  NVRTC: {}", renderings.nvrtc.join(" ")));
            lines.push(format!("  CMAKE_CUDA_ARCHITECTURES: {}", renderings.cmake));
            lines.push(format!("  CUDAARCHS: {}", renderings.cudaarchs));
            lines.push(format!("  TORCH_CUDA_ARCH_LIST: {}", renderings.torch));
            lines.push(format!("  __CUDA_ARCH_LIST__: {}", renderings.arch_list));
            let single = renderings.cuda_compute_cap.iter();
            lines.extend(single.map(|single| format!("  CUDA_COMPUTE_CAP: {single}")));
            let warning = renderings.warning.iter();
            lines.extend(warning.map(|warning| format!("  note: {warning}")));
        }
        if let Some(Problem { message, hints, .. }) = &self.problem {
            lines.push(format!("  error: {}", message.replace('\n', "\n  ")));
            lines.extend(hints.iter().map(|hint| format!("  hint: {hint}")));
        }
        lines
    }
}
