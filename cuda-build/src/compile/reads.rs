//! Finds the files that a compiler may read, before it runs, and those that it read, after it ran.

use std::path::{Path, PathBuf};

use super::{ReadFiles, Step, depfile};
use crate::error::Error;
use crate::freshness::{Files, Reads};
use crate::includes::{self, Scan, Scanner, SearchPath};
use crate::nvrtc::shims;

/// Finds the files that the steps of a build read.
#[derive(Default)]
pub(super) struct Reader {
    scanner: Scanner,
}

impl Reader {
    /// Before the compiler runs: finds the files that it may include.
    pub(super) fn before(&mut self, files: &mut Files, step: &Step) -> Scan {
        let ReadFiles::Headers {
            search, headers, ..
        } = &step.reading
        else {
            return Scan::default();
        };
        let mut hidden = Scan::default();
        // A file in a searched directory hides the toolkit's header of the same name. NVRTC, unlike nvcc, does not
        // report which of the toolkit's headers it read, so every file that could hide a header is recorded.
        if step.uses_nvrtc() {
            for directory in &search.directories {
                let outside = |toolkit: &&PathBuf| !directory.starts_with(toolkit);
                for toolkit in search.toolkit.iter().filter(outside) {
                    includes::hidden_by(files, directory, toolkit, &mut hidden);
                }
            }
        }
        let sources = step.inputs.iter().chain(&hidden.files).cloned();
        // A header of the user replaces the shim (cuda-build's own header for NVRTC) of the same name, so the names
        // of all shims are looked up.
        let names = shims::names().filter(|_| step.uses_nvrtc());
        let mut scan = self.scanner.scan(files, sources, headers, names, search);
        scan.files.extend(hidden.files);
        scan.absent.extend(hidden.absent);
        scan
    }

    /// After the compiler ran: finds the files and paths that it looked at.
    pub(super) fn after(
        &mut self,
        files: &mut Files,
        step: &Step,
        before: Scan,
        depfile: Option<&Path>,
    ) -> Result<Reads, Error> {
        let mut reads = Reads::default();
        reads.files.extend(step.inputs.iter().cloned());
        let ReadFiles::Headers {
            search,
            headers,
            depfile: usual_depfile,
            not_understood,
        } = &step.reading
        else {
            return Ok(reads);
        };
        let mut unknown = before.unknown_query.clone();
        let mut scans = vec![before];
        if let Some(depfile) = depfile.or(usual_depfile.as_deref()) {
            let listed = depfile_inputs(files, depfile, &search.working)?;
            // A depfile does not record by which name a file was included, so all possible names
            // are looked up.
            let names: Vec<String> = listed.iter().flat_map(|path| include_names(path)).collect();
            let of_user = |path: &&PathBuf| is_of_user(path, step, search);
            let sources = step.inputs.iter().chain(listed.iter().filter(of_user));
            let names = names.iter().map(String::as_str);
            let scan = (self.scanner).scan(files, sources.cloned(), headers, names, search);
            unknown = scan.unknown_query.clone().or(unknown);
            scans.push(scan);
            for header in &listed {
                if search.toolkit.iter().any(|dir| header.starts_with(dir)) {
                    add_queried_headers(files, header, &search.toolkit, &mut reads);
                }
            }
            reads.files.extend(listed);
        } else {
            unknown = scans[0].unknown_include.clone().or(unknown);
        }
        for scan in scans {
            reads.files.extend(scan.files);
            reads.files.extend(scan.toolkit_files);
            reads.absent.extend(scan.absent);
            reads.searched.extend(scan.searched);
        }
        reads.toolkit.clone_from(&search.toolkit);
        let of_option = |option: &String| {
            format!("the option `{option}` may make the compiler read other files")
        };
        reads.incomplete = not_understood.first().map(of_option).or(unknown);
        Ok(reads)
    }
}

/// The files that a depfile names.
fn depfile_inputs(
    files: &mut Files,
    depfile: &Path,
    directory: &Path,
) -> Result<Vec<PathBuf>, Error> {
    files.forget(depfile);
    let absent = || Error::io("read", depfile)(std::io::ErrorKind::NotFound.into());
    let bytes = files.bytes(depfile).ok_or_else(absent)?;
    let listed = depfile::inputs(&bytes).into_iter();
    Ok(listed
        .map(|path| files.normal(&directory.join(path)))
        .collect())
}

/// Whether a file in a depfile is the user's. The includes of such files are scanned.
fn is_of_user(path: &Path, step: &Step, search: &SearchPath) -> bool {
    let below = |directories: &[PathBuf]| directories.iter().any(|dir| path.starts_with(dir));
    let mut beside_sources = step.inputs.iter().filter_map(|input| input.parent());
    !below(&search.toolkit)
        && (path.starts_with(&search.working)
            || below(&search.directories)
            || beside_sources.any(|directory| path.starts_with(directory)))
}

/// Adds what `header` of the toolkit asks for with `__has_include`: CUB asks for NVTX, which may be added to a toolkit.
fn add_queried_headers(
    files: &mut Files,
    header: &Path,
    directories: &[PathBuf],
    reads: &mut Reads,
) {
    let bytes = files.bytes(header).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    // CCCL asks by a macro, `_CCCL_HAS_INCLUDE`.
    for (start, _) in text.to_ascii_lowercase().match_indices("has_include") {
        let argument = text[start..]
            .split(['(', ')'])
            .nth(1)
            .unwrap_or_default()
            .trim();
        let name = argument
            .strip_prefix(['<', '"'])
            .and_then(|name| name.strip_suffix(['>', '"']));
        for directory in directories.iter().filter(|_| name.is_some()) {
            let path = files.normal(&directory.join(name.unwrap_or_default()));
            match files.is_file(&path) {
                true => reads.files.insert(path),
                false => reads.absent.insert(path),
            };
        }
    }
}

/// All names that may include a file: `b.h`, `a/b.h`, `x/a/b.h` for `/x/a/b.h`.
fn include_names(path: &Path) -> Vec<String> {
    let parts = path
        .components()
        .filter_map(|part| part.as_os_str().to_str());
    let parts: Vec<&str> = parts.collect();
    let starts = (1..parts.len()).filter(|start| parts[*start] != "..");
    starts.map(|start| parts[start..].join("/")).collect()
}
