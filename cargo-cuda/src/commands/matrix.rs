//! `cargo cuda matrix`: the jobs that compile a workspace's device code on several machines.

use clap::Args;
use cuda_build::Plan;
use cuda_build::internal::{Env, Root};
use serde::Serialize;

use super::capabilities;
use crate::exit_code;
use crate::failure::Failure;
use crate::project::WorkspaceOptions;
use crate::report;

/// List jobs that compile the capabilities on several machines
#[derive(Args, Clone, Debug)]
pub struct MatrixArgs {
    #[command(flatten)]
    workspace: WorkspaceOptions,
    /// Write JSON; `.matrix` is a matrix of GitHub Actions
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    matrix: Matrix,
}

#[derive(Serialize)]
struct Matrix {
    include: Vec<Job>,
}

#[derive(PartialEq, Serialize)]
struct Job {
    cuda: String,
    capabilities: String,
}

/// Returns the jobs as JSON, or as one line of options for each job.
pub fn run(arguments: &MatrixArgs, env: &Env, root: &Root) -> Result<String, Failure> {
    let workspace = arguments.workspace.load(root, env)?;
    let packages = arguments.workspace.packages(workspace.as_ref());
    let mut include = Vec::new();
    for (major, plan) in capabilities::declared_plans(packages)? {
        for capabilities in one_by_one(&plan) {
            let cuda = major.to_string();
            let job = Job { cuda, capabilities };
            if !include.contains(&job) {
                include.push(job);
            }
        }
    }
    if include.is_empty() {
        let message = "no package of this workspace declares capabilities";
        return Err(Failure::new(exit_code::CAPABILITY, message)
            .hint("write `capabilities = [\"8.0\", \"9.0\"]` below `[package.metadata.cuda]`"));
    }
    if arguments.json {
        let matrix = Matrix { include };
        return Ok(report::json(&Report { matrix }));
    }
    let line = |job: &Job| format!("--cuda {} --capabilities {}\n", job.cuda, job.capabilities);
    Ok(include.iter().map(line).collect())
}

/// Each capability of the plan as a list of its own: `8.0`, `12.0+PTX`.
fn one_by_one(plan: &Plan) -> Vec<String> {
    let text = plan.to_string();
    text.split(", ").map(str::to_owned).collect()
}
