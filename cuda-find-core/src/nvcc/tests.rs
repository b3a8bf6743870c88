#![allow(
    clippy::disallowed_methods,
    reason = "tests prepare real files and start a shell"
)]

use super::*;

use std::process::Command;

const ANSWER: &str = "#$ _HERE_=${0%/*}\\n#$ TOP=/opt/cuda\\n#$ PATH=/opt/cuda/bin:$PATH\\n\
    #$ gcc -E -x c++ x\\nrelease 12.4, V12.4.131";

/// A directory with an nvcc that logs each start, a gcc, and an environment with a cache.
struct Place {
    directory: tempfile::TempDir,
    env: Env,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = format!("{}:/usr/bin", directory.path().join("tools").display());
        let env = Env::from_pairs([("PATH", path)])
            .with("CUDA_BUILD_CACHE_DIR", directory.path().join("cache"));
        let place = Self { directory, env };
        place.write("tools/gcc", "#!/bin/sh\n");
        place.install(ANSWER);
        place
    }

    /// Writes an executable file through another process: a file that this process has open for
    /// writing cannot be started.
    fn write(&self, name: &str, script: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "mkdir -p \"${2%/*}\" && printf %s \"$1\" > \"$2.new\" && chmod +x \"$2.new\" && mv \"$2.new\" \"$2\"",
            "sh",
        ]);
        assert!(command.arg(script).arg(&path).status().unwrap().success());
        path
    }

    fn install(&self, answer: &str) {
        let log = self.directory.path().join("log");
        let script = format!(
            "#!/bin/sh\necho x >> '{}'\nprintf '%b\\n' \"{answer}\"\n",
            log.display()
        );
        self.write("bin/nvcc", &script);
    }

    fn nvcc(&self) -> PathBuf {
        self.directory.path().join("bin/nvcc")
    }

    fn query_at(&self, nvcc: &Path) -> NvccAnswer {
        query(&Root::system(), &self.env, nvcc).unwrap()
    }

    fn query(&self) -> NvccAnswer {
        self.query_at(&self.nvcc())
    }

    fn set(&mut self, name: &str, value: &str) {
        self.env = self.env.clone().with(name, value);
    }

    fn starts(&self) -> usize {
        std::fs::read_to_string(self.directory.path().join("log"))
            .map_or(0, |log| log.lines().count())
    }

    fn kept(&self) -> Vec<PathBuf> {
        let answers = std::fs::read_dir(self.directory.path().join("cache/answers"));
        let answers = answers.into_iter().flatten();
        answers.map(|entry| entry.unwrap().path()).collect()
    }
}

#[test]
fn an_nvcc_is_queried_once() {
    let place = Place::new();
    let first = place.query();
    assert_eq!(first.version.to_string(), "12.4.131");
    assert_eq!(first.host_compiler, Some("gcc".into()));
    assert_eq!(place.query(), first);
    assert_eq!(place.starts(), 1);
    assert_eq!(place.kept().len(), 1);
}

#[test]
fn a_replaced_nvcc_is_queried_again() {
    let place = Place::new();
    place.query();
    // Same length, other time of change.
    place.install(&ANSWER.replace("12.4", "12.5"));
    assert_eq!(place.query().version.to_string(), "12.5.131");
    // Same time of change, other length.
    let time = std::fs::metadata(place.nvcc()).unwrap().modified().unwrap();
    place.install(&ANSWER.replace("12.4", "12.10"));
    let file = std::fs::File::options().append(true).open(place.nvcc());
    file.unwrap().set_modified(time).unwrap();
    assert_eq!(place.query().version.to_string(), "12.10.131");
    assert_eq!(place.starts(), 3);
}

#[test]
fn profile_targets_and_host_compiler_invalidate_the_answer() {
    let place = Place::new();
    let mut expected = 1;
    let mut check = |place: &Place, what: &str| {
        place.query();
        place.query();
        assert_eq!(place.starts(), expected, "{what}");
        expected += 1;
    };
    check(&place, "nothing");
    std::fs::write(place.nvcc().with_file_name("nvcc.profile"), "TOP = x").unwrap();
    check(&place, "a profile");
    std::fs::write(place.nvcc().with_file_name("nvcc.profile"), "TOP = y").unwrap();
    check(&place, "another profile");
    std::fs::create_dir(place.directory.path().join("targets")).unwrap();
    check(&place, "a directory of targets");
    place.write("tools/gcc", "#!/bin/sh\n# replaced\n");
    check(&place, "another host compiler");
    std::fs::remove_file(place.directory.path().join("tools/gcc")).unwrap();
    check(&place, "a host compiler elsewhere on PATH");
}

