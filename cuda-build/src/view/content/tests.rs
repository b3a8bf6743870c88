//! Views of small layouts, as packages and installers make them.
#![allow(clippy::disallowed_methods, reason = "prepares real directories")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use cuda_find_core::search::SearchContext as Search;
use cuda_find_core::select::{Need, Part, Request};

struct Layout(tempfile::TempDir);

impl Layout {
    fn new(files: &[&str]) -> Self {
        let layout = Self(tempfile::tempdir().unwrap());
        for file in files {
            layout.put(file, "");
        }
        layout
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        if path
            .parent()
            .is_some_and(|directory| directory.ends_with("bin"))
        {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn cuda_h(self, file: &str, version: u32) -> Self {
        self.put(
            file,
            &format!("#define CUDA_VERSION {version}\nCUresult CUDAAPI cuInit(unsigned int);\n"),
        );
        self
    }

    fn toolkit(&self, places: &[&str]) -> Toolkit {
        let request = Request {
            alternatives: vec![vec![Need::new(Component::Cudart, Part::Shared, "")]],
            take_everything: true,
            ..Request::default()
        };
        let (root, env, target) = (Root::system(), Env::default(), target());
        let places = places
            .iter()
            .map(|place| self.0.path().join(place))
            .collect();
        Search {
            root: &root,
            env: &env,
            target: &target,
            places,
            runs_nvcc: true,
        }
        .find(&request)
        .unwrap()
    }

    fn plan(&self, places: &[&str]) -> ViewPlan<'static> {
        self.plan_at(places, &view())
    }

    fn plan_at(&self, places: &[&str], view: &ViewPlace) -> ViewPlan<'static> {
        let root = Box::leak(Box::new(Root::system()));
        plan(&self.toolkit(places), root, view, &Env::from_process()).unwrap()
    }

    /// The target of an entry, without the directory of this layout.
    fn leads(&self, plan: &ViewPlan<'_>, path: &str) -> Option<String> {
        Some(match plan.entries.get(Path::new(path))? {
            ViewEntry::Component(source) => {
                let target = source.path.strip_prefix(self.0.path()).unwrap();
                target.display().to_string()
            }
            ViewEntry::Link(target) => format!("-> {}", target.display()),
            ViewEntry::Text(text) => text.clone(),
            ViewEntry::Stub(stub) => format!("stub from {} headers", stub.headers.len()),
        })
    }

    #[track_caller]
    fn holds(&self, plan: &ViewPlan<'_>, expected: &[(&str, &str)]) {
        for (path, leads) in expected {
            let found = self.leads(plan, path);
            assert_eq!(found.as_deref(), Some(*leads), "{path}: {plan:#?}");
        }
    }
}

fn view() -> ViewPlace {
    ViewPlace::below(Path::new("/views"), &target())
}

fn target() -> Target {
    Target::from_triple("x86_64-unknown-linux-gnu").unwrap()
}

