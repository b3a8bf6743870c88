//! Reads the text that nvcc prints.
//!
//! The layout of a toolkit cannot be derived from nvcc's path, because each package's `nvcc.profile` is
//! different: conda's sets `TOP` to a directory in `targets/`, Debian's sets neither `TOP` nor `INCLUDES`,
//! and nixpkgs' contains store paths. The variables that a dry run prints are right in every package.

use std::path::PathBuf;

use crate::version::Version;

/// What one nvcc printed. The values are not verified: a directory may not exist.
#[derive(Debug, PartialEq)]
pub struct NvccAnswer {
    /// The version of nvcc, such as `12.4.131`.
    pub version: Version,
    /// `_HERE_`: the directory of the nvcc that ran, with links not resolved.
    pub directory: Option<PathBuf>,
    /// `TOP`: the root that the profile names, often with a `..` in the path. Debian's profile names no root.
    pub top: Option<PathBuf>,
    /// The include directories: after `-I` in `INCLUDES`, then after `-isystem` in `SYSTEM_INCLUDES`.
    pub includes: Vec<PathBuf>,
    /// The library directories: after `-L` in `LIBRARIES`, without directories called `stubs`.
    pub libraries: Vec<PathBuf>,
    /// The directories that nvcc searches for programs: `CICC_PATH`, then `PATH`.
    pub programs: Vec<PathBuf>,
    /// The host compiler as nvcc starts it: `gcc`, `/usr/bin/g++-12`. `None` if the dry run failed.
    pub host_compiler: Option<PathBuf>,
    /// The path of the queried nvcc, if the user named it. Builds then run exactly this file.
    pub named: Option<PathBuf>,
}

impl NvccAnswer {
    /// Reads the output of `nvcc --dryrun` or `nvcc --version`; `None` if it has no version.
    ///
    /// ```
    /// use cuda_build::internal::nvcc::NvccAnswer;
    /// let answer = NvccAnswer::parse("#$ TOP=/opt/cuda/bin/..\nCuda compilation tools, release 12.4, V12.4.131").unwrap();
    /// assert_eq!(answer.version.to_string(), "12.4.131");
    /// assert!(answer.top.is_some());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let version = macro_version(text).or_else(|| printed_version(text))?;
        let mut answer = Self {
            version,
            directory: None,
            top: None,
            includes: Vec::new(),
            libraries: Vec::new(),
            programs: Vec::new(),
            host_compiler: None,
            named: None,
        };
        let (mut system_includes, mut cicc) = (Vec::new(), None);
        for line in text.lines().filter_map(|line| line.strip_prefix("#$ ")) {
            if line.contains(" -E -x c++ ") {
                // `gcc -E …`, `"/usr/bin"/g++-12 -E …`
                answer.host_compiler = words(line).first().map(PathBuf::from);
                continue;
            }
            let Some((name, value)) = line.split_once('=') else {
                continue;
            };
            // A variable that is assigned twice is printed twice, each time with its whole value.
            match name {
                "_HERE_" => answer.directory = absolute(value.trim()),
                "TOP" => answer.top = absolute(value.trim()),
                "INCLUDES" => answer.includes = flagged(value, "-I"),
                "SYSTEM_INCLUDES" => system_includes = flagged(value, "-isystem"),
                "LIBRARIES" => answer.libraries = flagged(value, "-L"),
                "CICC_PATH" => cicc = absolute(value.trim()),
                "PATH" => answer.programs = value.split(':').filter_map(absolute).collect(),
                _ => {}
            }
        }
        let is_library = |directory: &PathBuf| !directory.ends_with("stubs");
        answer.libraries.retain(is_library);
        answer.includes.append(&mut system_includes);
        answer.programs.splice(0..0, cicc);
        Some(answer)
    }
}

/// `path`, if it is absolute. nvcc prints paths that begin with the directory in its `argv[0]`, and this crate
/// starts it by an absolute path.
fn absolute(path: &str) -> Option<PathBuf> {
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// The version in the macros that the first command of a dry run defines:
/// `-D__CUDACC_VER_MAJOR__=12 -D__CUDACC_VER_MINOR__=4 -D__CUDACC_VER_BUILD__=131`.
fn macro_version(text: &str) -> Option<Version> {
    let number = |name: &str| {
        let after = text.split_once(&format!("-D__CUDACC_VER_{name}__="))?.1;
        let end = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        Some(&after[..end])
    };
    let [major, minor, build] = ["MAJOR", "MINOR", "BUILD"].map(number);
    format!("{}.{}.{}", major?, minor?, build?).parse().ok()
}

/// The version that `nvcc --version` prints: `13.4.92` in `release 13.4, V13.4.92`.
fn printed_version(text: &str) -> Option<Version> {
    let after = text.split_once("release ")?.1;
    let version = after.split_once(", V")?.1;
    version.split_whitespace().next()?.parse().ok()
}

/// The absolute paths after `flag`. A path is joined to the flag (`"-I/a b"`, `-L/a`) or is the next word
/// (`"-isystem" "/a"`).
fn flagged(value: &str, flag: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut words = words(value).into_iter();
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix(flag) else {
            continue;
        };
        let joined = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
        let path = joined.or_else(|| words.next());
        paths.extend(path.and_then(|path| absolute(&path)));
    }
    paths
}

