//! Which headers a source uses, found by reading: NVRTC writes no depfile.
//!
//! Every `#include` counts, whatever `#if` it stands under, so the answer holds all files that
//! can matter and perhaps some that do not. What is named only through a macro is not found;
//! that it is there is reported.

mod lex;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Component, Path, PathBuf};

use lex::Mention;

/// What a source includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The headers found outside the toolkit's directories, sorted, each as the directory it was
    /// found by and the name it was included by. The source itself is not among them.
    pub files: Vec<PathBuf>,
    /// The names, as spelled, of the headers in `files`: those that no shim may stand in for.
    pub own: BTreeSet<String>,
    /// The names, as spelled, found in the toolkit's directories, which are not read further: the
    /// toolkit's version stands for their content.
    pub toolkit: BTreeSet<String>,
    /// The names, as spelled, that were found nowhere, such as `stdint.h` under NVRTC.
    pub missing: BTreeSet<String>,
    /// Somewhere stands `#include MACRO`: there may be files that are not listed.
    pub computed: bool,
}

impl Scan {
    /// Whether a header of CCCL is included (libcu++, CUB, Thrust), or one of the toolkit's
    /// that includes it.
    #[must_use]
    pub fn cccl(&self) -> bool {
        const STARTS: [&str; 4] = ["cuda/", "cub/", "thrust/", "cooperative_groups"];
        self.toolkit
            .iter()
            .any(|name| STARTS.iter().any(|start| name.starts_with(start)))
    }
}

/// Reads `source` and all that it includes.
///
/// `#include "…"` looks beside the file it stands in, then in `include_dirs` in their order, then
/// in `toolkit_dirs`, as NVRTC does when given the options in this order; `#include <…>` leaves
/// out the first. `read` gives a file's text, or nothing where there is no such file.
///
/// ```
/// use std::path::{Path, PathBuf};
/// use cuda_build::nvrtc::includes::scan;
/// let mut read = |path: &Path| match path.to_str()? {
///     "src/k.cu" => Some("#include \"k.cuh\"\n#include <cuda_fp16.h>\n#include <stdint.h>\n".to_owned()),
///     "src/k.cuh" | "/cuda/include/cuda_fp16.h" => Some(String::new()),
///     _ => None,
/// };
/// let found = scan(Path::new("src/k.cu"), &[], &[PathBuf::from("/cuda/include")], &mut read);
/// assert_eq!(found.files, [Path::new("src/k.cuh")]);
/// assert!(found.toolkit.contains("cuda_fp16.h") && found.missing.contains("stdint.h"));
/// ```
pub fn scan(
    source: &Path,
    include_dirs: &[PathBuf],
    toolkit_dirs: &[PathBuf],
    read: &mut dyn FnMut(&Path) -> Option<String>,
) -> Scan {
    let mut found = Scan::default();
    let mut files = BTreeSet::new();
    // Files by their path without `x/..`, so that `a/../a/../a/b.h` comes to an end.
    let mut known: BTreeMap<PathBuf, bool> = BTreeMap::new();
    known.insert(without_parents(source), true);
    let mut queue: VecDeque<(PathBuf, String)> = VecDeque::new();
    queue.extend(read(source).map(|text| (source.to_owned(), text)));
    while let Some((file, text)) = queue.pop_front() {
        let beside = file.parent().unwrap_or(Path::new(""));
        for mention in lex::mentions(&text) {
            let (name, quoted) = match mention {
                Mention::Computed => {
                    found.computed = true;
                    continue;
                }
                Mention::Quoted(name) => (name, true),
                Mention::Angled(name) => (name, false),
            };
            let mut exists = |path: &Path| {
                let key = without_parents(path);
                *known.entry(key).or_insert_with(|| match read(path) {
                    Some(text) => {
                        if !toolkit_dirs.iter().any(|dir| path.starts_with(dir)) {
                            files.insert(path.to_owned());
                            queue.push_back((path.to_owned(), text));
                        }
                        true
                    }
                    None => false,
                })
            };
            let places = quoted.then_some(beside).into_iter();
            let places = places.chain(
                include_dirs
                    .iter()
                    .chain(toolkit_dirs)
                    .map(PathBuf::as_path),
            );
            match places.map(|dir| dir.join(&name)).find(|path| exists(path)) {
                Some(path) if toolkit_dirs.iter().any(|dir| path.starts_with(dir)) => {
                    found.toolkit.insert(name)
                }
                Some(_) => found.own.insert(name),
                None => found.missing.insert(name),
            };
        }
    }
    found.files = files.into_iter().collect();
    found
}

