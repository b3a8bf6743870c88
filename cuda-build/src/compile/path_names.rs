//! Names for the directories whose place does not matter, such as the toolkit's. In the output store they replace the
//! paths, so that outputs are the same for every place at which the same compilers are installed.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};

use cuda_find_core::component::Component;
use cuda_find_core::toolkit::Toolkit;

/// Directories with their names, the longest path first.
#[derive(Debug)]
pub(crate) struct PathNames(Vec<(PathBuf, String)>);

impl PathNames {
    /// The toolkit's directories, and `others` with their names.
    pub(crate) fn new(toolkit: &Toolkit, others: &[(&Path, &str)]) -> Self {
        let mut directories: Vec<(PathBuf, String)> = Vec::new();
        let mut add = |directory: &Path, name: &str| {
            if !directories.iter().any(|(known, _)| known == directory) {
                directories.push((directory.to_owned(), format!("<{name}>")));
            }
        };
        let program = toolkit.tool(Component::Nvcc, "nvcc");
        if let Some(root) = program.and_then(|nvcc| nvcc.parent()?.parent()) {
            add(root, "nvcc");
        }
        for (directory, name) in others {
            add(directory, name);
        }
        // Several components share a directory. The first name stays the same if a component is added.
        let first = [
            Component::Crt,
            Component::Cudart,
            Component::Nvrtc,
            Component::Cccl,
        ];
        for component in first.into_iter().chain(Component::all()) {
            let include = toolkit.get(component).map(|found| found.include.as_slice());
            for (index, directory) in include.unwrap_or_default().iter().enumerate() {
                add(directory, &format!("{component} {index}"));
            }
        }
        directories.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_os_str().len()));
        Self(directories)
    }

    /// A text with names instead of paths.
    pub(super) fn shorten_text(&self, mut text: String) -> String {
        for (directory, name) in &self.0 {
            text = text.replace(&*directory.to_string_lossy(), name);
        }
        text
    }

    /// The path with the name of a directory.
    pub(super) fn shortened(&self, path: &Path) -> PathBuf {
        let mut directories = self.0.iter();
        let short = directories.find_map(|(directory, name)| {
            Some(Path::new(name).join(path.strip_prefix(directory).ok()?))
        });
        short.unwrap_or_else(|| path.to_owned())
    }

    /// The path that [`Self::shortened`] got, on this machine.
    pub(super) fn expanded(&self, path: &Path) -> PathBuf {
        let mut directories = self.0.iter();
        let full = directories
            .find_map(|(directory, name)| Some(directory.join(path.strip_prefix(name).ok()?)));
        full.unwrap_or_else(|| path.to_owned())
    }

    /// Whether bytes contain a path of these directories, for example in the text of an `assert` or in debug
    /// information.
    pub(super) fn occur_in(&self, bytes: &[u8]) -> bool {
        // The search for one byte in the standard library is optimized, even in a build script without optimization.
        let mut rest = bytes;
        while let Ok(1..) = rest.skip_until(b'/') {
            let found = &bytes[bytes.len() - rest.len() - 1..];
            let mut directories = self.0.iter();
            if directories.any(|(path, _)| found.starts_with(path.as_os_str().as_encoded_bytes())) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_occur_anywhere_in_bytes() {
        let names = PathNames(vec![("/opt/cuda".into(), "<nvcc>".into())]);
        for (bytes, occurs) in [
            (&b"/opt/cuda"[..], true),
            (b"\0//opt/cuda/include", true),
            (b"/opt/cud", false),
            (b"opt/cuda/", false),
            (b"", false),
        ] {
            assert_eq!(names.occur_in(bytes), occurs, "{bytes:?}");
        }
    }
}
