//! Queries one compiler for its family and version, and checks whether the toolkit's `crt/host_config.h`
//! accepts it.

use std::path::Path;

use super::{Compiler, Family};
use crate::error::Error;
use cuda_find_core::command::{Finished, Invocation};
use cuda_find_core::release::{self, Release};
use cuda_find_core::version::ToolkitVersion;
use cuda_find_core::{cache::CachedAnswer, env::Env, hash::Hasher, root::Root, target::Target};

/// The toolkit's header that stops with an `#error` if the toolkit does not support the host compiler.
pub(super) const HEADER: &str = "crt/host_config.h";

/// The first line of an answer if the header accepts the compiler.
const ACCEPTED: &str = "accepted by the header\n";

/// Finds out which compilers a toolkit accepts.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) root: &'a Root,
    pub(super) env: &'a Env,
    pub(super) toolkit: ToolkitVersion,
    /// The platform to build for.
    pub(super) target: &'a Target,
    /// The include directory that contains `crt/host_config.h`.
    pub(super) include: Option<&'a Path>,
    /// Whether a flag disables the check of the host compiler.
    pub(super) unchecked: bool,
}

/// A compiler, and whether the toolkit accepts it.
#[derive(Clone)]
pub(super) struct Judged {
    pub(super) compiler: Compiler,
    /// Why the toolkit does not accept the compiler; `None` if the toolkit accepts it.
    pub(super) refusal: Option<String>,
    /// The architecture that the compiler compiles for, if the compiler has its usual macro.
    pub(super) architecture: Option<&'static str>,
}

impl Judged {
    /// Whether the compiler compiles for a platform.
    pub(super) fn is_for(&self, target: &Target) -> bool {
        self.architecture
            .is_none_or(|architecture| architecture == target.architecture())
    }
}

impl Judge<'_> {
    /// The toolkit's entry in the table of releases. Its compiler bounds are used in messages, and to judge a
    /// compiler if [`HEADER`] is missing or cannot be preprocessed.
    pub(super) fn facts(&self) -> Option<&'static Release> {
        release::facts(self.toolkit)
    }

    /// Queries a compiler, or returns the cached answer if it is still valid. `None` if the program is neither
    /// gcc nor clang.
    pub(super) fn judge(&self, path: &Path) -> Result<Option<Judged>, Error> {
        let include = self.include.map(Path::as_os_str).unwrap_or_default();
        let cached = CachedAnswer::new(self.env, "host-compiler", [path.as_os_str(), include]);
        if let Some((identity, text)) = cached.read(self.root) {
            let judged = self.parse(path, &text);
            if (judged.as_ref()).is_some_and(|judged| self.identity(judged) == identity) {
                return Ok(judged);
            }
        }
        let text = self.query(path)?;
        let judged = self.parse(path, &text);
        if let Some(judged) = &judged {
            cached.write(&self.identity(judged), &text);
        }
        Ok(judged)
    }

    /// A digest of the files and variables that the answer depends on.
    fn identity(&self, judged: &Judged) -> String {
        let mut hash = Hasher::default();
        hash.field(judged.compiler.fingerprint.as_bytes());
        let header = (self.include).map(|include| self.root.identity(&include.join(HEADER)));
        hash.field(header.unwrap_or_default().as_bytes());
        let features = self.root.locate("/usr/include/features.h");
        hash.field(self.root.identity(&features).as_bytes());
        // gcc searches the directories in the first two variables for its own programs, such as `cc1plus`. A wrapper
        // script finds the compiler through `PATH`. `CPATH` may name another C library.
        for name in ["GCC_EXEC_PREFIX", "COMPILER_PATH", "PATH", "CPATH"] {
            hash.field(self.env.peek(name).unwrap_or_default().as_encoded_bytes());
        }
        hash.digest().to_string()
    }

    /// Starts the compiler and returns its output. If the header accepts the compiler, [`ACCEPTED`] is put before
    /// the output.
    fn query(&self, path: &Path) -> Result<String, Error> {
        let with_header = self.preprocess(path, self.include)?;
        let accepted = self.include.is_some() && with_header.success;
        let mut text = if accepted { ACCEPTED } else { "" }.to_owned();
        text.push_str(&with_header.output());
        if family_and_version(&text).is_none() {
            // The compiler stopped before it printed its macros: the header contains an `#error` for it, or includes a
            // file that is missing, such as a header of libc. Without the header, the compiler prints its macros.
            text.push_str(&self.preprocess(path, None)?.output());
        }
        Ok(text)
    }

    /// Preprocesses [`HEADER`], or an empty file if `include` is `None`. The output has all macros and the command of
    /// the compiler proper.
    fn preprocess(&self, path: &Path, include: Option<&Path>) -> Result<Finished, Error> {
        let mut call = Invocation::new(path).args(["-dM", "-E", "-v", "-x", "c++"]);
        if let Some(include) = include {
            call = call
                .args(["-D__CUDACC__", "-D__NVCC__", "-I"])
                .args([include])
                .args(["-include", HEADER]);
        }
        Ok(call.args(["/dev/null"]).in_english().query(self.env)?)
    }

    /// Reads the answer of [`Judge::query`].
    fn parse(&self, path: &Path, text: &str) -> Option<Judged> {
        let (family, version) = family_and_version(text)?;
        let major = version.split('.').next()?.parse().ok()?;
        let mut hash = Hasher::default();
        let compiler_proper = compiler_proper(text).map_or(path, Path::new);
        let files = [path, compiler_proper];
        for file in files {
            hash.field(file.as_os_str().as_encoded_bytes());
            hash.field(self.root.identity(file).as_bytes());
        }
        let by_table = || {
            let limit = match family {
                Family::Gcc => self.facts()?.gcc_max,
                Family::Clang => self.facts()?.clang_max,
            };
            let reason = format!("{family} versions later than {limit} are not supported");
            (major > limit).then_some(reason)
        };
        Some(Judged {
            compiler: Compiler {
                path: path.to_owned(),
                family,
                version,
                major,
                fingerprint: hash.digest().to_string(),
                files: files.map(Path::to_owned).to_vec(),
                glibc: number(text, "__GLIBC__").zip(number(text, "__GLIBC_MINOR__")),
            },
            refusal: if text.starts_with(ACCEPTED) {
                None
            } else {
                // Without an `#error`, the header or a file that it includes is missing. Then the table of releases
                // decides.
                refusal(text).or_else(by_table)
            },
            architecture: architecture(text),
        })
    }
}

