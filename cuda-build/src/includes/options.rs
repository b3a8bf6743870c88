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
    "-fpass-plugin",
    "-fsanitize-ignorelist",
    "-fsanitize-blacklist",
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
            let words = host_words(&value);
            let host = read_host(words.iter().flatten().map(String::as_str));
            found.directories.extend(host.directories);
            found.headers.extend(host.headers);
            if words.is_none() || !host.not_understood.is_empty() {
                found.not_understood.push(format!("{option} {value}"));
            }
        } else if !reads_no_file(option, &mut options) {
            found.not_understood.push(option.to_owned());
        }
    }
    found
}

/// Reads options of gcc or clang.
pub(crate) fn read_host<'o>(options: impl IntoIterator<Item = &'o str>) -> FileOptions {
    let mut found = FileOptions::default();
    let mut options = options.into_iter();
    while let Some(option) = options.next() {
        let starts = |prefix: &&str| option.starts_with(*prefix);
        if let Some(value) = value_of(option, DIRECTORIES, &mut options) {
            found.directories.push(PathBuf::from(value));
        } else if let Some(value) = value_of(option, HEADERS, &mut options) {
            found.headers.push(value);
        } else if !HOST_PREFIXES.iter().any(starts) || HOST_FILES.iter().any(starts) {
            found.not_understood.push(option.to_owned());
        }
    }
    found
}

/// The words that the host compiler gets for a value of `-Xcompiler`. nvcc splits it at commas, removes
/// backslashes, and puts the rest into a shell command. `None` if the shell does more than remove quotes.
fn host_words(value: &str) -> Option<Vec<String>> {
    let mut command = String::new();
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => command.extend(characters.next()),
            ',' => command.push(' '),
            c => command.push(c),
        }
    }
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = command.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '$' | '`') | (Some(_), '\\') => return None,
            (None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// The value of `option` if its name is in `names`: joined to the name, or the next word of `rest`. A name that
/// starts with another name has to stand before it in `names`.
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
    fn options_of_the_host_compiler_are_read_as_its_shell_passes_them() {
        let words = |value: &str| host_words(value).unwrap();
        assert_eq!(words("-Wall,-O2 -g"), ["-Wall", "-O2", "-g"]);
        assert_eq!(words(r"-DX=1\,2"), ["-DX=1,2"]);
        assert_eq!(words(r#"'-DX=\"a\,b\"'"#), [r#"-DX="a,b""#]);
        assert_eq!(words(r"'-DX='\\''a b'\\'''"), ["-DX='a b'"]);
        let found = read([
            "-Xcompiler='-Ia b',-include,x.h",
            "-Xcompiler",
            "-isystem,c",
        ]);
        assert_eq!(found.directories, ["a b", "c"].map(PathBuf::from));
        assert_eq!(found.headers, ["x.h"]);
        assert_eq!(found.not_understood, [""; 0]);
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
            "-Xcompiler=-imacros,x.h",
            "-Xcompiler='-DX=1'$(x)",
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
