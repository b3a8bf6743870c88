//! The options that modules and libraries have, and what they become on a command line.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::nvcc_options::chooses_capabilities;
use cuda_find_core::capability::Plan;
use cuda_find_core::command::quoted;

/// The C++ standard of sources for which the build script sets none.
const DEFAULT_STD: &str = "c++17";

/// What a build script sets on a module or a library.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Patterns of files that a pattern of the build script does not add.
    pub(crate) excluded: Vec<String>,
    pub(crate) includes: Vec<PathBuf>,
    pub(crate) defines: Vec<(String, Option<String>)>,
    pub(crate) flags: Vec<String>,
    pub(crate) std: Option<String>,
    pub(crate) debug: bool,
    pub(crate) lineinfo: bool,
    /// How many processes may compile the part at once.
    pub(crate) jobs: Option<usize>,
    /// What the part is written for; empty for every declared capability.
    pub(crate) capabilities: Vec<String>,
    /// The capabilities that the part is compiled for, if they are not those of the build.
    pub(crate) plan: Option<Plan>,
}

impl Options {
    /// The capabilities that the part is compiled for, in a build for `whole`.
    pub(super) fn plan<'a>(&'a self, whole: &'a Plan) -> &'a Plan {
        self.plan.as_ref().unwrap_or(whole)
    }

    /// # Errors
    /// [`Error::Find`] if a flag chooses capabilities: the code would have other capabilities than the crate declares.
    pub(crate) fn check_flags(&self, part: &str) -> Result<(), Error> {
        let mut flags = self.flags.iter();
        match flags.find(|flag| chooses_capabilities(flag)) {
            None => Ok(()),
            Some(flag) => Err(Error::usage(
                format!("`{part}`: the option `{flag}` chooses capabilities"),
                "remove it, and write `.capabilities([\"9.0a\"])` for a part that is written for some capabilities",
            )),
        }
    }

    /// Whether a flag, or an option in `options_from_variables`, starts with one of `names`. nvcc warns if an option
    /// is set twice.
    pub(super) fn has_flag(&self, names: &[&str], options_from_variables: &[String]) -> bool {
        let mut given = self.flags.iter().chain(options_from_variables);
        given.any(|option| names.iter().any(|name| option.starts_with(name)))
    }

    /// The same for the C++ standard. `-stdlib` starts with `-std`, too.
    fn has_std(&self, options_from_variables: &[String]) -> bool {
        let mut given = self.flags.iter().chain(options_from_variables);
        given.any(|option| {
            let name = option.split('=').next();
            matches!(name, Some("-std" | "--std"))
        })
    }

    /// The options for nvcc or NVRTC, in a form that both accept: directories, macros, those of device code, then
    /// `more`, then the flags. The compiler takes `options_from_variables` from the
    /// environment.
    ///
    /// A relative directory stays relative, so that no output contains the package's path. If the compiler does not
    /// run in the package, `prefix` is the path to the package.
    pub(super) fn arguments(
        &self,
        prefix: &Path,
        options_from_variables: &[String],
        more: Vec<String>,
    ) -> Vec<String> {
        let includes = self.includes.iter().map(|directory| prefix.join(directory));
        let includes = includes.map(|directory| format!("-I{}", directory.display()));
        let mut options: Vec<String> = includes.collect();
        for (name, value) in &self.defines {
            let value = value.as_ref().map(|value| format!("={value}"));
            options.push(format!("-D{name}{}", value.unwrap_or_default()));
        }
        if self.std.is_some() || !self.has_std(options_from_variables) {
            let std = self.std.as_deref().unwrap_or(DEFAULT_STD);
            options.push(format!("-std={std}"));
        }
        // nvcc warns if both are given, because `-G` includes the other.
        if self.debug {
            options.push("-G".to_owned());
        } else if self.lineinfo {
            options.push("-lineinfo".to_owned());
        }
        options.extend(more);
        options.extend(self.flags.iter().cloned());
        options
    }
}

/// nvcc's option that passes one flag to the host compiler.
///
/// nvcc splits the value at commas, removes backslashes, and puts the rest into a shell command.
/// So the flag is quoted for the shell, then for nvcc.
pub(super) fn host_option(flag: &str) -> String {
    let mut option = String::from("-Xcompiler=");
    for c in quoted(OsStr::new(flag)).chars() {
        if [',', '\\', '"'].contains(&c) {
            option.push('\\');
        }
        option.push(c);
    }
    option
}

