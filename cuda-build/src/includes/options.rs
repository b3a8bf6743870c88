//! Finds the options of nvcc and NVRTC that name files to read besides the source.

use std::path::PathBuf;

/// The directories and files that a list of options names.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct FileOptions {
    /// Directories that are searched for headers.
    pub(crate) directories: Vec<PathBuf>,
    /// Headers that are included before the source's first line.
    pub(crate) headers: Vec<String>,
    /// Unknown options, which may make the compiler read other files.
    pub(crate) not_understood: Vec<String>,
}

/// Options with a directory: joined to the option, after `=`, or in the next word.
const DIRECTORIES: &[&str] = &[
    "--include-path",
    "-include-path",
    "--system-include",
    "-system-include",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-I",
];

/// Options with a header as their value.
const HEADERS: &[&str] = &["--pre-include", "-pre-include", "-include"];

/// Options that read no file. If a name ends in `=`, the value may also be the next word.
const NO_FILES: &[&str] = &[
    "arch=",
    "code=",
    "gencode=",
    "generate-code=",
    "gpu-architecture=",
    "gpu-code=",
    "std=",
    "dialect=",
    "D=",
    "U=",
    "define-macro=",
    "undefine-macro=",
    "O=",
    "optimize=",
    "x=",
    "x",
    "maxrregcount=",
    "t=",
    "threads=",
    "split-compile=",
    "Ofast-compile=",
    "dopt=",
    "ftz=",
    "fmad=",
    "prec-div=",
    "prec-sqrt=",
    "default-stream=",
    "cudart=",
    "m=",
    "m64",
    "machine=",
    "rdc=",
    "relocatable-device-code=",
    "Wdefault-stream-launch",
    "Werror=",
    "diag-suppress=",
    "diag-error=",
    "diag-warn=",
    "diag-remark=",
    "display-error-number",
    "no-display-error-number",
    "minimal=",
    "builtin-initializer-list=",
    "jump-table-density=",
    "device-stack-protector=",
    "opt-level=",
    "Xptxas=",
    "ptxas-options=",
    "frandom-seed=",
    "device-float128",
    "G",
    "g",
    "dG",
    "device-debug",
    "debug",
    "lineinfo",
    "generate-line-info",
    "use_fast_math",
    "extra-device-vectorization",
    "extended-lambda",
    "expt-extended-lambda",
    "expt-relaxed-constexpr",
    "restrict",
    "w",
    "disable-warnings",
    "dc",
    "dw",
    "c",
    "dlto",
    "ewp",
    "extensible-whole-program",
    "res-usage",
    "resource-usage",
    "static-global-template-stub=",
    "no-exceptions",
    "objtemp",
    "forward-unknown-opts",
    "source-in-ptx",
    "source-in-ptx=",
    "Wreorder",
    "Wno-deprecated-gpu-targets",
    "no-cache",
    "unstable-api",
    "device-as-default-execution-space",
    "device-int128",
    "version-ident=",
    "allow-unsupported-compiler",
    "keep-device-functions",
    "disable-optimizer-constants",
    "v",
    "verbose",
];

/// Prefixes of host compiler options that read no file.
const HOST_PREFIXES: &[&str] = &[
    "-f",
    "-W",
    "-O",
    "-m",
    "-D",
    "-U",
    "-g",
    "-std=",
    "-pthread",
    "-w",
    "-pedantic",
];

/// Exceptions to [`HOST_PREFIXES`]: prefixes of options that read files.
const HOST_FILES: &[&str] = &[
    "-fplugin",
    "-fprofile",
    "-fauto-profile",
    "-fmodule",
    "-Wa,",
    "-Wp,",
    "-Wl,",
];

