//! Two parts of compiling, each as a whole process: a small module, and a build from kept images.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use cuda_build::internal::fatbin::elf::difference;
use cuda_build::{Build, Engine, Library, Module};

use crate::measure::{Used, machine, measured, median, print_table};
use crate::rebuild::project::{FILES, Project};
use crate::rebuild::toolkit::Counted;
use crate::rebuild::ways::WAYS;

const SAXPY: &str = r#"
extern "C" __global__ void saxpy(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"#;

const FOUR: [&str; 4] = ["80", "86", "89", "90"];

/// What one process used, once for each round.
#[derive(Default)]
struct Series {
    cpu: Vec<f64>,
    wall: Vec<f64>,
}

impl Series {
    fn add(&mut self, command: &mut Command) -> Result<(), Box<dyn Error>> {
        let (Used { cpu, wall }, _) = measured(command)?;
        self.cpu.push(cpu.as_secs_f64() * 1000.0);
        self.wall.push(wall.as_secs_f64() * 1000.0);
        Ok(())
    }

    /// A row of a table: the medians, and their ratios to another series.
    fn row(&self, name: &str, other: &Self) -> Vec<String> {
        let [cpu, wall] = [&self.cpu, &self.wall].map(|values| median(values.clone()));
        vec![
            name.to_owned(),
            format!("{cpu:.1}"),
            format!("{wall:.1}"),
            format!("{:.3}", cpu / median(other.cpu.clone())),
            format!("{:.3}", wall / median(other.wall.clone())),
        ]
    }
}

fn head(first: &str, other: &str) -> Vec<String> {
    vec![
        first.to_owned(),
        "CPU ms".to_owned(),
        "wall ms".to_owned(),
        format!("CPU beside {other}"),
        format!("wall beside {other}"),
    ]
}

/// What a build script does; the variables of the process are those of a build script.
///
/// # Errors
/// Those of [`Build::run`].
pub fn build_once(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let build = match arguments.first().map(String::as_str) {
        Some("module") => {
            let source = arguments.get(1).ok_or("no source")?;
            let module = Module::new(source).engine(Engine::Nvrtc);
            Build::new()?.module(module.std("c++17"))
        }
        Some("library") => {
            let files = (0..FILES).map(|index| format!("kernels/k{index:02}.cu"));
            Build::new()?.library(Library::new("kernels").include("kernels").files(files))
        }
        _ => return Err("usage: peers build-once module FILE | library".into()),
    };
    build.run()?;
    Ok(())
}

/// Modules by NVRTC, beside nvcc: a small one, or the files that are named, each with its directory.
///
/// # Errors
/// No toolkit, a file that can't be read, or a compiler that fails.
pub fn module(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let (rounds, files) = match arguments.split_first() {
        Some((first, files)) => (first.parse()?, files),
        None => (11, arguments),
    };
    let place = tempfile::tempdir()?;
    let toolkit = Counted::new(&place.path().join("cuda"))?;
    let small = place.path().join("saxpy.cu");
    fs::write(&small, SAXPY)?;
    let mut table = vec![head("a module by", "nvcc")];
    if files.is_empty() {
        table.extend(beside_nvcc(
            &toolkit,
            &place.path().join("0"),
            &small,
            rounds,
        )?);
    }
    for (index, file) in files.iter().enumerate() {
        let package = place.path().join(index.to_string());
        table.extend(beside_nvcc(&toolkit, &package, Path::new(file), rounds)?);
    }
    println!(
        "Modules for sm_80, nvcc {}, {}. Median of {rounds} interleaved rounds.\n",
        toolkit.version,
        machine()
    );
    print_table(&table);
    Ok(())
}

/// Two rows: one source by NVRTC and by nvcc.
fn beside_nvcc(
    toolkit: &Counted,
    package: &Path,
    source: &Path,
    rounds: usize,
) -> Result<[Vec<String>; 2], Box<dyn Error>> {
    fs::create_dir_all(package)?;
    fs::write(
        package.join("Cargo.toml"),
        "[package]\nname = \"x\"\n\n[workspace]\n",
    )?;
    for entry in fs::read_dir(source.parent().ok_or("a source has no directory")?)? {
        let path = entry?.path();
        if path.is_file() {
            fs::copy(&path, package.join(path.file_name().unwrap_or_default()))?;
        }
    }
    let name = source.file_name().unwrap_or_default();
    let (mut nvrtc, mut nvcc) = (Series::default(), Series::default());
    for round in 0..=rounds {
        let out = package.join(format!("out-{round}"));
        let mut own = script(toolkit, package, &out, &["80"])?;
        let mut other = Command::new(toolkit.nvcc());
        other
            .current_dir(package)
            .args([
                "-fatbin",
                "-std=c++17",
                "-gencode=arch=compute_80,code=sm_80",
                "-o",
            ])
            .arg(out.join("nvcc.fatbin"))
            .arg(name);
        own.arg("module").arg(name);
        // The first round queries nvcc, once per machine.
        if round == 0 {
            measured(&mut own)?;
        } else {
            nvrtc.add(&mut own)?;
            nvcc.add(&mut other)?;
        }
    }
    let title = |by: &str| format!("{by}, {}", name.to_string_lossy());
    Ok([
        nvrtc.row(&title("cuda-build, NVRTC, search included"), &nvcc),
        nvcc.row(&title("nvcc -fatbin"), &nvcc),
    ])
}

/// A final build from the directories of four machines, beside compiling everything.
///
/// # Errors
/// No toolkit, or a build that fails.
pub fn images(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let rounds: usize = arguments.first().map_or(Ok(3), |text| text.parse())?;
    let place = tempfile::tempdir()?;
    let toolkit = Counted::new(&place.path().join("cuda"))?;
    let package = place.path().join("package");
    Project::write(&package, &WAYS[0])?;
    let images = place.path().join("images");
    for capability in FOUR {
        let out = package.join(format!("out-{capability}"));
        let mut job = script(&toolkit, &package, &out, &[capability])?;
        // Each job has a directory of its own; putting them together is the union of their files.
        let own = place.path().join(format!("images-{capability}"));
        measured(job.arg("library").env("CUDA_BUILD_IMAGES", &own))?;
        copy_files(&own, &images)?;
    }
    let (mut first, mut kept, mut compiled) = <(Series, Series, Series)>::default();
    let build = |series: &mut Series, name: &str, images: Option<&Path>| {
        let mut command = script(&toolkit, &package, &package.join(name), &FOUR)?;
        if let Some(images) = images {
            command.env("CUDA_BUILD_IMAGES", images);
        }
        toolkit.forget()?;
        series.add(command.arg("library"))?;
        Ok::<_, Box<dyn Error>>(toolkit.calls()?)
    };
    // The first build that joins images checks, once per machine, that this nvcc allows it.
    build(&mut first, "first", Some(&images))?;
    let mut calls = None;
    for round in 0..rounds {
        let from_kept = build(&mut kept, &format!("kept-{round}"), Some(&images))?;
        let from_nothing = build(&mut compiled, &format!("compiled-{round}"), None)?;
        calls = Some((from_kept, from_nothing));
    }
    let (from_kept, from_nothing) = calls.ok_or("no rounds")?;
    let same = same_objects(&package.join("kept-0"), &package.join("compiled-0"))?;
    println!(
        "Twelve `.cu` files for {} capabilities, nvcc {}, {}. Median of {rounds} interleaved rounds. Files and images \
         compiled: {}+{} and {}+{}; objects that are equal: {same} of {FILES}.\n",
        FOUR.len(),
        toolkit.version,
        machine(),
        from_kept.files,
        from_kept.images,
        from_nothing.files,
        from_nothing.images,
    );
    print_table(&[
        head("a build", "compiling"),
        kept.row("from four full directories", &compiled),
        first.row("the same, the first on a machine", &compiled),
        compiled.row("by compiling", &compiled),
    ]);
    Ok(())
}

/// This program as a build script.
fn script(
    toolkit: &Counted,
    package: &Path,
    out: &Path,
    capabilities: &[&str],
) -> Result<Command, Box<dyn Error>> {
    fs::create_dir_all(out)?;
    let declared: Vec<String> = capabilities
        .iter()
        .map(|name| format!("sm_{name}"))
        .collect();
    let mut command = Command::new(std::env::current_exe()?);
    toolkit.export(&mut command);
    command
        .current_dir(package)
        .arg("build-once")
        .env("CARGO_MANIFEST_DIR", package)
        .env("OUT_DIR", out)
        .env("TARGET", "x86_64-unknown-linux-gnu")
        .env("HOST", "x86_64-unknown-linux-gnu")
        .env("OPT_LEVEL", "0")
        .env(
            "NUM_JOBS",
            std::thread::available_parallelism()?.to_string(),
        )
        .env("CUDA_BUILD_CAPABILITIES", declared.join(","))
        .env("CUDA_BUILD_CACHE_DIR", package.with_file_name("cache"));
    Ok(command)
}

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// How many objects in two directories are the same, as host code, symbols and device code.
fn same_objects(one: &Path, other: &Path) -> std::io::Result<usize> {
    let mut same = 0;
    for entry in fs::read_dir(one)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "o")
            && let Some(name) = path.file_name()
            && difference(&fs::read(&path)?, &fs::read(other.join(name))?).is_none()
        {
            same += 1;
        }
    }
    Ok(same)
}
