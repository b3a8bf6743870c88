//! One root out of packages: a view beside `cp -rs` and lndir, which is what Nix's `symlinkJoin`
//! runs. All link to the same files, in a directory that is not there before.

use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use cuda_build::Component;
use cuda_build::internal::select::{Need, Part, Request};
use cuda_build::internal::{Env, Root, Search, Target, ViewPlace};

use crate::measure::{Used, machine, measured, median, print_table};

/// One way to a root.
struct Way {
    name: &'static str,
    /// Whether the root is there before, and is to stay as it is.
    warm: bool,
    command: fn(&Places) -> Command,
}

struct Places {
    /// The directory that wheels of CUDA 13 share: `nvidia/cu13`.
    packages: PathBuf,
    site_packages: PathBuf,
    root: PathBuf,
    scratch: PathBuf,
    program: PathBuf,
    lndir: PathBuf,
}

const WAYS: [Way; 6] = [
    Way {
        name: "cp -rs",
        warm: false,
        command: cp,
    },
    Way {
        name: "lndir",
        warm: false,
        command: lndir,
    },
    Way {
        name: "cargo cuda view, cold",
        warm: false,
        command: view,
    },
    Way {
        name: "cargo cuda view, warm",
        warm: true,
        command: view,
    },
    Way {
        name: "(cargo-cuda, doing nothing)",
        warm: true,
        command: nothing,
    },
    Way {
        name: "(`true`, as a process)",
        warm: true,
        command: |_| Command::new("true"),
    },
];

fn cp(places: &Places) -> Command {
    let mut command = Command::new("cp");
    command.arg("-rs").arg(&places.packages).arg(&places.root);
    command
}

/// It wants its destination to be there.
fn lndir(places: &Places) -> Command {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "mkdir \"$3\" && exec \"$1\" -silent \"$2\" \"$3\"",
        "sh",
    ]);
    command
        .arg(&places.lndir)
        .arg(&places.packages)
        .arg(&places.root);
    command
}

fn view(places: &Places) -> Command {
    let mut command = Command::new(&places.program);
    command.args(["cuda", "view", "--output"]).arg(&places.root);
    // Nothing of this machine's: the packages alone, and a cache directory of its own.
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("CUDA_BUILD_ROOTS", &places.site_packages);
    command
        .env("CUDA_BUILD_CACHE_DIR", places.scratch.join("cache"))
        .current_dir(&places.scratch);
    command
}

fn nothing(places: &Places) -> Command {
    let mut command = Command::new(&places.program);
    command.args(["cuda", "--version"]).env_clear();
    command
}

/// # Errors
/// There are no wheels of CUDA 13, no lndir, or no `cargo-cuda` was built.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let usage = "peers view <site-packages> <lndir> [rounds]";
    let [site_packages, lndir, rest @ ..] = arguments else {
        return Err(usage.into());
    };
    let rounds: usize = rest.first().map_or(Ok(21), |text| text.parse())?;
    let site_packages = std::path::absolute(site_packages)?;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/cargo-cuda");
    if !program.is_file() {
        return Err("first: cargo build --release -p cargo-cuda".into());
    }
    // On the disk of the packages.
    let scratch = tempfile::tempdir_in(&site_packages)?;
    let places = Places {
        packages: site_packages.join("nvidia/cu13"),
        root: scratch.path().join("root"),
        scratch: scratch.path().to_owned(),
        program: program.canonicalize()?,
        lndir: std::path::absolute(lndir)?,
        site_packages,
    };
    let mut used: Vec<Vec<Used>> = WAYS.iter().map(|_| Vec::new()).collect();
    let mut made = [(0, 0); WAYS.len()];
    for _ in 0..rounds {
        for (index, way) in WAYS.iter().enumerate() {
            let _ = fs::remove_dir_all(&places.root);
            if way.warm {
                measured(&mut view(&places))?;
            }
            let before = newest(&places.root)?;
            used[index].push(measured(&mut (way.command)(&places))?.0);
            if way.warm && newest(&places.root)? != before {
                return Err(format!("{} wrote into the root", way.name).into());
            }
            made[index] = if way.warm {
                (0, 0)
            } else {
                count(&places.root)?
            };
        }
    }
    let (files, directories) = count(&places.packages)?;
    println!(
        "{}; {rounds} rounds, medians; {files} files in {directories} directories\n",
        machine()
    );
    report(&used, &made);
    let (least, middle) = in_process(&places)?;
    println!(
        "\nin a process that runs already, warm, of 100: least {least:.2} ms wall, median {middle:.2} ms"
    );
    Ok(())
}

/// What a build script pays that has its toolkit: [`cuda_build::Toolkit::view`] of a whole view.
fn in_process(places: &Places) -> Result<(f64, f64), Box<dyn Error>> {
    let request = Request {
        alternatives: vec![vec![Need::new(
            Component::Cudart,
            Part::Headers,
            "to measure",
        )]],
        take_everything: true,
        ..Request::default()
    };
    let target = Target::from_triple("x86_64-unknown-linux-gnu")?;
    let (root, env) = (Root::system(), Env::default());
    let search = Search {
        root: &root,
        env: &env,
        target: &target,
        places: vec![places.site_packages.clone()],
    };
    let toolkit = search.find(&request)?;
    let place = ViewPlace::at(&places.scratch.join("in-process"), &target);
    toolkit.view(&place, &Root::system())?;
    let mut wall = Vec::new();
    for _ in 0..100 {
        let start = Instant::now();
        if toolkit.view(&place, &Root::system())?.was_made() {
            return Err("a whole view was made again".into());
        }
        wall.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let least = wall.iter().copied().fold(f64::INFINITY, f64::min);
    Ok((least, median(wall)))
}

fn report(used: &[Vec<Used>], made: &[(usize, usize)]) {
    let head = [
        "way",
        "links and files",
        "directories",
        "CPU ms",
        "wall ms",
        "CPU beside cp -rs",
        "wall beside cp -rs",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    let medians: Vec<(f64, f64)> = used
        .iter()
        .map(|used| {
            let of = |value: &dyn Fn(&Used) -> f64| median(used.iter().map(value).collect()) * 1e3;
            (
                of(&|used| used.cpu.as_secs_f64()),
                of(&|used| used.wall.as_secs_f64()),
            )
        })
        .collect();
    for ((way, (cpu, wall)), (files, directories)) in WAYS.iter().zip(&medians).zip(made) {
        table.push(vec![
            way.name.to_owned(),
            files.to_string(),
            directories.to_string(),
            format!("{cpu:.2}"),
            format!("{wall:.2}"),
            format!("{:.2}", cpu / medians[0].0),
            format!("{:.2}", wall / medians[0].1),
        ]);
    }
    print_table(&table);
}

/// Everything that is no directory, and directories with the topmost.
fn count(directory: &Path) -> std::io::Result<(usize, usize)> {
    let (mut files, mut directories) = (0, 1);
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let (inner, below) = count(&entry.path())?;
            files += inner;
            directories += below;
        } else {
            files += 1;
        }
    }
    Ok((files, directories))
}

/// The last change of anything below, in nanoseconds; links are not followed.
fn newest(directory: &Path) -> std::io::Result<i128> {
    let Ok(own) = fs::symlink_metadata(directory) else {
        return Ok(0);
    };
    let mut newest = i128::from(own.ctime()) * 1_000_000_000 + i128::from(own.ctime_nsec());
    if own.is_dir() {
        for entry in fs::read_dir(directory)? {
            newest = newest.max(self::newest(&entry?.path())?);
        }
    }
    Ok(newest)
}
