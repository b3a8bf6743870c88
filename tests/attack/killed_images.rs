//! Builds of several files for several capabilities that are killed, while the capabilities and a
//! header change between them.
//!
//! `CUDA_BUILD_ATTACK_KILLS=200 CUDA_BUILD_ATTACK_SEED=7` for more moments; `--ignored` for those that
//! take minutes, two of which need strace.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::differential::random::Random;
use crate::kills::{group, rounds, signal, started};
use crate::package::{Compiler, Outputs, Package, difference, kernel, script_outputs, succeeded};

const LISTS: [&str; 5] = ["8.0", "9.0", "8.0,9.0", "8.0,9.0+PTX", "8.6,9.0"];

/// A build script with several files, its variables, and what fresh builds made.
struct Script {
    package: Package,
    fresh: BTreeMap<(usize, &'static str), Outputs>,
    images: Option<PathBuf>,
    value: usize,
    list: &'static str,
}

impl Script {
    fn new(name: &str, compiler: Compiler, shared: bool) -> Option<Self> {
        let package = Package::new(name, compiler)?;
        for name in ["a", "b", "c"] {
            let host = "#ifdef HOST\nextern \"C\" void HOST(int *p) { k<<<1, 1>>>(p); }\n#endif\n";
            let source = format!("#include \"v.cuh\"\n{}{host}", kernel("V"));
            package.write(&format!("kernels/{name}.cu"), source);
        }
        package.write("kernels/v.cuh", "#define V 0\n");
        if compiler == Compiler::Nvcc13 {
            // No function is called, so the program need not be linked with CUDA.
            package.write_script(
                ".module(Module::new(\"kernels/a.cu\").engine(Engine::Nvcc))\n\
                 .library(Library::new(\"l\").file(\"kernels/b.cu\").file(\"kernels/c.cu\")\
                 .flag(\"-DHOST=run\"))",
            );
            package.write_program(&["a"], &[]);
        } else {
            package.write_modules(compiler, &[("a", ""), ("b", ""), ("c", "")]);
        }
        package.build().unwrap();
        let images = shared.then(|| package.place.join("images"));
        Some(Self {
            package,
            fresh: BTreeMap::new(),
            images,
            value: 0,
            list: LISTS[0],
        })
    }

    fn change(&mut self, random: &mut Random) {
        if random.below(4) > 0 {
            self.value = random.below(3);
            let text = format!("#define V {}\n", self.value);
            self.package.write("kernels/v.cuh", text);
        }
        self.list = *random.pick(&LISTS);
    }

    fn command(&self, out: &Path, images: Option<&PathBuf>) -> Command {
        fs::create_dir_all(out).unwrap();
        let mut script = self.package.script(out);
        script.env("CUDA_BUILD_CAPABILITIES", self.list);
        script.envs(images.map(|images| ("CUDA_BUILD_IMAGES", images)));
        script
    }

    /// Builds in `out` to the end, and compares.
    fn check(&mut self, out: &Path) -> Result<(), String> {
        let made = succeeded(self.command(out, self.images.as_ref()).output().unwrap());
        made.map_err(|error| format!("the build fails: {error}"))?;
        self.compare(out)
    }

    fn compare(&mut self, out: &Path) -> Result<(), String> {
        let state = (self.value, self.list);
        if !self.fresh.contains_key(&state) {
            let fresh = self.package.place.join("fresh");
            let _ = fs::remove_dir_all(&fresh);
            succeeded(self.command(&fresh, None).output().unwrap()).unwrap();
            self.fresh.insert(state, script_outputs(&fresh));
        }
        let difference = difference(&script_outputs(out), &self.fresh[&state]);
        difference.map_or(Ok(()), |difference| Err(format!("{state:?}: {difference}")))
    }
}

fn seed(default: u64) -> u64 {
    let value = std::env::var("CUDA_BUILD_ATTACK_SEED").ok();
    value.map_or(default, |value| value.parse().unwrap())
}

/// What is killed of a build.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Killed {
    /// The script and everything below it.
    All,
    /// The script: compilers still run when the next build starts.
    Script,
    /// Cargo, which started the script: the script still runs when the next build starts.
    Cargo,
}

