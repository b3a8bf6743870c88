//! A bundle with several builds: which one is started on which machine. Stubs of the driver's library answer as the
//! driver of any machine would.

mod online {
    use std::fs;
    use std::os::unix::process::CommandExt as _;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use serde_json::Value;

    use crate::project::Project;
    use crate::support::Finished;

    const BUILD: &str = r#"
fn main() {
    if std::env::var_os("CARGO_FEATURE_CUDA").is_some() {
        cuda_build::Build::new().unwrap().module("kernels/add.cu").run().unwrap();
    }
    println!("cargo::rustc-env=COMPUTE_CAP={}", std::env::var("CUDA_COMPUTE_CAP").unwrap_or_default());
}
"#;

    /// Prints its process, its build and its arguments, and ends with a code of its own.
    const MAIN: &str = r#"
#[cfg(feature = "cuda")]
#[allow(dead_code, unused)]
mod kernels {
    include!(concat!(env!("OUT_DIR"), "/cuda_build.rs"));
}
fn main() {
    #[cfg(feature = "cuda")]
    std::hint::black_box(&kernels::modules::ADD);
    let arguments: Vec<String> = std::env::args().collect();
    let build = std::env::var("CUDA_BUNDLE_CHOSEN").unwrap();
    println!("{} {build} {} {}", std::process::id(), arguments.join(" "), env!("COMPUTE_CAP"));
    std::process::exit(7);
}
"#;

    const KERNEL: &str = "extern \"C\" __global__ void add(float *x) { x[threadIdx.x] += 1; }\n";

    /// Answers with the release in `STUB_CUDA`, the error in `STUB_ERROR` and the GPUs in `STUB_GPUS`, as in `80,90`.
    const DRIVER: &str = r#"
#include <stdlib.h>
#include <string.h>
static int error(void) { const char *e = getenv("STUB_ERROR"); return e ? atoi(e) : 0; }
static int gpu(int index) {
    const char *at = getenv("STUB_GPUS");
    for (; index && at; index--) { at = strchr(at, ','); at = at ? at + 1 : 0; }
    return at ? atoi(at) : 0;
}
int cuDriverGetVersion(int *version) {
    *version = atoi(getenv("STUB_CUDA"));
    return error() == 34 ? 34 : 0;
}
int cuInit(unsigned flags) { return error(); }
int cuDeviceGetCount(int *count) { for (*count = 0; gpu(*count); ++*count) {} return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? gpu(device) / 10 : gpu(device) % 10;
    return 0;
}
"#;

