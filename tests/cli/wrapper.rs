//! The nvcc wrapper: build scripts that call nvcc themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::cuobjdump;
use crate::objects;
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

/// A script that makes these calls of nvcc, in which `OUT` is its `OUT_DIR` and `CAP` the value of `CUDA_COMPUTE_CAP`.
fn script(calls: &[&str]) -> String {
    let main = SCRIPT.find("fn main").unwrap();
    let calls: String = calls
        .iter()
        .map(|call| format!("    nvcc({call:?});\n"))
        .collect();
    format!("{}fn main() {{\n{calls}}}\n", &SCRIPT[..main])
}

/// Calls the wrapper of a project's last build in the project, and returns its exit status.
fn call(project: &Project, line: &str, variables: &[(&str, &str)]) -> Option<i32> {
    let [wrapper, _] = compilers(project);
    let mut call = Command::new(wrapper);
    call.args(line.split_whitespace())
        .current_dir(&project.path);
    call.env("CUDA_BUILD_IMAGES", project.path.with_extension("images"));
    call.envs(variables.iter().copied())
        .output()
        .unwrap()
        .status
        .code()
}

pub fn project(name: &str, declared: &str) -> Project {
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
pub fn compiled(run: &Finished) -> Vec<String> {
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
        let outputs = || files.map(|name| fs::read(project.made("wrapped", name)).unwrap());
        let first = build(&[]);
        assert_eq!(first.len(), 4, "{first:?}");
        let whole = "for 8.0, 9.0, 12.0+PTX (wrapped)";
        assert!(first.iter().any(|line| line == whole), "{first:?}");
        let out = project.out("wrapped", "kernel.o");
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
        let objects = || objects.map(|name| fs::read(project.made("wrapped", name)).unwrap());
        let joined = objects();
        fs::remove_dir_all(project.path.with_extension("images")).unwrap();
        fs::remove_dir_all(&project.target).unwrap();
        assert_eq!(build(&added).len(), 4);
        for (whole, joined) in objects().iter().zip(&joined) {
            assert_eq!(objects::difference(whole, joined), None);
        }

        let run = Finished::of(
            project
                .command(&["build"])
                .env("CUDA_BUILD_WRAPPER", "0")
                .output()
                .unwrap(),
        );
        run.succeeded();
        let code = cuobjdump(&project.made("wrapped", "kernel.o"));
        assert_eq!(code, ["sm_80.cubin", "sm_80.ptx"]);
    }

    /// Whatever else a call says, its output has the declared capabilities, or a note says why not.
    #[test]
    fn a_declared_capability_is_compiled_or_a_note_says_why_not() {
        let project = project("wrapped-list", "capabilities = [\"8.0\", \"9.0\"]");
        let calls = [
            "-c src/kernel.cu -o OUT/default.o",
            "-arch=sm_CAP -Xfatbin=-compress-all -t4 -src-in-ptx -c src/kernel.cu -o OUT/flags.o",
            "-arch=sm_CAP -cubin src/kernel.cu -o OUT/one.cubin",
            "-arch=sm_CAP -cubin src/kernel.cu -o OUT/two.cubin",
            "-arch=sm_75 -fatbin src/kernel.cu -o OUT/other.fatbin",
        ];
        project.write("build.rs", &script(&calls));
        let both = ["sm_80.cubin", "sm_90.cubin"];
        let images = |name: &str| cuobjdump(&project.made("wrapped-list", name));
        let build = |variables: &[(&str, &str)]| {
            let mut build = project.command(&["build"]);
            let run = Finished::of(build.envs(variables.iter().copied()).output().unwrap());
            run.succeeded();
            run.stderr
        };
        let notes = build(&[]);
        assert_eq!(images("default.o"), both);
        assert_eq!(images("flags.o"), both);
        let cubin = "note: wrapped-list: src/kernel.cu is compiled for 8.0, and not for 9.0: a cubin has code for one \
                     capability";
        let fatbin = "note: wrapped-list: src/kernel.cu is compiled for 7.5+PTX, and not for 8.0, 9.0: its build script \
                      requests these";
        for note in [cubin, fatbin] {
            assert_eq!(notes.matches(note).count(), 1, "{notes}");
        }
        // As nixpkgs sets it for everybody.
        build(&[("NVCC_PREPEND_FLAGS", "-Xfatbin=-compress-all")]);
        assert_eq!(images("default.o"), both);
        // A capability in a variable is the user's.
        let notes = build(&[("NVCC_APPEND_FLAGS", "-arch=sm_89")]);
        assert_eq!(images("default.o"), ["sm_89.cubin", "sm_89.ptx"]);
        assert!(
            notes.contains("`NVCC_APPEND_FLAGS` chooses the capabilities"),
            "{notes}"
        );

        // nvcc's own error, and before it a note that says more.
        project.write(
            "build.rs",
            &script(&["-arch=sm_70 -c src/kernel.cu -o OUT/old.o"]),
        );
        let run = project.run(&["build"]);
        run.ended_with(
            101,
            &[
                "Unsupported gpu architecture 'compute_70'",
                "capability 7.0",
                "removed in CUDA 13.0",
            ],
        );
    }

    /// Code for `sm_90a` is replaced only if it does not need the suffix.
    #[test]
    fn a_suffix_counts_if_the_code_needs_it() {
        let project = project("wrapped-suffix", "capabilities = [\"9.0\", \"12.0\"]");
        let guarded = "__global__ void k(int *p) {\n#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n    *p = 1;\n#else\n    \
                       __trap();\n#endif\n}\n";
        let unguarded = "__global__ void k() { asm volatile(\"wgmma.fence.sync.aligned;\"); }\n";
        // The guard is in a header, and its name is put together.
        let composed = "#include \"guard.cuh\"\n__global__ void k(int *p) {\n#if GUARD(FEAT_SM90_ALL)\n    *p = 1;\n\
                        #else\n    __trap();\n#endif\n}\n";
        project.write(
            "src/guard.cuh",
            "#define GUARD(x) defined(__CUDA_ARCH_##x)\n",
        );
        // Its name is not in any file.
        let hidden = "#define TEXT(x) #x\n#define JOINED(a, b) TEXT(a##b.fence.sync.aligned;)\n\
                      __global__ void k() { asm volatile(JOINED(wg, mma)); }\n";
        // Its templates choose by the suffix.
        let cutlass = "#include <cutlass/arch.h>\n__global__ void k() {}\n";
        project.write("include/cutlass/arch.h", "");
        for (name, text) in [
            ("guarded", guarded),
            ("unguarded", unguarded),
            ("composed", composed),
            ("hidden", hidden),
            ("cutlass", cutlass),
        ] {
            project.write(&format!("src/{name}.cu"), text);
        }
        let suffix = "-Iinclude -gencode=arch=compute_90a,code=sm_90a";
        let mut calls = Vec::new();
        let with_suffix = ["guarded", "unguarded", "composed", "hidden", "cutlass"];
        for name in [&["kernel"][..], &with_suffix].concat() {
            calls.push(format!("{suffix} -c src/{name}.cu -o OUT/{name}.o"));
            calls.push(format!(
                "-Iinclude -arch=sm_90a -ptx src/{name}.cu -o OUT/{name}.ptx"
            ));
            // The output of such a call is not kept.
            calls.push(format!(
                "{suffix} --keep --keep-dir OUT -c src/{name}.cu -o OUT/{name}.other.o"
            ));
        }
        // Linked with what the objects have.
        for name in ["kernel", "guarded"] {
            calls.push(format!("{suffix} -dc src/{name}.cu -o OUT/{name}.dc.o"));
            calls.push(format!(
                "{suffix} -dlink OUT/{name}.dc.o -o OUT/{name}.link.o"
            ));
        }
        // A library has what each of its objects has. One that `-l` names is not read.
        calls.extend([
            "-lib OUT/kernel.dc.o OUT/guarded.dc.o -o OUT/libboth.a".to_owned(),
            "-lib OUT/guarded.dc.o -o OUT/libguarded.a".to_owned(),
            format!("{suffix} -dlink OUT/libboth.a -o OUT/named.link.o"),
            format!("{suffix} -dlink OUT/kernel.dc.o -LOUT -lguarded -o OUT/searched.link.o"),
        ]);
        let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        project.write("build.rs", &script(&calls));
        let check = |list: &str, of_kernel: &[&str]| {
            let run = project.run(&["build", "--capabilities", list]);
            run.succeeded();
            let out = project.out("wrapped-suffix", "libguarded.a");
            let exact: &[&str] = &["sm_90a.cubin"];
            for name in ["kernel", "kernel.other"] {
                let object = out.join(format!("{name}.o"));
                assert_eq!(cuobjdump(&object), of_kernel, "{list} {name}");
            }
            // nvcc does not link PTX.
            let mut linked_kernel = of_kernel.to_vec();
            linked_kernel.retain(|file| file.ends_with(".cubin"));
            for (name, expected) in [
                ("kernel", &linked_kernel[..]),
                ("guarded", exact),
                ("named", exact),
                ("searched", exact),
            ] {
                let linked = out.join(format!("{name}.link.o"));
                assert_eq!(cuobjdump(&linked), expected, "{list} {name}");
            }
            for name in with_suffix {
                for object in [format!("{name}.o"), format!("{name}.other.o")] {
                    assert_eq!(cuobjdump(&out.join(&object)), exact, "{list} {object}");
                }
                let ptx = fs::read_to_string(out.join(name).with_extension("ptx")).unwrap();
                assert!(ptx.contains(".target sm_90a"), "{name}: {ptx}");
            }
            let ptx = fs::read_to_string(out.join("kernel.ptx")).unwrap();
            assert!(ptx.contains(".target sm_90\n"), "{ptx}");
            run.stderr
        };
        let notes = check("9.0,12.0", &["sm_120.cubin", "sm_90.cubin"]);
        for note in [
            "src/guarded.cu is compiled for 9.0a, and not for 12.0: ",
            "guarded.cu uses `CUDA_ARCH_FEAT_`, which 9.0a has and 9.0 may lack",
            "composed.cu uses `FEAT_SM90_ALL`, which 9.0a has and 9.0 may lack",
            "src/hidden.cu is compiled for 9.0a, and not for 12.0: nvcc refuses it without the suffix: ",
        ] {
            assert!(notes.contains(note), "{note}: {notes}");
        }
        assert!(
            notes.contains("cutlass.cu uses `cutlass/arch.h`"),
            "{notes}"
        );
        check("9.0", &["sm_90.cubin"]);
        check("9.0+PTX", &["sm_90.cubin", "sm_90.ptx"]);
        check("9.0a,12.0", &["sm_120.cubin", "sm_90a.cubin"]);
    }

    /// Code for 10.0a runs on no other GPU, code for 10.0 on 10.3, too.
    #[test]
    fn a_suffix_without_use_is_left_out() {
        let project = project("wrapped-wider", "capabilities = [\"10.0\"]");
        let calls = [
            "-gencode=arch=compute_100a,code=sm_100a -c src/kernel.cu -o OUT/kernel.o",
            "-gencode=arch=compute_100a,code=[sm_100a,compute_100a] -c src/kernel.cu -o OUT/both.o",
        ];
        project.write("build.rs", &script(&calls));
        let images = |list: &str| {
            project.run(&["build", "--capabilities", list]).succeeded();
            ["kernel.o", "both.o"]
                .map(|name| cuobjdump(&project.made("wrapped-wider", name)).join(" "))
        };
        assert_eq!(images("10.0"), ["sm_100.cubin"; 2]);
        assert_eq!(
            images("10.0,12.0+PTX"),
            ["sm_100.cubin sm_120.cubin sm_120.ptx"; 2]
        );
        // A list with PTX for the capability itself.
        assert_eq!(images("10.0+PTX"), ["sm_100.cubin sm_100.ptx"; 2]);
        let guarded = "__global__ void k(int *p) {\n#if __CUDA_ARCH_HAS_FEATURE__(SM100_ALL)\n    *p = 1;\n#endif\n}\n";
        project.write_later("src/kernel.cu", guarded);
        let run = project.run(&["build", "--capabilities", "10.0"]);
        run.succeeded();
        let note = "src/kernel.cu is compiled for 10.0a, and not for 10.0: ";
        assert!(run.stderr.contains(note), "{run:?}");
    }

    /// Whatever decides the bytes of an output: if it changes, the output does.
    #[test]
    fn what_a_depfile_does_not_list_is_noticed() {
        let project = project("wrapped-reads", "capabilities = [\"8.0\"]");
        project.run(&["build"]).succeeded();
        let object = || fs::read(project.path.join("k.o")).unwrap();
        let compile = |variables: &[(&str, &str)]| {
            assert_eq!(
                call(&project, "-arch=sm_80 -c src/k.cu -o k.o", variables),
                Some(0)
            );
            object()
        };
        // Variables that `nvcc.profile` reads.
        project.write(
            "src/k.cu",
            "#include \"searched.cuh\"\n__global__ void k(int *p) { *p = VALUE; }\n",
        );
        project.write("second/searched.cuh", "#define VALUE 1\n");
        for (number, variable) in ["INCLUDES", "SYSTEM_INCLUDES"].into_iter().enumerate() {
            let first = format!("first{number}");
            fs::create_dir_all(project.path.join(&first)).unwrap();
            let variables = [(variable, &*format!("-I{first} -Isecond"))];
            let before = compile(&variables);
            project.write(&format!("{first}/searched.cuh"), "#define VALUE 2\n");
            assert!(compile(&variables) != before, "{variable}");
        }
        // A file that the assembler reads by a directive that macros put together.
        let source = "#define TEXT(x) #x\n#define READ(a, b, file) TEXT(.a##b file)\n__asm__(\".data\\n\" \
                      READ(inc, bin, \"data.bin\") \"\\n.text\");\n__global__ void k(int *p) { *p = 1; }\n";
        project.write("src/k.cu", source);
        project.write("data.bin", "one");
        let before = compile(&[]);
        assert!(compile(&[]) == before);
        project.write("data.bin", "two");
        assert!(compile(&[]) != before);
        // The path of an output directory, which replaces that of another build in a kept output.
        project.write(
            "src/k.cu",
            "__global__ void k(int *p) { *p = sizeof(PATH); }\n",
        );
        let out = project.out("wrapped-reads", "kernel.o");
        let [short, long] = ["x", "longer"].map(|name| {
            let out = out.join(name).display().to_string();
            let line = format!("-arch=sm_80 -c src/k.cu -o k.o -DPATH=\"{out}\"");
            assert_eq!(call(&project, &line, &[("OUT_DIR", &out)]), Some(0));
            object()
        });
        assert!(short != long);
    }

    /// Every option that nvcc documents, in a call without an architecture: the output has the declared capabilities,
    /// or the call only inspects, or a note says why not. A call that nvcc accepts does not fail.
    #[test]
    #[ignore = "minutes: a call for each option"]
    fn no_option_turns_the_list_off_in_silence() {
        let project = project("wrapped-options", "capabilities = [\"8.0\", \"9.0\"]");
        project.run(&["build"]).succeeded();
        let [wrapper, nvcc] = compilers(&project);
        let place = project.path.join("calls");
        let sources = [
            (
                "k.cu",
                "__global__ void k(int *p) { *p = 1; }\nint main() { return 0; }\n",
            ),
            ("a.h", ""),
            ("o.txt", "-DA=1"),
        ];
        let libdevice = nvcc.parent().unwrap().join("../nvvm/libdevice");
        let mut wrong = Vec::new();
        // The first needs `tileiras`. The others start the program, and write an object without code.
        let others = ["-enable-tile", "-run", "-fdevice-syntax-only"];
        let is_tested =
            |line: &&str| !line.starts_with('#') && !others.iter().any(|it| line.contains(it));
        for line in include_str!("../nvcc/calls.txt").lines().filter(is_tested) {
            let line = format!("{line} k.cu").replace("LIBDEVICE", libdevice.to_str().unwrap());
            let files_with = |extension: &str, directory: &Path| -> Vec<PathBuf> {
                let files = fs::read_dir(directory)
                    .unwrap()
                    .map(|entry| entry.unwrap().path());
                files
                    .filter(|file| file.extension().is_some_and(|it| it == extension))
                    .collect()
            };
            let run = |program: &Path| {
                let _ = fs::remove_dir_all(&place);
                fs::create_dir_all(place.join("dir")).unwrap();
                sources
                    .iter()
                    .for_each(|(name, text)| fs::write(place.join(name), text).unwrap());
                let mut call = Command::new(program);
                call.args(line.split_whitespace())
                    .current_dir(&place)
                    .env("CUDA_COMPUTE_CAP", "80");
                call.env("CUDA_BUILD_IMAGES", project.path.with_extension("images"));
                Finished::of(call.output().unwrap())
            };
            let wrapped = run(&wrapper);
            let is_made = wrapped.code == 0;
            let made = ["o", "out", "a", "fatbin"]
                .map(|it| files_with(it, &place))
                .concat();
            let has_both = made.iter().any(|file| {
                let images = cuobjdump(file).join(" ");
                images.contains("sm_80") && images.contains("sm_90")
            });
            let has_note = wrapped.stderr.contains("note: ");
            if is_made && (has_both || has_note) || run(&nvcc).code != 0 {
                continue;
            }
            let code = ["o", "out", "a", "fatbin", "cubin"].map(|it| files_with(it, &place));
            if !is_made {
                wrong.push(format!("{line}: fails"));
            } else if code.iter().any(|files| !files.is_empty()) {
                wrong.push(format!("{line}: silent"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// The newest nvcc of the index: the list of documented options is complete, and CUDA Tile compiles.
    #[test]
    #[ignore = "minutes: fetches the newest nvcc"]
    fn the_newest_nvcc() {
        let project = Project::bare_at("wrapped-newest", "wrapped-newest", &[]);
        let manifest = "[package]\nname = \"wrapped-newest\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
                        [package.metadata.cuda]\ncapabilities = [\"8.0\", \"9.0+PTX\"]\n";
        project.write("Cargo.toml", manifest);
        project.write("src/main.rs", "fn main() {}\n");
        let tile = "#include <cuda_tile.h>\n__tile_global__ void tile(float *x) {\n    \
                    auto block = cuda::tiles::bid();\n    (void)block;\n    (void)x;\n}\n\
                    extern \"C\" void run(float *x) { tile<<<4, 1>>>(x); }\n";
        project.write("src/tile.cu", tile);
        project.write(
            "build.rs",
            &script(&["-arch=sm_CAP -enable-tile -std=c++20 -c src/tile.cu -o OUT/tile.o"]),
        );
        let add = ["toolkit", "add", "13", "--components", "nvcc,tileiras"];
        project.run(&add).succeeded();
        project.run(&["build"]).succeeded();
        let images = cuobjdump(&project.made("wrapped-newest", "tile.o")).join(" ");
        assert!(
            images.contains("sm_80") && images.contains("sm_90"),
            "{images}"
        );
        let object = project
            .made("wrapped-newest", "tile.o")
            .display()
            .to_string();
        let audited = project.run(&["audit", &object]);
        assert!(audited.stdout.contains("Tile IR 9.0"), "{audited:?}");

        let documented = include_str!("../nvcc/documented.txt");
        let names: Vec<&str> = documented
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        let [_, nvcc] = compilers(&project);
        let help = Finished::of(Command::new(nvcc).arg("--help").output().unwrap());
        let options = help.stdout.lines().filter(|line| line.starts_with("--"));
        let unknown = options.filter_map(|line| line.split_whitespace().next());
        let unknown: Vec<&str> = unknown.filter(|name| !names.contains(name)).collect();
        assert_eq!(
            unknown, [""; 0],
            "add them to tests/nvcc/documented.txt and to the table of options"
        );
    }

    #[test]
    fn errors_are_those_of_nvcc() {
        let project = project("wrapped-errors", "capabilities = [\"8.0\", \"9.0\"]");
        let wrong =
            "__global__ void kernel(int *p) {\n#if __CUDA_ARCH__ == 900\n    wrong;\n#endif\n}\n";
        project.write("src/kernel.cu", wrong);
        let run = project.run(&["build"]);
        let note = "src/kernel.cu is compiled for 8.0, 9.0; ";
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
        let code = cuobjdump(&project.made("wrapped-errors", "kernel.o"));
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
            "-arch=sm_80 -fatbin k.cu -o /dev/stdout",
            "-arch=sm_80 -c k.cu -o absent/k.o",
            "-arch=sm_80 -c k.cu -odir sub",
            "-optf options",
            "-arch=sm_80 m.cu -o program",
            "-arch=sm_80 -c absent.cu",
            "-arch=sm_10 -c k.cu",
            "-an-unknown-option -c k.cu",
            "-lib k.o -o libk.a",
            "-arch=sm_80 -ptx k.cu -MD",
            "-arch=native -c k.cu",
            "-c k.cu -MD -MF absent/k.d",
            "-c k.cu -o -",
            "-dw -rdc=true k.cu",
            "-dc -rdc=false k.cu",
            "-gencode arch=compute_80,code=sm_80,compute_80 -c k.cu",
            "-gencode=arch=compute_80,code=compute_80 -cubin k.cu",
            "-arch=compute_80 -cubin k.cu",
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
                (done.status.code(), files, done.stdout.is_empty())
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