/// Whether a build that has not ended runs compilers.
fn compiles(out: &Path) -> bool {
    let entries = fs::read_dir(out).unwrap();
    let mut marks = entries.map(|entry| entry.unwrap().path().join("unfinished"));
    marks.any(|mark| mark.exists())
}

fn killed(name: &str, compiler: Compiler, shared: bool, killed: Killed) {
    let Some(mut script) = Script::new(name, compiler, shared) else {
        return;
    };
    let seed = seed(11);
    let mut random = Random::new(seed);
    let out = script.package.place.join("incremental");
    let mut wrong = Vec::new();
    let start = Instant::now();
    script.check(&out).unwrap();
    let (mut duration, mut kills) = (start.elapsed(), 0);
    for round in 1..=rounds() {
        let mut moments = Vec::new();
        let mut still_running = None;
        for _ in 0..=random.below(2) {
            script.change(&mut random);
            let after = duration.mul_f64(random.below(1000) as f64 / 1000.0);
            moments.push((after, script.value, script.list));
            let mut child = started(&mut script.command(&out, script.images.as_ref()));
            std::thread::sleep(after);
            // Which build is the later one is not defined before the first compiles.
            while killed == Killed::Cargo && child.try_wait().unwrap().is_none() && !compiles(&out)
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            if child.try_wait().unwrap().is_none() {
                kills += 1;
                let group = format!("-{}", child.id());
                match killed {
                    Killed::All => signal("KILL", &group),
                    Killed::Script => signal("KILL", &group[1..]),
                    Killed::Cargo => {
                        still_running = Some(child);
                        break;
                    }
                }
            }
            child.wait().unwrap();
            while killed == Killed::All && !group(child.id()).is_empty() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        if random.below(2) == 0 {
            script.change(&mut random);
        }
        let start = Instant::now();
        let mut checked = script.check(&out);
        if let Some(mut child) = still_running {
            child.wait().unwrap();
            checked = checked.and_then(|()| script.compare(&out));
        }
        if let Err(error) = checked {
            wrong.push(format!("round {round}, killed {moments:?}: {error}"));
            let _ = fs::remove_dir_all(&out);
        }
        // Builds that have nothing to do are short.
        duration = duration.mul_f64(0.9).max(start.elapsed());
    }
    eprintln!("{name}, seed {seed}: {kills} kills in {} rounds", rounds());
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
}

#[test]
fn nvrtc_images_of_killed_builds() {
    killed("killed-images", Compiler::Nvrtc13, false, Killed::All);
}

#[test]
fn nvcc_images_of_killed_builds() {
    killed("killed-images", Compiler::Nvcc13, false, Killed::All);
}

#[test]
fn nvrtc_shared_images_of_killed_builds() {
    killed("killed-shared", Compiler::Nvrtc13, true, Killed::All);
}

#[test]
#[ignore = "minutes"]
fn nvcc_shared_images_of_killed_builds() {
    killed("killed-shared", Compiler::Nvcc13, true, Killed::All);
}

#[test]
#[ignore = "minutes"]
fn nvcc_that_outlives_a_killed_build() {
    killed("killed-alone", Compiler::Nvcc13, false, Killed::Script);
}

#[test]
fn nvrtc_builds_that_outlive_cargo() {
    killed("killed-cargo", Compiler::Nvrtc13, false, Killed::Cargo);
}

#[test]
#[ignore = "minutes"]
fn nvcc_builds_that_outlive_cargo() {
    killed("killed-cargo", Compiler::Nvcc13, false, Killed::Cargo);
}

/// The same build under strace, which kills the first thread that enters its call number `call` of those
/// that change files.
fn killed_inside(command: &Command, call: usize, log: &Path) -> Command {
    let calls = "write,pwrite64,writev,copy_file_range,sendfile,ftruncate,rename,renameat,renameat2,link,linkat,\
        unlink,mkdir";
    let mut traced = Command::new("strace");
    traced.args(["-f", "-q", "-o"]).arg(log);
    traced.arg(format!("--trace={calls}"));
    traced.arg(format!("--inject={calls}:signal=KILL:when={call}"));
    traced.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    traced.current_dir(command.get_current_dir().unwrap());
    traced
}

/// The system call in which strace killed a process, without its arguments.
fn killed_call(log: &str) -> Option<&str> {
    let calls = log.lines().filter(|line| !line.contains("+++"));
    let mut cut = calls.filter(|line| line.ends_with("= ?") || line.ends_with("<unfinished ...>"));
    let call = cut.next_back()?.split_whitespace().nth(1)?;
    Some(call.split('(').next().unwrap())
}

/// Builds that are killed while they write, rename or remove a file, as strace shows.
fn killed_inside_writes(name: &str, compiler: Compiler, shared: bool) {
    let Some(mut script) = Script::new(name, compiler, shared) else {
        return;
    };
    let seed = seed(17);
    let mut random = Random::new(seed);
    let out = script.package.place.join("incremental");
    let log = script.package.place.join("strace");
    script.check(&out).unwrap();
    let mut killed = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    for round in 1..=rounds() {
        script.change(&mut random);
        let call = 1 + random.below(12);
        let command = script.command(&out, script.images.as_ref());
        let mut child = started(&mut killed_inside(&command, call, &log));
        let stopped = child.wait().unwrap();
        if !group(child.id()).is_empty() {
            signal("KILL", &format!("-{}", child.id()));
        }
        while !group(child.id()).is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
        if !stopped.success() {
            let call = killed_call(&text);
            let call = call.unwrap_or_else(|| panic!("round {round}: strace failed: {text}"));
            *killed.entry(call.to_owned()).or_default() += 1;
        }
        if random.below(2) == 0 {
            script.change(&mut random);
        }
        if let Err(error) = script.check(&out) {
            wrong.push(format!("round {round}, call {call}: {error}"));
            let _ = fs::remove_dir_all(&out);
        }
    }
    eprintln!("{name}, seed {seed}: {killed:?} in {} rounds", rounds());
    assert!(!killed.is_empty(), "no build was killed");
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
}

#[test]
#[ignore = "minutes; needs strace"]
fn nvrtc_builds_killed_inside_writes() {
    killed_inside_writes("killed-writes", Compiler::Nvrtc13, true);
}

#[test]
#[ignore = "minutes; needs strace"]
fn nvcc_builds_killed_inside_writes() {
    killed_inside_writes("killed-writes", Compiler::Nvcc13, false);
}

/// Sixteen builds at once, with one directory of images.
fn crowd(compiler: Compiler) {
    let Some(mut script) = Script::new("crowd", compiler, true) else {
        return;
    };
    let mut random = Random::new(seed(13));
    for round in 0..3 {
        script.value = round;
        let text = format!("#define V {round}\n");
        script.package.write("kernels/v.cuh", text);
        // Which content a compiler has read would be unknown otherwise.
        std::thread::sleep(Duration::from_millis(50));
        let mut builds = Vec::new();
        for number in 0..16 {
            script.list = *random.pick(&LISTS);
            let out = script.package.place.join(format!("out-{number}"));
            let mut command = script.command(&out, script.images.as_ref());
            let piped = command.stdout(Stdio::null()).stderr(Stdio::piped());
            builds.push((out, script.list, piped.spawn().unwrap()));
        }
        let mut wrong = Vec::new();
        for (out, list, child) in builds {
            let built = succeeded(child.wait_with_output().unwrap());
            script.list = list;
            let compared = built.and_then(|_| script.compare(&out));
            wrong.extend(compared.err());
        }
        assert!(wrong.is_empty(), "round {round}: {}", wrong.join("\n"));
    }
}

#[test]
fn nvrtc_builds_that_share_images_at_once() {
    crowd(Compiler::Nvrtc13);
}

#[test]
#[ignore = "minutes"]
fn nvcc_builds_that_share_images_at_once() {
    crowd(Compiler::Nvcc13);
}
