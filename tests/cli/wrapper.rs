//! The nvcc wrapper: build scripts that call nvcc themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::fatbin::elf;

use crate::build::cuobjdump;
use crate::project::Project;
use crate::support::Finished;

/// Calls nvcc as build helpers do: for the one capability in `CUDA_COMPUTE_CAP`.
const SCRIPT: &str = r#"
use std::process::Command;

fn nvcc(line: &str) {
    println!("cargo::rerun-if-changed=src");
    let out = std::env::var("OUT_DIR").unwrap();
    let capability = std::env::var("CUDA_COMPUTE_CAP").unwrap_or("80".to_owned());
    let words = line.split(' ').map(|word| word.replace("OUT", &out).replace("CAP", &capability));
    let done = Command::new(std::env::var("NVCC").unwrap()).args(words).output().unwrap();
    if !done.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&done.stderr));
        std::process::exit(40 + done.status.code().unwrap());
    }
    std::fs::write(format!("{out}/printed"), &done.stderr).unwrap();
}

fn main() {
    nvcc("-arch=sm_CAP -c src/kernel.cu -o OUT/kernel.o -MD -MF OUT/kernel.d -MT target");
    nvcc("--gpu-architecture=sm_CAP --ptx src/kernel.cu --output-directory OUT");
    nvcc("-arch=sm_75 -fatbin src/kernel.cu -o OUT/other.fatbin");
    nvcc("-arch=sm_CAP -dc src/kernel.cu -o OUT/relocatable.o");
}
"#;

const KERNEL: &str =
    "#include \"value.cuh\"\n__global__ void kernel(int *p) { int unused; *p = VALUE; }\n";

fn project(name: &str, declared: &str) -> Project {
    let project = Project::bare_at(name, name, &[13]);
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
         [package.metadata.cuda]\n{declared}\n"
    );
    project.write("Cargo.toml", &manifest);
    project.write("build.rs", SCRIPT);
    project.write("src/main.rs", "fn main() {}\n");
    project.write("src/kernel.cu", KERNEL);
    project.write("src/value.cuh", "#define VALUE 1\n");
    project
}

/// The wrapper of the last build, and nvcc itself.
fn compilers(project: &Project) -> [PathBuf; 2] {
    let view = project.target.join("cargo-cuda/latest/.cuda/view");
    ["bin/nvcc", "nvcc/bin/nvcc"].map(|name| view.join(name))
}

/// Lines about compilers that a command starts: `kernel.cu for 8.0, 9.0`.
fn compiled(run: &Finished) -> Vec<String> {
    let lines = run
        .stderr
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("Compiling kernel.cu"));
    let mut lines: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
    lines.sort();
    lines
}

mod online {
    use super::*;

