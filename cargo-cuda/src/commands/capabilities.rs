//! `cargo cuda capabilities`: which CUDA releases compile for which GPUs.

use clap::Args;
use cuda_build::ToolkitVersion;
use cuda_find_core::capability::{self, CapabilityFacts, Declared, Suffix};
use cuda_find_core::{release, select::RequestedRelease};
use serde_json::json;

use crate::failure::{Failure, Result};
use crate::report;

/// Show compute capabilities, and the CUDA releases that compile for them
#[derive(Args, Clone, Debug)]
pub struct CapabilitiesArgs {
    /// Show only the capabilities that this CUDA release compiles for: 13 or 13.4
    #[arg(long, value_name = "RELEASE")]
    cuda: Option<RequestedRelease>,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Show only these capabilities, as in `8.0,9.0a,12.0+PTX`; fails if the release does not compile for all of them
    #[arg(value_name = "LIST")]
    list: Vec<String>,
}

pub fn run(arguments: &CapabilitiesArgs) -> Result<String> {
    let release = arguments.cuda.map(named_release).transpose()?;
    let mut listed = Vec::new();
    if !arguments.list.is_empty() {
        let release = release.unwrap_or(release::newest());
        // No GPUs are passed, because the table must not depend on the machine.
        let plan = Declared::parse(&arguments.list)?.plan(release, &[], None)?;
        listed = [plan.real, plan.ptx].concat();
    }
    let oldest = ToolkitVersion::new(release::OLDEST_MAJOR, 0);
    let is_shown = |facts: &&CapabilityFacts| {
        let is_supported = match release {
            Some(release) => facts.built_by(None, release),
            None => facts.removed_in.is_none_or(|removed| removed > oldest),
        };
        let is_listed = listed.iter().any(|it| it.base() == facts.capability);
        is_supported && (is_listed || listed.is_empty())
    };
    let rows = capability::all().filter(is_shown);
    Ok(match arguments.json {
        true => report::json_list("capabilities", &Vec::from_iter(rows.map(row))),
        false => text(rows),
    })
}

fn named_release(release: RequestedRelease) -> Result<ToolkitVersion> {
    let RequestedRelease { major, minor } = release;
    let Some(minor) = minor else {
        return Ok(release::newest_of(major).unwrap_or(ToolkitVersion::new(major, 0)));
    };
    let release = ToolkitVersion::new(major, minor);
    if release::was_released(release) {
        return Ok(release);
    }
    let example = format!("use a release such as `{}`", release::newest());
    Err(Failure::usage(format!("CUDA {release} was never released")).hint(example))
}

fn row(facts: &CapabilityFacts) -> serde_json::Value {
    let text = |release: Option<ToolkitVersion>| release.map(|release| release.to_string());
    json!({
        "capability": facts.capability.to_string(),
        "generation": facts.architecture,
        "devices": facts.example,
        "since": text(facts.since(None)),
        "removed": text(facts.removed_in),
        "arch_specific_since": text(facts.since(Some(Suffix::ArchSpecific))),
        "family_since": text(facts.since(Some(Suffix::Family))),
    })
}

fn text<'a>(rows: impl Iterator<Item = &'a CapabilityFacts>) -> String {
    let mut text = "capability  generation  since  removed      a      f  devices\n".to_owned();
    let shown =
        |release: Option<ToolkitVersion>| release.map_or("-".to_owned(), |it| it.to_string());
    for facts in rows {
        text += &format!(
            "{:<10}  {:<10}  {:>5}  {:>7}  {:>5}  {:>5}  {}\n",
            facts.capability.to_string(),
            facts.architecture,
            shown(facts.since(None)),
            shown(facts.removed_in),
            shown(facts.since(Some(Suffix::ArchSpecific))),
            shown(facts.since(Some(Suffix::Family))),
            facts.example
        );
    }
    text + "a, f: the CUDA release that added the variant for one capability (9.0a), for a family (10.0f)\n"
}
