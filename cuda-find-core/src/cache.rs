//! The user's cache directory, the check whether another user may have changed a file in it, and the output of programs
//! (nvcc, ptxas, host compilers), which is kept there so that a build script that runs again does not start them again.
//!
//! An answer is one small file, `<cache>/answers/<program>-<hash of the question>.txt`. The file contains an
//! *identity*, which the caller computed from the files on which the answer depends. The answer is valid only if the
//! caller computes the same identity again. If the cache cannot be read or written, the build is slower, but does not
//! fail.

use std::ffi::OsStr;
#[cfg(unix)]
use std::io;
use std::path::{Path, PathBuf};

use crate::env::{Answers, Env};
use crate::error::Error;
use crate::hash::Fnv;
use crate::output;
use crate::root::Root;

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

const HEAD: &str = "cuda-build answer 1\n";
/// The last line. A file without it is incomplete.
const END: &str = "#end\n";

/// The cache file of one answer.
#[derive(Debug, Default)]
pub struct CachedAnswer {
    /// `None` if no variable names a cache directory. Then no answer is read or written.
    file: Option<PathBuf>,
}

impl CachedAnswer {
    /// The cache file for one query. `program` is a short name, with which the file's name begins. `question` has the
    /// paths and the values of variables that identify the query.
    pub fn new<'a>(
        env: &Env,
        program: &str,
        question: impl IntoIterator<Item = &'a OsStr>,
    ) -> Self {
        let mut hash = Fnv::default();
        for part in question {
            hash.field(part.as_encoded_bytes());
        }
        let name = format!("{program}-{}.txt", hash.hex());
        let directory = match &env.answers {
            Answers::InUserCache => cache_dir(env),
            Answers::In(directory) => directory.clone(),
        };
        Self {
            file: directory.map(|cache| cache.join("answers").join(name)),
        }
    }

    /// The identity and the text that were written, if the file is complete and no other user can have changed it.
    pub fn read(&self, root: &Root) -> Option<(String, String)> {
        let file = self.file.as_deref()?;
        if distrust(root, file).is_some() {
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

/// The reason not to trust `path`, a file or directory that this program wrote; `None` if it can be trusted.
///
/// `path` and its parent directory must belong to the current user or to root, and must not be writable by every
/// user. Only the parent may be writable by every user if it has the sticky bit, as `/tmp` has. Write permission for
/// a group is accepted. What cannot be inspected is not trusted, except a path at which there is nothing.
#[cfg(unix)]
pub fn distrust(root: &Root, path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    // The owner of this directory is the user of this process.
    let user = match root.metadata(Path::new("/proc/self")) {
        Ok(metadata) => metadata.uid(),
        Err(error) => return Some(format!("the user is unknown: /proc/self: {error}")),
    };
    let parent = path.parent().unwrap_or(path);
    let mut places = [(path, 0), (parent, STICKY)].into_iter();
    places.find_map(|(path, harmless_if)| {
        let reason = match root.metadata(path) {
            Ok(metadata) => ownership_problem(metadata.uid(), metadata.mode(), user, harmless_if)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => format!("cannot be inspected: {error}"),
        };
        Some(format!("{} {reason}", path.display()))
    })
}

/// Owners and modes exist only on Unix. Elsewhere, what other users may have changed is unknown.
#[cfg(not(unix))]
pub fn distrust(_: &Root, path: &Path) -> Option<String> {
    Some(format!(
        "{} may have been changed by another user, which is not checked on this system",
        path.display()
    ))
}

/// In a directory with this bit, only the owner of a file can replace it.
#[cfg(unix)]
const STICKY: u32 = 0o1000;

/// Why a file or directory with this owner and mode is not trusted, as the end of a sentence. `harmless_if` is the
/// mode bit with which write permission for every user is accepted; zero if there is none.
#[cfg(unix)]
fn ownership_problem(owner: u32, mode: u32, user: u32, harmless_if: u32) -> Option<String> {
    if owner != user && owner != 0 {
        return Some(format!(
            "belongs to user {owner}, neither to you (user {user}) nor to root"
        ));
    }
    let is_open = mode & 0o002 != 0 && mode & harmless_if == 0;
    is_open.then(|| "can be written by every user".to_owned())
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

    #[cfg(unix)]
    #[test]
    fn only_the_users_files_and_roots_are_trusted() {
        assert_eq!(ownership_problem(1000, 0o755, 1000, 0), None);
        assert_eq!(ownership_problem(0, 0o755, 1000, 0), None);
        for user in [0, 1000] {
            let reason = ownership_problem(65534, 0o755, user, STICKY).unwrap();
            assert!(reason.contains("user 65534") && reason.contains(&format!("user {user}")));
        }
        let distrusted = |path: &str| distrust(&Root::system(), Path::new(path)).is_some();
        assert!(!distrusted("/usr") && !distrusted("/nowhere"));
        // A file in place of a directory: the path cannot be inspected.
        assert!(distrusted("/proc/self/exe/below"));
    }
}
