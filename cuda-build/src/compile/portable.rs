//! Keys and paths that are the same for every directory and machine with the same compilers.
//!
//! The keys of steps have paths of the toolkit, and identities made from file times. Neither decides what a compiler
//! makes. In the output store, a path of the toolkit is replaced by a name, and an identity by a digest of the files'
//! contents. So a toolkit that was fetched again, or together with one more component, is the same compiler.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::identity;
use super::step::Step;
use crate::freshness::{Files, Freshness};
use crate::host_compiler::HostCompiler;
use cuda_find_core::cache::CachedAnswer;
use cuda_find_core::component::Component;
use cuda_find_core::env::Env;
use cuda_find_core::root::Root;
use cuda_find_core::toolkit::Toolkit;

/// What identifies a compiler.
struct CompilerIdentity {
    /// By paths and times: in the keys of steps.
    by_time: String,
    /// By the contents of its files.
    by_content: String,
}

/// What is replaced in the keys and paths of the output store.
pub(crate) struct PortableNames {
    nvcc: CompilerIdentity,
    nvrtc: CompilerIdentity,
    host: CompilerIdentity,
    /// What identifies the processor, for which `-march=native` compiles.
    processor: String,
    /// Directories of the toolkit with their names, the longest path first.
    directories: Vec<(PathBuf, String)>,
}

impl PortableNames {
    /// Reads the compilers' files, unless their identities by content are cached. The identities are those in the keys of
    /// steps: of the toolkit and of the host compiler. `others` are directories besides those of the toolkit.
    pub(crate) fn read(
        (env, root): (&Env, &Root),
        files: &mut Files,
        (toolkit, toolkit_identity): (&Toolkit, &str),
        host: Option<(&HostCompiler, &str)>,
        others: &[(&Path, &str)],
    ) -> Self {
        let mut identity =
            |compiler: &str, by_time: &str, paths: &dyn Fn(&mut Files) -> Vec<PathBuf>| {
                let question = [compiler, by_time].map(OsStr::new);
                let cached = CachedAnswer::new(env, "contents", question);
                let known = cached.read(root).map(|(identity, _)| identity);
                let by_content = known.unwrap_or_else(|| {
                    let paths = paths(files);
                    let identity = identity::of_contents(files, &paths);
                    cached.write(&identity, "");
                    identity
                });
                CompilerIdentity {
                    by_time: by_time.to_owned(),
                    by_content,
                }
            };
        let nvcc_files = |files: &mut Files| identity::nvcc_files(files, toolkit);
        let nvrtc_files = |files: &mut Files| identity::nvrtc_files(files, toolkit);
        let host_files =
            |_: &mut Files| host.map_or_else(Vec::new, |(host, _)| host.compiler.files.clone());
        let host_identity = host.map_or("", |(_, identity)| identity);
        let processor = root.text(Path::new("/proc/cpuinfo")).unwrap_or_default();
        let mut lines = processor.lines();
        let flags = lines.find(|line| line.starts_with("flags") || line.starts_with("Features"));
        Self {
            nvcc: identity("nvcc", toolkit_identity, &nvcc_files),
            nvrtc: identity("nvrtc", toolkit_identity, &nvrtc_files),
            host: identity("host", host_identity, &host_files),
            processor: flags.unwrap_or_default().to_owned(),
            directories: named_directories(toolkit, others),
        }
    }

    /// The key of what each image of a step depends on. `with_paths` keeps the toolkit's paths, for outputs that
    /// contain them.
    pub(super) fn key(&self, step: &Step, with_paths: bool) -> u64 {
        let compiler = if step.uses_nvrtc() {
            &self.nvrtc
        } else {
            &self.nvcc
        };
        let portable = |line: &String| {
            let mut line = line.clone();
            for identity in [compiler, &self.host] {
                if line == identity.by_time {
                    line.clone_from(&identity.by_content);
                }
            }
            for (directory, name) in self.directories.iter().filter(|_| !with_paths) {
                line = line.replace(&*directory.to_string_lossy(), name);
            }
            line
        };
        let mut lines: Vec<String> = step.key.iter().map(portable).collect();
        if lines.iter().any(|line| line.contains("=native")) {
            lines.push(self.processor.clone());
        }
        Freshness::key(&lines)
    }

    /// The path with the name of a toolkit's directory.
    pub(super) fn shortened(&self, path: &Path) -> PathBuf {
        let mut directories = self.directories.iter();
        let short = directories.find_map(|(directory, name)| {
            Some(Path::new(name).join(path.strip_prefix(directory).ok()?))
        });
        short.unwrap_or_else(|| path.to_owned())
    }

    /// The path that [`Self::shortened`] got, in this toolkit.
    pub(super) fn expanded(&self, path: &Path) -> PathBuf {
        let mut directories = self.directories.iter();
        let full = directories
            .find_map(|(directory, name)| Some(directory.join(path.strip_prefix(name).ok()?)));
        full.unwrap_or_else(|| path.to_owned())
    }

    /// Whether an output contains a path of the toolkit, for example in the text of an `assert` or in debug
    /// information. Compressed PTX is not searched, because SASS of the same source has the same texts.
    pub(super) fn occur_in(&self, output: &[u8]) -> bool {
        let mut directories = self.directories.iter();
        directories.any(|(directory, _)| {
            let path = directory.as_os_str().as_encoded_bytes();
            output.windows(path.len()).any(|window| window == path)
        })
    }
}

/// The toolkit's directories and `others`, each with its name. The longest path comes first.
fn named_directories(toolkit: &Toolkit, others: &[(&Path, &str)]) -> Vec<(PathBuf, String)> {
    let mut directories: Vec<(PathBuf, String)> = Vec::new();
    let mut add = |directory: &Path, name: String| {
        if !directories.iter().any(|(known, _)| known == directory) {
            directories.push((directory.to_owned(), format!("<{name}>")));
        }
    };
    let program = toolkit.tool(Component::Nvcc, "nvcc");
    if let Some(root) = program.and_then(|nvcc| nvcc.parent()?.parent()) {
        add(root, "nvcc".to_owned());
    }
    for (directory, name) in others {
        add(directory, (*name).to_owned());
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
            add(directory, format!("{component} {index}"));
        }
    }
    directories.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_os_str().len()));
    directories
}
