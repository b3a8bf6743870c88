//! Finds the files that a compiler may read, before it runs, and the files that it read, after it ran.

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
    /// Finds the files that the compiler may include.
    pub(super) fn before_run(&mut self, files: &mut Files, step: &Step) -> Scan {
        let ReadFiles::Headers {
            search, headers, ..
        } = &step.reading
        else {
            return Scan::default();
        };
        let mut hiding = Scan::default();
        // A file in a searched directory hides the toolkit's header of the same name. NVRTC, unlike nvcc, does not
        // report which of the toolkit's headers it read, so every file that could hide a header is recorded.
        if step.uses_nvrtc() {
            for directory in &search.directories {
                let is_outside = |toolkit: &&PathBuf| !directory.starts_with(toolkit);
                for toolkit in search.toolkit.iter().filter(is_outside) {
                    includes::add_hiding_paths(files, directory, toolkit, &mut hiding);
                }
            }
        }
        let sources = step.inputs.iter().chain(&hiding.files).cloned();
        // A header of the user replaces the shim (this crate's own header for NVRTC) of the same name, so the names
        // of all shims are looked up.
        let shims = shims::names().filter(|_| step.uses_nvrtc());
        let mut scan = self.scanner.scan(files, sources, headers, shims, search);
        scan.files.extend(hiding.files);
        scan.absent.extend(hiding.absent);
        scan
    }

    /// Finds the paths that the compiler looked at. `before` is the result of [`Self::before_run`]. `depfile` is the
    /// file in which the compiler listed what it read.
    pub(super) fn after_run(
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
            not_understood,
        } = &step.reading
        else {
            return Ok(reads);
        };
        let mut unknown_because = before.unknown_query.clone();
        let mut scans = vec![before];
        if let Some(depfile) = depfile {
            let listed = depfile_inputs(files, depfile, &search.working)?;
            // A depfile does not record by which name a file was included, so all possible names
            // are looked up.
            let names: Vec<String> = listed.iter().flat_map(|path| include_names(path)).collect();
            let is_of_user = |path: &&PathBuf| is_of_user(path, step, search);
            let sources = step.inputs.iter().chain(listed.iter().filter(is_of_user));
            let names = names.iter().map(String::as_str);
            let scan = (self.scanner).scan(files, sources.cloned(), headers, names, search);
            unknown_because = scan.unknown_query.clone().or(unknown_because);
            scans.push(scan);
            for header in &listed {
                if search.toolkit.iter().any(|dir| header.starts_with(dir)) {
                    add_queried_headers(files, header, &search.toolkit, &mut reads);
                }
            }
            reads.files.extend(listed);
        } else {
            unknown_because = scans[0].unknown_include.clone().or(unknown_because);
        }
        for scan in scans {
            reads.files.extend(scan.files);
            reads.files.extend(scan.toolkit_files);
            reads.absent.extend(scan.absent);
            reads.searched.extend(scan.searched);
        }
        reads.toolkit.clone_from(&search.toolkit);
        let unknown_option = |option: &String| {
            format!("the option `{option}` may make the compiler read other files")
        };
        reads.incomplete = (not_understood.first())
            .map(unknown_option)
            .or(unknown_because);
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
        .map(|path| files.without_dots(&directory.join(path)))
        .collect())
}

/// Whether a file in a depfile belongs to the user. Such files are scanned for includes.
fn is_of_user(path: &Path, step: &Step, search: &SearchPath) -> bool {
    let below = |directories: &[PathBuf]| directories.iter().any(|dir| path.starts_with(dir));
    let mut beside_sources = step.inputs.iter().filter_map(|input| input.parent());
    !below(&search.toolkit)
        && (path.starts_with(&search.working)
            || below(&search.directories)
            || beside_sources.any(|directory| path.starts_with(directory)))
}

/// Adds the paths that a header of the toolkit queries with `__has_include`. For example, CUB queries headers of NVTX,
/// which may be added to a toolkit later.
fn add_queried_headers(files: &mut Files, header: &Path, toolkit: &[PathBuf], reads: &mut Reads) {
    let bytes = files.bytes(header).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    // CCCL also uses the macro `_CCCL_HAS_INCLUDE`.
    for (start, _) in text.to_ascii_lowercase().match_indices("has_include") {
        let argument = text[start..].split(['(', ')']).nth(1).unwrap_or_default();
        let quoted = argument.trim().strip_prefix(['<', '"']);
        let Some(name) = quoted.and_then(|name| name.strip_suffix(['>', '"'])) else {
            continue;
        };
        for directory in toolkit {
            let path = files.without_dots(&directory.join(name));
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