#[test]
fn wheels_of_cuda_12_are_joined() {
    let layout = Layout::new(&[
        "nvidia/__init__.py",
        "nvidia/cuda_runtime/include/cuda_runtime.h",
        "nvidia/cuda_runtime/include/__init__.py",
        "nvidia/cuda_runtime/lib/libcudart.so.12",
        "nvidia/cuda_runtime/lib/libcudart_static.a",
        "nvidia/cuda_runtime/lib/libculibos.a",
        "nvidia/cuda_nvrtc/include/nvrtc.h",
        "nvidia/cuda_nvrtc/include/__init__.py",
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "nvidia/cuda_nvrtc/lib/libnvrtc.alt.so.12",
        "nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9",
        "nvidia/cublas/include/cublas_v2.h",
        "nvidia/cublas/lib/libcublas.so.12",
        "nvidia/cublas/lib/libcublasLt.so.12",
        "nvidia/cublas/lib/libcublas_static.a",
        "nvidia/cuda_cccl/include/cub/cub.cuh",
        "nvidia/cuda_cccl/include/cuda/std/version",
        "nvidia/cuda_cccl/include/cub/version.cuh",
        "nvidia/cuda_cccl/lib/cmake/cub/cub-config.cmake",
        "nvidia/cuda_nvcc/include/crt/host_config.h",
        "nvidia/cuda_nvcc/bin/ptxas",
        "nvidia_cuda_cccl_cu12-12.9.27.dist-info/RECORD",
        "nvidia_cuda_nvcc_cu12-12.9.86.dist-info/RECORD",
    ])
    .cuda_h("nvidia/cuda_runtime/include/cuda.h", 12090);
    let plan = layout.plan(&[""]);
    layout.holds(
        &plan,
        &[
            ("include/cuda.h", "nvidia/cuda_runtime/include/cuda.h"),
            ("include/cub", "nvidia/cuda_cccl/include/cub"),
            ("include/nvrtc.h", "nvidia/cuda_nvrtc/include/nvrtc.h"),
            // The wheel has no nvcc, but what `cuda_runtime.h` includes.
            ("include/crt", "nvidia/cuda_nvcc/include/crt"),
            ("lib/libcublas.so", "-> libcublas.so.12"),
            ("lib/libcublas.so.12", "nvidia/cublas/lib/libcublas.so.12"),
            ("lib/libnvrtc-builtins.so", "-> libnvrtc-builtins.so.12.9"),
            ("lib/libculibos.a", "nvidia/cuda_runtime/lib/libculibos.a"),
            ("lib/cmake/cub", "nvidia/cuda_cccl/lib/cmake/cub"),
            ("lib64", "-> lib"),
            ("targets/x86_64-linux/lib", "-> ../../lib"),
            ("lib/stubs/libcuda.so", "stub from 1 headers"),
        ],
    );
    let names = plan.entries.keys();
    let names: Vec<String> = names.map(|path| path.display().to_string()).collect();
    for absent in ["__init__", ".alt.", "bin/", "include/cccl", "nvml"] {
        assert!(
            !names.iter().any(|name| name.contains(absent)),
            "{absent}: {names:#?}"
        );
    }
    assert!(plan.has("lib/libcublas_static.a"));
}

#[test]
fn wheels_of_cuda_13_have_cccl_apart_and_a_compiler() {
    let layout = Layout::new(&[
        "nvidia/cu13/include/cuda_runtime.h",
        "nvidia/cu13/include/fatbinary_section.h",
        "nvidia/cu13/include/nvvm.h",
        "nvidia/cu13/include/crt/host_config.h",
        "nvidia/cu13/include/cccl/cuda/std/version",
        "nvidia/cu13/include/cccl/cub/version.cuh",
        "nvidia/cu13/lib/libcudart.so.13",
        "nvidia/cu13/lib/libnvvm.so.4",
        "nvidia/cu13/lib/stubs/README",
        "nvidia/cu13/bin/nvcc",
        "nvidia/cu13/bin/nvcc.profile",
        "nvidia/cu13/bin/ptxas",
        "nvidia/cu13/bin/crt/link.stub",
        "nvidia/cu13/nvvm/bin/cicc",
        "nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
        "nvidia/cu13/cccl/lib/cmake/cccl/cccl-config.cmake",
    ])
    .cuda_h("nvidia/cu13/include/cuda.h", 13040);
    let plan = layout.plan(&[""]);
    layout.holds(
        &plan,
        &[
            ("bin/nvcc", "nvidia/cu13/bin/nvcc"),
            ("bin/crt", "nvidia/cu13/bin/crt"),
            ("nvvm/bin/cicc", "nvidia/cu13/nvvm/bin/cicc"),
            ("nvvm/libdevice", "nvidia/cu13/nvvm/libdevice"),
            ("nvvm/lib64/libnvvm.so", "-> libnvvm.so.4"),
            ("include/cccl", "nvidia/cu13/include/cccl"),
            ("include/crt", "nvidia/cu13/include/crt"),
            ("lib/cmake/cccl", "nvidia/cu13/cccl/lib/cmake/cccl"),
        ],
    );
    assert!(
        layout
            .leads(&plan, "bin/nvcc.profile")
            .unwrap()
            .contains("include/cccl")
    );
}

