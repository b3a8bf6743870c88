//! What is built again, and what is not: counted in what Cargo says with `-v`.

use std::fs;
use std::process::Command;

use crate::project::Project;
use crate::support::Finished;

mod online {
    use super::*;

    /// The packages that Cargo compiled or found out of date, each once, sorted.
    fn compiled(build: &Finished) -> Vec<String> {
        build.succeeded();
        let mut names: Vec<String> = build
            .stderr
            .lines()
            .filter_map(|line| {
                let line = line.trim_start();
                let rest = line
                    .strip_prefix("Compiling ")
                    .or(line.strip_prefix("Dirty "))?;
                rest.split(' ').next().map(str::to_owned)
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn plain(project: &Project) -> Finished {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "-v"]);
        project.prepare(&mut cargo);
        Finished::of(cargo.output().unwrap())
    }

    #[test]
    fn cargo_and_cargo_cuda_leave_each_others_work_alone() {
        let project = Project::template("library", &[12, 13]).alone(&[12, 13]);
        let all = |build: Finished| compiled(&build).contains(&"native-app".to_owned());
        assert!(all(plain(&project)));
        assert!(all(project.run(&["build", "-v"])));
        assert!(all(project.run(&["build", "-v", "--capabilities", "8.6"])));
        for _ in 0..2 {
            assert_eq!(compiled(&plain(&project)), [""; 0]);
            let other = ["build", "-v", "--capabilities", "8.6"];
            assert_eq!(compiled(&project.run(&other)), [""; 0]);
        }
        // The directory of the first list is still there.
        assert_eq!(compiled(&project.run(&["build", "-v"])), [""; 0]);
    }

    const CALLS_THE_DRIVER: &str = r#"
unsafe extern "C" {
    fn cuInit(flags: u32) -> i32;
}
fn main() {
    println!("{}", unsafe { cuInit(0) });
}
"#;

    #[test]
    fn a_view_that_others_were_told_of_is_made_again() {
        let run = "fn main() -> Result<(), cuda_build::Error> { cuda_build::Build::new()?.run().map(drop) }";
        let cuda = "components = [\"cuda-driver\"]";
        let project = Project::new("view-linked", &[13], cuda, run, CALLS_THE_DRIVER);
        let project = project.alone(&[13]);
        let views = project.cache.join("views");
        let is_there = || fs::read_dir(&views).is_ok_and(|entries| entries.count() == 1);
        assert!(compiled(&plain(&project)).contains(&"view-linked".to_owned()));
        assert!(is_there());
        // The view is newer than the script's start, and is none the less no reason to run it.
        for _ in 0..2 {
            assert_eq!(compiled(&plain(&project)), [""; 0]);
        }
        fs::remove_dir_all(&views).unwrap();
        project.write("src/main.rs", &format!("{CALLS_THE_DRIVER}// changed\n"));
        assert_eq!(compiled(&plain(&project)), ["view-linked"]);
        assert!(is_there());
        assert_eq!(compiled(&plain(&project)), [""; 0]);
    }

    /// Cargo puts search paths below a profile directory on the loader path, whatever its layout there.
    #[test]
    fn a_view_on_the_loader_path_is_refused() {
        let run = "fn main() -> Result<(), cuda_build::Error> { cuda_build::Build::new()?.run().map(drop) }";
        let cuda = "components = [\"cuda-driver\"]";
        let project = Project::new("view-refused", &[13], cuda, run, CALLS_THE_DRIVER);
        let shared = project.target.clone();
        // Cargo marks a target directory that it creates. Intermediate files are compiled once for all runs.
        let marked = project.path.join("marked");
        let elsewhere = shared.with_extension("intermediate");
        let elsewhere = format!("build.build-dir={elsewhere:?}");
        for (target, arguments) in [(&shared, &[][..]), (&marked, &["--config", &elsewhere])] {
            let build = |views: &str| {
                let mut cargo = Command::new("cargo");
                project.prepare(cargo.arg("build").args(arguments));
                cargo.env("CARGO_TARGET_DIR", target);
                cargo.env("CUDA_BUILD_VIEWS", target.join(views));
                Finished::of(cargo.output().unwrap())
            };
            let refused = build("debug/views");
            refused.ended_with(101, &["programs would load the stub of the driver"]);
            for views in ["views", "release/views"] {
                build(views).succeeded();
            }
        }
    }
}
