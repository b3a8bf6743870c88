//! Which directories and headers the options of nvcc, NVRTC and the host compiler name.

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

/// What an option names.
#[derive(Clone, Copy)]
enum Names {
    /// A directory that is searched for headers.
    Directory,
    /// A header that is included before the first line.
    Header,
    /// Options for the host compiler.
    HostOptions,
    /// Nothing that is read.
    Nothing,
}

/// Options without hyphens, by what they mean. `name=` takes a value, after `=` or as the next word.
pub(crate) type Table<T> = [(T, &'static str)];

/// Options of nvcc and NVRTC.
const DEVICE_OPTIONS: &Table<Names> = &[
    (
        Names::Directory,
        "I= include-path= isystem= system-include= iquote= idirafter=",
    ),
    (Names::Header, "include= pre-include="),
    (Names::HostOptions, "Xcompiler= compiler-options="),
    (
        Names::Nothing,
        "arch= code= gencode= generate-code= gpu-architecture= gpu-code= std= dialect= x= m64 m= machine= \
         D= U= define-macro= undefine-macro= Ofast-compile= O= optimize= opt-level= dopt= maxrregcount= \
         t= threads= split-compile= minimal= jump-table-density= frandom-seed= version-ident= objtemp no-cache \
         ftz= fmad= prec-div= prec-sqrt= use_fast_math restrict extra-device-vectorization \
         default-stream= cudart= rdc= relocatable-device-code= dc dw c dlto ewp extensible-whole-program \
         G g dG device-debug debug lineinfo generate-line-info source-in-ptx source-in-ptx= \
         Xptxas= ptxas-options= Xcudafe= res-usage resource-usage keep-device-functions disable-optimizer-constants \
         w disable-warnings Werror= Wreorder Wdefault-stream-launch Wno-deprecated-gpu-targets \
         diag-suppress= diag-error= diag-warn= diag-remark= display-error-number no-display-error-number \
         extended-lambda expt-extended-lambda expt-relaxed-constexpr builtin-initializer-list= no-exceptions \
         compress-mode= compress-all no-compress device-stack-protector= device-float128 device-int128 device-as-default-execution-space \
         static-global-template-stub= forward-unknown-opts forward-unknown-to-host-compiler unstable-api allow-unsupported-compiler v verbose",
    ),
];

/// Options of gcc and clang that name files to include.
const HOST_OPTIONS: &Table<Names> = &[
    (Names::Directory, "I= isystem= iquote= idirafter="),
    (Names::Header, "include="),
];

/// Options whose value may follow without `=`, after a single hyphen: `-Idirectory`, `-DNAME`, `-O3`.
const JOINED: [&str; 5] = ["I", "isystem", "D", "U", "O"];

/// Prefixes of other options of gcc and clang that read no file.
const HOST_PREFIXES: &str = "-f -W -O -m -D -U -g -std= -pthread -w -pedantic";

/// Exceptions to [`HOST_PREFIXES`]: prefixes of options that read files, or write files beside the output.
const HOST_FILES: &str = "-fplugin -fprofile -fauto-profile -fmodule -Wa, -Wp, -Wl, -fpass-plugin \
                          -fsanitize-ignorelist -fsanitize-blacklist \
                          -ftest-coverage -fstack-usage -fcallgraph-info -fdump -gsplit-dwarf \
                          -fsave-optimization-record -fopt-info -fdiagnostics-add-output";

/// With one of these in its value, an option makes a compiler read or write other files: `-Xptxas --options-file=F`,
/// `-Xcudafe --preinclude=F`, `-DHAS=__has_include`.
const FILE_WORDS: [&str; 9] = [
    "options-file",
    "optf",
    "output-file",
    "preinclude",
    "--list",
    "--xref",
    "error_output",
    "__has_include",
    "__has_embed",
];

/// What `option` means, and its value, which may be the next word of `rest`. `None` if the table lacks the option.
pub(crate) fn find<'o, T: Copy>(
    option: &str,
    table: &Table<T>,
    rest: &mut impl Iterator<Item = &'o str>,
) -> Option<(T, String)> {
    let long = option.strip_prefix("--");
    let option = long.or(option.strip_prefix('-'))?;
    for (meaning, list) in table {
        for entry in list.split_whitespace() {
            let name = entry.trim_end_matches('=');
            let Some(value) = option.strip_prefix(name) else {
                continue;
            };
            let has_value = name != entry;
            let value = match value.strip_prefix('=') {
                None if value.is_empty() && !has_value => String::new(),
                None if value.is_empty() => rest.next().unwrap_or_default().to_owned(),
                Some(value) if has_value => value.to_owned(),
                None if JOINED.contains(&name) && long.is_none() => value.to_owned(),
                _ => continue,
            };
            return Some((*meaning, value));
        }
    }
    None
}

/// Reads options in the order in which nvcc or NVRTC gets them.
pub(crate) fn read<'o>(options: impl IntoIterator<Item = &'o str>) -> FileOptions {
    let mut found = FileOptions::default();
    let mut options = options.into_iter();
    let mut forwards = false;
    while let Some(option) = options.next() {
        forwards |= option.ends_with("-forward-unknown-to-host-compiler");
        match find(option, DEVICE_OPTIONS, &mut options) {
            Some((Names::Nothing, value)) if FILE_WORDS.iter().any(|word| value.contains(word)) => {
                found.not_understood.push(format!("{option} {value}"));
            }
            Some((Names::Nothing, _)) => {}
            // nvcc splits lists at commas, but a directory's name may have a comma: keep both readings.
            Some((Names::Directory, value)) => {
                let parts = value.split(',').filter(|part| *part != value);
                let directories = std::iter::once(&*value).chain(parts).map(PathBuf::from);
                found.directories.extend(directories);
            }
            Some((Names::Header, value)) => {
                found.headers.extend(value.split(',').map(str::to_owned));
            }
            Some((Names::HostOptions, value)) => {
                let words = host_words(&value);
                let host = read_host(words.iter().flatten().map(String::as_str));
                found.directories.extend(host.directories);
                found.headers.extend(host.headers);
                if words.is_none() || !host.not_understood.is_empty() {
                    found.not_understood.push(format!("{option} {value}"));
                }
            }
            None if forwards => found
                .not_understood
                .extend(read_host([option]).not_understood),
            None => found.not_understood.push(option.to_owned()),
        }
    }
    found
}

