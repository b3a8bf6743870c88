//! What an installer's last words mean.

use std::path::Path;

use super::StoreError;
use super::command::Call;

/// An installer that did not do what it was asked.
#[derive(Debug)]
pub(super) enum Refused {
    /// The index answered, and has nothing that fits.
    NoMatch {
        /// What the installer said.
        message: String,
        /// The index does not know the name at all.
        unknown_name: bool,
    },
    /// Anything else.
    Failed(StoreError),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// uv's and pip's words for "no space"; the system's for both.
const FULL: &[&str] = &[
    "No space left on device",
    "os error 28)",
    "Disk quota exceeded",
    "os error 122)",
];

const NOT_WRITABLE: &[&str] = &[
    "Permission denied (os error 13)",
    "[Errno 13]",
    "os error 30)",
    "[Errno 30]",
];

const MISMATCH: &[&str] = &["Hash mismatch for", "DO NOT MATCH THE HASHES"];

/// Lower case. pip ends with "no matching distribution" after it could not connect, so these
/// have to be looked for first.
const UNREACHABLE: &[&str] = &[
    "error sending request",
    "failed to fetch",
    "tcp connect error",
    "dns error",
    "request failed after",
    "network connectivity is disabled",
    "network was disabled",
    "failed to establish a new connection",
    "connection broken by",
    "max retries exceeded",
    "read timed out",
    "connection reset by peer",
    "incompleteread",
    "name resolution",
    "certificate_verify_failed",
    "401 unauthorized",
    "403 forbidden",
    "407 proxy",
    "401 client error",
    "403 client error",
    "502 bad gateway",
    "503 service unavailable",
    "end of file before message length reached",
];

const NO_MATCH: &[&str] = &["No solution found", "No matching distribution found"];

const UNKNOWN_NAME: &[&str] = &[
    "was not found in the package registry",
    "(from versions: none)",
];

/// Sorts an installer's failure by what the user can do about it. `place` is where it was
/// writing.
pub(super) fn refusal(call: &Call, transcript: &str, place: &Path) -> Refused {
    let says = |words: &[&str]| words.iter().any(|word| transcript.contains(word));
    let message = last_words(transcript);
    if says(FULL) {
        return Refused::Failed(StoreError::DiskFull {
            path: place.to_owned(),
            message,
        });
    }
    if says(MISMATCH) {
        return Refused::Failed(StoreError::HashMismatch { message });
    }
    let cut_off = |line: &str| {
        UNREACHABLE
            .iter()
            .any(|word| line.to_lowercase().contains(word))
    };
    if let Some(line) = transcript.lines().rfind(|line| cut_off(line)) {
        // pip tells the cause in a warning, before the error that follows from it.
        let known = message.lines().any(cut_off);
        let message = if known {
            message
        } else {
            format!("{}\n{message}", line.trim())
        };
        return Refused::Failed(StoreError::Index {
            call: call.to_string(),
            message,
        });
    }
    if says(NO_MATCH) {
        return Refused::NoMatch {
            message,
            unknown_name: says(UNKNOWN_NAME),
        };
    }
    if says(NOT_WRITABLE) {
        let source = std::io::Error::new(std::io::ErrorKind::PermissionDenied, message);
        return Refused::Failed(StoreError::NotWritable {
            path: place.to_owned(),
            source,
        });
    }
    Refused::Failed(StoreError::Installer {
        call: call.to_string(),
        message,
    })
}

/// From the first line that is an error on; the last lines where none says so.
fn last_words(transcript: &str) -> String {
    const MOST: usize = 12;
    let lines: Vec<&str> = transcript
        .lines()
        .map(str::trim_end)
        // Behind it comes pip's own call stack.
        .take_while(|line| *line != "Exception information:")
        .filter(|line| !line.is_empty() && !is_bar(line))
        .collect();
    let start = lines
        .iter()
        .position(|line| line.starts_with("error") || line.starts_with("ERROR"))
        .unwrap_or(lines.len().saturating_sub(MOST));
    let words: Vec<&str> = lines[start..].iter().take(MOST).copied().collect();
    if words.is_empty() {
        "it said nothing".to_owned()
    } else {
        words.join("\n")
    }
}

/// pip's drawn progress.
fn is_bar(line: &str) -> bool {
    line.trim_start()
        .starts_with(['\u{2501}', '\u{2578}', '\u{257a}', '\r'])
}

#[cfg(test)]
mod tests {
    use cuda_build::command::Invocation;

