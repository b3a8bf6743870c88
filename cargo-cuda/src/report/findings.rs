//! What `doctor` prints, as values: JSON and text are written from the same ones.

use std::fmt::Write as _;

use cuda_build::internal::probe::{Attempt, Found};
use cuda_build::{Error, Toolkit};
use serde::{Serialize, Serializer};

use super::{Diagnosis, Program, notes, shown, verdict};

/// Everything that was found. Fields that are not in JSON are sentences about fields that are.
#[derive(Debug, Serialize)]
pub struct Findings {
    #[serde(serialize_with = "as_map")]
    environment: Vec<(String, String)>,
    attempts: Vec<AttemptFindings>,
    warnings: Vec<String>,
    toolkit: Option<ToolkitFindings>,
    problem: Option<Problem>,
    capabilities: Option<Capabilities>,
    capabilities_undeclared: Vec<String>,
    optional_absent: Vec<String>,
    host_compiler: Option<Host>,
    driver: Driver,
    programs: Vec<Program>,
    build_will_work: bool,
    verdict: String,
    #[serde(skip)]
    workspace: Option<String>,
    /// The exit code of a build.
    #[serde(skip)]
    pub code: u8,
}

#[derive(Debug, Serialize)]
struct AttemptFindings {
    step: &'static str,
    source: String,
    path: String,
    found: Vec<Component>,
    unusable: Vec<Unusable>,
    remarks: Vec<String>,
    #[serde(skip)]
    line: String,
}

#[derive(Debug, Serialize)]
struct Unusable {
    component: &'static str,
    major: u32,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Component {
    component: &'static str,
    major: u32,
    version: Option<String>,
    toolkit: Option<String>,
    include: Vec<String>,
    libraries: Vec<String>,
    archives: Vec<String>,
    tools: Vec<String>,
    evidence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip)]
    name: String,
}