/// Whether [`read`] understands an option, which may have its value in the next word of `rest`.
#[cfg(feature = "nvcc-wrapper")]
pub(crate) fn is_understood<'o>(option: &'o str, rest: &mut impl Iterator<Item = &'o str>) -> bool {
    find(option, DEVICE_OPTIONS, rest).is_some()
}

/// Reads options of gcc or clang.
pub(crate) fn read_host<'o>(options: impl IntoIterator<Item = &'o str>) -> FileOptions {
    let mut found = FileOptions::default();
    let mut options = options.into_iter();
    while let Some(option) = options.next() {
        let starts_with = |list: &str| {
            let mut prefixes = list.split_whitespace();
            prefixes.any(|prefix| option.starts_with(prefix))
        };
        match find(option, HOST_OPTIONS, &mut options) {
            Some((Names::Directory, value)) => found.directories.push(PathBuf::from(value)),
            Some((_, value)) => found.headers.push(value),
            None if starts_with(HOST_PREFIXES) && !starts_with(HOST_FILES) => {}
            None => found.not_understood.push(option.to_owned()),
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
                        -Ofast-compile=max -source-in-ptx";
        assert_eq!(read(harmless.split_whitespace()), FileOptions::default());
        let reported = "--options-file=x @x -optf -Xcompiler=-imacros,x.h -Xcompiler='-DX=1'$(x) --use-pch=x file.cu \
                        -Xcompiler=@x -Xcompiler=-fplugin=x.so --libdevice-directory=x -never-heard-of \
                        -include-pch=x --Idirectory -use_fast_math=x -Gx";
        for option in reported.split_whitespace() {
            assert_eq!(read([option]).not_understood.len(), 1, "{option}");
        }
    }
}
