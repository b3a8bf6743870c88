//! The short report of `doctor`: one row for each topic, then the verdict.

use std::collections::BTreeMap;

use cuda_build::Component;
use cuda_build::internal::Env;

use super::layout::{Layout, Mark, Row};
use super::{Capabilities, Findings, HostCompilerFindings};
use crate::exit_code;
use crate::output::printable;

impl Findings {
    /// The rows, the problem if there is one, and the verdict.
    pub fn summary(&self, layout: &Layout) -> String {
        let mut text = layout.table(&self.rows(layout));
        let refused = match &self.host_compiler {
            Some(HostCompilerFindings::Refused { refused, hints, .. }) => Some((refused, hints)),
            _ => None,
        };
        let problem = self.problem.as_ref().map(|p| (&p.message, &p.hints));
        for (message, hints) in problem.into_iter().chain(refused) {
            text.push('\n');
            let lines = message.lines().filter(|line| !is_about_search(line));
            lines.for_each(|line| text.push_str(&layout.paragraph(line)));
            for hint in hints {
                text.push_str(&layout.paragraph(&format!("hint: {hint}")));
            }
        }
        let mark = match self.code {
            exit_code::SUCCESS => Mark::Good,
            _ => Mark::Bad,
        };
        let verdict = layout.coloured(mark, &printable(&self.verdict));
        format!("{text}\n{verdict}\n")
    }

    fn rows(&self, layout: &Layout) -> Vec<Row> {
        let mut rows = vec![self.toolkit_row(layout)];
        let of_toolkit = self.toolkit.iter().flat_map(|toolkit| &toolkit.warnings);
        let warnings = self.warnings.iter().chain(of_toolkit);
        rows.extend(warnings.map(|text| Row::new(Mark::Warning, "", [text])));
        rows.extend(self.compiler_rows());
        rows.extend(self.capability_rows(layout));
        for missing in &self.missing_for_features {
            let (feature, package) = (&missing.feature, &missing.package);
            let (mark, when) = match missing.is_linked {
                true => (Mark::Bad, ""),
                false => (Mark::Warning, " when a program runs"),
            };
            let reason = format!("not found; the feature `{feature}` of {package} needs it{when}");
            let parts = [reason, "`cargo cuda fetch` fetches it".to_owned()];
            rows.push(Row::new(mark, missing.component, parts));
        }
        for line in &self.optional_absent {
            let (package, text) = line.split_once(": ").unwrap_or(("", line));
            rows.push(Row::new(Mark::Absent, package, [text]));
        }
        rows.extend(self.driver_rows(layout));
        rows.extend(self.program_rows());
        rows
    }