#[derive(Debug, Serialize)]
struct ToolkitFindings {
    version: String,
    combined: bool,
    components: Vec<Component>,
    remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Problem {
    message: String,
    hints: Vec<String>,
}

/// The plan of each package, or why the toolkit cannot build them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Capabilities {
    #[serde(serialize_with = "as_map")]
    Plans(Vec<(String, String)>),
    Refused(Vec<String>),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Host {
    Chosen {
        path: String,
        family: String,
        version: String,
        named_to_nvcc: Option<String>,
        warnings: Vec<String>,
        #[serde(skip)]
        line: String,
    },
    Refused {
        refused: String,
        hints: Vec<String>,
        #[serde(skip)]
        text: String,
    },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Driver {
    Present {
        cuda: String,
        capabilities: Vec<String>,
        library: String,
        module: Option<String>,
        warnings: Vec<String>,
        notes: Vec<String>,
    },
    Absent {
        absent: String,
        module: Option<String>,
        notes: Vec<String>,
    },
}

fn as_map<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

fn texts(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

impl Component {
    fn new(found: &Found, origin: Option<&str>) -> Self {
        let paths = |paths: &[std::path::PathBuf]| paths.iter().map(|path| shown(path)).collect();
        Self {
            component: found.component.id(),
            major: found.major,
            version: found.version.as_ref().map(ToString::to_string),
            toolkit: found.toolkit.map(|toolkit| toolkit.to_string()),
            include: paths(&found.include),
            libraries: paths(&found.libraries),
            archives: paths(&found.archives),
            tools: paths(&found.tools),
            evidence: found.evidence.clone(),
            origin: origin.map(str::to_owned),
            name: found.to_string(),
        }
    }
}

impl AttemptFindings {
    fn new(attempt: &Attempt) -> Self {
        let found = attempt.sets.iter().flat_map(|set| &set.found);
        let unusable = attempt.unusable.iter().map(|unusable| Unusable {
            component: unusable.component.id(),
            major: unusable.major,
            reason: unusable.reason.clone(),
        });
        Self {
            step: attempt.candidate.step.id(),
            source: attempt.candidate.label.to_string(),
            path: shown(&attempt.candidate.path),
            found: found.map(|found| Component::new(found, None)).collect(),
            unusable: unusable.collect(),
            remarks: attempt.remarks.clone(),
            line: format!("{}: {}", attempt.candidate, attempt.summary()),
        }
    }
}

impl ToolkitFindings {
    fn new(toolkit: &Toolkit) -> Self {
        let components = toolkit.components().iter();
        Self {
            version: toolkit.version().to_string(),
            combined: toolkit.is_combined(),
            components: components
                .map(|chosen| Component::new(&chosen.found, Some(&chosen.origin)))
                .collect(),
            remarks: notes(toolkit),
        }
    }
}

impl Findings {
    /// Takes over what was diagnosed.
    #[must_use]
    pub fn new(diagnosis: Diagnosis<'_>) -> Self {
        let toolkit = diagnosis.report.toolkit.as_ref();
        let problem = |error: &Error| Problem {
            message: error.to_string(),
            hints: error.hints(),
        };
        let verdict = verdict(&diagnosis);
        let host_compiler = diagnosis.host.map(|host| match host {
            Ok(host) => Host::Chosen {
                path: shown(&host.compiler.path),
                family: host.compiler.family.to_string(),
                version: host.compiler.version.clone(),
                line: host.compiler.to_string(),
                named_to_nvcc: host.option.as_ref().map(|option| shown(option.as_ref())),
                warnings: host.warnings,
            },
            Err(error) => Host::Refused {
                refused: error.to_string(),
                hints: error.hints(),
                text: format!("{error:?}"),
            },
        });
        let (module, notes) = (diagnosis.module, diagnosis.machine_notes);
        let driver = match diagnosis.driver {
            Ok(driver) => Driver::Present {
                cuda: driver.version.to_string(),
                capabilities: texts(&driver.gpus),
                library: driver.library.clone(),
                module,
                warnings: diagnosis.driver_notes,
                notes,
            },
            Err(reason) => Driver::Absent {
                absent: reason.to_string(),
                module,
                notes,
            },
        };
        let capabilities = diagnosis.capabilities.map(|plans| match plans {
            Ok(plans) => Capabilities::Plans(plans),
            Err(refused) => Capabilities::Refused(refused),
        });
        Self {
            environment: diagnosis.variables,
            attempts: diagnosis
                .report
                .attempts
                .iter()
                .map(AttemptFindings::new)
                .collect(),
            warnings: diagnosis.report.remarks.clone(),
            toolkit: toolkit.ok().map(ToolkitFindings::new),
            problem: toolkit.err().map(problem),
            capabilities,
            capabilities_undeclared: diagnosis.undeclared,
            optional_absent: diagnosis.absent,
            host_compiler,
            driver,
            programs: diagnosis.programs,
            build_will_work: verdict.is_good(),
            verdict: verdict.line,
            workspace: diagnosis.workspace.map(|workspace| shown(&workspace.root)),
            code: verdict.code,
        }
    }

    /// The report for people, a section each, with the verdict at its end.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let listed = |out: &mut String, kind: &str, lines: &[String]| {
            lines
                .iter()
                .try_for_each(|line| writeln!(out, "  {kind}: {line}"))
        };
        writeln!(out, "Environment")?;
        if self.environment.is_empty() {
            writeln!(out, "  no variable about CUDA is set")?;
        }
        for (name, value) in &self.environment {
            writeln!(out, "  {name}={value}")?;
        }
        writeln!(out, "Search, in order")?;
        if self.attempts.is_empty() {
            writeln!(
                out,
                "  no place to look at: no variable, environment, added toolkit, nvcc on `PATH`, or /usr/local/cuda"
            )?;
        }
        for attempt in &self.attempts {
            writeln!(out, "  {}", attempt.line)?;
        }
        listed(out, "warning", &self.warnings)?;
        if let Some(toolkit) = &self.toolkit {
            let combined = match toolkit.combined {
                true => ", combined from several places",
                false => "",
            };
            writeln!(out, "Toolkit: CUDA {}{combined}", toolkit.version)?;
            for Component { name, evidence, .. } in &toolkit.components {
                writeln!(out, "  {name}: {evidence}")?;
            }
            listed(out, "note", &toolkit.remarks)?;
        }
        self.write_host(out)?;
        writeln!(out, "Driver and GPUs")?;
        let (warnings, notes) = match &self.driver {
            Driver::Present {
                cuda,
                capabilities,
                library,
                module,
                warnings,
                notes,
            } => {
                let gpus = match capabilities.is_empty() {
                    true => "no GPU".to_owned(),
                    false => capabilities.join(", "),
                };
                let module = module.iter().map(|version| format!(" {version}"));
                let module: String = module.collect();
                writeln!(
                    out,
                    "  driver{module} for CUDA {cuda}, compute capabilities: {gpus}"
                )?;
                writeln!(out, "  {library}")?;
                (warnings.as_slice(), notes)
            }
            Driver::Absent { absent, notes, .. } => {
                writeln!(out, "  {absent} (not needed to build)")?;
                (&[][..], notes)
            }
        };
        listed(out, "warning", warnings)?;
        listed(out, "note", notes)?;
        self.write_workspace(out)?;
        writeln!(out, "Programs")?;
        for program in &self.programs {
            let place = program.path.as_deref().unwrap_or("not found");
            writeln!(out, "  {}: {place} ({})", program.name, program.purpose)?;
        }
        if let Some(Problem { message, hints }) = &self.problem {
            writeln!(out, "Problem\n  {}", message.replace('\n', "\n  "))?;
            listed(out, "hint", hints)?;
        }
        writeln!(out, "{}", self.verdict)
    }

    fn write_host(&self, out: &mut String) -> std::fmt::Result {
        match &self.host_compiler {
            Some(Host::Chosen {
                line,
                named_to_nvcc,
                warnings,
                ..
            }) => {
                let named = match named_to_nvcc {
                    Some(_) => ", named to nvcc, whose own choice it would refuse",
                    None => "",
                };
                writeln!(out, "Host compiler: {line}{named}")?;
                warnings
                    .iter()
                    .try_for_each(|warning| writeln!(out, "  warning: {warning}"))
            }
            Some(Host::Refused { text, .. }) => {
                writeln!(out, "Host compiler\n  {}", text.replace('\n', "\n  "))
            }
            None => Ok(()),
        }
    }

    fn write_workspace(&self, out: &mut String) -> std::fmt::Result {
        match (&self.workspace, &self.capabilities) {
            (Some(root), _) => writeln!(out, "Workspace {root}")?,
            (None, Some(_)) => writeln!(out, "Outside a workspace")?,
            (None, None) => return Ok(()),
        }
        match &self.capabilities {
            Some(Capabilities::Plans(plans)) => {
                for (package, plan) in plans {
                    writeln!(out, "  {package}: capabilities {plan}")?;
                }
            }
            Some(Capabilities::Refused(refused)) => {
                for line in refused {
                    writeln!(out, "  {}", line.replace('\n', "\n  "))?;
                }
            }
            None => {}
        }
        for package in &self.capabilities_undeclared {
            writeln!(
                out,
                "  {package}: no capabilities declared, and no GPU here to ask: `.cu` files will not compile; write \
                 them below `[package.metadata.cuda]`, such as `capabilities = [\"8.0\", \"9.0+PTX\"]`"
            )?;
        }
        self.optional_absent
            .iter()
            .try_for_each(|line| writeln!(out, "  note: {line}"))
    }
}