    #[test]
    fn a_script_for_one_capability_gets_the_list_and_kept_outputs() {
        let list = "capabilities = [\"8.0\", \"9.0\", \"12.0+PTX\"]";
        let project = project("wrapped", list);
        let build = |arguments: &[&str]| {
            let run = project.run(&[&["build"], arguments].concat());
            run.succeeded();
            compiled(&run)
        };
        let files = [
            "kernel.o",
            "kernel.ptx",
            "other.fatbin",
            "kernel.d",
            "printed",
        ];
        let outputs = || files.map(|name| fs::read(project.out("wrapped").join(name)).unwrap());
        let first = build(&[]);
        assert_eq!(first.len(), 4, "{first:?}");
        assert_eq!(first[3], "for 8.0, 9.0, 12.0+PTX (wrapped)");
        let out = project.out("wrapped");
        let all = "sm_120.cubin sm_120.ptx sm_80.cubin sm_90.cubin";
        assert_eq!(cuobjdump(&out.join("kernel.o")).join(" "), all);
        assert!(String::from_utf8_lossy(&outputs()[1]).contains(".target sm_80"));
        assert_eq!(
            cuobjdump(&out.join("other.fatbin")),
            ["sm_75.cubin", "sm_75.ptx"]
        );
        let depfile = String::from_utf8(outputs()[3].clone()).unwrap();
        assert!(
            depfile.starts_with("target : \\\n    src/kernel.cu"),
            "{depfile}"
        );
        assert!(depfile.contains("src/value.cuh"), "{depfile}");
        assert!(
            String::from_utf8_lossy(&outputs()[4]).contains("was declared but never referenced")
        );

        // Nothing is compiled twice, and everything is as it was.
        let before = outputs();
        fs::remove_dir_all(&project.target).unwrap();
        assert_eq!(build(&[]), [""; 0]);
        assert!(outputs() == before);

        project.write_later("src/value.cuh", "#define VALUE 2\n");
        assert_eq!(build(&[]).len(), 4);
        assert!(outputs()[0] != before[0]);
        project.write_later("src/value.cuh", "#define VALUE 1\n");
        build(&[]);
        assert!(outputs() == before);

        // An added capability is compiled alone, and joined as nvcc would.
        let added = ["--capabilities", "8.0,9.0,10.0,12.0+PTX"];
        let line = "for 10.0 (wrapped; a capability was added)";
        assert_eq!(build(&added), [line, line]);
        let objects = ["kernel.o", "relocatable.o"];
        let objects = || objects.map(|name| fs::read(project.out("wrapped").join(name)).unwrap());
        let joined = objects();
        fs::remove_dir_all(project.path.with_extension("images")).unwrap();
        fs::remove_dir_all(&project.target).unwrap();
        assert_eq!(build(&added).len(), 4);
        for (whole, joined) in objects().iter().zip(&joined) {
            assert_eq!(elf::difference(whole, joined), None);
        }

        let run = Finished::of(
            project
                .command(&["build"])
                .env("CUDA_BUILD_WRAPPER", "0")
                .output()
                .unwrap(),
        );
        run.succeeded();
        let code = cuobjdump(&project.out("wrapped").join("kernel.o"));
        assert_eq!(code, ["sm_80.cubin", "sm_80.ptx"]);
    }

    #[test]
    fn errors_are_those_of_nvcc() {
        let project = project("wrapped-errors", "capabilities = [\"8.0\", \"9.0\"]");
        let wrong =
            "__global__ void kernel(int *p) {\n#if __CUDA_ARCH__ == 900\n    wrong;\n#endif\n}\n";
        project.write("src/kernel.cu", wrong);
        let run = project.run(&["build"]);
        let note = "src/kernel.cu is compiled for 8.0, 9.0, and it fails for 9.0";
        let key = "below `[workspace.metadata.cuda.package.wrapped-errors]`";
        run.ended_with(
            101,
            &["exit status: 41", "src/kernel.cu(3): error", note, key],
        );
        assert!(
            run.stderr.find("(3): error") < run.stderr.find(note),
            "{run:?}"
        );

        // What is not for one package is not for another one.
        let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
        let table = "[workspace.metadata.cuda.package.wrapped-errors]\ncapabilities = [\"8.0\"]\n";
        project.write("Cargo.toml", &(manifest + table));
        let run = project.run(&["build"]);
        run.succeeded();
        // The list is what the script requests, so nvcc embeds PTX as it always does.
        let code = cuobjdump(&project.out("wrapped-errors").join("kernel.o"));
        assert_eq!(code, ["sm_80.cubin", "sm_80.ptx"]);
    }

