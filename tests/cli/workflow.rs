//! Workflows for GitHub, whose `run` steps tests start as scripts.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::Finished;
use crate::tools::publisher;

/// A workflow, after a check against the schema of workflows.
pub fn read(file: &Path) -> Value {
    let mut schema = Command::new(publisher("check-jsonschema"));
    schema.args(["--builtin-schema", "vendor.github-workflows"]);
    Finished::of(schema.arg(file).output().unwrap()).succeeded();
    let code = "import json, sys, yaml\nprint(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let mut json = Command::new(publisher("python"));
    Finished::of(json.args(["-c", code]).arg(file).output().unwrap()).json()
}

/// All steps of all jobs.
pub fn steps(workflow: &Value) -> Vec<&Value> {
    let jobs = workflow["jobs"].as_object().unwrap().values();
    jobs.flat_map(|job| job["steps"].as_array().unwrap())
        .collect()
}

/// A script as a runner starts it: it ends with the first command that fails.
pub fn bash(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-e", "-c", script]);
    command
}