#[test]
fn platform_directories_and_shipped_stubs() {
    let layout = Layout::new(&[
        "cuda/targets/x86_64-linux/include/cuda_runtime.h",
        "cuda/targets/x86_64-linux/lib/libcudart.so.12",
        "cuda/targets/x86_64-linux/lib/stubs/libcuda.so",
        "cuda/bin/ptxas",
    ])
    .cuda_h("cuda/targets/x86_64-linux/include/cuda.h", 12040);
    symlink(
        "targets/x86_64-linux/lib",
        layout.0.path().join("cuda/lib64"),
    )
    .unwrap();
    let plan = layout.plan(&["cuda"]);
    layout.holds(
        &plan,
        &[
            (
                "lib/stubs/libcuda.so",
                "cuda/targets/x86_64-linux/lib/stubs/libcuda.so",
            ),
            ("lib/libcudart.so", "-> libcudart.so.12"),
            ("include/cuda.h", "cuda/targets/x86_64-linux/include/cuda.h"),
        ],
    );
}

#[test]
fn of_a_system_directory_cuda_alone_is_taken() {
    let layout = Layout::new(&[
        "usr/include/stdio.h",
        "usr/include/curl/curl.h",
        "usr/include/linux/types.h",
        "usr/include/cuda_runtime.h",
        "usr/include/crt/host_config.h",
        "usr/include/fatbinary_section.h",
        "usr/include/thrust/version.h",
        "usr/bin/gcc",
        "usr/lib/x86_64-linux-gnu/libc.so.6",
        "usr/lib/x86_64-linux-gnu/libcudart.so.11.0",
        "usr/lib/x86_64-linux-gnu/libcudart_static.a",
        "usr/lib/x86_64-linux-gnu/stubs/libcuda.so",
        "usr/lib/nvidia-cuda-toolkit/bin/nvcc",
        "usr/lib/nvidia-cuda-toolkit/bin/cicc",
        "usr/lib/nvidia-cuda-toolkit/bin/crt/link.stub",
        "usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc",
    ])
    .cuda_h("usr/include/cuda.h", 11080);
    layout.put("usr/bin/nvcc", "#!/bin/sh\necho release 11.8, V11.8.89\n");
    let plan = layout.plan(&["usr"]);
    layout.holds(
        &plan,
        &[
            ("include/cuda.h", "usr/include/cuda.h"),
            ("include/crt", "usr/include/crt"),
            ("include/thrust", "usr/include/thrust"),
            ("bin/nvcc", "usr/bin/../lib/nvidia-cuda-toolkit/bin/nvcc"),
            ("bin/crt", "usr/bin/../lib/nvidia-cuda-toolkit/bin/crt"),
            ("nvvm/bin/cicc", "usr/lib/nvidia-cuda-toolkit/bin/cicc"),
            ("nvvm/libdevice", "usr/lib/nvidia-cuda-toolkit/libdevice"),
            (
                "lib/stubs/libcuda.so",
                "usr/lib/x86_64-linux-gnu/stubs/libcuda.so",
            ),
        ],
    );
    for absent in [
        "include/stdio.h",
        "include/curl",
        "include/linux",
        "bin/gcc",
        "lib/libc.so.6",
    ] {
        assert!(!plan.has(absent), "{absent}");
    }
}