    use super::*;

    fn sorted(transcript: &str) -> Refused {
        let call = Call {
            invocation: Invocation::new("uv"),
            input: Vec::new(),
        };
        refusal(&call, transcript, Path::new("/store/.13.part"))
    }

    fn code(transcript: &str) -> u8 {
        match sorted(transcript) {
            Refused::Failed(error) => error.exit_code(),
            Refused::NoMatch { message, .. } => panic!("no match: {message}"),
        }
    }

    // Recorded from uv 0.13 and pip 23.0; names of machines and users replaced.

    #[test]
    fn index_not_reached() {
        let uv = "error: Request failed after 3 retries in 12.1s\n  cause: Failed to fetch: http://127.0.0.1:9/simple/cuda-toolkit/\n  cause: client error (Connect)\n  cause: tcp connect error\n  cause: Connection refused (os error 111)\n";
        let pip = "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object at 0x7f84ce3f3c10>: Failed to establish a new connection: [Errno 111] Connection refused')': /simple/cuda-toolkit/\nERROR: Could not find a version that satisfies the requirement cuda-toolkit (from versions: none)\nERROR: No matching distribution found for cuda-toolkit\n";
        assert_eq!(code(uv), crate::store::exit_code::INDEX);
        assert_eq!(code(pip), crate::store::exit_code::INDEX);
        let Refused::Failed(error) = sorted(pip) else {
            panic!()
        };
        assert!(error.to_string().contains("Connection refused"), "{error}");
    }

    #[test]
    fn no_space() {
        let uv = "Resolved 1 package in 35ms\nwarning: Failed to hardlink files; falling back to full copy.\nerror: Failed to install: nvidia_cuda_runtime.whl (nvidia-cuda-runtime==13.4.92)\n  cause: failed to copy file from /c/a to /s/b: No space left on device (os error 28)\n";
        let pip = "  Downloading nvidia_cuda_runtime.whl (2.5 MB)\nERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n\n     ━━━━━━━━━━━━━━━━╸                        1.0/2.5 MB 276.9 MB/s eta 0:00:01\n";
        assert_eq!(code(uv), crate::store::exit_code::DISK_FULL);
        assert_eq!(code(pip), crate::store::exit_code::DISK_FULL);
        let Refused::Failed(error) = sorted(pip) else {
            panic!()
        };
        assert!(!error.to_string().contains('━'), "{error}");
    }

    #[test]
    fn other_hash() {
        let uv = "error: Failed to download `nvidia-cuda-runtime==13.4.92`\n  cause: Hash mismatch for `nvidia-cuda-runtime==13.4.92`\n\n         Expected:\n           sha256:06\n";
        let pip = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please update the hashes.\n    nvidia-cuda-runtime==13.4.92 from file:\n        Expected sha256 06\n             Got        96\n";
        assert_eq!(code(uv), crate::store::exit_code::LOCK);
        assert_eq!(code(pip), crate::store::exit_code::LOCK);
    }

    #[test]
    fn nothing_fits() {
        let absent = "error: No solution found when resolving dependencies\n  cause: Because nvidia-cuda-nope was not found in the package registry and you require nvidia-cuda-nope, we can conclude that your requirements are unsatisfiable.\n";
        let uv = "error: No solution found when resolving dependencies\n  cause: Because only cuda-toolkit[cudart]<=13.4.3 is available and you require cuda-toolkit[cudart]==14.*, we can conclude that your requirements are unsatisfiable.\n";
        let pip = "ERROR: Could not find a version that satisfies the requirement cuda-toolkit[cudart]==12.7.* (from versions: 11.8.0, 12.0.0, 13.4.3)\nERROR: No matching distribution found for cuda-toolkit[cudart]==12.7.*\n";
        for (text, unknown) in [(absent, true), (uv, false), (pip, false)] {
            match sorted(text) {
                Refused::NoMatch { unknown_name, .. } => {
                    assert_eq!(unknown_name, unknown, "{text}");
                }
                Refused::Failed(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn anything_else_keeps_its_words() {
        let Refused::Failed(error) = sorted("error: No interpreter found\n\nended by signal 9\n")
        else {
            panic!()
        };
        assert_eq!(error.exit_code(), crate::store::exit_code::INSTALLER);
        assert!(
            error.to_string().contains("No interpreter") && error.to_string().contains("signal 9")
        );
    }
}