/// The message of the `#error` that stopped a compiler, without the sentences about nvcc's flag. gcc prints
/// `host_config.h:137:2: error: #error -- unsupported GNU version! …`. clang prints a message without `#error`
/// first, and then the header's line with `#error`.
fn refusal(output: &str) -> Option<String> {
    let mut lines = output.lines();
    let (_, line) = lines.find_map(|line| line.split_once("#error"))?;
    let reason = line.split(" The nvcc flag").next()?;
    Some(reason.trim_start_matches([' ', '-']).trim_end().to_owned())
}

/// The value of a macro.
fn number(output: &str, name: &str) -> Option<u32> {
    let define = format!("#define {name} ");
    let value = output.lines().find_map(|line| line.strip_prefix(&define))?;
    value.trim().parse().ok()
}

/// The family and version of the compiler that defines these macros; `None` if it is neither gcc nor clang.
fn family_and_version(output: &str) -> Option<(Family, String)> {
    let number = |name: &str| number(output, name);
    let (family, major, rest) = if let Some(major) = number("__clang_major__") {
        let rest = ["__clang_minor__", "__clang_patchlevel__"];
        (Family::Clang, major, rest)
    } else {
        let rest = ["__GNUC_MINOR__", "__GNUC_PATCHLEVEL__"];
        (Family::Gcc, number("__GNUC__")?, rest)
    };
    let [minor, patch] = rest.map(|name| number(name).unwrap_or(0));
    Some((family, format!("{major}.{minor}.{patch}")))
}

/// The architecture of the code that the compiler with these macros makes, as Rust names it.
fn architecture(output: &str) -> Option<&'static str> {
    output.lines().find_map(|line| match line {
        "#define __x86_64__ 1" => Some("x86_64"),
        "#define __aarch64__ 1" => Some("aarch64"),
        _ => None,
    })
}

/// The path of the compiler proper, from the output of `-v`. gcc starts `cc1plus`, clang starts itself, and a
/// wrapper script or ccache starts another compiler.
///
/// ```text
///  /usr/lib/gcc/x86_64-linux-gnu/12/cc1plus -E -quiet -v -imultiarch …
///  "/usr/lib/llvm-18/bin/clang" -cc1 -triple x86_64-pc-linux-gnu -E …
/// ```
fn compiler_proper(output: &str) -> Option<&str> {
    let mut commands = output.lines().filter_map(|line| line.strip_prefix(' '));
    let command = commands.find(|line| line.contains(" -E "))?;
    let program = match command.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => command.split(' ').next()?,
    };
    program.starts_with('/').then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_proper_is_in_the_output_of_v() {
        let gcc = "#define A 1\n /usr/include\n /usr/lib/gcc/x86_64-linux-gnu/12/cc1plus -E -quiet -v /dev/null\n";
        let clang = " (in-process)\n \"/usr/lib/llvm 18/bin/clang\" -cc1 -triple x86_64 -E -v\n";
        let expected = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus";
        assert_eq!(compiler_proper(gcc), Some(expected));
        assert_eq!(compiler_proper(clang), Some("/usr/lib/llvm 18/bin/clang"));
        assert_eq!(compiler_proper(" cc1plus -E x\n"), None);
    }

    #[test]
    fn a_refusal_is_the_text_of_the_header() {
        let gcc = "h.h:137:2: error: #error -- unsupported GNU version! gcc versions later than 16 are not \
                   supported! The nvcc flag '-allow-unsupported-compiler' can …\n  137 | #error -- unsupported\n";
        let expected = "unsupported GNU version! gcc versions later than 16 are not supported!";
        assert_eq!(refusal(gcc).as_deref(), Some(expected));
        let clang =
            "h.h:5:2: error: -- unsupported clang version!\n#error -- unsupported clang version!\n";
        assert_eq!(
            refusal(clang).as_deref(),
            Some("unsupported clang version!")
        );
        assert_eq!(refusal("fatal error: features.h: No such file"), None);
    }

    #[test]
    fn macros_name_the_architecture() {
        let arm = "#define __GNUC__ 12\n#define __aarch64__ 1\n";
        assert_eq!(architecture(arm), Some("aarch64"));
        assert_eq!(architecture("#define __x86_64__ 1\n"), Some("x86_64"));
        assert_eq!(architecture("#define __riscv 1\n"), None);
    }

    #[test]
    fn macros_name_the_compiler() {
        let of = |text: &str| family_and_version(text).map(|(f, version)| format!("{f} {version}"));
        let gcc = "#define __GNUC__ 12\n#define __GNUC_MINOR__ 2\n#define __GNUC_PATCHLEVEL__ 0\n";
        assert_eq!(of(gcc).as_deref(), Some("gcc 12.2.0"));
        let clang = "#define __GNUC__ 4\n#define __clang__ 1\n#define __clang_major__ 18\n";
        assert_eq!(of(clang).as_deref(), Some("clang 18.0.0"));
        assert_eq!(of("#define __GNUC__\n"), None);
        assert_eq!(of("usage: cc [file]"), None);
    }
}
