//! What it costs to have a crate as the only build dependency, nothing compiled before.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use crate::measure::{Used, cargo, machine, measured, median, print_table};

/// Name, and what stands after `=` in the manifest; for cuda-build, what stands beside its path. The
/// first is the one that all are compared with; the last is what a build script costs by itself.
const PEERS: [(&str, &str); 8] = [
    ("cuda-build", ""),
    (
        "cuda-build",
        ", default-features = false, features = [\"view\"]",
    ),
    ("cuda-build", ", default-features = false"),
    ("cmake", "\"0.1\""),
    ("cc", "\"1\""),
    ("bindgen_cuda", "\"0.1\""),
    ("cudaforge", "\"0.1\""),
    ("(no dependency)", ""),
];

struct Peer {
    /// The name, and the features of cuda-build.
    name: String,
    directory: PathBuf,
    version: String,
    crates: usize,
    cpu: Vec<f64>,
    wall: Vec<f64>,
}

/// # Errors
/// A crate that can't be fetched or built.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let rounds: usize = arguments.first().map_or(Ok(3), |text| text.parse())?;
    let place = tempfile::tempdir()?;
    let mut peers = Vec::new();
    for (number, (name, requirement)) in PEERS.into_iter().enumerate() {
        let directory = place.path().join(number.to_string());
        peers.push(prepare(place.path(), directory, name, requirement)?);
    }
    for round in 0..rounds {
        // Interleaved, so that a slow minute of the machine meets everyone.
        for peer in &mut peers {
            let target = place.path().join("target");
            let (Used { cpu, wall }, _) =
                measured(cargo(&peer.directory, &target).args(["build", "--offline", "--locked"]))?;
            fs::remove_dir_all(&target)?;
            eprintln!(
                "round {} of {rounds}: {} {:.2} s",
                round + 1,
                peer.name,
                cpu.as_secs_f64()
            );
            peer.cpu.push(cpu.as_secs_f64());
            peer.wall.push(wall.as_secs_f64());
        }
    }
    print(&peers, rounds);
    Ok(())
}

/// Writes the crate and fetches what it needs, so that the measurement has no download in it.
fn prepare(
    place: &Path,
    directory: PathBuf,
    name: &str,
    requirement: &str,
) -> Result<Peer, Box<dyn Error>> {
    fs::create_dir_all(directory.join("src"))?;
    let is_crate = !name.starts_with('(');
    let dependency = match (is_crate, requirement) {
        (false, _) => String::new(),
        (true, features) if name == "cuda-build" => {
            format!("{name} = {{ path = {:?}{features} }}\n", own())
        }
        (true, requirement) => format!("{name} = {requirement}\n"),
    };
    let manifest = format!(
        "[package]\nname = \"cold\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
         [build-dependencies]\n{dependency}"
    );
    fs::write(directory.join("Cargo.toml"), manifest)?;
    fs::write(directory.join("src/lib.rs"), "")?;
    // Named, so that it is linked into the script as in real use.
    let used = if is_crate {
        format!("use {} as _;\n", name.replace('-', "_"))
    } else {
        String::new()
    };
    fs::write(
        directory.join("build.rs"),
        format!("{used}fn main() {{}}\n"),
    )?;
    let target = place.join("target");
    measured(cargo(&directory, &target).arg("generate-lockfile"))?;
    measured(cargo(&directory, &target).args(["fetch", "--locked"]))?;
    let tree = [
        "tree",
        "--offline",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ];
    let (_, text) = measured(cargo(&directory, &target).args(tree))?;
    // `name v1.2.3 (path) (*)`: a crate can stand in the tree many times.
    let crates: BTreeSet<Vec<&str>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(' ').take(2).collect())
        .filter(|c: &Vec<_>| c.len() == 2)
        .collect();
    let version = crates
        .iter()
        .find(|c| c[0] == name)
        .map_or("", |c| c[1])
        .trim_start_matches('v')
        .to_owned();
    let shown = match requirement.split_once("default-features = false") {
        Some((_, "")) => format!("{name}, no features"),
        Some((_, features)) => format!("{name}{features}"),
        None => name.to_owned(),
    };
    Ok(Peer {
        name: shown,
        directory,
        version,
        crates: crates.len(),
        cpu: Vec::new(),
        wall: Vec::new(),
    })
}

fn own() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cuda-build");
    path.canonicalize().unwrap_or(path)
}

fn print(peers: &[Peer], rounds: usize) {
    let median_of = |values: &[f64]| median(values.to_vec());
    let own = median_of(&peers[0].cpu);
    let mut rows = vec![
        [
            "build dependency",
            "version",
            "crates",
            "CPU s, median",
            "least",
            "most",
            "CPU beside cuda-build",
            "wall s",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for peer in peers {
        let cpu = median_of(&peer.cpu);
        rows.push(vec![
            peer.name.clone(),
            peer.version.clone(),
            peer.crates.to_string(),
            format!("{cpu:.2}"),
            format!(
                "{:.2}",
                peer.cpu.iter().copied().fold(f64::INFINITY, f64::min)
            ),
            format!("{:.2}", peer.cpu.iter().copied().fold(0.0, f64::max)),
            format!("{:.2}", cpu / own),
            format!("{:.2}", median_of(&peer.wall)),
        ]);
    }
    println!(
        "Cold builds (`cargo build`, debug), {rounds} rounds, {}:\n",
        machine()
    );
    print_table(&rows);
}
