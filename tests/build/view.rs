//! Views of real components: what compilers, linkers and CMake make of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_cuda::store::{self, AddRequest};
use cuda_build::view::ViewPlace;
use cuda_build::{Component, View};
use cuda_find_core::sources::LOCK_VARIABLE;
use cuda_find_core::{env::Env, root::Root, target::Target};
use tempfile::TempDir;

use crate::components::{release, site_packages};
use crate::support::{dynamic, everything_in, output, succeeds, text};

/// Device code that needs CCCL and a header of the runtime.
pub const PROGRAM: &str = r#"
#include <cstdio>
#include <cub/block/block_reduce.cuh>
#include <cuda_fp16.h>
__global__ void kernel(int *sum) {
  using Reduce = cub::BlockReduce<int, 32>;
  __shared__ typename Reduce::TempStorage storage;
  int all = Reduce(storage).Sum(static_cast<int>(threadIdx.x));
  if (threadIdx.x == 0) *sum = all + __half2int_rn(__float2half(1.0f));
}
int main() {
  int *sum = nullptr;
  cudaMalloc(&sum, sizeof *sum);
  kernel<<<1, 32>>>(sum);
  std::printf("launched: %d\n", static_cast<int>(cudaGetLastError()));
}
"#;

/// The path of a component that no default set has.
fn added(major: u32, components: &[Component]) -> PathBuf {
    let request = AddRequest {
        release: release(major).parse().unwrap(),
        only: components.to_vec(),
        ..AddRequest::default()
    };
    // Not the lock file of this checkout.
    let lock = Path::new(env!("CARGO_TARGET_TMPDIR")).join("view-toolkits.lock");
    store::add(&request, &Env::from_process().with(LOCK_VARIABLE, lock))
        .unwrap_or_else(|error| panic!("{error:?}"))
        .toolkit
        .path
        .into()
}

/// The toolkit of a major with the headers of the driver's management library.
pub fn with_nvml(major: u32) -> [PathBuf; 2] {
    [site_packages(major), added(major, &[Component::Nvml])]
}

pub fn view_at(places: &[&Path], directory: &Path) -> View {
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let (toolkit, place) = (everything_in(places), ViewPlace::below(directory, &target));
    let view = View::create(&toolkit, &place, &Root::system(), &Env::from_process());
    view.unwrap_or_else(|error| panic!("{error:?}"))
}

mod online {
    use super::*;

    #[test]
    fn nvcc_of_a_view_compiles_and_links_however_it_is_called() {
        let components = site_packages(13);
        let place = TempDir::new().unwrap();
        let source = place.path().join("program.cu");
        fs::write(&source, PROGRAM).unwrap();
        let view = view_at(&[&components], &place.path().join("größe and blank"));
        let nvcc = view.nvcc().unwrap();
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", view.root().join("bin").display());
        for program in [nvcc.as_os_str(), "nvcc".as_ref()] {
            let mut nvcc = Command::new("sh");
            nvcc.args(["-c", "exec \"$@\"", "sh"])
                .arg(program)
                .env("PATH", &path);
            // Without these the machine's own CUDA, where there is one, could help out.
            for name in ["LIBRARY_PATH", "CPATH", "NVCC_APPEND_FLAGS"] {
                nvcc.env_remove(name);
            }
            let program = place.path().join("program");
            nvcc.args([
                "-rdc=true",
                "-cudart=shared",
                "-arch=sm_80",
                "-Xlinker=--no-as-needed",
            ]);
            succeeds(nvcc.arg("-o").arg(&program).arg(&source).arg("-lcuda"));
            let needed = dynamic(&program, "NEEDED");
            for library in ["libcudart.so.13", "libcuda.so.1"] {
                assert!(needed.iter().any(|name| name == library), "{needed:?}");
            }
            assert!(dynamic(&program, "RUNPATH").is_empty());
            let mut run = Command::new(&program);
            let refused = text(&output(run.env("LD_LIBRARY_PATH", view.lib())));
            assert!(
                refused.contains("libcuda.so.1"),
                "a stub was loaded from `lib`: {refused}"
            );
        }
        let dry = succeeds(Command::new(&nvcc).arg("--dryrun").arg(&source));
        let is_path = |line: &&str| line.starts_with("#$ TOP=") || line.contains("LIBRARIES=");
        for line in dry.lines().filter(is_path) {
            assert!(line.contains(&*view.root().to_string_lossy()), "{line}");
        }
        assert!(
            !dry.contains(&*components.to_string_lossy()),
            "nvcc looks past the view:\n{dry}"
        );
    }

