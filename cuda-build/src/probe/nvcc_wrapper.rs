//! A script in place of nvcc, as Debian has it in `/usr/bin`.

use std::path::{Path, PathBuf};

/// The program that a script of one command hands its arguments to: `#!/bin/sh`, comments, and
/// `exec /usr/lib/nvidia-cuda-toolkit/bin/nvcc "$@"`. `None` for any other script: it may set
/// variables or add options.
///
/// ```
/// use cuda_build::probe::behind_wrapper;
/// let program = behind_wrapper("#!/bin/sh\nexec /opt/cuda/bin/nvcc \"$@\"\n");
/// assert_eq!(program.as_deref(), Some("/opt/cuda/bin/nvcc".as_ref()));
/// ```
#[must_use]
pub fn behind_wrapper(script: &str) -> Option<PathBuf> {
    let mut lines = script.lines().map(str::trim);
    if !["#!/bin/sh", "#! /bin/sh"].contains(&lines.next()?) {
        return None;
    }
    let mut commands = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let command = commands.next().filter(|_| commands.next().is_none())?;
    let program = Path::new(command.strip_prefix("exec ")?.strip_suffix(" \"$@\"")?.trim());
    // Every other character may mean something to the shell.
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    let named = program.is_absolute() && program.file_name().is_some_and(|name| name == "nvcc");
    (named && program.to_str()?.chars().all(plain)).then(|| program.to_owned())
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
            let program = behind_wrapper(script).unwrap();
            assert_eq!(program, Path::new("/usr/lib/nvidia-cuda-toolkit/bin/nvcc"));
        }
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
            "#!/bin/sh\nexport CPATH=/x\nexec /opt/nvcc \"$@\"",
            "#!/bin/sh\nexec /opt/nvcc \"$@\"\nexec /other/nvcc \"$@\"",
            "#!/bin/sh\nexec \"$@\"",
        ] {
            assert_eq!(behind_wrapper(script), None, "{script:?}");
        }
    }
}
