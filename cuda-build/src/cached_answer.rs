//! Caches the output of programs (nvcc, ptxas, host compilers) in the user's cache directory, so that a build script
//! that runs again does not start these programs again.
//!
//! An answer is one small file, `<cache>/answers/<program>-<hash of the question>.txt`. The file contains an
//! *identity*, which the caller computed from the files on which the answer depends. The answer is valid only if the
//! caller computes the same identity again. If the cache cannot be read or written, the build is slower, but does not
//! fail.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::hash::Fnv;
use crate::output;
use crate::root::Root;
use crate::store;

const HEAD: &str = "cuda-build answer 1\n";
/// The last line. A file without it is incomplete.
const END: &str = "#end\n";

/// The cache file of one answer.
#[derive(Debug)]
pub(crate) struct CachedAnswer {
    /// `None` if no variable names a cache directory.
    file: Option<PathBuf>,
}

impl CachedAnswer {
    /// The cache file for one query. `program` is a short name, with which the file's name begins. `question` has the
    /// paths and the values of variables that identify the query.
    pub(crate) fn new<'a>(
        env: &Env,
        program: &str,
        question: impl IntoIterator<Item = &'a OsStr>,
    ) -> Self {
        let directory = store::cache_dir(env).map(|cache| cache.join("answers"));
        let file = directory.map(|directory| directory.join(file_name(program, question)));
        Self { file }
    }

    /// The same in another directory.
    pub(crate) fn in_directory<'a>(
        directory: &Path,
        program: &str,
        question: impl IntoIterator<Item = &'a OsStr>,
    ) -> Self {
        let file = directory.join(file_name(program, question));
        Self { file: Some(file) }
    }

    /// The identity and the text that were written, if the file is complete and no other user can have changed it.
    pub(crate) fn read(&self, root: &Root) -> Option<(String, String)> {
        let file = self.file.as_deref()?;
        if store::distrust(root, file).is_some() {
            return None;
        }
        let text = root.text(file).ok()?;
        let content = text.strip_prefix(HEAD)?.strip_suffix(END)?;
        let (identity, text) = content.split_once('\n')?;
        Some((identity.to_owned(), text.to_owned()))
    }

    /// Stores an answer. Errors are ignored.
    pub(crate) fn write(&self, identity: &str, text: &str) {
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

fn file_name<'a>(program: &str, question: impl IntoIterator<Item = &'a OsStr>) -> String {
    let mut hash = Fnv::default();
    for part in question {
        hash.field(part.as_encoded_bytes());
    }
    format!("{program}-{}.txt", hash.hex())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
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
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&file, mode(0o666)).unwrap();
        assert_eq!(answer("a").read(&root), None, "every user can write it");
        std::fs::set_permissions(&file, mode(0o644)).unwrap();
        assert_eq!(answer("a").read(&root), expected());
        // Without a cache directory there is no answer, and nothing fails.
        let none = CachedAnswer::new(&Env::default(), "nvcc", []);
        none.write("1", "x");
        assert_eq!(none.read(&root), None);
    }
}