    #[test]
    fn the_command_prints_where_the_view_is() {
        let components = site_packages(13);
        let place = TempDir::new().unwrap();
        let run = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
            command
                .args(["cuda", "view"])
                .args(arguments)
                .current_dir(place.path());
            command.env("CUDA_BUILD_ROOTS", &components);
            command.env("CUDA_BUILD_CACHE_DIR", place.path().join("cache"));
            command
                .env_remove("CUDA_BUILD_TOOLKIT")
                .env_remove("CUDA_BUILD_VIEWS");
            output(&mut command)
        };
        let printed = run(&[]);
        assert!(printed.status.success(), "{}", text(&printed));
        let root = PathBuf::from(String::from_utf8(printed.stdout).unwrap().trim_end());
        assert!(
            root.starts_with(place.path().join("cache/views")),
            "{}",
            root.display()
        );
        assert!(root.join("bin/nvcc").is_file() && root.join("lib64/libcudart.so").is_file());
        // As in builds, variables of Cargo's configuration count.
        fs::create_dir(place.path().join(".cargo")).unwrap();
        let configuration = "env.PATH = { value = '/absent', force = true }\n";
        fs::write(place.path().join(".cargo/config.toml"), configuration).unwrap();
        let without_compiler = run(&[]);
        let expected = "no C compiler is on `PATH`";
        assert!(
            text(&without_compiler).contains(expected),
            "{}",
            text(&without_compiler)
        );
    }

    /// Cargo compares dates: writing a view must not make it run a script again.
    #[test]
    fn the_watched_file_is_older_than_every_build() {
        let place = TempDir::new().unwrap();
        let view = view_at(&[&site_packages(13)], place.path());
        let watched = fs::metadata(view.watched_file()).unwrap();
        assert_eq!(
            watched.modified().unwrap(),
            std::time::SystemTime::UNIX_EPOCH
        );
    }

    /// What a header declares, by the preprocessor: the versions of names that programs get with and without
    /// per-thread streams, and the old names.
    fn declared(include: &Path, header: &str, prefix: &str, defines: &[&str]) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for define in defines {
            let place = TempDir::new().unwrap();
            let source = place.path().join("a.c");
            fs::write(
                &source,
                format!("#include <stddef.h>\n#include <{header}>\n"),
            )
            .unwrap();
            let mut gcc = Command::new("gcc");
            gcc.args(["-E", "-P", define])
                .arg(&source)
                .arg("-I")
                .arg(include);
            for before in succeeds(&mut gcc).split('(') {
                let is_other = |c: char| !c.is_alphanumeric() && c != '_';
                let word = before.trim_end().rsplit(is_other).next().unwrap();
                let rest = word.strip_prefix(prefix).unwrap_or_default();
                if rest.starts_with(|c: char| c.is_ascii_uppercase()) {
                    names.insert(word.to_owned());
                }
            }
        }
        names
    }

    #[test]
    fn stubs_have_every_function_of_the_headers() {
        for major in [11, 12, 13] {
            let components = with_nvml(major);
            let place = TempDir::new().unwrap();
            let view = view_at(
                &[&components[0], &components[1]],
                &place.path().join("view"),
            );
            let cuda = [
                "-DX",
                "-D__CUDA_API_VERSION_INTERNAL",
                "-DCUDA_API_PER_THREAD_DEFAULT_STREAM",
            ];
            let mut names = declared(&view.include(), "cuda.h", "cu", &cuda);
            let nvml = ["-DX", "-DNVML_NO_UNVERSIONED_FUNC_DEFS"];
            names.extend(declared(&view.include(), "nvml.h", "nvml", &nvml));
            assert!(names.len() > 700, "CUDA {major}: {}", names.len());
            let functions = names.iter().map(|name| format!("extern int {name}();\n"));
            let table: Vec<&str> = names.iter().map(String::as_str).collect();
            let c = format!(
                "{}void *table[] = {{{}}};\n#include <stdio.h>\n\
                 const char *text(int) __asm__(\"nvmlErrorString\");\n\
                 int main(void) {{ printf(\"%d %d %s\\n\", cuInit(0), nvmlInit_v2(), text(12)); }}\n",
                functions.collect::<String>(),
                table.join(",")
            );
            let (source, program) = (place.path().join("all.c"), place.path().join("program"));
            fs::write(&source, c).unwrap();
            let mut gcc = Command::new("gcc");
            gcc.arg("-w")
                .arg(&source)
                .arg("-o")
                .arg(&program)
                .arg("-L")
                .arg(view.stubs());
            succeeds(gcc.args(["-lcuda", "-lnvidia-ml"]));
            let needed = dynamic(&program, "NEEDED");
            for library in ["libcuda.so.1", "libnvidia-ml.so.1"] {
                assert!(needed.iter().any(|name| name == library), "{needed:?}");
                let stub = view.stubs().join(library.trim_end_matches(".1"));
                fs::copy(stub, place.path().join(library)).unwrap();
            }
            let printed = succeeds(Command::new(&program).env("LD_LIBRARY_PATH", place.path()));
            assert_eq!(printed, "34 12 stub library\n", "CUDA {major}");
            // No name is made up: each is a word of a header.
            let symbols = ["libcuda.so", "libnvidia-ml.so"].map(|name| {
                let mut readelf = Command::new("readelf");
                succeeds(
                    readelf
                        .args(["--dyn-syms", "-W"])
                        .arg(view.stubs().join(name)),
                )
            });
            let headers = ["cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "nvml.h"];
            let headers = headers.map(|name| fs::read_to_string(view.include().join(name)));
            let headers: String = headers.into_iter().flatten().collect();
            for line in symbols
                .iter()
                .flat_map(|text| text.lines())
                .filter(|line| line.contains(" FUNC "))
            {
                let name = line.split_whitespace().last().unwrap();
                let base = name.trim_end_matches("_ptds").trim_end_matches("_ptsz");
                let is_there = base.starts_with("cuProfiler");
                assert!(is_there || headers.contains(base), "{name}");
            }
        }
    }
}
