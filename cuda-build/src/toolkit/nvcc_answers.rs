//! What an nvcc answered, kept in the user's cache directory: asking starts nvcc, and without a
//! profile that can be read the host compiler too. Either takes longer than the rest of a search.
//!
//! One small file an nvcc, `<cache>/nvcc-answers/<hash of its path>.txt`. It counts only while its
//! head is what would be written today: path, file (device and inode), size and time of change of
//! the nvcc, of the program that a wrapper in its place starts, and of the `nvcc.profile` beside
//! that; whether there is a directory of targets; and the variables that nvcc and its profile read.
//! A cache that can't be read or written is as good as none. What another program than that one
//! answers is not kept: nothing tells when it changes.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use super::nvcc::{Nvcc, profile_of, targets_of};
use crate::cache;
use crate::command::Answer;
use crate::env::Env;
use crate::root::Root;
use crate::store;

const HEAD: &str = "cuda-build nvcc answer 2";
/// The last line: what lacks it was not written whole.
const END: &str = "\n#end\n";
/// nvcc prints its `PATH`: what its profile puts first, then that of the process. The second half
/// is left out of the file and put back when it is read, because shells differ in it.
const PATH_LINE: &str = "#$ PATH=";
const REST: &str = "\u{1}";

/// What `nvcc` says, from the cache where that still holds.
pub(crate) fn ask(root: &Root, env: &Env, nvcc: &Path) -> Option<String> {
    let path = env.peek("PATH").and_then(OsStr::to_str).unwrap_or_default();
    let file = file(env, nvcc);
    let kept = file.as_ref().and_then(|file| root.text(file).ok());
    if let Some(text) = kept.and_then(|kept| read(root, env, nvcc, &kept, path)) {
        return Some(text);
    }
    let program = Nvcc::new(root, nvcc);
    // Before it is asked: what changes meanwhile makes the answer an old one.
    let head = Depends::on(&program).and_then(|depends| depends.head(root, env, nvcc));
    match program.ask(root, env)? {
        Answer::Whole(text) => {
            let own = answers_itself(&text, &program.program);
            let written = head
                .filter(|_| own)
                .and_then(|head| written(&text, &head, path));
            if let (Some(file), Some(written)) = (file, written) {
                // That it can't be kept costs time and nothing else.
                let _ = cache::write_shared(&file, written.as_bytes());
            }
            Some(text)
        }
        // It lacks the directories because there is no host compiler now; there may be one later.
        Answer::VersionAlone(text) => Some(text),
    }
}

/// Where the answer is kept; `None` where no variable tells a cache directory.
fn file(env: &Env, nvcc: &Path) -> Option<PathBuf> {
    // Another hash with another Rust would cost one more question.
    let mut hasher = DefaultHasher::new();
    nvcc.hash(&mut hasher);
    Some(
        store::cache_dir(env)?
            .join("nvcc-answers")
            .join(format!("{:016x}.txt", hasher.finish())),
    )
}

/// What is known of an nvcc only after reading a wrapper and a profile. It stands in the kept file,
/// and is right for as long as the two have not changed.
struct Depends<'a> {
    program: &'a str,
    /// Names of variables, with spaces between them.
    variables: String,
}

impl<'a> Depends<'a> {
    fn on(nvcc: &'a Nvcc<'_>) -> Option<Self> {
        let names: Vec<&str> = nvcc.asks().into_iter().collect();
        let program = nvcc.program.to_str().filter(|path| !path.contains('\n'))?;
        Some(Self {
            program,
            variables: names.join(" "),
        })
    }

    /// The second and third line of a kept file.
    fn of(kept: &'a str) -> Option<Self> {
        let mut lines = kept.lines().skip(1);
        let program = lines.next()?.strip_prefix("program ")?;
        Some(Self {
            program,
            variables: lines.next()?.strip_prefix("variables ")?.to_owned(),
        })
    }

