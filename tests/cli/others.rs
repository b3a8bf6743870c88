//! What another user of the machine could have written is not used. The tests open directories with `chmod`; that files of
//! other owners are refused is tested with the rule itself (`cuda_find_core::trust`).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cargo_cuda::exit_code;

use crate::project::Project;
use crate::support::Finished;
use crate::wrapper::{compiled, project};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        match path.is_dir() && !path.is_symlink() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}

/// A build in an empty target directory.
fn build(project: &Project, trusted: Option<&Path>) -> Finished {
    let _ = fs::remove_dir_all(&project.target);
    let mut build = project.command(&["build"]);
    build.envs(trusted.map(|directory| ("CUDA_BUILD_TRUST", directory)));
    Finished::of(build.output().unwrap())
}

mod online {
    use super::*;

    #[test]
    fn kept_outputs_that_others_can_write_are_not_used() {
        let project = project("others", "capabilities = [\"8.0\"]");
        let images = project.path.with_extension("images");
        let first = build(&project, None);
        first.succeeded();
        let number_of_outputs = compiled(&first).len();
        assert!(number_of_outputs > 0);
        let compiles = |trusted: Option<&Path>, expected: usize, case: &str| {
            let run = build(&project, trusted);
            run.succeeded();
            assert_eq!(compiled(&run).len(), expected, "{case}: {}", run.stderr);
            run.stderr
                .matches("outputs and answers of compilers are not kept")
                .count()
        };
        assert_eq!(compiles(None, 0, "kept"), 0);

        set_mode(&images, 0o777);
        assert_eq!(compiles(None, number_of_outputs, "an open store"), 1);
        assert_eq!(
            compiles(Some(&images), 0, "an open store that is trusted"),
            0
        );
        set_mode(&images, 0o755);
        assert_eq!(compiles(None, 0, "closed again"), 0);

        // Written by another user while the store was open.
        for file in files_below(&images) {
            set_mode(&file, 0o666);
        }
        assert_eq!(compiles(None, number_of_outputs, "open files"), 0);

        // A directory above all of them, also above the fetched toolkits.
        let above = images.parent().unwrap();
        set_mode(above, 0o777);
        let refused = build(&project, None);
        set_mode(above, 0o755);
        refused.failed(exit_code::NOT_FOUND, &["can be written by every user"]);
    }

    #[test]
    fn a_view_that_others_can_write_is_refused() {
        let project = project("other-views", "capabilities = [\"8.0\"]");
        build(&project, None).succeeded();
        let latest = project.target.join("cargo-cuda/latest");
        let views = latest.join(".cuda/views");
        set_mode(&views, 0o777);
        let refused = project.run(&["build"]);
        refused.failed(
            exit_code::DISK,
            &["can be written by every user", "chmod o-w"],
        );
        set_mode(&views, 0o755);
        project.run(&["build"]).succeeded();

        // Whoever can open a lock file can hold its lock for ever.
        let locks = files_below(&fs::canonicalize(&latest).unwrap().join(".cuda"));
        let locks = locks
            .iter()
            .filter(|file| file.to_string_lossy().ends_with(".lock"));
        let modes = locks.map(|file| fs::metadata(file).unwrap().permissions().mode() & 0o777);
        let modes: Vec<u32> = modes.collect();
        assert!(
            !modes.is_empty() && modes.iter().all(|mode| *mode == 0o600),
            "{modes:?}"
        );
    }
}