#[test]
fn variables_of_the_profile_count() {
    let mut place = Place::new();
    let profile = place.nvcc().with_file_name("nvcc.profile");
    std::fs::write(profile, "INCLUDES += -I$(own)/x\nLD_LIBRARY_PATH += x\n").unwrap();
    for (name, value, starts) in [
        ("own", "/a", 1),
        ("own", "/b", 2),
        ("INCLUDES", "-I/c", 3),
        ("LIBRARIES", "-L/d", 3),
        ("LD_LIBRARY_PATH", "/e", 3),
    ] {
        place.set(name, value);
        place.query();
        assert_eq!(place.starts(), starts, "{name}={value}");
    }
}

#[test]
fn the_nvcc_behind_a_wrapper_counts() {
    let place = Place::new();
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", place.nvcc().display());
    let wrapper = place.write("usr/bin/nvcc", &script);
    place.query_at(&wrapper);
    place.query_at(&wrapper);
    assert_eq!(place.starts(), 1);
    place.install(&ANSWER.replace("12.4", "12.5"));
    let version = place.query_at(&wrapper).version;
    assert_eq!(version.to_string(), "12.5.131");
    std::fs::write(place.nvcc().with_file_name("nvcc.profile"), "TOP = x").unwrap();
    place.query_at(&wrapper);
    assert_eq!(place.starts(), 3);
    // What any other script starts the next time is not known.
    let script = format!("#!/bin/sh\nX=1 exec {} \"$@\"\n", place.nvcc().display());
    let other = place.write("other/nvcc", &script);
    place.query_at(&other);
    place.query_at(&other);
    assert_eq!(place.starts(), 5);
}

#[test]
fn a_broken_file_is_replaced() {
    let place = Place::new();
    let answer = place.query();
    let file = place.kept().remove(0);
    let whole = std::fs::read(&file).unwrap();
    for broken in [
        &whole[..whole.len() - 3],
        &whole[..10],
        b"",
        b"\0\xff",
        b"cuda-build answer 1\n\n#end\n",
    ] {
        let before = place.starts();
        std::fs::write(&file, broken).unwrap();
        assert_eq!(place.query(), answer);
        assert_eq!(place.starts(), before + 1);
        assert_eq!(std::fs::read(&file).unwrap(), whole);
    }
}

#[test]
fn another_program_is_an_error() {
    let place = Place::new();
    place.install("usage: cc");
    let (root, nvcc) = (Root::system(), place.nvcc());
    let error = query(&root, &place.env, &nvcc).unwrap_err().to_string();
    assert!(
        error.contains("bin/nvcc does not answer as nvcc does"),
        "{error}"
    );
    let error = query(&root, &place.env, Path::new("/nonexistent/nvcc")).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/nvcc"), "{error}");
}

#[test]
fn only_a_script_of_one_program_is_read() {
    let program = |script: &str| started_by(script).map(|path| path.display().to_string());
    for script in [
        "#!/bin/sh\nexec /opt/cuda/bin/nvcc \"$@\"\n",
        "#! /bin/sh\n\n# comment\n  exec  /opt/cuda/bin/nvcc  \"$@\"\n\n",
        "#!/bin/sh\n\nexport PATH=\"/opt/cuda/bin:$PATH\"\nexec /opt/cuda/bin/nvcc \"$@\"\n",
    ] {
        assert_eq!(program(script).as_deref(), Some("/opt/cuda/bin/nvcc"));
    }
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
        "#!/bin/sh\nexec /opt/ccache /opt/nvcc \"$@\"",
        "#!/bin/sh\nexport PATH=\"$PATH:/a\"\nexec /opt/nvcc \"$@\"",
        "#!/bin/sh\nexport PATH=\"bin:$PATH\"\nexec /opt/nvcc \"$@\"",
        "#!/bin/sh\nexec /opt/nvcc \"$@\"\nexport PATH=\"/a:$PATH\"",
        "#!/bin/sh\nexport CPATH=/x\nexec /opt/nvcc \"$@\"",
        "#!/bin/sh\nexec /opt/nvcc \"$@\"\nexec /other/nvcc \"$@\"",
        "#!/bin/sh\nexec \"$@\"",
    ] {
        assert_eq!(program(script), None, "{script:?}");
    }
}