    /// Each call through the wrapper ends as the call of nvcc does.
    #[test]
    #[ignore = "minutes: calls of every kind, beside nvcc itself"]
    fn unusual_calls_reach_nvcc() {
        let project = project("wrapped-calls", "capabilities = [\"8.0\", \"9.0\"]");
        project.run(&["build"]).succeeded();
        let [wrapper, nvcc] = compilers(&project);
        let place = project.path.join("it's, a place");
        fs::create_dir_all(place.join("sub")).unwrap();
        fs::write(
            place.join("k.cu"),
            "__global__ void k(int *p) { *p = 1; }\n",
        )
        .unwrap();
        fs::write(place.join("m.cu"), "int main() { return 0; }\n").unwrap();
        fs::write(place.join("options"), "-arch=sm_80 -c k.cu -o by_file.o\n").unwrap();
        for line in [
            "--version",
            "-arch=sm_80 -E k.cu",
            "-arch=sm_80 -M k.cu",
            "-arch=sm_80 --dryrun -c k.cu",
            "-arch=sm_80 -c k.cu",
            "-arch=sm_80 -c k.cu m.cu",
            "-arch=sm_80 -c k.cu -o /dev/null",
            "-arch=sm_80 -c k.cu -o absent/k.o",
            "-arch=sm_80 -c k.cu -odir sub",
            "-optf options",
            "-arch=sm_80 m.cu -o program",
            "-arch=sm_80 -c absent.cu",
            "-arch=sm_10 -c k.cu",
            "-an-unknown-option -c k.cu",
            "-lib k.o -o libk.a",
            "",
        ] {
            let call = |program: &Path| {
                let words = line.split(' ').filter(|word| !word.is_empty());
                let done = Command::new(program)
                    .args(words)
                    .current_dir(&place)
                    .output()
                    .unwrap();
                let mut files: Vec<_> = fs::read_dir(&place)
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name())
                    .collect();
                files.extend(
                    fs::read_dir(place.join("sub"))
                        .unwrap()
                        .map(|entry| entry.unwrap().file_name()),
                );
                files.sort();
                for file in &files {
                    let _ = fs::remove_file(place.join("sub").join(file));
                    if ![".cu", "options", "sub", "k.o"]
                        .iter()
                        .any(|end| file.to_str().unwrap().ends_with(end))
                    {
                        fs::remove_file(place.join(file)).unwrap();
                    }
                }
                (done.status.code(), files)
            };
            assert_eq!(call(&wrapper), call(&nvcc), "{line}");
        }
        // A store that cannot be read or written is no reason to fail.
        let store = project.path.join("no-directory");
        fs::write(&store, "").unwrap();
        let mut compile = Command::new(&wrapper);
        compile
            .args(["-arch=sm_80", "-c", "k.cu"])
            .current_dir(&place);
        let done = Finished::of(compile.env("CUDA_BUILD_IMAGES", &store).output().unwrap());
        done.ended_with(0, &["note: what nvcc makes is not kept", "no-directory"]);
        assert_eq!(
            fs::metadata(&wrapper).unwrap().permissions().mode() & 0o777,
            0o755
        );
    }

    #[test]
    fn a_refused_host_compiler_is_replaced() {
        let project = project("wrapped-host", "capabilities = [\"8.0\", \"9.0\"]");
        project.run(&["build"]).succeeded();
        let bin = project.path.join("bin");
        for name in ["cc", "c++", "gcc", "g++"] {
            let too_new =
                format!("#!/bin/sh\nexec /usr/bin/{name} -U__GNUC__ -D__GNUC__=99 \"$@\"\n");
            project.write(&format!("bin/{name}"), &too_new);
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(bin.join(name), mode).unwrap();
        }
        let accepted = bin.join("g++-7");
        std::os::unix::fs::symlink("/usr/bin/g++", &accepted).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        for variable in ["NVCC_CCBIN", "CUDAHOSTCXX"] {
            let mut print = project.command(&["exec", "-q", "--", "printenv", variable]);
            let printed = Finished::of(print.env("PATH", &path).output().unwrap());
            assert_eq!(Path::new(printed.stdout.trim()), accepted, "{printed:?}");
        }
        let [wrapper, _] = compilers(&project);
        let mut call = Command::new(wrapper);
        call.args("-ccbin c++ -arch=sm_80 -c src/kernel.cu".split(' '));
        call.current_dir(&project.path);
        call.env("PATH", &path).env("NVCC_CCBIN", &accepted);
        let done = Finished::of(call.output().unwrap());
        done.ended_with(0, &["note: -ccbin c++ is left out"]);
    }
}
