//! Classifies the output of a failed installer, and builds errors that several modules report.

use std::fmt::Display;
use std::path::Path;

use cuda_build::Component;

use super::ReleaseToFetch;
use super::downloads::is_drawing;
use super::package::Source;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::printable;

/// Why an installer failed.
#[derive(Debug)]
pub(super) enum InstallerError {
    /// The index answered, but has no matching package.
    NoMatch {
        /// The installer's output.
        message: String,
        /// Whether the index does not have the package's name at all.
        unknown_name: bool,
    },
    /// Any other failure.
    Failed(Failure),
}

impl From<Failure> for InstallerError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

// What uv, pip and the system print, separated by `|`.

const FULL: &str = "No space left on device|os error 28)|Disk quota exceeded|os error 122)";

const NOT_WRITABLE: &str = "Permission denied (os error 13)|[Errno 13]|os error 30)|[Errno 30]";

const MISMATCH: &str = "Hash mismatch for|DO NOT MATCH THE HASHES";

/// In lower case. If pip cannot connect, it still ends with "no matching distribution", so these
/// phrases are checked first.
const UNREACHABLE: &str = "error sending request|failed to fetch|tcp connect error|dns error|request failed after|\
     network connectivity is disabled|network was disabled|failed to establish a new connection|\
     connection broken by|max retries exceeded|read timed out|connection reset by peer|incompleteread|\
     name resolution|certificate_verify_failed|401 unauthorized|403 forbidden|407 proxy|401 client error|\
     403 client error|502 bad gateway|503 service unavailable|end of file before message length reached";

const NO_MATCH: &str = "No solution found|No matching distribution found|ResolutionImpossible";

const UNKNOWN_NAME: &str = "was not found in the package registry|(from versions: none)";

/// Classifies an installer's failure by what the user can do about it. `call` is the command as the
/// user would type it, `place` the directory that it wrote to.
pub(super) fn refusal(call: &str, transcript: &str, place: &Path) -> InstallerError {
    let has = |phrases: &str| phrases.split('|').any(|phrase| transcript.contains(phrase));
    let message = summary(transcript);
    let place = place.display();
    if has(FULL) {
        return no_space(place, message).into();
    }
    if has(MISMATCH) {
        return hash_mismatch(&message).into();
    }
    let is_connection_error = |line: &str| {
        let line = line.to_lowercase();
        UNREACHABLE.split('|').any(|phrase| line.contains(phrase))
    };
    if let Some(line) = transcript.lines().rfind(|line| is_connection_error(line)) {
        // pip prints the cause in a warning, before the error that follows from it.
        let message = match message.lines().any(is_connection_error) {
            true => message,
            false => format!("{}\n{message}", line.trim()),
        };
        return unreachable(call, &message).into();
    }
    if has(NO_MATCH) {
        return InstallerError::NoMatch {
            message,
            unknown_name: has(UNKNOWN_NAME),
        };
    }
    if has(NOT_WRITABLE) {
        return not_writable(place, message).into();
    }
    installer_failed(call, message).into()
}

/// At most twelve lines of the output: from the first error line on, or the last lines if no line is an error.
fn summary(transcript: &str) -> String {
    const MAX_LINES: usize = 12;
    let is_bar = |line: &str| line.trim_start().starts_with(is_drawing);
    let lines: Vec<&str> = transcript
        .lines()
        .map(str::trim_end)
        // pip's own call stack follows.
        .take_while(|line| *line != "Exception information:")
        .filter(|line| !line.is_empty() && !is_bar(line))
        .collect();
    let start = lines
        .iter()
        .position(|line| line.starts_with("error") || line.starts_with("ERROR"))
        .unwrap_or(lines.len().saturating_sub(MAX_LINES));
    let lines: Vec<&str> = lines[start..].iter().take(MAX_LINES).copied().collect();
    match lines.as_slice() {
        [] => "no output".to_owned(),
        lines => lines.join("\n"),
    }
}

/// A failure whose message is a sentence, followed by an installer's output.
fn with_output(code: u8, sentence: &str, output: impl Display) -> Failure {
    let output = printable(&output.to_string()).replace('\n', "\n  ");
    Failure::new(code, format!("{sentence}\n  {output}"))
}

pub(super) fn no_space(place: impl Display, message: impl Display) -> Failure {
    let sentence = format!("no space left for {place}");
    with_output(exit_code::STORE_FULL, &sentence, message).hint(
        "free some space, remove toolkits (`cargo cuda toolkit list`), or set `CUDA_BUILD_CACHE_DIR` to a \
         larger disk",
    )
}

pub(super) fn not_writable(place: impl Display, message: impl Display) -> Failure {
    let message = printable(&message.to_string());
    Failure::new(
        exit_code::NO_STORE,
        format!("cannot write {place}: {message}"),
    )
    .hint("set `CUDA_BUILD_CACHE_DIR` to the absolute path of a directory that you may write")
}

pub(super) fn hash_mismatch(message: &str) -> Failure {
    let sentence = "a file does not match its pinned hash";
    with_output(exit_code::LOCK, sentence, message).hint(
        "if the index was changed on purpose, pin the new files with `--upgrade`; if the lock file was created with \
         pip on another platform, create it with uv, which pins the files of all platforms",
    )
}

pub(super) fn unreachable(call: impl Display, message: &str) -> Failure {
    let sentence = "the package index could not be reached";
    with_output(exit_code::INDEX, sentence, format!("{message}\ncommand: {call}")).hint(
        "check the network, and the index and proxy that uv or pip are configured with; then run the same \
         command again",
    )
}

