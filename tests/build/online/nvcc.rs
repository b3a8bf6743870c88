//! What a search learns from real nvccs, and when it queries them again.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_find_core::{
    env::Env,
    found::Attempt,
    nvcc::{NvccAnswer, query},
    root::Root,
    search::SearchContext,
    select::Request,
    target::Target,
};

use crate::support::{output, text};
use crate::wheels::wheels;

const PATH: &str = "/usr/bin:/bin";

/// As NVIDIA's archives and installers of CUDA 11 and 12 have it.
const CLASSIC: &str = "
TOP              = $(_HERE_)/..

NVVMIR_LIBRARY_DIR = $(TOP)/$(_NVVM_BRANCH_)/libdevice

LD_LIBRARY_PATH += $(TOP)/lib:
PATH            += $(TOP)/$(_NVVM_BRANCH_)/bin:$(_HERE_):

INCLUDES        +=  \"-I$(TOP)/$(_TARGET_DIR_)/include\" $(_SPACE_)

LIBRARIES        =+ $(_SPACE_) \"-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)/stubs\" \"-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)\"

CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=
";

fn real_nvcc() -> PathBuf {
    wheels(&["nvidia-cuda-nvcc==13.4.92"]).join("nvidia/cu13/bin/nvcc")
}

/// A root with a link to a real nvcc, and a cache directory of its own.
struct Place {
    directory: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new(nvcc: &Path, profile: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir_all(root.join("bin")).unwrap();
        symlink(nvcc, root.join("bin/nvcc")).unwrap();
        fs::write(root.join("bin/nvcc.profile"), profile).unwrap();
        Self { directory, root }
    }

    fn nvcc(&self) -> PathBuf {
        self.root.join("bin/nvcc")
    }

    fn env(&self, path: &str) -> Env {
        Env::from_pairs([("PATH", path)]).with("CUDA_BUILD_CACHE_DIR", self.directory.path())
    }

    fn query(&self, nvcc: &Path, env: &Env) -> NvccAnswer {
        query(&Root::system(), env, nvcc).unwrap()
    }

    /// The kept answers of nvcc, with the time at which each was written.
    fn kept(&self) -> Vec<(PathBuf, std::time::SystemTime)> {
        let entries = fs::read_dir(self.directory.path().join("answers"));
        let entries = entries.into_iter().flatten().map(Result::unwrap);
        entries
            .map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap()))
            .collect()
    }

    /// What the search finds in the root.
    fn attempt(&self, env: &Env) -> Attempt {
        let (disk, target) = (
            Root::system(),
            Target::from_triple("x86_64-unknown-linux-gnu").unwrap(),
        );
        let search = SearchContext {
            root: &disk,
            env,
            target: &target,
            places: vec![self.root.clone()],
            runs_nvcc: true,
        };
        search.report(&[Request::default()]).attempts.remove(0)
    }
}

fn dry_run(nvcc: &Path, path: &str) -> NvccAnswer {
    let mut command = Command::new(nvcc);
    command.env_clear().env("PATH", path);
    command.args(["--dryrun", "-E", "-x", "cu", "/dev/null"]);
    let mut text = text(&output(&mut command));
    // Without an assignment in the profile it is the process's own.
    if !text.contains("#$ PATH=") {
        text += &format!("#$ PATH={path}\n");
    }
    NvccAnswer::parse(&text).unwrap()
}

/// The kept answer is what nvcc prints; each `PATH` has an answer of its own.
#[test]
fn a_kept_answer_equals_a_dry_run() {
    let nvcc = real_nvcc();
    let own = fs::read_to_string(nvcc.with_extension("profile")).unwrap();
    for profile in [CLASSIC, "", &own] {
        let place = Place::new(&nvcc, profile);
        for path in [PATH, PATH, "/opt/other/bin:/usr/bin:/bin"] {
            let answer = place.query(&place.nvcc(), &place.env(path));
            assert_eq!(answer, dry_run(&place.nvcc(), path), "{profile}");
            assert_eq!(answer.directory, Some(place.root.join("bin")));
            assert_eq!(answer.host_compiler, Some("gcc".into()));
        }
        assert_eq!(place.kept().len(), 2, "{profile}");
    }
}

#[test]
fn without_a_host_compiler_version_and_layout_are_known() {
    let nvcc = real_nvcc();
    let place = Place::new(&nvcc, CLASSIC);
    fs::create_dir_all(place.root.join("include/crt")).unwrap();
    fs::write(place.root.join("include/crt/host_config.h"), "").unwrap();
    fs::write(
        place.root.join("include/cuda.h"),
        "#define CUDA_VERSION 13040\n",
    )
    .unwrap();
    let empty = place.directory.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let env = place.env(empty.to_str().unwrap());
    let attempt = place.attempt(&env);
    let summary = attempt.summary();
    assert!(summary.contains("nvcc 13.4.92"), "{summary}");
    let include = place.root.join("include");
    let found = &attempt.sets[0].found;
    assert!(
        found.iter().any(|found| found.include == [include.clone()]),
        "{attempt:?}"
    );
    assert_eq!(place.kept().len(), 1);
    let answer = place.query(&place.nvcc(), &env);
    assert_eq!((answer.host_compiler, answer.programs.len()), (None, 0));
    // As soon as there is a compiler, nvcc names its directories.
    symlink("/usr/bin/gcc", empty.join("gcc")).unwrap();
    let answer = place.query(&place.nvcc(), &env);
    assert_eq!(answer.host_compiler, Some("gcc".into()));
    assert!(!answer.programs.is_empty());
}