    fn driver(directory: &Path, source: &str) -> PathBuf {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("driver.c"), source).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-shared", "-fPIC", "-o", "libcuda.so.1", "driver.c"]);
        assert!(gcc.current_dir(directory).status().unwrap().success());
        directory.to_owned()
    }

    /// A machine: CUDA release of the driver, error of `cuInit`, GPUs.
    type Machine<'a> = (&'a str, &'a str, &'a str);

    fn command(program: &Path, driver: &Path, (cuda, error, gpus): Machine<'_>) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_LIBRARY_PATH", driver)
            .env_remove("CUDA_VISIBLE_DEVICES");
        command
            .env("STUB_CUDA", cuda)
            .env("STUB_ERROR", error)
            .env("STUB_GPUS", gpus);
        command
    }

    fn start(program: &Path, driver: &Path, machine: Machine<'_>) -> Finished {
        Finished::of(
            command(program, driver, machine)
                .arg("--bundle-info")
                .arg("x")
                .output()
                .unwrap(),
        )
    }

    /// The names and sizes of all files below a directory.
    fn sizes(directory: &Path) -> Vec<(PathBuf, u64)> {
        let mut found = Vec::new();
        let mut directories = vec![directory.to_owned()];
        while let Some(next) = directories.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                let metadata = fs::symlink_metadata(&path).unwrap();
                assert!(!metadata.is_symlink(), "{}", path.display());
                match metadata.is_dir() {
                    true => directories.push(path),
                    false => {
                        let below = path.strip_prefix(directory).unwrap().to_owned();
                        found.push((below, metadata.len()));
                    }
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    #[ignore = "a minute: twenty builds"]
    fn a_bundle_starts_the_build_for_the_machine() {
        let list = "capabilities = [\"8.0\", \"8.6\", \"9.0+PTX\", \"10.0a\"]\n";
        let project = Project::new("choosing", &[12, 13], list, BUILD, MAIN).alone(&[12, 13]);
        project.write("kernels/add.cu", KERNEL);
        let manifest = project.path.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap()
            + "[features]\ndefault = [\"cuda\"]\ncuda = []\n";
        fs::write(&manifest, &text).unwrap();
        let bundle = |output: &str| {
            let split = [
                "bundle",
                "--cuda",
                "12,13",
                "--split",
                "--profile",
                "dev",
                "--output",
                output,
            ];
            let bundled = project.run(&split);
            bundled.succeeded();
            project.path.join(output)
        };
        let bundled = bundle("dist/app");
        let program = bundled.join("bin/choosing");
        let stub = driver(&project.path.join("stub"), DRIVER);
        for (machine, expected) in [
            (("12090", "0", "80"), "cu12-sm80"),
            (("13000", "0", "80"), "cu13-sm80"),
            (("13040", "0", "86"), "cu13-sm86"),
            (("13040", "0", "89"), "cu13-sm86"),
            (("13040", "0", "90"), "cu13-sm90"),
            (("12040", "0", "90"), "cu12-sm90"),
            // Code with a letter is for this GPU alone.
            (("13040", "0", "100"), "cu13-sm100a"),
            (("13040", "0", "103"), "cu13-ptx"),
            // PTX of CUDA 13.4 needs a driver for it; that of 12.9 does not.
            (("13000", "0", "103"), "cu12-ptx"),
            (("12090", "0", "120"), "cu12-ptx"),
            // One build for all GPUs, otherwise the one for the first.
            (("13040", "0", "89,86"), "cu13-sm86"),
            (("13040", "0", "86,80"), "cu13-sm80"),
            (("13040", "0", "90,103"), "cu13-ptx"),
            (("13040", "0", "90,80"), "cu13-sm90"),
            (
                ("12040", "0", "120"),
                "that its driver (for CUDA 12.4) can run: install a driver for CUDA 12.9 or newer",
            ),
            (
                ("13040", "0", "75"),
                "no build has code for this GPU, whose compute capability is 7.5",
            ),
            (
                ("11040", "0", "80"),
                "is for CUDA 11.4, and CUDA 12.0 is needed: install driver 525.60.13",
            ),
            (("13040", "34", "80"), "is a stub of the toolkit"),
            (("13040", "100", ""), "the driver shows no GPU"),
            (("13040", "0", ""), "the driver shows no GPU"),
            (("13040", "802", "80"), "fabric manager"),
            (("13040", "803", "80"), "have different versions"),
            (("13040", "804", "80"), "compatibility package"),
            (("13040", "999", "80"), "docker run --gpus all"),
            (("13040", "46", "80"), "the driver ended with error 46"),
        ] {
            let run = start(&program, &stub, machine);
            if run.code == 7 {
                let chosen = run.stdout.split(' ').nth(1);
                assert_eq!(chosen, Some(expected), "{machine:?}: {run:?}");
                let is_for_all = machine.2 != "90,80";
                assert_eq!(run.stderr.is_empty(), is_for_all, "{machine:?}: {run:?}");
            } else {
                run.ended_with(125, &["choosing: error: ", expected]);
            }
        }
        let good: Machine<'_> = ("13040", "0", "80");
        // Without a driver, with another library of its name, and with no GPU visible.
        start(&program, &project.path, good).ended_with(125, &["driver is not installed"]);
        let other = driver(
            &project.path.join("other"),
            "int cuInit(unsigned flags) { return 0; }\n",
        );
        start(&program, &other, good).ended_with(
            125,
            &["is no driver of NVIDIA's: it has no cuDriverGetVersion"],
        );
        let mut hidden = command(&program, &stub, ("13040", "100", ""));
        let hidden = Finished::of(hidden.env("CUDA_VISIBLE_DEVICES", "").output().unwrap());
        hidden.ended_with(125, &["`CUDA_VISIBLE_DEVICES` is set"]);

        // The program has the process, the arguments and the exit code.
        let mut named = command(&program, &stub, good);
        named
            .arg0("another name")
            .args(["a", "b c"])
            .env("CUDA_BUNDLE_CHOSEN", "of another bundle");
        let child = named.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let id = child.id();
        let run = Finished::of(child.wait_with_output().unwrap());
        assert_eq!(run.code, 7);
        assert_eq!(
            run.stdout,
            format!("{id} cu13-sm80 another name a b c 80\n")
        );
        // The user overrules the choice.
        let overruled = |name: &str| {
            let mut command = command(&program, &project.path, good);
            Finished::of(command.env("CUDA_BUNDLE_BUILD", name).output().unwrap())
        };
        assert!(overruled("cu12-sm86").stdout.contains(" cu12-sm86 "));
        overruled("cu11").ended_with(
            125,
            &["`CUDA_BUNDLE_BUILD` names the build `cu11`, and there are cu12-sm80, "],
        );
        let info = |machine| {
            let mut command = command(&program, &stub, machine);
            Finished::of(command.arg("--bundle-info").output().unwrap())
        };
        let printed = info(("13040", "0", "90,80"));
        assert_eq!(printed.code, 0);
        for line in [
            "driver: CUDA 13.4",
            "GPU 1: compute capability 8.0",
            "  cu13-ptx has PTX, which the driver compiles",
            "note: the build cu13-sm90 has no code for GPU 1, whose compute capability is 8.0",
            "build: cu13-sm90",
        ] {
            assert!(
                printed.stdout.lines().any(|it| it == line),
                "{line}: {printed:?}"
            );
        }
        assert!(
            info(("13040", "0", "75"))
                .stdout
                .contains("error: no build has code")
        );

        // What describes the bundle.
        let json: Value =
            serde_json::from_str(&fs::read_to_string(bundled.join("bundle.json")).unwrap())
                .unwrap();
        assert_eq!(
            (&json["format_version"], &json["program"]),
            (&1.into(), &"bin/choosing".into())
        );
        let releases = json["builds"].as_array().unwrap().iter();
        let releases: Vec<&Value> = releases.map(|build| &build["cuda"]).collect();
        assert_eq!(releases, [["12.9"; 5], ["13.4"; 5]].concat());
        let files = json["files"].as_object().unwrap();
        let mut sizes_of_bundle = sizes(&bundled);
        sizes_of_bundle.retain(|(path, _)| path != Path::new("bundle.json"));
        let described = files
            .iter()
            .map(|(path, file)| (path.into(), file["size"].as_u64().unwrap()));
        assert_eq!(sizes_of_bundle, described.collect::<Vec<_>>());

        // A copy, and what archives unpack, start and have the same size.
        let before = sizes(&bundled);
        for script in [
            "cp -r dist/app dist/copy",
            "tar cf dist/app.tar -C dist app && mkdir dist/tar && tar xf dist/app.tar -C dist/tar && mv dist/tar/app dist/copy",
            "python3 -c 'import os, shutil, zipfile\n\
             shutil.make_archive(\"dist/app\", \"zip\", \"dist\", \"app\")\n\
             archive = zipfile.ZipFile(\"dist/app.zip\")\n\
             for entry in archive.infolist():\n    \
                 os.chmod(archive.extract(entry, \"dist/zip\"), entry.external_attr >> 16)' && mv dist/zip/app dist/copy",
        ] {
            let copied = Command::new("sh")
                .args(["-ec", script])
                .current_dir(&project.path)
                .output();
            assert_eq!(Finished::of(copied.unwrap()).code, 0, "{script}");
            let copy = project.path.join("dist/copy");
            assert_eq!(sizes(&copy), before, "{script}");
            assert_eq!(
                start(&copy.join("bin/choosing"), &stub, good).code,
                7,
                "{script}"
            );
            fs::remove_dir_all(copy).unwrap();
        }

        // The build without CUDA.
        let fallback = "[package.metadata.cuda.bundle]\nfallback = { features = [], default-features = false }\n";
        fs::write(&manifest, text + fallback).unwrap();
        let program = bundle("dist/with-fallback").join("bin/choosing");
        let run = start(&program, &project.path, good);
        assert!(run.stdout.contains(" fallback "), "{run:?}");
        let note = "starting the build without CUDA\n";
        assert!(
            run.stderr.ends_with(note) && run.stderr.lines().count() == 1,
            "{run:?}"
        );
        assert!(start(&program, &stub, good).stdout.contains(" cu13-sm80 "));
    }
}
