//! A real nvcc 12 from archives: Debian's packages, laid out as NVIDIA's.

use std::fs;
use std::path::Path;
use std::process::Command;

use cuda_build::Component;
use serde_json::json;
use tar::Builder;

use crate::components;
use crate::redist::{Mirror, add, file};
use crate::support::{Finished, Sandbox, Tool};

/// The profile of NVIDIA's archive, with the root above `bin`.
const PROFILE: &str = "TOP = $(_HERE_)/..\nCICC_PATH = $(TOP)/nvvm/bin\nNVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice\n\
                       PATH += $(CICC_PATH):$(_HERE_):\nINCLUDES += \"-I$(TOP)/include\" $(_SPACE_)\n\
                       LIBRARIES =+ $(_SPACE_) \"-L$(TOP)/lib/stubs\" \"-L$(TOP)/lib\"\n";

/// The files of Debian's packages of CUDA 12.4, laid out as NVIDIA's archives.
fn debian_mirror(usr: &Path) -> Mirror {
    let mut mirror = Mirror::new("12.4.1");
    let copy = |archive: &mut Builder<_>, pairs: &[(&str, &str)]| {
        for (from, to) in pairs {
            let (from, to) = (usr.join(from), Path::new("top").join(to));
            match from.is_dir() {
                true => archive.append_dir_all(to, from).unwrap(),
                false => archive.append_path_with_name(from, to).unwrap(),
            }
        }
    };
    mirror.add("cuda_nvcc", "12.4.131", |archive| {
        let own = "lib/nvidia-cuda-toolkit/bin";
        let programs = ["bin2c", "cudafe++", "fatbinary", "nvlink", "ptxas"];
        for program in programs.map(|name| format!("bin/{name}")) {
            copy(archive, &[(&program, &program)]);
        }
        for (name, to) in [
            ("nvcc", "bin/nvcc"),
            ("crt", "bin/crt"),
            ("cicc", "nvvm/bin/cicc"),
        ] {
            copy(archive, &[(&format!("{own}/{name}"), to)]);
        }
        file(archive, "top/bin/nvcc.profile", PROFILE.as_bytes());
        let libdevice = "lib/nvidia-cuda-toolkit/libdevice";
        copy(archive, &[(libdevice, "nvvm/libdevice")]);
        for header in ["include/crt", "include/fatbinary_section.h"] {
            copy(archive, &[(header, header)]);
        }
    });
    let headers = fs::read_dir(usr.join("include")).unwrap();
    let headers: Vec<String> = headers
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    let facts = Component::Cudart.facts();
    mirror.add("cuda_cudart", "12.4.127", |archive| {
        let is_of_runtime = |name: &str| {
            let mut prefixes = facts.header_prefixes().iter();
            name != "cuda" && prefixes.any(|prefix| name.starts_with(prefix))
        };
        for name in headers.iter().filter(|name| is_of_runtime(name)) {
            let header = format!("include/{name}");
            copy(archive, &[(&header, &header)]);
        }
        for library in [
            "libcudart.so",
            "libcudart.so.12",
            "libcudart.so.12.4.127",
            "libcudart_static.a",
            "libcudadevrt.a",
        ] {
            let from = format!("lib/x86_64-linux-gnu/{library}");
            copy(archive, &[(&from, &format!("lib/{library}"))]);
        }
    });
    mirror.add("cuda_nvrtc", "12.4.127", |archive| {
        copy(archive, &[("include/nvrtc.h", "include/nvrtc.h")]);
        for stem in ["libnvrtc.so", "libnvrtc-builtins.so"] {
            for end in ["", ".12", ".12.4", ".12.4.127"] {
                let from = format!("lib/x86_64-linux-gnu/{stem}{end}");
                if usr.join(&from).exists() {
                    copy(archive, &[(&from, &format!("lib/{stem}{end}"))]);
                }
            }
        }
    });
    mirror.add("cuda_cccl", "12.4.127", |archive| {
        for name in ["cub", "thrust", "cuda", "nv"].map(|name| format!("include/{name}")) {
            if usr.join(&name).exists() {
                copy(archive, &[(&name, &name)]);
            }
        }
    });
    mirror
}

/// `tests/nvcc-versions.sh 12.4` fetches Debian's packages.
#[test]
#[ignore = "needs Debian's nvcc 12.4"]
fn nvcc_12_comes_without_root() {
    let usr = components::test_cache().join("nvcc/12.4/usr");
    assert!(
        usr.is_dir(),
        "{} is missing: run tests/nvcc-versions.sh 12.4",
        usr.display()
    );
    let mirror = debian_mirror(&usr);
    let sandbox = Sandbox::new(Tool::Nothing);
    let directory = mirror.directory.path().to_str().unwrap();
    let report = add(&sandbox, directory, &["12.4", "--json"]).json();
    let components = json!(["cudart", "nvcc", "nvvm", "crt", "cccl", "nvrtc"]);
    assert_eq!(report["version"], "12.4.1");
    assert_eq!(report["components"], components);

    // nvcc compiles host and device code with nothing but the toolkit.
    fs::write(sandbox.path("work/a.cu"), "#include <cuda_fp16.h>\n#include <cub/cub.cuh>\n\
              __global__ void f(__half *x) { *x = __hadd(*x, *x); }\nint main() { f<<<1, 1>>>(nullptr); }\n").unwrap();
    let exec = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        command
            .args(["cuda", "exec", "--cuda", "12.4", "--"])
            .args(arguments)
            .env("CUDA_BUILD_CACHE_DIR", sandbox.path("cache"))
            .env("CUDA_BUILD_SOURCES", "stored")
            .env_remove("VIRTUAL_ENV")
            .current_dir(sandbox.path("work"));
        Finished::of(command.output().unwrap())
    };
    let version = exec(&["nvcc", "--version"]).stdout;
    assert!(version.contains("release 12.4, V12.4.131"), "{version}");
    exec(&["nvcc", "-arch=sm_80", "a.cu", "-o", "a"]).succeeded();
    assert!(sandbox.path("work/a").is_file());
}
