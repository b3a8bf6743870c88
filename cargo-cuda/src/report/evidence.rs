//! The long report of `doctor`: everything that the summary is based on, one section per topic.

use super::findings::ComponentFindings;
use super::{Capabilities, Findings, HostCompilerFindings};
use crate::output::printable;

impl Findings {
    pub fn evidence(&self) -> String {
        let mut lines = vec!["Environment".to_owned()];
        if self.environment.is_empty() {
            lines.push("  no CUDA variables are set".to_owned());
        }
        for (name, value) in &self.environment {
            lines.push(format!("  {name}={}", value.replace('\n', "\\n")));
        }
        lines.push("Search, in order".to_owned());
        if self.attempts.is_empty() {
            lines.push(
                "  nothing to search: no variable, environment, fetched toolkit, nvcc on `PATH`, or /usr/local/cuda"
                    .to_owned(),
            );
        }
        for attempt in &self.attempts {
            lines.push(format!("  {}", attempt.line));
        }
        lines.extend(labelled("warning", &self.warnings));
        if let Some(toolkit) = &self.toolkit {
            let combined = match toolkit.combined {
                true => ", combined from several places",
                false => "",
            };
            lines.push(format!("Toolkit: CUDA {}{combined}", toolkit.version));
            for ComponentFindings { name, evidence, .. } in &toolkit.components {
                lines.push(format!("  {name}: {evidence}"));
            }
            lines.extend(labelled("note", &toolkit.remarks));
        }
        self.host(&mut lines);
        self.driver(&mut lines);
        self.workspace(&mut lines);
        lines.push("Programs".to_owned());
        for program in &self.programs {
            let place = program.path.as_deref().unwrap_or("not found");
            lines.push(format!("  {}: {place} ({})", program.name, program.purpose));
        }
        if let Some(problem) = &self.problem {
            lines.push("Problem".to_owned());
            lines.push(indented(&problem.message));
            lines.extend(labelled("hint", &problem.hints));
        }
        printable(&(lines.join("\n") + "\n"))
    }

    fn host(&self, lines: &mut Vec<String>) {
        match &self.host_compiler {
            Some(HostCompilerFindings::Chosen {
                path,
                family,
                version,
                named_to_nvcc,
            }) => {
                let named = match named_to_nvcc {
                    Some(_) => ", passed with `-ccbin` because nvcc would refuse its default",
                    None => "",
                };
                lines.push(format!("Host compiler: {family} {version} ({path}){named}"));
            }
            Some(HostCompilerFindings::Refused { refused, hints, .. }) => {
                lines.push("Host compiler".to_owned());
                lines.push(indented(refused));
                lines.extend(labelled("hint", hints));
            }
            None => {}
        }
        if let Some(launcher) = &self.launcher {
            match (
                &launcher.reason_unused,
                &launcher.program,
                launcher.variable,
            ) {
                (None, Some(program), Some(variable)) => {
                    lines.push(format!("Launcher: {program} ({variable})"));
                }
                (reason_unused, ..) => {
                    lines.push("Launcher".to_owned());
                    lines.extend(labelled("warning", reason_unused.as_slice()));
                }
            }
        }
    }

    fn driver(&self, lines: &mut Vec<String>) {
        let driver = &self.driver;
        lines.push("Driver and GPUs".to_owned());
        if let Some(reason) = &driver.absent {
            lines.push(format!("  {reason} (not needed to build)"));
        }
        if let Some(cuda) = &driver.cuda {
            let gpus = match driver.capabilities.is_empty() {
                true => "no GPU".to_owned(),
                false => driver.capabilities.join(", "),
            };
            let module: String = driver.module.iter().map(|v| format!(" {v}")).collect();
            lines.push(format!(
                "  driver{module} for CUDA {cuda}, compute capabilities: {gpus}"
            ));
        }
        lines.extend(driver.library.iter().map(|library| format!("  {library}")));
        lines.extend(labelled("warning", &driver.warnings));
        lines.extend(labelled("note", &driver.notes));
    }

    fn workspace(&self, lines: &mut Vec<String>) {
        match (&self.workspace, &self.capabilities) {
            (Some(root), _) => lines.push(format!("Workspace {root}")),
            (None, Some(_)) => lines.push("Outside a workspace".to_owned()),
            (None, None) => {}
        }
        match &self.capabilities {
            Some(Capabilities::Plans(plans)) => lines.extend(
                plans
                    .iter()
                    .map(|(package, plan)| format!("  {package}: capabilities {plan}")),
            ),
            Some(Capabilities::Refused(refused)) => {
                lines.extend(refused.iter().map(|reason| indented(reason)));
            }
            None => {}
        }
        for package in &self.capabilities_undeclared {
            lines.push(format!(
                "  {package}: no capabilities are declared, and this machine has no GPU: `.cu` files will not compile; add \
                 `capabilities = [\"8.0\", \"9.0+PTX\"]` or similar to `[package.metadata.cuda]`"
            ));
        }
        lines.extend(labelled("note", &self.optional_absent));
    }
}

fn indented(text: &str) -> String {
    format!("  {}", text.replace('\n', "\n  "))
}

fn labelled(label: &str, lines: &[String]) -> impl Iterator<Item = String> {
    lines.iter().map(move |line| format!("  {label}: {line}"))
}