/// The methods that modules and libraries have in common.
macro_rules! common_options {
    () => {
        /// Leaves out the files that match a pattern, if another pattern adds them: `exclude("src/moe_*.cu")` after
        /// [`Library::glob`](crate::Library::glob) or in [`Build::modules`](crate::Build::modules).
        #[must_use]
        pub fn exclude(mut self, pattern: impl Into<String>) -> Self {
            self.options.excluded.push(pattern.into());
            self
        }

        /// Adds a directory, relative to the package, to those that are searched for headers (`-I`).
        #[must_use]
        pub fn include(mut self, directory: impl Into<PathBuf>) -> Self {
            self.options.includes.push(directory.into());
            self
        }

        /// Adds several directories, as [`include`](Self::include) does.
        #[must_use]
        pub fn includes(
            mut self,
            directories: impl IntoIterator<Item = impl Into<PathBuf>>,
        ) -> Self {
            let directories = directories.into_iter().map(Into::into);
            self.options.includes.extend(directories);
            self
        }

        /// Defines a macro, with a value (`-DNAME=value`) or without (`-DNAME`): `define("BLOCK", "256")`,
        /// `define("CHECKED", None)`.
        #[must_use]
        pub fn define<'v>(
            mut self,
            name: impl Into<String>,
            value: impl Into<Option<&'v str>>,
        ) -> Self {
            let value = value.into().map(str::to_owned);
            self.options.defines.push((name.into(), value));
            self
        }

        /// Passes an option to nvcc or NVRTC unchanged:
        /// `flag("--use_fast_math")`, `flag("-Xptxas=-v")`.
        ///
        /// It is one argument: write `flag("-maxrregcount=32")`, or call the method twice. For an option that not every
        /// release has, ask for [`Toolkit::version`](crate::Toolkit::version).
        #[must_use]
        pub fn flag(mut self, flag: impl Into<String>) -> Self {
            self.options.flags.push(flag.into());
            self
        }

        /// Passes several options, as [`flag`](Self::flag) does: `flags(["--use_fast_math", "-maxrregcount=32"])`.
        #[must_use]
        pub fn flags(self, flags: impl IntoIterator<Item = impl Into<String>>) -> Self {
            flags.into_iter().fold(self, Self::flag)
        }

        /// Sets what this part is written for: `capabilities(["9.0a"])`, `capabilities([">=8.0"])`. By default, it is
        /// compiled for every capability that the crate declares.
        ///
        /// An entry covers the declared capability of the same number. An entry with `f`, as `10.0f`, covers its
        /// family, and `>=8.0` covers every declared capability from 8.0 on. What is covered is compiled as the entry
        /// is spelled (`9.0a` if 9.0 is declared), or, for `>=`, as it is declared. `+PTX` of the declared list is
        /// kept, except for an entry with `a`. Prefer `>=` unless the code needs one GPU.
        ///
        /// If no declared capability is covered, the part is left out with a warning: it has no constant, and
        /// `cfg(cuda_part = "<name>")` is not set.
        #[must_use]
        pub fn capabilities(
            mut self,
            entries: impl IntoIterator<Item = impl Into<String>>,
        ) -> Self {
            self.options.capabilities = entries.into_iter().map(Into::into).collect();
            self
        }

        /// Limits how many compilers work on this part at once, within the jobs that Cargo allows: `jobs(2)` for
        /// sources that take gigabytes of memory each.
        #[must_use]
        pub fn jobs(mut self, most: usize) -> Self {
            self.options.jobs = Some(most);
            self
        }

        /// Sets the C++ standard, `c++17` by default: `std("c++20")`. nvcc and NVRTC accept `c++11` and newer,
        /// and `c++20` from CUDA 12 on.
        #[must_use]
        pub fn std(mut self, std: impl Into<String>) -> Self {
            self.options.std = Some(std.into());
            self
        }

        /// With `true`, compiles for debuggers: host code with `-g`, and device code with `-G`, which turns off its
        /// optimization. The default is `false`.
        #[must_use]
        pub fn debug(mut self, debug: bool) -> Self {
            self.options.debug = debug;
            self
        }

        /// Adds line numbers to device code (`-lineinfo`), for profilers and `compute-sanitizer`. The code runs
        /// as fast as without. The default is `false`.
        #[must_use]
        pub fn lineinfo(mut self, lineinfo: bool) -> Self {
            self.options.lineinfo = lineinfo;
            self
        }
    };
}
pub(super) use common_options;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_option_is_quoted_for_nvcc_and_its_shell() {
        for (flag, expected) in [
            ("-Wall", "-Xcompiler=-Wall"),
            ("-DX=1,2", r"-Xcompiler=-DX=1\,2"),
            ("-DX=a b", "-Xcompiler='-DX=a b'"),
            (r#"-DX="a,b""#, r#"-Xcompiler='-DX=\"a\,b\"'"#),
            ("-DX='a'", r"-Xcompiler='-DX='\\''a'\\'''"),
            ("-DX=$HOME", "-Xcompiler='-DX=$HOME'"),
        ] {
            assert_eq!(host_option(flag), expected);
        }
    }

    #[test]
    fn a_standard_among_the_flags_replaces_the_default() {
        let options = |flags: &[&str], variables: &[&str]| {
            let options = Options {
                flags: flags.iter().map(|text| (*text).to_owned()).collect(),
                ..Options::default()
            };
            let variables: Vec<String> = variables.iter().map(|text| (*text).into()).collect();
            options.arguments(Path::new(""), &variables, Vec::new())
        };
        assert_eq!(options(&["-G"], &["-O2"]), ["-std=c++17", "-G"]);
        assert_eq!(options(&["--std=c++20"], &[]), ["--std=c++20"]);
        assert_eq!(options(&[], &["-std=c++20"]), [""; 0]);
        assert_eq!(options(&[], &["-std", "c++20"]), [""; 0]);
        assert_eq!(options(&[], &["-stdlib=libc++"]), ["-std=c++17"]);
    }
}
