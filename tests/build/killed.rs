//! Builds of several files for several capabilities that are killed, while the capabilities and a
//! header change between them.
//!
//! `CUDA_BUILD_ATTACK_KILLS=200 CUDA_BUILD_ATTACK_SEED=7` for more moments.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::package::{Compiler, Outputs, Package, difference, kernel, script_outputs, succeeded};
use crate::random_edits::Random;

const LISTS: [&str; 5] = ["8.0", "9.0", "8.0,9.0", "8.0,9.0+PTX", "8.6,9.0"];

fn variable(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().unwrap())
}

fn signal(name: &str, process: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), "--", process])
        .status();
    assert!(status.unwrap().success(), "kill -{name} -- {process}");
}

/// Starts a command in a process group of its own.
fn started(command: &mut Command) -> Child {
    let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
    silent.process_group(0).spawn().unwrap()
}

/// Whether a process of this group runs.
fn group_runs(id: u32) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let mut stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats.any(|stat| {
        // After the name: state, parent, group.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let fields: Vec<&str> = fields.split_whitespace().collect();
        fields.get(2) == Some(&id.to_string().as_str()) && fields[0] != "Z"
    })
}

/// A build script with several files, its variables, and what fresh builds made.
struct Script {
    package: Package,
    fresh: BTreeMap<(usize, &'static str), Outputs>,
    images: Option<PathBuf>,
    value: usize,
    list: &'static str,
}

impl Script {
    fn new(name: &str, compiler: Compiler, shared: bool) -> Self {
        let package = Package::new(name, compiler);
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
        Self {
            package,
            fresh: BTreeMap::new(),
            images,
            value: 0,
            list: LISTS[0],
        }
    }

    fn write(&mut self, value: usize) {
        self.value = value;
        let text = format!("#define V {value}\n");
        self.package.write("kernels/v.cuh", text);
    }

    fn change(&mut self, random: &mut Random) {
        if random.below(4) > 0 {
            self.write(random.below(3));
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
    let mut script = Script::new(name, compiler, shared);
    let seed = variable("CUDA_BUILD_ATTACK_SEED", 11);
    let mut random = Random::new(seed);
    let out = script.package.place.join("incremental");
    let mut wrong = Vec::new();
    let start = Instant::now();
    script.check(&out).unwrap();
    let mut duration = start.elapsed();
    for round in 1..=variable("CUDA_BUILD_ATTACK_KILLS", 10) {
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
            while killed == Killed::All && group_runs(child.id()) {
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
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
}

/// Sixteen builds at once, with one directory of images.
fn crowd(compiler: Compiler) {
    let mut script = Script::new("crowd", compiler, true);
    let mut random = Random::new(13);
    for round in 0..3 {
        script.write(round);
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
        for (out, list, child) in builds {
            let built = succeeded(child.wait_with_output().unwrap());
            script.list = list;
            let compared = built.and_then(|_| script.compare(&out));
            assert_eq!(compared, Ok(()), "round {round}");
        }
    }
}

mod online {
    use super::*;

    #[test]
    #[ignore = "minutes: builds that are killed at random moments"]
    fn killed_builds_leave_nothing_wrong() {
        for compiler in [Compiler::Nvrtc13, Compiler::Nvcc13] {
            killed("killed", compiler, false, Killed::All);
            killed("killed-shared", compiler, true, Killed::All);
        }
    }

    #[test]
    #[ignore = "minutes: programs of killed builds that go on"]
    fn programs_of_killed_builds_change_nothing() {
        killed("outlive-script", Compiler::Nvcc13, false, Killed::Script);
        killed("outlive-cargo", Compiler::Nvrtc13, false, Killed::Cargo);
        killed("outlive-cargo", Compiler::Nvcc13, false, Killed::Cargo);
    }

    #[test]
    #[ignore = "minutes: sixteen builds at once"]
    fn builds_that_share_images_at_once() {
        crowd(Compiler::Nvrtc13);
        crowd(Compiler::Nvcc13);
    }
}