pub(super) fn installer_failed(call: impl Display, message: impl Display) -> Failure {
    let output = format!("{message}\ncommand: {call}");
    with_output(exit_code::INSTALLER, "the installer failed", output)
        .hint("correct what the installer reports, or use the other one: uv is used if it is on `PATH`, otherwise pip")
}

pub(super) fn unresolvable(release: &ReleaseToFetch, message: &str) -> Failure {
    let sentence = format!("CUDA {release} is not available with these components");
    with_output(exit_code::NOT_RELEASED, &sentence, message)
        .hint("leave out the components that this release lacks, or take another release")
}

pub(super) fn no_package(component: Component, major: u32, source: Source) -> Failure {
    let holder = match source {
        Source::Wheels => "Python package",
        Source::Redist => "archive of NVIDIA's",
    };
    let message = format!("no {holder} contains `{component}` for CUDA {major}");
    Failure::new(exit_code::NOT_RELEASED, message).hint(match component {
        Component::Driver => {
            "libcuda comes with the GPU driver, which need not be installed for linking"
        }
        _ if source == Source::Redist && Source::Wheels.has_package(component, major) => {
            "fetch it as a Python package, with `--from wheels`"
        }
        _ => OTHER_SOURCES_HINT,
    })
}

/// The hint if no Python package contains a component.
pub(super) const OTHER_SOURCES_HINT: &str =
    "install CUDA from NVIDIA's packages or archives and set `CUDA_HOME`, or fetch a newer CUDA";

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(transcript: &str) -> InstallerError {
        refusal("uv pip install", transcript, Path::new("/store/.13.part"))
    }

    fn code(transcript: &str) -> u8 {
        match sorted(transcript) {
            InstallerError::Failed(error) => error.code,
            InstallerError::NoMatch { message, .. } => panic!("no match: {message}"),
        }
    }

    // Recorded from uv 0.13 and pip 23.0; names of machines and users replaced.

    #[test]
    fn index_not_reached() {
        let uv = "error: Request failed after 3 retries in 12.1s\n  cause: Failed to fetch: http://127.0.0.1:9/simple/cuda-toolkit/\n  cause: client error (Connect)\n  cause: tcp connect error\n  cause: Connection refused (os error 111)\n";
        let pip = "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object at 0x7f84ce3f3c10>: Failed to establish a new connection: [Errno 111] Connection refused')': /simple/cuda-toolkit/\nERROR: Could not find a version that satisfies the requirement cuda-toolkit (from versions: none)\nERROR: No matching distribution found for cuda-toolkit\n";
        assert_eq!(code(uv), exit_code::INDEX);
        assert_eq!(code(pip), exit_code::INDEX);
        let InstallerError::Failed(error) = sorted(pip) else {
            panic!()
        };
        assert!(error.to_string().contains("Connection refused"), "{error}");
    }

    #[test]
    fn no_space() {
        let uv = "Resolved 1 package in 35ms\nwarning: Failed to hardlink files; falling back to full copy.\nerror: Failed to install: nvidia_cuda_runtime.whl (nvidia-cuda-runtime==13.4.92)\n  cause: failed to copy file from /c/a to /s/b: No space left on device (os error 28)\n";
        let pip = "  Downloading nvidia_cuda_runtime.whl (2.5 MB)\nERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n\n     ━━━━━━━━━━━━━━━━╸                        1.0/2.5 MB 276.9 MB/s eta 0:00:01\n";
        assert_eq!(code(uv), exit_code::STORE_FULL);
        assert_eq!(code(pip), exit_code::STORE_FULL);
        let InstallerError::Failed(error) = sorted(pip) else {
            panic!()
        };
        assert!(!error.to_string().contains('━'), "{error}");
    }

    #[test]
    fn other_hash() {
        let uv = "error: Failed to download `nvidia-cuda-runtime==13.4.92`\n  cause: Hash mismatch for `nvidia-cuda-runtime==13.4.92`\n\n         Expected:\n           sha256:06\n";
        let pip = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please update the hashes.\n    nvidia-cuda-runtime==13.4.92 from file:\n        Expected sha256 06\n             Got        96\n";
        assert_eq!(code(uv), exit_code::LOCK);
        assert_eq!(code(pip), exit_code::LOCK);
    }

    #[test]
    fn nothing_fits() {
        let absent = "error: No solution found when resolving dependencies\n  cause: Because nvidia-cuda-nope was not found in the package registry and you require nvidia-cuda-nope, we can conclude that your requirements are unsatisfiable.\n";
        let uv = "error: No solution found when resolving dependencies\n  cause: Because only cuda-toolkit[cudart]<=13.4.3 is available and you require cuda-toolkit[cudart]==14.*, we can conclude that your requirements are unsatisfiable.\n";
        let pip = "ERROR: Could not find a version that satisfies the requirement cuda-toolkit[cudart]==12.7.* (from versions: 11.8.0, 12.0.0, 13.4.3)\nERROR: No matching distribution found for cuda-toolkit[cudart]==12.7.*\n";
        for (text, unknown) in [(absent, true), (uv, false), (pip, false)] {
            match sorted(text) {
                InstallerError::NoMatch { unknown_name, .. } => {
                    assert_eq!(unknown_name, unknown, "{text}");
                }
                InstallerError::Failed(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn anything_else_keeps_its_words() {
        let InstallerError::Failed(error) =
            sorted("error: No interpreter found\n\nended by signal 9\n")
        else {
            panic!()
        };
        assert_eq!(error.code, exit_code::INSTALLER);
        assert!(
            error.to_string().contains("No interpreter") && error.to_string().contains("signal 9")
        );
    }
}
