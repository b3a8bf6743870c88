//! Outputs: damaged, made while something is edited, dependent on nothing but their inputs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::package::{Compiler, Package, holds, kernel, place, script_outputs, succeeded};

fn damaged_output(compiler: Compiler) {
    let Some(package) = Package::new("damaged", compiler) else {
        return;
    };
    package.write("kernels/m.cu", kernel("1"));
    package.write_modules(compiler, &[("m", "")]);
    let expected = package.build().unwrap();
    let output = package.out().join("m.fatbin");
    let bytes = fs::read(&output).unwrap();
    let mut same_length = bytes.clone();
    same_length[bytes.len() / 2..].fill(0);
    let mut wrong = Vec::new();
    for (name, damage) in [
        ("empty", &[][..]),
        ("cut", &bytes[..bytes.len() / 2]),
        ("zeros", &same_length),
    ] {
        fs::write(&output, damage).unwrap();
        let touched = Command::new("touch")
            .arg(package.path.join("kernels/m.cu"))
            .status();
        assert!(touched.unwrap().success());
        if package.build().as_ref() != Ok(&expected) {
            wrong.push(name);
        }
        fs::write(&output, &bytes).unwrap();
    }
    assert!(wrong.is_empty(), "kept: {wrong:?}");
}

#[test]
fn nvrtc_a_damaged_output_is_made_again() {
    damaged_output(Compiler::Nvrtc13);
}

#[test]
fn nvcc_a_damaged_output_is_made_again() {
    damaged_output(Compiler::Nvcc13);
}

/// The edit happens after nvcc has ended and before the build script goes on.
#[test]
fn nvcc_a_header_edited_meanwhile_is_noticed() {
    let Some(root) = Compiler::Nvcc13.root() else {
        return;
    };
    let real = root.join("nvidia/cu13");
    let beside = place("meanwhile-toolkit");
    let toolkit = beside.join("toolkit");
    let link_all = |from: &Path, to: &Path| {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            symlink(entry.path(), to.join(entry.file_name())).unwrap();
        }
    };
    link_all(&real, &toolkit);
    fs::remove_file(toolkit.join("bin")).unwrap();
    link_all(&real.join("bin"), &toolkit.join("bin"));
    let nvcc = toolkit.join("bin/nvcc");
    fs::rename(&nvcc, toolkit.join("bin/real-nvcc")).unwrap();
    let hook = beside.join("hook");
    let shim = format!(
        "#!/bin/sh\n'{}' \"$@\"\ncode=$?\ncase \"$*\" in *m.cu) if [ -e '{hook}' ]; then mv '{hook}' '{hook}.sh'; \
         sh '{hook}.sh'; fi;; esac\nexit $code\n",
        toolkit.join("bin/real-nvcc").display(),
        hook = hook.display()
    );
    fs::write(&nvcc, shim).unwrap();
    fs::set_permissions(&nvcc, fs::Permissions::from_mode(0o755)).unwrap();
    let package = Package::with_root("meanwhile-nvcc13", &toolkit);
    package.write(
        "kernels/m.cu",
        format!("#include \"v.cuh\"\n{}", kernel("V")),
    );
    package.write("kernels/v.cuh", "#define V 0\n");
    package.write_modules(Compiler::Nvcc13, &[("m", "")]);
    package.build().unwrap();
    let header = package.path.join("kernels/v.cuh");
    for (name, edit) in [
        ("written", "echo '#define V 2' > HEADER"),
        (
            "replaced",
            "echo '#define V 3' > HEADER.new; mv HEADER.new HEADER",
        ),
        (
            "dated back",
            "echo '#define V 4' > HEADER; touch -d 2001-01-01 HEADER",
        ),
    ] {
        let edit = edit.replace("HEADER", &format!("'{}'", header.display()));
        fs::write(&hook, edit).unwrap();
        // What nvcc reads before the edit.
        package.write("kernels/v.cuh", "#define V 1\n");
        package.build().unwrap();
        assert!(!hook.exists(), "nvcc was not called");
        // Cargo can't see a date that was set back.
        package.write_modules(Compiler::Nvcc13, &[("m", "")]);
        if let Err(error) = package.compare() {
            panic!("{name}: {error}");
        }
    }
}

/// A kernel that takes long to compile, edited at several moments.
#[test]
fn nvrtc_a_header_edited_meanwhile_is_noticed() {
    let Some(package) = Package::new("meanwhile", Compiler::Nvrtc13) else {
        return;
    };
    let mut body = String::from("float s = V;\n");
    for index in 0..25 {
        body += &format!("s = s * sinf(s + {index}.0f) + cosf(x[{index}]);\n");
    }
    let source = format!(
        "#include \"v.cuh\"\nextern \"C\" __global__ void k(float *x) {{ {body} *x = s; }}\n"
    );
    package.write("kernels/m.cu", source);
    package.write("kernels/v.cuh", "#define V 1\n");
    package.write_modules(Compiler::Nvrtc13, &[("m", "")]);
    package.build().unwrap();
    let out = package.place.join("timed");
    fs::create_dir_all(&out).unwrap();
    let start = Instant::now();
    succeeded(package.script(&out).output().unwrap()).unwrap();
    let duration = start.elapsed();
    for (value, part) in [(2, 2), (3, 5), (4, 8)] {
        package.write("kernels/v.cuh", format!("#define V {value}0\n"));
        let mut script = package.script(&package.out());
        let mut running = script.stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(duration.mul_f64(f64::from(part) / 10.0));
        package.write("kernels/v.cuh", format!("#define V {value}\n"));
        assert!(running.wait().unwrap().success());
        std::thread::sleep(Duration::from_millis(20));
        if let Err(error) = package.compare() {
            panic!("edited after {part} tenths of {duration:?}: {error}");
        }
    }
}

/// Two checkouts give the same bytes, which do not hold the directory they were made in.
fn no_paths(compiler: Compiler) {
    let Some(package) = Package::new("no-paths", compiler) else {
        return;
    };
    package.write(
        "inc/in_directory.cuh",
        "__device__ const char *in_directory() { return __FILE__; }\n",
    );
    package.write(
        "kernels/beside.cuh",
        "__device__ const char *beside() { return __FILE__; }\n",
    );
    let source = "#include <in_directory.cuh>\n#include \"beside.cuh\"\n\
                  extern \"C\" __global__ void k(const char **x) { x[0] = in_directory(); x[1] = beside(); x[2] = __FILE__; }\n";
    package.write("kernels/m.cu", source);
    package.write_modules(compiler, &[("m", ".include(\"inc\")")]);
    let outputs = package.build().unwrap();
    assert!(
        holds(&outputs["m.fatbin"], "in_directory.cuh"),
        "the file's name is not in the code"
    );
    let place = package.place.display().to_string();
    assert!(
        !holds(&outputs["m.fatbin"], place),
        "the directory is in the code"
    );
    let other = package.place.join("a longer name/app");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .args([&package.path, &other])
        .output();
    succeeded(copied.unwrap()).unwrap();
    let out = package.place.join("other-out");
    fs::create_dir(&out).unwrap();
    succeeded(package.script_in(&other, &out).output().unwrap()).unwrap();
    assert!(
        script_outputs(&out) == outputs,
        "other bytes in another directory"
    );
}

#[test]
fn nvrtc_outputs_do_not_hold_the_packages_path() {
    no_paths(Compiler::Nvrtc12);
    no_paths(Compiler::Nvrtc13);
}

#[test]
fn nvcc_outputs_do_not_hold_the_packages_path() {
    no_paths(Compiler::Nvcc13);
}