/// The words of `value`, split at white space outside double quotes. The quotes are removed.
fn words(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for c in value.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().filter_map(|path| path.to_str()).collect()
    }

    /// Debian 13's nvcc 12.4, as it was run in its own places.
    const DEBIAN: &str = "#$ _SPACE_= \n#$ _HERE_=/usr/lib/nvidia-cuda-toolkit/bin\n\
        #$ NVVMIR_LIBRARY_DIR=/usr/lib/nvidia-cuda-toolkit/libdevice\n\
        #$ PATH=/usr/lib/nvidia-cuda-toolkit/bin:/usr/bin:/bin\n\
        #$ LIBRARIES=  -L/usr/lib/x86_64-linux-gnu/stubs -L/usr/lib/x86_64-linux-gnu\n\
        #$ gcc -D__CUDA_ARCH__=520 -E -x c++ -D__CUDACC_VER_MAJOR__=12 -D__CUDACC_VER_MINOR__=4 \
        -D__CUDACC_VER_BUILD__=131 -m64 \"/dev/null\" \n";

    #[test]
    fn debian_has_no_top_and_no_includes() {
        let answer = NvccAnswer::parse(DEBIAN).unwrap();
        assert_eq!(answer.version.to_string(), "12.4.131");
        assert_eq!(
            answer.directory,
            Some("/usr/lib/nvidia-cuda-toolkit/bin".into())
        );
        assert_eq!(answer.host_compiler, Some("gcc".into()));
        assert_eq!(answer.top, None);
        assert!(answer.includes.is_empty());
        assert_eq!(paths(&answer.libraries), ["/usr/lib/x86_64-linux-gnu"]);
        assert_eq!(
            paths(&answer.programs)[0],
            "/usr/lib/nvidia-cuda-toolkit/bin"
        );
    }

    #[test]
    fn quotes_hold_spaces_and_stubs_are_left_out() {
        let text = "#$ TOP=/my cuda/bin/..\n#$ CICC_PATH=/my cuda/bin/../nvvm/bin\n#$ PATH=/my cuda/bin:/usr/bin\n\
            #$ INCLUDES=\"-I/my cuda/bin/../include\"  \n\
            #$ SYSTEM_INCLUDES=\"-isystem\" \"/my cuda/bin/../include/cccl\"  \n\
            #$ LIBRARIES=  \"-L/my cuda/bin/../lib/stubs\" \"-L/my cuda/bin/../lib\"\n\
            release 13.4, V13.4.92\n";
        let answer = NvccAnswer::parse(text).unwrap();
        assert_eq!(
            paths(&answer.includes),
            ["/my cuda/bin/../include", "/my cuda/bin/../include/cccl"]
        );
        assert_eq!(paths(&answer.libraries), ["/my cuda/bin/../lib"]);
        assert_eq!(
            paths(&answer.programs),
            ["/my cuda/bin/../nvvm/bin", "/my cuda/bin", "/usr/bin"]
        );
    }

    #[test]
    fn the_host_compiler_may_have_a_quoted_directory() {
        for (command, program) in [
            (
                "\"/usr/bin\"/g++-12 -D__CUDA_ARCH__=750 -E -x c++  \"k.cu\"",
                "/usr/bin/g++-12",
            ),
            (
                "\"/opt/my gcc/bin\"/g++ -E -x c++ -m64",
                "/opt/my gcc/bin/g++",
            ),
        ] {
            let text = format!("#$ _SPACE_= \n#$ {command}\nrelease 12.4, V12.4.131\n");
            let answer = NvccAnswer::parse(&text).unwrap();
            assert_eq!(answer.host_compiler, Some(program.into()));
        }
    }

    #[test]
    fn the_last_of_two_assignments_counts() {
        let text = "#$ INCLUDES=-I/a\n#$ INCLUDES=-I/b -I/a\n#$ PATH=/a\n#$ PATH=/b:/a\nrelease 12.4, V12.4.131\n";
        let answer = NvccAnswer::parse(text).unwrap();
        assert_eq!(paths(&answer.includes), ["/b", "/a"]);
        assert_eq!(paths(&answer.programs), ["/b", "/a"]);
    }

    #[test]
    fn other_output_is_no_answer() {
        for text in [
            "",
            "sh: not found",
            "#$",
            "#$ ",
            "#$ =",
            "#$ TOP",
            "release , V",
            "-D__CUDACC_VER_MAJOR__=",
            "release 1\u{fffd}, V\"",
        ] {
            assert_eq!(NvccAnswer::parse(text), None, "{text:?}");
        }
        let answer =
            NvccAnswer::parse("release 12.4, V12.4.1\n#$ LIBRARIES=\"-L\" \"\n#$ INCLUDES=-I")
                .unwrap();
        assert!(answer.includes.is_empty() && answer.libraries.is_empty());
    }
}
