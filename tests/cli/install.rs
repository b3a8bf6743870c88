//! `cargo cuda install` from git: whose sources, which capabilities, and whether the program starts.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cargo_cuda::exit_code;

use crate::project::Project;
use crate::support::Finished;

/// A repository with a program that links the CUDA runtime and prints a word.
struct Repository {
    project: Project,
    path: PathBuf,
}

impl Repository {
    fn new(name: &str) -> Self {
        let project = Project::bare_at(name, "plain", &[13]);
        let path = project.path.with_file_name("repository");
        fs::create_dir_all(path.join("src")).unwrap();
        let manifest = "[package]\nname = \"giapp\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
                        [package.metadata.cuda]\ncapabilities = [\"8.0\"]\n[workspace]\n";
        fs::write(path.join("Cargo.toml"), manifest).unwrap();
        let repository = Self { project, path };
        repository.git(&["init", "--quiet"]);
        repository
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-C"]);
        git.arg(&self.path).args(arguments);
        let finished = Finished::of(git.output().unwrap());
        finished.succeeded();
        finished.stdout.trim().to_owned()
    }

    fn commit(&self, word: &str) {
        let program = format!(
            "#[link(name = \"cudart\")]\nunsafe extern \"C\" {{ fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }}\n\
             fn main() {{ let mut version = 0; unsafe {{ cudaRuntimeGetVersion(&mut version) }}; \
             println!(\"{word} {{}}\", version / 1000); }}\n"
        );
        fs::write(self.path.join("src/main.rs"), program).unwrap();
        self.git(&["add", "-A"]);
        self.git(&["commit", "--quiet", "-m", word]);
    }

    fn root(&self) -> PathBuf {
        self.project.path.with_file_name("root")
    }

    fn install(&self, arguments: &[&str]) -> Finished {
        let temporary = self.project.path.with_file_name("temporary");
        fs::create_dir_all(&temporary).unwrap();
        let url = format!("file://{}", self.path.display());
        let mut install = self
            .project
            .command(&["install", "--force", "--git", &url, "--root"]);
        install
            .arg(self.root())
            .args(arguments)
            .env("TMPDIR", &temporary);
        install.current_dir(self.project.path.parent().unwrap());
        let finished = Finished::of(install.output().unwrap());
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "{finished:?}");
        finished
    }

    /// What the installed program prints, started as the note says.
    fn printed(&self) -> String {
        let mut exec = self.project.command(&["exec", "--cuda", "13", "--"]);
        exec.arg(self.root().join("bin/giapp"));
        let printed = Finished::of(exec.output().unwrap());
        printed.succeeded();
        printed.stdout
    }
}

mod online {
    use super::*;

    #[test]
    fn each_revision_is_built_from_its_own_sources() {
        let repository = Repository::new("installed-revisions");
        let given = ["--capabilities", "8.0"];
        repository.commit("one");
        repository.install(&given).succeeded();
        assert_eq!(repository.printed(), "one 13\n");
        repository.commit("two");
        let installed = repository.install(&given);
        installed.succeeded();
        assert_eq!(repository.printed(), "two 13\n");
        let first = repository.git(&["rev-parse", "HEAD~1"]);
        let arguments = [&given[..], &["--rev", &first]].concat();
        repository.install(&arguments).succeeded();
        assert_eq!(repository.printed(), "one 13\n");

        // The program needs a library that is in no directory of the loader.
        let program = repository.root().join("bin/giapp");
        let start = format!("cargo cuda exec --cuda 13 -- {}", program.display());
        let note = format!(
            "note: giapp needs libcudart.so.13, where the loader does not look: start it with `{start}`"
        );
        assert!(installed.stderr.contains(&note), "{}", installed.stderr);
        let alone = Command::new(repository.root().join("bin/giapp"))
            .env_remove("LD_LIBRARY_PATH")
            .output();
        assert_eq!(Finished::of(alone.unwrap()).code, 127);

        // A directory that the user names stays.
        let named = repository.project.path.with_file_name("named");
        let arguments = [&given[..], &["--target-dir", named.to_str().unwrap()]].concat();
        repository.install(&arguments).succeeded();
        assert!(fs::read_dir(&named).unwrap().count() > 0);
    }

    #[test]
    fn the_list_of_a_program_from_git_is_not_known() {
        let repository = Repository::new("installed-list");
        repository.commit("one");
        let refused = repository.install(&[]);
        let text =
            "the capabilities of a program from git or a registry are not known before it is built";
        refused.failed(exit_code::CAPABILITY, &[text, "--capabilities 8.0,9.0"]);
        assert!(!repository.root().join("bin/giapp").exists());
        // The manifest of a directory is read.
        let mut install = repository.project.command(&["install", "--root"]);
        install.arg(repository.root()).args(["--path", "."]);
        install.current_dir(&repository.path);
        Finished::of(install.output().unwrap()).succeeded();
        assert_eq!(repository.printed(), "one 13\n");
    }
}
