//! Whose an unfinished view is, and whether its owner still lives.
#![allow(
    clippy::disallowed_methods,
    reason = "reads /proc and removes what a killed process left"
)]

use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Ends the names of unfinished views.
const SUFFIX: &str = ".part";

/// What another machine, or another container, left in a shared directory can't be asked about;
/// no view takes this long to make.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// A name beside `path` that nobody else uses: process, its time of start (process numbers come
/// back), the machine's boot and process namespace, and a count.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let process = std::process::id();
    let start = started(process).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(
        ".{name}.{process}-{start}-{}-{count}{SUFFIX}",
        machine()
    ))
}

/// Removes unfinished views in `directory` whose owner is gone. What can't be removed stays:
/// another process may be at it.
pub(super) fn clean(directory: &Path) {
    let here = machine();
    for entry in fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
    {
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(owner) else {
            continue;
        };
        let abandoned = if owner.machine == here {
            started(owner.process) != Some(owner.start)
        } else {
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > ABANDONED))
        };
        if abandoned {
            let path = entry.path();
            let _ = if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
        }
    }
}

/// Whether a name is one that [`unfinished`] gives.
pub(super) fn is_unfinished(name: &OsStr) -> bool {
    name.to_str().and_then(owner).is_some()
}

struct Owner<'a> {
    process: u32,
    start: u64,
    machine: &'a str,
}

fn owner(name: &str) -> Option<Owner<'_>> {
    let (_, owner) = name
        .strip_prefix('.')?
        .strip_suffix(SUFFIX)?
        .rsplit_once('.')?;
    let mut parts = owner.split('-');
    let owner = Owner {
        process: parts.next()?.parse().ok()?,
        start: parts.next()?.parse().ok()?,
        machine: parts.next()?,
    };
    parts.next()?.parse::<u32>().ok()?;
    Some(owner)
}

/// When a process started, in clock ticks since boot: field 22 of `/proc/<pid>/stat`. The second
/// field is the program's name in parentheses and may hold anything.
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

/// The same for all processes that see each other's numbers.
fn machine() -> String {
    let mut hasher = DefaultHasher::new();
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .hash(&mut hasher);
    fs::read_link("/proc/self/ns/pid")
        .unwrap_or_default()
        .hash(&mut hasher);
    format!("{:08x}", hasher.finish() >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_cleaned_away_and_the_living_left() {
        let place = tempfile::tempdir().unwrap();
        let own = unfinished(&place.path().join("13.4-0"));
        assert_ne!(own, unfinished(&place.path().join("13.4-0")));
        let name = own.file_name().unwrap().to_str().unwrap().to_owned();
        let process = std::process::id().to_string();
        // A number that no process has, one that had another start, one of another machine.
        let dead = name.replacen(&process, "4194999", 1);
        let reused = name.replacen(&format!("{process}-"), &format!("{process}-9"), 1);
        let foreign = name.replace(&machine(), "ffffffffffff");
        for name in [
            &name,
            &dead,
            &reused,
            &foreign,
            "13.4-0",
            ".part",
            ".other.part",
        ] {
            fs::create_dir_all(place.path().join(name).join("bin")).unwrap();
        }
        clean(place.path());
        let left = |name: &str| place.path().join(name).exists();
        assert!(!left(&dead) && !left(&reused));
        assert!(
            left(&name) && left(&foreign) && left("13.4-0") && left(".part") && left(".other.part")
        );
    }
}
