//! `doctor --json`.

use serde_json::{Value, json};

use super::{Diagnosis, notes, verdict};

/// Raised when a field changes its meaning or goes away; new fields don't raise it.
const FORMAT_VERSION: u32 = 1;

/// The report as one JSON object and a newline.
#[must_use]
pub fn json(diagnosis: &Diagnosis<'_>) -> String {
    let attempts: Vec<Value> = diagnosis
        .report
        .attempts
        .iter()
        .map(|attempt| {
            let found: Vec<Value> = attempt.sets.iter().flat_map(|set| &set.found).map(found).collect();
            let unusable: Vec<Value> = attempt
                .unusable
                .iter()
                .map(|u| json!({ "component": u.component.id(), "major": u.major, "reason": u.reason }))
                .collect();
            json!({
                "step": attempt.candidate.step.id(),
                "source": attempt.candidate.label.to_string(),
                "path": attempt.candidate.path,
                "found": found,
                "unusable": unusable,
                "remarks": attempt.remarks,
            })
        })
        .collect();
    let toolkit = diagnosis.report.toolkit.as_ref();
    let chosen = toolkit.ok().map(|toolkit| {
        let components: Vec<Value> = toolkit
            .components()
            .iter()
            .map(|chosen| {
                let mut value = found(&chosen.found);
                value["origin"] = json!(chosen.origin);
                value
            })
            .collect();
        json!({
            "version": toolkit.version().to_string(),
            "combined": toolkit.is_combined(),
            "components": components,
            "remarks": notes(toolkit),
        })
    });
    let problem = toolkit
        .err()
        .map(|error| json!({ "message": error.to_string(), "hints": error.hints() }));
    let capabilities = match &diagnosis.capabilities {
        Some(Ok(plans)) => {
            json!({ "plans": plans.iter().cloned().collect::<std::collections::BTreeMap<_, _>>() })
        }
        Some(Err(refused)) => json!({ "refused": refused }),
        None => Value::Null,
    };
    let driver = match diagnosis.driver {
        Ok(driver) => json!({
            "cuda": driver.version.to_string(),
            "capabilities": driver.gpus.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "library": driver.library,
            "module": diagnosis.module,
            "warnings": diagnosis.driver_notes,
            "notes": diagnosis.machine_notes,
        }),
        Err(reason) => {
            json!({ "absent": reason.to_string(), "module": diagnosis.module, "notes": diagnosis.machine_notes })
        }
    };
    let host = match &diagnosis.host {
        Some(Ok(host)) => json!({
            "path": host.compiler.path,
            "family": host.compiler.family.to_string(),
            "version": host.compiler.version,
            "named_to_nvcc": host.option,
            "warnings": host.warnings,
        }),
        Some(Err(error)) => json!({ "refused": error.to_string(), "hints": error.hints() }),
        None => Value::Null,
    };
    let programs: Vec<Value> = diagnosis
        .programs
        .iter()
        .map(|p| json!({ "name": p.name, "path": p.path }))
        .collect();
    let verdict = verdict(diagnosis);
    let value = json!({
        "format_version": FORMAT_VERSION,
        "environment": diagnosis.variables.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "attempts": attempts,
        "warnings": diagnosis.report.remarks,
        "toolkit": chosen,
        "problem": problem,
        "capabilities": capabilities,
        "capabilities_undeclared": diagnosis.undeclared,
        "optional_absent": diagnosis.absent,
        "host_compiler": host,
        "driver": driver,
        "programs": programs,
        "build_will_work": verdict.is_good(),
        "verdict": verdict.line,
    });
    format!("{value:#}\n")
}

fn found(found: &cuda_build::probe::Found) -> Value {
    json!({
        "component": found.component.id(),
        "major": found.major,
        "version": found.version.as_ref().map(ToString::to_string),
        "toolkit": found.toolkit.map(|toolkit| toolkit.to_string()),
        "include": found.include,
        "libraries": found.libraries,
        "archives": found.archives,
        "tools": found.tools,
        "evidence": found.evidence,
    })
}
