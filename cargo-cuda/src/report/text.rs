//! `doctor` for people.

use std::fmt::Write as _;

use super::{Diagnosis, notes, verdict};

/// The report, a section each, with the verdict at its end.
#[must_use]
pub fn text(diagnosis: &Diagnosis<'_>) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write(diagnosis, &mut out);
    out
}

fn write(diagnosis: &Diagnosis<'_>, out: &mut String) -> std::fmt::Result {
    writeln!(out, "Environment")?;
    if diagnosis.variables.is_empty() {
        writeln!(out, "  no variable about CUDA is set")?;
    }
    for (name, value) in &diagnosis.variables {
        writeln!(out, "  {name}={value}")?;
    }
    writeln!(out, "Search, in order")?;
    if diagnosis.report.attempts.is_empty() {
        writeln!(
            out,
            "  no place to look at: no variable, environment, added toolkit, nvcc on `PATH`, or /usr/local/cuda"
        )?;
    }
    for attempt in &diagnosis.report.attempts {
        writeln!(out, "  {}: {}", attempt.candidate, attempt.summary())?;
    }
    for remark in &diagnosis.report.remarks {
        writeln!(out, "  warning: {remark}")?;
    }
    if let Ok(toolkit) = &diagnosis.report.toolkit {
        let combined = if toolkit.is_combined() {
            ", combined from several places"
        } else {
            ""
        };
        writeln!(out, "Toolkit: CUDA {}{combined}", toolkit.version())?;
        for chosen in toolkit.components() {
            writeln!(out, "  {}: {}", chosen.found, chosen.found.evidence)?;
        }
        for note in notes(toolkit) {
            writeln!(out, "  note: {note}")?;
        }
    }
    match &diagnosis.host {
        Some(Ok(host)) => {
            let told = if host.option.is_some() {
                ", named to nvcc, whose own choice would not do"
            } else {
                ""
            };
            writeln!(out, "Host compiler: {}{told}", host.compiler)?;
            for warning in &host.warnings {
                writeln!(out, "  warning: {warning}")?;
            }
        }
        Some(Err(error)) => {
            writeln!(
                out,
                "Host compiler\n  {}",
                format!("{error:?}").replace('\n', "\n  ")
            )?;
        }
        None => {}
    }
    writeln!(out, "Driver and GPUs")?;
    match diagnosis.driver {
        Ok(driver) => {
            let gpus: Vec<String> = driver.gpus.iter().map(ToString::to_string).collect();
            let gpus = if gpus.is_empty() {
                "no GPU".to_owned()
            } else {
                gpus.join(", ")
            };
            let module = diagnosis
                .module
                .as_ref()
                .map_or(String::new(), |version| format!(" {version}"));
            writeln!(
                out,
                "  driver{module} for CUDA {}, compute capabilities: {gpus}",
                driver.version
            )?;
            writeln!(out, "  {}", driver.library)?;
        }
        Err(reason) => writeln!(out, "  {reason} (not needed to build)")?,
    }
    for note in &diagnosis.driver_notes {
        writeln!(out, "  warning: {note}")?;
    }
    for note in &diagnosis.machine_notes {
        writeln!(out, "  note: {note}")?;
    }
    if let Some(workspace) = diagnosis.workspace {
        writeln!(out, "Workspace {}", workspace.root.display())?;
    } else if diagnosis.capabilities.is_some() {
        writeln!(out, "Outside a workspace")?;
    }
    if diagnosis.workspace.is_some() || diagnosis.capabilities.is_some() {
        match &diagnosis.capabilities {
            Some(Ok(plans)) => {
                for (package, plan) in plans {
                    writeln!(out, "  {package}: capabilities {plan}")?;
                }
            }
            Some(Err(refused)) => {
                for line in refused {
                    writeln!(out, "  {}", line.replace('\n', "\n  "))?;
                }
            }
            None => {}
        }
        for package in &diagnosis.undeclared {
            writeln!(
                out,
                "  {package}: no capabilities declared, and no GPU here to ask: `.cu` files will not compile; write \
                 them below `[package.metadata.cuda]`, such as `capabilities = [\"8.0\", \"9.0+PTX\"]`"
            )?;
        }
        for line in &diagnosis.absent {
            writeln!(out, "  note: {line}")?;
        }
    }
    writeln!(out, "Programs")?;
    for program in &diagnosis.programs {
        let place = program
            .path
            .as_ref()
            .map_or_else(|| "not found".to_owned(), |p| p.display().to_string());
        writeln!(out, "  {}: {place} ({})", program.name, program.purpose)?;
    }
    if let Err(error) = &diagnosis.report.toolkit {
        writeln!(
            out,
            "Problem\n  {}",
            error.to_string().replace('\n', "\n  ")
        )?;
        for hint in error.hints() {
            writeln!(out, "  hint: {hint}")?;
        }
    }
    writeln!(out, "{}", verdict(diagnosis).line)
}
