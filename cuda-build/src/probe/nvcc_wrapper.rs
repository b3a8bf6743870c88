//! A script in place of nvcc, as Debian has it in `/usr/bin`.

use std::path::{Path, PathBuf};

/// What a script of few words does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// The program that it hands its arguments to, absolute.
    pub program: PathBuf,
    /// The directory that it puts before `PATH`.
    pub before_path: Option<String>,
}

/// Reads a script that hands its arguments to one program: `#!/bin/sh`, comments,
/// `exec /usr/lib/nvidia-cuda-toolkit/bin/nvcc "$@"`, and before that `export PATH="<directory>:$PATH"`, as Debian 13
/// has it. `None` for any other script: it may set variables or add options.
///
/// ```
/// use cuda_build::probe::wrapper;
/// let wrapper = wrapper("#!/bin/sh\nexec /opt/cuda/bin/nvcc \"$@\"\n").unwrap();
/// assert_eq!(wrapper.program.to_str(), Some("/opt/cuda/bin/nvcc"));
/// ```
#[must_use]
pub fn wrapper(script: &str) -> Option<Wrapper> {
    let mut lines = script.lines().map(str::trim);
    if !["#!/bin/sh", "#! /bin/sh"].contains(&lines.next()?) {
        return None;
    }
    let commands: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let (before_path, command) = match commands.as_slice() {
        [command] => (None, command),
        [path, command] => {
            let directory = path
                .strip_prefix("export PATH=\"")?
                .strip_suffix(":$PATH\"")?;
            (Some(plain(directory)?.to_owned()), command)
        }
        _ => return None,
    };
    let program = plain(
        command
            .strip_prefix("exec ")?
            .strip_suffix(" \"$@\"")?
            .trim(),
    )?;
    let program = Some(Path::new(program))
        .filter(|path| path.file_name().is_some_and(|name| name == "nvcc"))?;
    Some(Wrapper {
        program: program.to_owned(),
        before_path,
    })
}

/// An absolute path without a character that may mean something to the shell or to `PATH`.
fn plain(path: &str) -> Option<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    (path.starts_with('/') && path.chars().all(plain)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_one_command_leads_to_its_program() {
        for script in [
            "#!/bin/sh\nexec /usr/lib/nvidia-cuda-toolkit/bin/nvcc \"$@\"\n",
            "#! /bin/sh\n\n# comment\n  exec  /usr/lib/nvidia-cuda-toolkit/bin/nvcc  \"$@\"\n\n",
        ] {
            let program = Path::new("/usr/lib/nvidia-cuda-toolkit/bin/nvcc").to_owned();
            assert_eq!(
                wrapper(script),
                Some(Wrapper {
                    program,
                    before_path: None
                })
            );
        }
        let debian_13 = "#!/bin/sh\n\nexport PATH=\"/usr/lib/nvidia-cuda-toolkit/bin:$PATH\"\nexec \
                         /usr/lib/nvidia-cuda-toolkit/bin/nvcc \"$@\"\n";
        let before = wrapper(debian_13).unwrap().before_path;
        assert_eq!(before.as_deref(), Some("/usr/lib/nvidia-cuda-toolkit/bin"));
    }

    #[test]
    fn any_other_script_is_asked_itself() {
        for script in [
            "",
            "exec /opt/nvcc \"$@\"",
            "#!/bin/bash\nexec /opt/nvcc \"$@\"",
            "#!/bin/sh -x\nexec /opt/nvcc \"$@\"",
            "#!/bin/sh\n/opt/nvcc \"$@\"",
            "#!/bin/sh\nexec /opt/nvcc -ccbin g++ \"$@\"",
            "#!/bin/sh\nexec /opt/nvcc $@",
            "#!/bin/sh\nexec nvcc \"$@\"",
            "#!/bin/sh\nexec ~/nvcc \"$@\"",
            "#!/bin/sh\nexec /opt/$CUDA/nvcc \"$@\"",
            "#!/bin/sh\nexec /opt/ccache \"$@\"",
            "#!/bin/sh\nexport PATH=\"/a:/b:$PATH\"\nexec /opt/nvcc \"$@\"",
            "#!/bin/sh\nexport PATH=\"$PATH:/a\"\nexec /opt/nvcc \"$@\"",
            "#!/bin/sh\nexport PATH=\"bin:$PATH\"\nexec /opt/nvcc \"$@\"",
            "#!/bin/sh\nexec /opt/nvcc \"$@\"\nexport PATH=\"/a:$PATH\"",
            "#!/bin/sh\nexport CPATH=/x\nexec /opt/nvcc \"$@\"",
            "#!/bin/sh\nexec /opt/nvcc \"$@\"\nexec /other/nvcc \"$@\"",
            "#!/bin/sh\nexec \"$@\"",
        ] {
            assert_eq!(wrapper(script), None, "{script:?}");
        }
    }
}