    /// Everything the answer depends on; `None` where there is no nvcc.
    fn head(&self, root: &Root, env: &Env, nvcc: &Path) -> Option<String> {
        let mut head = format!(
            "{HEAD}\nprogram {}\nvariables {}\n",
            self.program, self.variables
        );
        let program = Path::new(self.program);
        let wrapper = (program != nvcc).then_some(nvcc);
        for file in wrapper.into_iter().chain([program]) {
            // Writing to a String can't fail.
            let _ = writeln!(head, "file {file:?} {}", root.fingerprint(file)?);
        }
        let _ = writeln!(head, "profile {:?}", root.fingerprint(&profile_of(program)));
        let _ = writeln!(head, "targets {}", root.is_dir(&targets_of(program)));
        for name in self.variables.split(' ') {
            let value = env
                .variables()
                .find(|(known, _)| *known == OsStr::new(name));
            let _ = writeln!(head, "variable {name} {:?}", value.map(|(_, value)| value));
        }
        Some(head)
    }
}

/// Whether the program that was looked at has answered, and not one that it has started: a script
/// of many words, or a link to ccache. A dry run names the directory of the nvcc that runs.
fn answers_itself(text: &str, program: &Path) -> bool {
    let here = text
        .lines()
        .find_map(|line| line.strip_prefix("#$ _HERE_="));
    here.is_none_or(|here| {
        program
            .parent()
            .is_some_and(|parent| parent == Path::new(here))
    })
}

/// A file for this answer; `None` where the process's `PATH` can't be told from nvcc's own.
fn written(text: &str, head: &str, path: &str) -> Option<String> {
    let mut written = format!("{head}\n");
    for line in text.lines() {
        // Writing to a String can't fail.
        let _ = match line.strip_prefix(PATH_LINE) {
            Some(value) => {
                let own = value
                    .strip_suffix(path)
                    .filter(|own| !path.is_empty() && own.ends_with(':'))?;
                writeln!(written, "{PATH_LINE}{own}{REST}")
            }
            None => writeln!(written, "{line}"),
        };
    }
    Some(written + END)
}

