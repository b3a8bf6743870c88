//! The user's cache directory, and the output of programs (nvcc, ptxas, host compilers), which is kept there so that a
//! build script that runs again does not start them again.
//!
//! An answer is one small file, `<cache>/answers/<program>-<hash of the question>.txt`. The file contains an
//! *identity*, which the caller computed from the files on which the answer depends. The answer is valid only if the
//! caller computes the same identity again. If the cache cannot be read or written, the build is slower, but does not
//! fail.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::env::{Answers, Env};
use crate::error::Error;
use crate::hash::Hasher;
use crate::output;
use crate::root::Root;
use crate::trust::Trust;

/// The user's cache directory: `CUDA_BUILD_CACHE_DIR`, otherwise `$XDG_CACHE_HOME/cuda-build`, otherwise
/// `~/.cache/cuda-build`. A relative `XDG_CACHE_HOME` is ignored, as the XDG base directory specification requires.
/// `None` if none of these variables is set.
pub fn cache_dir(env: &Env) -> Option<PathBuf> {
    if let Some(directory) = env.path("CUDA_BUILD_CACHE_DIR") {
        return Some(directory);
    }
    let xdg = env.path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = xdg.or_else(|| Some(env.path("HOME")?.join(".cache")))?;
    Some(cache.join("cuda-build"))
}

/// [`cache_dir`], for a caller that cannot work without a cache directory.
///
/// # Errors
/// [`Error::Usage`] if no variable names a cache directory.
pub fn required_cache_dir(env: &Env) -> Result<PathBuf, Error> {
    cache_dir(env).ok_or_else(|| {
        Error::usage(
            "there is no cache directory: `CUDA_BUILD_CACHE_DIR`, `XDG_CACHE_HOME` and `HOME` are all unset",
            "set `CUDA_BUILD_CACHE_DIR` to the absolute path of a directory",
        )
    })
}

const HEAD: &str = "cuda-build answer 2\n";
/// The last line. A file without it is incomplete.
const END: &str = "#end\n";

/// The cache file of one answer.
#[derive(Debug, Default)]
pub struct CachedAnswer {
    /// `None` if no variable names a cache directory. Then no answer is read or written.
    file: Option<PathBuf>,
    trust: Trust,
}

impl CachedAnswer {
    /// The cache file for one query. `program` is a short name, with which the file's name begins. `question` has the
    /// paths and the values of variables that identify the query.
    pub fn new<'a>(
        env: &Env,
        program: &str,
        question: impl IntoIterator<Item = &'a OsStr>,
    ) -> Self {
        let mut hash = Hasher::default();
        for part in question {
            hash.field(part.as_encoded_bytes());
        }
        let name = format!("{program}-{}.txt", hash.digest().short());
        let directory = match &env.answers {
            Answers::InUserCache => cache_dir(env),
            Answers::In(directory) => directory.clone(),
        };
        Self {
            file: directory.map(|cache| cache.join("answers").join(name)),
            trust: Trust::from_env(env),
        }
    }

    /// The identity and the text that were written, if the file is complete and no other user can have changed it.
    pub fn read(&self, root: &Root) -> Option<(String, String)> {
        let file = self.file.as_deref()?;
        if self.trust.problem(root, file).is_some() {
            return None;
        }
        let text = root.text(file).ok()?;
        let content = text.strip_prefix(HEAD)?.strip_suffix(END)?;
        let (identity, text) = content.split_once('\n')?;
        Some((identity.to_owned(), text.to_owned()))
    }

    /// Stores an answer. Errors are ignored.
    pub fn write(&self, identity: &str, text: &str) {
        let Some(file) = &self.file else {
            return;
        };
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        let content = format!("{HEAD}{identity}\n{text}{newline}{END}");
        let created = file.parent().map(output::create_directory);
        if let Some(Ok(())) = created {
            let _ = output::write(file, content.as_bytes());
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use super::*;

    /// Elsewhere, no answer is trusted.
    #[cfg(unix)]
    #[test]
    fn an_answer_is_read_as_it_was_written() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let env = Env::from_pairs([("CUDA_BUILD_CACHE_DIR", directory.path())]);
        let answer = |question: &str| CachedAnswer::new(&env, "nvcc", [OsStr::new(question)]);
        let root = Root::system();
        assert_eq!(answer("a").read(&root), None);
        answer("a").write("1", "line\nline");
        let expected = || Some(("1".to_owned(), "line\nline\n".to_owned()));
        assert_eq!(answer("a").read(&root), expected());
        assert_eq!(answer("b").read(&root), None);
        let file = answer("a").file.unwrap();
        let whole = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(answer("a").read(&root), None, "the file is cut");
        std::fs::write(&file, whole).unwrap();
        let mode = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&file, mode).unwrap();
        assert_eq!(answer("a").read(&root), None, "every user can write it");
        // The caller of a search names another directory, or none.
        let in_answers = |place| env.clone().with_answers_in(place);
        let other = in_answers(Some(directory.path().join("other")));
        let answer = CachedAnswer::new(&other, "nvcc", [OsStr::new("a")]);
        answer.write("2", "x");
        assert!(directory.path().join("other/answers").is_dir());
        assert_eq!(answer.read(&root).unwrap().0, "2");
        let nowhere = CachedAnswer::new(&in_answers(None), "nvcc", [OsStr::new("a")]);
        assert_eq!(nowhere.read(&root), None);
        // Without a cache directory there is no answer, and nothing fails.
        let none = CachedAnswer::new(&Env::default(), "nvcc", []);
        none.write("1", "x");
        assert_eq!(none.read(&root), None);
    }

    #[cfg(unix)]
    #[test]
    fn the_cache_is_named_by_own_variable_then_xdg_then_home() {
        let home = Env::from_pairs([("HOME", "/home/a")]);
        let xdg = home.clone().with("XDG_CACHE_HOME", "/var/cache/a");
        let own = xdg.clone().with("CUDA_BUILD_CACHE_DIR", "/data/cuda");
        let text = |env: &Env| cache_dir(env).map(|p| p.display().to_string());
        assert_eq!(text(&home).as_deref(), Some("/home/a/.cache/cuda-build"));
        assert_eq!(text(&xdg).as_deref(), Some("/var/cache/a/cuda-build"));
        assert_eq!(text(&own).as_deref(), Some("/data/cuda"));
        assert_eq!(
            text(&home.with("XDG_CACHE_HOME", "relative")).as_deref(),
            Some("/home/a/.cache/cuda-build")
        );
        assert_eq!(text(&Env::from_pairs([("PATH", "/bin")])), None);
    }
}