#[test]
fn a_conflict_names_both_components() {
    let layout = Layout::new(&[
        "nvidia/cuda_runtime/include/cuda_runtime.h",
        "nvidia/cuda_runtime/lib/libcudart.so.12",
        "nvidia/cublas/include/cublas_v2.h",
        "nvidia/cublas/lib/libcublas.so.12",
    ])
    .cuda_h("nvidia/cuda_runtime/include/cuda.h", 12090)
    .cuda_h("nvidia/cublas/include/cuda.h", 12080);
    let toolkit = layout.toolkit(&[""]);
    let error = plan(&toolkit, &Root::system(), &view(), &Env::default()).unwrap_err();
    let text = format!("{error:?}");
    for word in [
        "include/cuda.h",
        "cudart",
        "cublas",
        "cuda_runtime/include",
        "hint:",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn the_sanitizer_stays_apart_from_cupti() {
    let layout = Layout::new(&[
        "nvidia/cuda_runtime/include/cuda_runtime.h",
        "nvidia/cuda_runtime/lib/libcudart.so.12",
        "nvidia/cuda_cupti/lib/libcupti.so.12",
        "nvidia/cuda_cupti/lib/libnvperf_host.so",
        "nvidia/cuda_cupti/include/cupti.h",
        "nvidia/cuda_sanitizer_api/bin/compute-sanitizer",
        "nvidia/cuda_sanitizer_api/include/sanitizer.h",
        "nvidia_cuda_sanitizer_api_cu12-12.9.79.dist-info/RECORD",
    ])
    .cuda_h("nvidia/cuda_runtime/include/cuda.h", 12090);
    layout.put("nvidia/cuda_cupti/include/generated_cuda_meta.h", "one");
    layout.put(
        "nvidia/cuda_sanitizer_api/include/generated_cuda_meta.h",
        "other",
    );
    let plan = layout.plan(&[""]);
    layout.holds(
        &plan,
        &[
            (
                "include/generated_cuda_meta.h",
                "nvidia/cuda_cupti/include/generated_cuda_meta.h",
            ),
            (
                "compute-sanitizer/include",
                "nvidia/cuda_sanitizer_api/include",
            ),
            (
                "lib/libnvperf_host.so",
                "nvidia/cuda_cupti/lib/libnvperf_host.so",
            ),
            ("extras/CUPTI/lib64", "-> ../../lib"),
        ],
    );
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the test writes the script that is then read"
)]
fn a_script_that_starts_one_program_leads_to_it() {
    let place = tempfile::tempdir().unwrap();
    let (script, real) = (
        place.path().join("nvcc"),
        place.path().join("cuda-12.4/bin/nvcc"),
    );
    fs::create_dir_all(real.parent().unwrap()).unwrap();
    fs::write(&real, [0x7f; 70_000]).unwrap();
    fs::write(
        &script,
        format!("#!/bin/sh\nexec {} \"$@\"\n", real.display()),
    )
    .unwrap();
    assert_eq!(real_nvcc(&Root::system(), &script), real);
    fs::write(&script, "#!/bin/sh\nexec /nonexistent/nvcc \"$@\"\n").unwrap();
    assert_eq!(real_nvcc(&Root::system(), &script), script);
}

#[test]
fn version_json_has_three_numbers() {
    let text = version_json(ToolkitVersion::new(13, 4), &[]);
    let expected = "{\n  \"cuda\": { \"name\": \"CUDA SDK\", \"version\": \"13.4.0\" }\n}\n";
    assert_eq!(text, expected);
}

#[test]
fn system_headers_stay_out() {
    let is = |component, name: &str| is_header_of(component, OsStr::new(name));
    for name in [
        "cuda.h",
        "cub",
        "crt",
        "nv",
        "sm_20_intrinsics.h",
        "vector_functions.hpp",
    ] {
        assert!(is(Component::Cudart, name), "{name}");
    }
    for name in [
        "stdio.h", "curl", "cups", "nvme", "linux", "cudnn.h", "math.h",
    ] {
        assert!(!is(Component::Cudart, name), "{name}");
    }
    assert!(is(Component::Cudnn, "cudnn_ops.h") && !is(Component::Nccl, "cuda.h"));
}