/// The answer in a kept file, if the file is whole and has the head that it would get today.
fn read(root: &Root, env: &Env, nvcc: &Path, kept: &str, path: &str) -> Option<String> {
    let head = kept
        .starts_with(HEAD)
        .then(|| Depends::of(kept)?.head(root, env, nvcc))
        .flatten()?;
    let text = kept
        .strip_prefix(&head)?
        .strip_prefix('\n')?
        .strip_suffix(END)?;
    Some(text.replace(REST, path))
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests prepare real files and start a shell"
)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use crate::probe::NvccAnswer;

    const ANSWER: &str = "#$ TOP=/opt/cuda\\n#$ PATH=/opt/cuda/bin:$PATH\\nrelease 12.4, V12.4.131";

    /// A directory with an nvcc that notes each start, and an environment that keeps answers there.
    struct Place {
        directory: tempfile::TempDir,
        env: Env,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let env = Env::from_pairs([("PATH", "/usr/bin:/bin")])
                .with("CUDA_BUILD_CACHE_DIR", directory.path().join("cache"));
            let place = Self { directory, env };
            place.install(ANSWER);
            place
        }

        /// Written by another process: one that this process has open can't be started.
        fn install(&self, answer: &str) {
            let log = self.directory.path().join("log");
            let script = format!(
                "#!/bin/sh\necho x >> '{}'\nprintf '%b\\n' \"{answer}\"\n",
                log.display()
            );
            let nvcc = self.nvcc();
            let mut command = Command::new("sh");
            command.args([
                "-c",
                "printf %s \"$1\" > \"$2.new\" && chmod +x \"$2.new\" && mv \"$2.new\" \"$2\"",
                "sh",
            ]);
            assert!(command.arg(script).arg(nvcc).status().unwrap().success());
        }

        fn nvcc(&self) -> PathBuf {
            self.directory.path().join("nvcc")
        }

        fn ask(&self) -> NvccAnswer {
            NvccAnswer::parse(&ask(&Root::system(), &self.env, &self.nvcc()).unwrap()).unwrap()
        }

        fn starts(&self) -> usize {
            std::fs::read_to_string(self.directory.path().join("log"))
                .map_or(0, |log| log.lines().count())
        }

        fn kept(&self) -> PathBuf {
            file(&self.env, &self.nvcc()).unwrap()
        }
    }

    #[test]
    fn an_nvcc_is_asked_once() {
        let place = Place::new();
        let first = place.ask();
        assert_eq!(first.version.to_string(), "12.4.131");
        assert_eq!(place.ask(), first);
        assert_eq!(place.starts(), 1);
        let names: Vec<_> = std::fs::read_dir(place.kept().parent().unwrap())
            .unwrap()
            .collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn an_nvcc_that_was_replaced_is_asked_again() {
        let place = Place::new();
        place.ask();
        // As long as the one before: its time of change tells.
        place.install(&ANSWER.replace("12.4", "12.5"));
        assert_eq!(place.ask().version.to_string(), "12.5.131");
        // As old as the one before: its size tells.
        let time = std::fs::metadata(place.nvcc()).unwrap().modified().unwrap();
        place.install(&ANSWER.replace("12.4", "12.10"));
        std::fs::File::options()
            .append(true)
            .open(place.nvcc())
            .unwrap()
            .set_modified(time)
            .unwrap();
        assert_eq!(place.ask().version.to_string(), "12.10.131");
        std::fs::write(
            place.nvcc().with_file_name("nvcc.profile"),
            "TOP = elsewhere",
        )
        .unwrap();
        place.ask();
        assert_eq!(place.starts(), 4);
    }

    #[test]
    fn variables_that_nvcc_reads_count_and_those_of_the_environment_are_what_it_gets() {
        let mut place = Place::new();
        place.install("release 12.4, V12.4.$NUMBER");
        place.env = place
            .env
            .clone()
            .with("NUMBER", "1")
            .with("NVCC_APPEND_FLAGS", "-g");
        assert_eq!(place.ask().version.to_string(), "12.4.1");
        place.env = place
            .env
            .clone()
            .with("NUMBER", "2")
            .with("NVCC_APPEND_FLAGS", "-O3");
        assert_eq!(place.ask().version.to_string(), "12.4.2");
        assert_eq!(place.starts(), 2);
    }

    #[test]
    fn another_path_is_no_reason_to_ask() {
        let mut place = Place::new();
        place.ask();
        place.env = place.env.clone().with("PATH", "/venv/bin:/usr/bin");
        let programs = place.ask().programs;
        assert_eq!(
            programs,
            ["/opt/cuda/bin", "/venv/bin", "/usr/bin"].map(PathBuf::from)
        );
        assert_eq!(place.starts(), 1);
    }

    #[test]
    fn a_path_that_is_not_at_the_end_is_not_kept() {
        let mut place = Place::new();
        place.install("#$ PATH=$PATH:/opt/cuda/bin\\nrelease 12.4, V12.4.131");
        for path in ["/bin:/usr/bin", "/usr/bin:/bin"] {
            place.env = place.env.clone().with("PATH", path);
            let programs: Vec<PathBuf> = path
                .split(':')
                .chain(["/opt/cuda/bin"])
                .map(PathBuf::from)
                .collect();
            assert_eq!(place.ask().programs, programs);
        }
        assert_eq!(place.starts(), 2);
        assert!(!place.kept().exists());
    }

    #[test]
    fn what_another_nvcc_answers_is_not_kept() {
        let place = Place::new();
        let real = place.nvcc().with_file_name("toolkit");
        let here = format!("#$ _HERE_={}/bin\\n", real.display());
        place.install(&format!("{here}{ANSWER}"));
        let _ = (place.ask(), place.ask());
        assert_eq!(
            place.starts(),
            2,
            "a script that starts it stays as it is when that one changes"
        );
        place.install(&format!(
            "#$ _HERE_={}\\n{ANSWER}",
            place.directory.path().display()
        ));
        let _ = (place.ask(), place.ask());
        assert_eq!(place.starts(), 3);
    }

    #[test]
    fn a_broken_file_is_ignored_and_mended() {
        let place = Place::new();
        let answer = place.ask();
        let whole = std::fs::read(place.kept()).unwrap();
        for broken in [
            &whole[..whole.len() - 3],
            &whole[..10],
            b"",
            b"\0\xff",
            b"cuda-build nvcc answer 2\n",
        ] {
            let before = place.starts();
            std::fs::write(place.kept(), broken).unwrap();
            assert_eq!(place.ask(), answer);
            assert_eq!(place.starts(), before + 1);
            assert_eq!(std::fs::read(place.kept()).unwrap(), whole);
        }
    }

    #[test]
    fn a_cache_that_cannot_be_written_means_asking() {
        let mut place = Place::new();
        let blocked = place.directory.path().join("blocked");
        std::fs::write(&blocked, "a file, not a directory").unwrap();
        place.env = place.env.clone().with("CUDA_BUILD_CACHE_DIR", blocked);
        assert_eq!(place.ask(), place.ask());
        place.env = Env::from_pairs([("PATH", "/usr/bin:/bin")]);
        place.ask();
        assert_eq!(place.starts(), 3);
    }

    #[test]
    fn a_directory_of_targets_that_came_is_a_reason_to_ask() {
        let place = Place::new();
        let nvcc = place.directory.path().join("bin/nvcc");
        std::fs::create_dir(place.directory.path().join("bin")).unwrap();
        std::fs::copy(place.nvcc(), &nvcc).unwrap();
        let ask = || ask(&Root::system(), &place.env, &nvcc).unwrap();
        let _ = (ask(), ask());
        assert_eq!(place.starts(), 1);
        std::fs::create_dir(place.directory.path().join("targets")).unwrap();
        let _ = (ask(), ask());
        assert_eq!(place.starts(), 2);
    }

    #[test]
    fn an_nvcc_replaced_behind_a_wrapper_is_asked_again() {
        let place = Place::new();
        let wrapper = place.directory.path().join("usr-bin-nvcc");
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", place.nvcc().display());
        std::fs::write(&wrapper, script).unwrap();
        std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
        let ask = || {
            NvccAnswer::parse(&ask(&Root::system(), &place.env, &wrapper).unwrap())
                .unwrap()
                .version
        };
        assert_eq!(
            (ask().to_string(), ask().to_string()),
            ("12.4.131".into(), "12.4.131".into())
        );
        assert_eq!(place.starts(), 1);
        place.install(&ANSWER.replace("12.4", "12.5"));
        assert_eq!(ask().to_string(), "12.5.131");
        std::fs::write(
            place.nvcc().with_file_name("nvcc.profile"),
            "TOP = elsewhere",
        )
        .unwrap();
        ask();
        assert_eq!(place.starts(), 3);
    }

    #[test]
    fn variables_that_a_profile_reads_count() {
        let mut place = Place::new();
        let profile = place.nvcc().with_file_name("nvcc.profile");
        // The second can't be read; then those count that the usual profiles add to.
        for (text, name) in [
            ("INCLUDES += $(OWN)/x", "OWN"),
            ("not a profile", "INCLUDES"),
        ] {
            std::fs::write(&profile, text).unwrap();
            let before = place.starts();
            for value in ["-I/a", "-I/b", "-I/b"] {
                place.env = place.env.clone().with(name, value);
                place.ask();
            }
            assert_eq!(place.starts(), before + 2, "{text}");
        }
    }

    #[test]
    fn an_answer_without_a_host_compiler_is_not_kept() {
        let place = Place::new();
        place.install("release 12.4, V12.4.131\" ; [ \"$1\" = --version ]; exit $? ; \"");
        place.ask();
        place.ask();
        assert_eq!(place.starts(), 4);
        assert!(!place.kept().exists());
        std::fs::set_permissions(place.nvcc(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(ask(&Root::system(), &place.env, &place.nvcc()), None);
    }
}