    fn toolkit_row(&self, layout: &Layout) -> Row {
        let Some(toolkit) = &self.toolkit else {
            let text = match &self.problem {
                Some(problem) if problem.code != exit_code::NOT_FOUND => "cannot be used",
                _ => "not found",
            };
            return Row::new(Mark::Bad, "CUDA", [text]);
        };
        let mut places: Vec<(String, Vec<&str>)> = Vec::new();
        for component in &toolkit.components {
            let place = layout.path(&component.place);
            match places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, names)) => names.push(component.component),
                None => places.push((place, vec![component.component])),
            }
        }
        let parts = places
            .into_iter()
            .flat_map(|(place, names)| [place, names.join(" ")]);
        Row::new(Mark::Good, format!("CUDA {}", toolkit.version), parts)
    }

    /// The host compiler, the launcher, and what is missing to compile.
    fn compiler_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        match &self.host_compiler {
            Some(HostCompilerFindings::Chosen {
                family, version, ..
            }) => {
                let text = format!("{family} {version}");
                rows.push(Row::new(Mark::Good, "Host compiler", [text]));
            }
            Some(HostCompilerFindings::Refused { .. }) => {
                let text = "none that nvcc accepts";
                rows.push(Row::new(Mark::Bad, "Host compiler", [text]));
            }
            None => {}
        }
        if let Some(toolkit) = &self.toolkit {
            if !toolkit.has(Component::Nvcc) {
                let text = "not found: libraries and crates that call nvcc do not build";
                rows.push(Row::new(Mark::Warning, "nvcc", [text]));
            }
            if !toolkit.has(Component::Cccl) {
                let text = "not found: kernels that include CUB, Thrust or libcu++ do not compile";
                rows.push(Row::new(Mark::Warning, "cccl", [text]));
            }
        }
        if let Some(launcher) = &self.launcher {
            let unused = launcher.reason_unused.as_ref().map(|r| (Mark::Warning, r));
            let used = launcher.program.as_ref().map(|p| (Mark::Good, p));
            rows.extend(
                unused
                    .or(used)
                    .map(|(mark, text)| Row::new(mark, "Launcher", [text])),
            );
        }
        rows
    }

    /// One row for each list of capabilities, with the packages that declare it.
    fn capability_rows(&self, layout: &Layout) -> Vec<Row> {
        let mut rows = Vec::new();
        match &self.capabilities {
            Some(Capabilities::Plans(plans)) => {
                let mut packages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
                for (package, plan) in plans {
                    packages.entry(plan).or_default().push(package);
                }
                for (plan, packages) in packages {
                    let plan = plan.replace(", ", layout.separator());
                    rows.push(match packages.as_slice() {
                        [package] => Row::new(Mark::Good, *package, [plan]),
                        several => Row::new(Mark::Good, "Capabilities", [plan, several.join(", ")]),
                    });
                }
            }
            Some(Capabilities::Refused(refused)) => rows.extend(refused.iter().map(|line| {
                let (package, reason) = line.split_once(": ").unwrap_or(("", line));
                Row::new(Mark::Bad, package, reason.lines())
            })),
            None => {}
        }
        let undeclared = "no capabilities are declared: `.cu` files do not compile";
        let hint =
            "add `capabilities = [\"8.0\", \"9.0+PTX\"]` or similar to `[package.metadata.cuda]`";
        let packages = self.capabilities_undeclared.iter();
        rows.extend(packages.map(|name| Row::new(Mark::Warning, name, [undeclared, hint])));
        rows
    }

    fn driver_rows(&self, layout: &Layout) -> Vec<Row> {
        let driver = &self.driver;
        let first = match (&driver.absent, &driver.cuda) {
            (None, Some(cuda)) => {
                let module = driver.module.as_ref().map(|version| format!("{version} "));
                let gpus = match driver.capabilities.as_slice() {
                    [] => "no GPU".to_owned(),
                    gpus => format!("GPU {}", gpus.join(layout.separator())),
                };
                let text = format!("{}for CUDA {cuda}", module.unwrap_or_default());
                Row::new(Mark::Good, "Driver", [text, gpus])
            }
            (Some(reason), _) if driver.is_installed => Row::new(Mark::Warning, "Driver", [reason]),
            _ => Row::new(
                Mark::Warning,
                "Driver",
                ["none found (not needed to build)"],
            ),
        };
        let more = driver.warnings.iter().chain(&driver.notes);
        std::iter::once(first)
            .chain(more.map(|text| Row::new(Mark::Warning, "", [text])))
            .collect()
    }

    /// Programs that a command of `cargo cuda` needs and that are missing.
    fn program_rows(&self) -> Vec<Row> {
        let is_missing = |name: &str| {
            let mut programs = self.programs.iter();
            programs.any(|program| program.name == name && program.path.is_none())
        };
        let mut rows = Vec::new();
        if is_missing("uv") && is_missing("pip") {
            let text = "not installed (to fetch toolkits: uv or pip)";
            rows.push(Row::new(Mark::Absent, "uv, pip", [text]));
        }
        if is_missing("maturin") && self.builds_wheels {
            let text = "not installed (`cargo cuda wheel --fetch` fetches it)";
            rows.push(Row::new(Mark::Absent, "maturin", [text]));
        }
        rows
    }
}

impl Layout {
    /// The layout for standard output.
    pub fn of_stdout(env: &Env) -> Self {
        Self {
            width: crate::output::stdout_width().min(Self::MAX_WIDTH),
            unicode: is_utf8(env),
            colour: crate::output::stdout_has_colour(),
            home: env.text("HOME").filter(|home| home.len() > 1),
        }
    }
}

/// Whether a line of an error is about one step of the search. The evidence lists all steps.
fn is_about_search(line: &str) -> bool {
    ["  tried ", "  available, "]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Whether the locale's encoding is UTF-8. The first of these variables that is set decides.
fn is_utf8(env: &Env) -> bool {
    let mut values = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(|name| env.text(name).filter(|value| !value.is_empty()));
    values.next().is_some_and(|locale| {
        let locale = locale.to_lowercase();
        locale.ends_with("utf-8") || locale.ends_with("utf8")
    })
}
