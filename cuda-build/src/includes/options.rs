//! Which directories and headers the options of nvcc, NVRTC and the host compiler name.

use std::path::PathBuf;

use crate::nvcc_options::{Argument, Meaning, arguments};

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

/// Options of gcc and clang that name a directory.
const HOST_DIRECTORIES: [&str; 4] = ["-I", "-isystem", "-iquote", "-idirafter"];

/// Prefixes of other options of gcc and clang that read no file.
const HOST_PREFIXES: &str = "-f -W -O -m -D -U -g -std= -pthread -w -pedantic";

/// Exceptions to [`HOST_PREFIXES`]: prefixes of options that read files, or write files beside the output.
const HOST_FILES: &str = "-fplugin -fprofile -fauto-profile -fmodule -Wa, -Wp, -Wl, -fpass-plugin \
                          -fsanitize-ignorelist -fsanitize-blacklist \
                          -ftest-coverage -fstack-usage -fcallgraph-info -fdump -gsplit-dwarf \
                          -fsave-optimization-record -fopt-info -fdiagnostics-add-output";

/// With one of these in its value, an option makes a compiler read or write other files: `-Xptxas --options-file=F`,
/// `-Xcudafe --preinclude=F`, `-DHAS=__has_include`.
const FILE_WORDS: &str = "options-file optf output-file preinclude --list --xref error_output __has_include \
                          __has_embed";

/// Reads options in the order in which nvcc or NVRTC gets them.
pub(crate) fn read<'o>(options: impl IntoIterator<Item = &'o str>) -> FileOptions {
    read_arguments(&arguments(options))
}

/// The same for arguments that are split already. Sources, outputs and architectures name no other files.
pub(crate) fn read_arguments(arguments: &[Argument]) -> FileOptions {
    let mut found = FileOptions::default();
    let mut forwards = false;
    for Argument {
        meaning,
        words,
        value,
    } in arguments
    {
        let unknown = || words.join(" ");
        let has = |list: &str| list.split_whitespace().any(|word| value.contains(word));
        match meaning {
            Meaning::Plain | Meaning::HostOptions if has(FILE_WORDS) => {
                found.not_understood.push(unknown());
            }
            // nvcc starts other programs in a shell, which replaces these characters.
            Meaning::Plain if has("$ `") => found.not_understood.push(unknown()),
            Meaning::Directory | Meaning::Header if has("$ ` \" ' \\") => {
                found.not_understood.push(unknown());
            }
            // nvcc splits lists at commas, but a directory's name may have a comma: keep both readings.
            Meaning::Directory => {
                let parts = value.split(',').filter(|part| part != value);
                let readings = [value.as_str()].into_iter().chain(parts);
                found.directories.extend(readings.map(PathBuf::from));
            }
            Meaning::Header => found.headers.extend(value.split(',').map(str::to_owned)),
            Meaning::HostOptions => {
                let words = host_words(value);
                let host = read_host(words.iter().flatten().map(String::as_str));
                found.directories.extend(host.directories);
                found.headers.extend(host.headers);
                if words.is_none() || !host.not_understood.is_empty() {
                    found.not_understood.push(unknown());
                }
            }
            Meaning::ForwardsUnknown => forwards = true,
            Meaning::Unknown if forwards => {
                let host = read_host(words.iter().map(String::as_str));
                found.not_understood.extend(host.not_understood);
            }
            Meaning::OptionsFile | Meaning::OtherFiles | Meaning::Unknown | Meaning::Input => {
                found.not_understood.push(unknown());
            }
            _ => {}
        }
    }
    found
}

/// Reads options of gcc or clang.
pub(crate) fn read_host<'o>(options: impl IntoIterator<Item = &'o str>) -> FileOptions {
    let mut found = FileOptions::default();
    let mut options = options.into_iter();
    while let Some(option) = options.next() {
        let starts_with = |list: &str| {
            list.split_whitespace()
                .any(|prefix| option.starts_with(prefix))
        };
        let mut directories = HOST_DIRECTORIES.iter();
        match directories.find_map(|name| option.strip_prefix(name)) {
            Some("") => found.directories.extend(options.next().map(PathBuf::from)),
            Some(directory) if !directory.starts_with('=') => {
                found.directories.push(PathBuf::from(directory));
            }
            None if option == "-include" => found.headers.extend(options.next().map(str::to_owned)),
            None if starts_with(HOST_PREFIXES) && !starts_with(HOST_FILES) => {}
            _ => found.not_understood.push(option.to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_headers_in_every_spelling() {
        let options = "-Ia -I b -I=c --include-path=d --include-path e -isystem f -isystem=g --system-include=h \
                       -DX=-Iz -I/i,/j --pre-include=a.h -include b.h --pre-include c.h";
        let found = read(options.split_whitespace());
        let expected = ["a", "b", "c", "d", "e", "f", "g", "h", "/i,/j", "/i", "/j"];
        assert_eq!(found.directories, expected.map(PathBuf::from));
        assert_eq!(found.headers, ["a.h", "b.h", "c.h"]);
        assert_eq!(found.not_understood, [""; 0]);
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
        let harmless = "-std=c++17 -O3 -O 2 --use_fast_math -gencode arch=compute_80,code=sm_80 -lineinfo -Xptxas -v \
                        -Xcompiler=-fPIC,-Wall --maxrregcount=32 -rdc=true -DNAME -UNAME --extended-lambda -G \
                        -Ofc=max -src-in-ptx -t4 -Xfatbin=-compress-all";
        assert_eq!(read(harmless.split_whitespace()), FileOptions::default());
        let reported = "--options-file=x @x -optf -Xcompiler=-imacros,x.h -Xcompiler='-DX=1'$(x) --use-pch=x file.cu \
                        -Xcompiler=@x -Xcompiler=-fplugin=x.so --libdevice-directory=x -never-heard-of \
                        -include-pch=x --Idirectory -use_fast_math=x -Gx -I\"x\" -include=$x -DX=$x \
                        -Xcompiler=-DX=__has_include";
        for option in reported.split_whitespace() {
            assert_eq!(read([option]).not_understood.len(), 1, "{option}");
        }
    }
}
