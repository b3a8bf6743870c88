//! CUDA under one root: NVIDIA's installers, and directories of that shape.

use std::path::Path;

use super::files::{Prefix, file_name_version};
use super::{Found, Prober, Seen, Set, Unusable};
use crate::component::{Bundle, Component};
use crate::version::ToolkitVersion;

pub(super) fn probe(prober: &Prober<'_>, path: &Path) -> Seen {
    let prefix = Prefix::new(prober, path);
    let mut remarks = Vec::new();
    let mut unusable = Vec::new();
    let header = prefix.header_release(prober).map(|(release, _)| release);
    let nvcc = prefix.tool(prober, "nvcc").and_then(|nvcc| (prober.ask_nvcc)(&nvcc));
    let compiler = nvcc.as_ref().and_then(|version| version.to_string().parse::<ToolkitVersion>().ok());
    let stated = version_json(prober, path);
    let release = compiler.or(header).or(stated);
    let majors = match release {
        Some(release) => vec![release.major],
        None => prefix.majors(prober),
    };
    let Some(&major) = majors.first() else {
        return Seen { remarks, ..Seen::default() };
    };
    if majors.len() > 1 {
        remarks.push(format!("libraries of several CUDA majors below one root: {majors:?}"));
    }
    let mut found: Vec<Found> = Vec::new();
    for component in Component::all() {
        // Its library is the driver's; the header alone is part of the runtime.
        if component == Component::Driver {
            continue;
        }
        match prefix.component(prober, component, major) {
            Ok(mut component) => {
                settle_versions(prober, &mut component, compiler, header, release);
                if component.component == Component::Nvcc {
                    component.version = nvcc.clone();
                }
                found.push(component);
            }
            Err(absent) if absent.something && component.facts().bundle == Bundle::Toolkit => {
                let reason = format!("{component} is not whole: no {}", absent.missing);
                unusable.push(Unusable { component, major, reason });
            }
            Err(_) => {}
        }
    }
    if let (Some(compiler), Some(header)) = (compiler, header)
        && compiler != header
    {
        remarks.push(format!("nvcc says {compiler}, cuda.h says {header}"));
    }
    let sets = if found.is_empty() { Vec::new() } else { vec![Set { major, found }] };
    Seen { sets, unusable, remarks }
}

fn settle_versions(
    prober: &Prober<'_>,
    found: &mut Found,
    compiler: Option<ToolkitVersion>,
    header: Option<ToolkitVersion>,
    release: Option<ToolkitVersion>,
) {
    found.version = found.libraries.first().and_then(|library| file_name_version(prober, library));
    if !found.component.facts().follows_toolkit {
        return;
    }
    found.toolkit = match found.component {
        Component::Nvcc | Component::Nvvm | Component::Crt => compiler.or(release),
        Component::Cudart => header.or(release),
        _ => found.toolkit.or(release),
    };
}

/// `version.json` of NVIDIA's installers: `{"cuda": {"name": …, "version": "12.4.1"}, …}`. Read
/// without a JSON library: the first `version` after `"cuda"` is all that is wanted.
fn version_json(prober: &Prober<'_>, path: &Path) -> Option<ToolkitVersion> {
    let text = prober.root.text(&path.join("version.json")).ok()?;
    let after = text.split_once("\"cuda\"")?.1;
    let after = after.split_once("\"version\"")?.1;
    let value = after.split('"').nth(1)?;
    value.parse().ok()
}