/// The path with `.` and `x/..` taken out, links not looked at.
fn without_parents(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(out.components().next_back(), Some(Component::Normal(_))) =>
            {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans `k.cu` among these files, with `inc` as include and `cuda` as toolkit directory.
    fn scan_files(files: &[(&str, &str)]) -> (Scan, Vec<PathBuf>) {
        let files: BTreeMap<&Path, &str> = files
            .iter()
            .map(|(path, text)| (Path::new(*path), *text))
            .collect();
        let mut asked = Vec::new();
        let mut read = |path: &Path| {
            asked.push(path.to_owned());
            files
                .get(without_parents(path).as_path())
                .map(|&text| text.to_owned())
        };
        let found = scan(
            Path::new("src/k.cu"),
            &["inc".into()],
            &["cuda".into()],
            &mut read,
        );
        (found, asked)
    }

    fn names(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.to_str().unwrap()).collect()
    }

    #[test]
    fn follows_quotes_beside_the_file_then_the_directories() {
        let (found, _) = scan_files(&[
            (
                "src/k.cu",
                "#include \"a.h\"\n#include <a.h>\n#include \"sub/b.h\"\n",
            ),
            ("src/a.h", "#include \"only_inc.h\""),
            ("inc/a.h", ""),
            ("inc/only_inc.h", ""),
            (
                "src/sub/b.h",
                "#include \"c.h\"\n#include \"../top.h\"\n#include \"k_only.h\"",
            ),
            ("src/sub/c.h", ""),
            (
                "src/c.h",
                "must not be taken: only the includer's own directory counts",
            ),
            ("src/k_only.h", "neither"),
            ("src/top.h", ""),
        ]);
        let expected = [
            "inc/a.h",
            "inc/only_inc.h",
            "src/a.h",
            "src/sub/../top.h",
            "src/sub/b.h",
            "src/sub/c.h",
        ];
        assert_eq!(names(&found.files), expected);
        assert_eq!(found.missing, ["k_only.h".to_owned()].into());
        assert!(!found.computed);
    }

    #[test]
    fn cycles_end_even_through_parents() {
        let (found, asked) = scan_files(&[
            ("src/k.cu", "#include \"k.cu\"\n#include \"x/a.h\""),
            (
                "src/x/a.h",
                "#include \"../x/a.h\"\n#include \"../x/../x/b.h\"",
            ),
            ("src/x/b.h", "#include \"../x/a.h\""),
        ]);
        assert_eq!(names(&found.files), ["src/x/../x/../x/b.h", "src/x/a.h"]);
        assert!(asked.len() < 10, "{asked:?}");
    }

    #[test]
    fn toolkit_headers_are_named_and_not_read_further() {
        let (found, asked) = scan_files(&[
            (
                "src/k.cu",
                "#include <cub/cub.cuh>\n#include <cuda_fp16.h>\n#include <stdint.h>",
            ),
            ("cuda/cub/cub.cuh", "#include <cub/deep.cuh>"),
            ("cuda/cub/deep.cuh", ""),
            ("cuda/cuda_fp16.h", ""),
        ]);
        assert!(found.files.is_empty() && found.own.is_empty());
        assert_eq!(
            found.toolkit,
            ["cub/cub.cuh".to_owned(), "cuda_fp16.h".to_owned()].into()
        );
        assert_eq!(found.missing, ["stdint.h".to_owned()].into());
        assert!(found.cccl());
        assert!(
            !asked.iter().any(|path| path.ends_with("deep.cuh")),
            "{asked:?}"
        );
        assert!(
            !scan_files(&[
                ("src/k.cu", "#include <cuda_fp16.h>"),
                ("cuda/cuda_fp16.h", "")
            ])
            .0
            .cccl()
        );
    }

    #[test]
    fn an_own_header_named_like_a_shim_is_own() {
        let (found, _) = scan_files(&[("src/k.cu", "#include \"math.h\""), ("src/math.h", "")]);
        assert_eq!(found.own, ["math.h".to_owned()].into());
    }

    #[test]
    fn a_missing_source_includes_nothing() {
        assert_eq!(scan_files(&[]).0, Scan::default());
    }
}