/// Reads options in the order in which a compiler gets them.
pub(crate) fn read<'o>(options: impl IntoIterator<Item = &'o str>) -> FileOptions {
    let mut found = FileOptions::default();
    let mut options = options.into_iter();
    while let Some(option) = options.next() {
        if let Some(value) = value_of(option, DIRECTORIES, &mut options) {
            // nvcc splits lists at commas, but a directory's name may have a comma: keep both readings.
            found.directories.push(PathBuf::from(&value));
            if value.contains(',') {
                found
                    .directories
                    .extend(value.split(',').map(PathBuf::from));
            }
        } else if let Some(value) = value_of(option, HEADERS, &mut options) {
            found.headers.extend(value.split(',').map(str::to_owned));
        } else if let Some(value) = value_of(
            option,
            &["--compiler-options", "-compiler-options", "-Xcompiler"],
            &mut options,
        ) {
            let known = |word: &str| {
                HOST_PREFIXES.iter().any(|start| word.starts_with(start))
                    && !HOST_FILES.iter().any(|start| word.starts_with(start))
            };
            if !value
                .split([',', ' '])
                .filter(|word| !word.is_empty())
                .all(known)
            {
                found.not_understood.push(format!("{option} {value}"));
            }
        } else if !reads_no_file(option, &mut options) {
            found.not_understood.push(option.to_owned());
        }
    }
    found
}

/// The value of `option` if it is one of `names`, the longest name first.
fn value_of<'o>(
    option: &str,
    names: &[&str],
    rest: &mut impl Iterator<Item = &'o str>,
) -> Option<String> {
    let name = names.iter().find(|name| option.starts_with(**name))?;
    let value = &option[name.len()..];
    match value.strip_prefix('=').unwrap_or(value) {
        "" => Some(rest.next().unwrap_or_default().to_owned()),
        // `-Ifoo` is `-I foo`; `-include-foo` and `--include-pathfoo` are different options.
        value if option.len() > name.len() + value.len() || *name == "-I" => Some(value.to_owned()),
        value if *name == "-isystem" => Some(value.to_owned()),
        _ => None,
    }
}

fn reads_no_file<'o>(option: &str, rest: &mut impl Iterator<Item = &'o str>) -> bool {
    let Some(name) = option.strip_prefix("--").or(option.strip_prefix('-')) else {
        return false;
    };
    // `-DNAME=1`, `-UNAME`, `-O3`
    if !option.starts_with("--") && name.len() > 1 && name.starts_with(['D', 'U', 'O']) {
        return true;
    }
    let (word, joined) = match name.split_once('=') {
        Some((word, _)) => (word, true),
        None => (name, false),
    };
    for known in NO_FILES {
        match known.strip_suffix('=') {
            Some(known) if known == word => {
                if !joined {
                    rest.next();
                }
                return true;
            }
            None if *known == name => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(options: &[&str]) -> Vec<PathBuf> {
        let found = read(options.iter().copied());
        assert!(
            found.not_understood.is_empty(),
            "{:?}",
            found.not_understood
        );
        found.directories
    }

    #[test]
    fn every_spelling_of_a_directory() {
        let options = [
            "-Ia",
            "-I",
            "b",
            "-I=c",
            "--include-path=d",
            "--include-path",
            "e",
            "-isystem",
            "f",
            "-isystem=g",
            "--system-include=h",
            "-DX=-Iz",
            "-I/i,/j",
        ];
        let expected = ["a", "b", "c", "d", "e", "f", "g", "h", "/i,/j", "/i", "/j"];
        assert_eq!(directories(&options), expected.map(PathBuf::from));
    }

    #[test]
    fn headers_before_the_source() {
        let options = [
            "--pre-include=a.h",
            "-include",
            "b.h",
            "--pre-include",
            "c.h",
        ];
        assert_eq!(read(options).headers, ["a.h", "b.h", "c.h"]);
    }

    #[test]
    fn options_that_may_read_files_are_reported() {
        let harmless = [
            "-std=c++17",
            "-O3",
            "--use_fast_math",
            "-gencode",
            "arch=compute_80,code=sm_80",
            "-lineinfo",
            "-Xptxas",
            "-v",
            "-Xcompiler=-fPIC,-Wall",
            "--maxrregcount=32",
            "-rdc=true",
            "-DNAME",
            "-UNAME",
            "--extended-lambda",
            "-G",
        ];
        assert_eq!(read(harmless), FileOptions::default());
        for option in [
            "--options-file=x",
            "@x",
            "-optf",
            "-Xcompiler=-include,x.h",
            "--use-pch=x",
            "file.cu",
            "-Xcompiler=@x",
            "-Xcompiler=-fplugin=x.so",
            "--libdevice-directory=x",
            "-never-heard-of",
        ] {
            assert_eq!(read([option]).not_understood.len(), 1, "{option}");
        }
    }
}
