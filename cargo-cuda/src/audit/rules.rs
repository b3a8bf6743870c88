//! What the checks find: NVIDIA's libraries in the wheel (W01, W02), the driver's libraries as dependencies (W03),
//! device code (W13), and the findings of the other modules.

use cuda_build::Component;
use cuda_find_core::release;

use super::artifact::{Artifact, Majors, NativeModule, file_name};
use super::check::Severity::{Error, Warning};
use super::check::{Audit, Finding, W01, W02, W03, W13};
use super::{paths, requirements, variants};
use crate::output::joined;
use crate::package::nvidia::{component_of, is_driver_library, is_nvidia_library, without_hash};

/// What the checks find in an artifact, in the order of the codes.
pub fn findings(artifact: &Artifact, majors: &Majors) -> Vec<Finding> {
    let mut audit = Audit::new(artifact, majors);
    check_libraries(&mut audit);
    paths::check(&mut audit);
    requirements::check(&mut audit);
    // A variant is not for GPUs that its properties do not name.
    if artifact.variant.is_none() {
        check_device_code(&mut audit);
    }
    variants::check(&mut audit);
    let mut findings = audit.findings;
    findings.sort_by(|a, b| (a.code, &a.message).cmp(&(b.code, &b.message)));
    findings
}

fn check_libraries(audit: &mut Audit<'_>) {
    let artifact = audit.artifact;
    for module in &artifact.modules {
        let needed = module.elf.needed.iter();
        for soname in needed.filter(|soname| is_driver_library(soname)) {
            if let Some(original) = without_hash(soname) {
                let text = format!("needs `{soname}`, a copy of the driver's `{original}`");
                audit.add_file(&W01, Error, &module.path, text);
            } else {
                let text = format!("needs `{soname}`, so an import fails without a GPU driver");
                audit.add_file(&W03, Warning, &module.path, text);
            }
        }
    }
    // Not for NVIDIA's packages, which own their libraries, and not for lone library files.
    let is_owner = |name: &str| {
        let mut packages = Component::all().flat_map(|component| {
            release::majors().map(move |major| component.facts().package(major))
        });
        name.starts_with("nvidia-") || packages.any(|package| package == Some(name))
    };
    if artifact.name.as_deref().is_some_and(|name| !is_owner(name)) {
        for module in &artifact.modules {
            check_copy(audit, module);
        }
    }
}

/// Reports a copy of one of NVIDIA's libraries.
fn check_copy(audit: &mut Audit<'_>, module: &NativeModule) {
    let path = &module.path;
    let soname = module.elf.soname.as_deref().unwrap_or(file_name(path));
    let names = [file_name(path), soname];
    let Some(name) = names.into_iter().find(|name| is_nvidia_library(name)) else {
        return;
    };
    if is_driver_library(name) {
        let text = format!("is a copy of the driver's library `{name}`");
        audit.add_file(&W01, Error, path, text);
        return;
    }
    let original = without_hash(name).unwrap_or_else(|| name.to_owned());
    let is_renamed = original != name || component_of(soname).is_none();
    let (severity, copy) = match is_renamed {
        true => (Error, "a modified copy"),
        false => (Warning, "a copy"),
    };
    let text = format!("is {copy} of NVIDIA's `{original}`");
    audit.add_file(&W02, severity, path, text);
}

fn check_device_code(audit: &mut Audit<'_>) {
    for (path, code, major) in audit.artifact.device_code(audit.majors) {
        let gaps = joined(code.gaps(major), ", ");
        let gaps = (!gaps.is_empty()).then(|| format!("GPUs {gaps}"));
        let future = (!code.runs_on_future()).then(|| "future GPUs".to_owned());
        let without_code: Vec<String> = gaps.into_iter().chain(future).collect();
        if !without_code.is_empty() {
            let without_code = without_code.join(" and ");
            let text = format!("has device functions without code for {without_code}");
            audit.add_file(&W13, Warning, path, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::device::{DeviceImage, ImageKind};
    use crate::package::elf::{ElfFacts, Import};
    use crate::package::requirement::Requirement;

    fn owned<T: FromIterator<String>>(names: &[&str]) -> T {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn module(path: &str, needed: &[&str], rpath: &[&str]) -> NativeModule {
        NativeModule {
            path: path.to_owned(),
            elf: ElfFacts {
                needed: owned(needed),
                rpath: owned(rpath),
                ..ElfFacts::default()
            },
        }
    }

    /// A wheel with one module.
    fn wheel(name: &str, requires: &[&str], needed: &[&str], rpath: &[&str]) -> Artifact {
        let requires = requires
            .iter()
            .map(|text| Requirement::parse(text).unwrap());
        Artifact {
            name: Some(name.to_owned()),
            requires: requires.collect(),
            modules: vec![module("saxpy/saxpy.so", needed, rpath)],
            ..Artifact::default()
        }
    }

    const REQUIRES: &str = "cuda-toolkit[cudart]>=13.0,<14";
    const RPATH: &str = "$ORIGIN/../nvidia/cu13/lib";

    /// A wheel for CUDA 13 with these requirements and libraries, which is good if these are.
    fn with(requires: &[&str], needed: &[&str]) -> Artifact {
        wheel(
            "saxpy-cu13",
            requires,
            &[&["libcudart.so.13"], needed].concat(),
            &[RPATH],
        )
    }

    fn with_path(entry: &str) -> Artifact {
        wheel(
            "saxpy-cu13",
            &[REQUIRES],
            &["libcudart.so.13"],
            &[RPATH, entry],
        )
    }

    /// A good wheel with one more file.
    fn with_file(path: &str, soname: &str) -> Artifact {
        let mut artifact = with(&[REQUIRES], &[]);
        let mut copy = module(path, &[], &[]);
        copy.elf.soname = Some(soname.to_owned());
        artifact.files.insert(path.to_owned());
        artifact.modules.push(copy);
        artifact
    }

    fn with_code(sass: &[&str], ptx: &[&str]) -> Artifact {
        let mut artifact = with(&[REQUIRES], &[]);
        let images = sass.iter().map(|c| (ImageKind::Sass, c));
        let images = images.chain(ptx.iter().map(|c| (ImageKind::Ptx, c)));
        let images = images.map(|(kind, capability)| DeviceImage {
            kind,
            capability: capability.parse().unwrap(),
            isa: (8, 8),
            bytes: 100,
        });
        artifact.modules[0].elf.device.fat_binaries = vec![images.collect()];
        artifact
    }

    fn changed(change: impl FnOnce(&mut Artifact)) -> Artifact {
        let mut artifact = with(&[REQUIRES], &[]);
        change(&mut artifact);
        artifact
    }

    fn texts(artifact: &Artifact) -> Vec<String> {
        let findings = findings(artifact, &Majors::of(artifact)).into_iter();
        findings
            .map(|finding| format!("{} {}: {}", finding.severity, finding.code, finding.message))
            .collect()
    }

    #[test]
    fn each_fault_has_one_finding_and_no_other_wheel_has_any() {
        let import = |symbol: &str| Import {
            symbol: symbol.to_owned(),
            library: Some("libcudart.so.13".to_owned()),
        };
        let plain = || with(&[REQUIRES], &[]);
        let needs = |soname: &str| with(&[REQUIRES], &[soname]);
        let requires = |line: &str, soname: &str| with(&[REQUIRES, line], &[soname]);
        let cublas = "libcublas.so.13";
        let blas = |marker: &str| requires(&format!("nvidia-cublas>=13,<14; {marker}"), cublas);
        let curand = |rpath: &[&str]| wheel("saxpy", &[], &["libcurand.so.10"], rpath);
        let torch = ["libtorch_cuda.so", "libc10.so", "libcudart.so.12"];
        let rmm = ["librmm.so", "libcudart.so.12"];
        let cudart = ["libcudart.so.13"];
        let libcuda = "libcuda-df60b7cf.so.1";
        let copy = "x/libcudart-16e8815a.so.13";
        let importing = |symbol: &str| changed(|a| a.modules[0].elf.imports.push(import(symbol)));
        let preloaded = changed(|artifact| {
            artifact.modules[0].elf.rpath.clear();
            artifact.preloads = true;
        });
        let cublas_12 = "$ORIGIN/../nvidia/cublas/lib";
        let all = ["8.0", "9.0", "10.0", "10.3", "10.7", "12.0"];
        let good = [
            Artifact::default(),
            plain(),
            wheel("saxpy", &["numpy"], &["libc.so.6"], &[]),
            with_file("x/libcustom_ops.so", "libcustom_ops.so"),
            with_file("x/libnvinfer.so.10", "libnvinfer.so.10"),
            needs("libnvinfer.so.10"),
            with_path("$ORIGIN/../target/lib"),
            with_path("$ORIGIN/stubs"),
            blas("platform_release == 'extra'"),
            requires("nvidia-cusolver>=12,<13", cublas),
            wheel("saxpy", &["torch"], &torch, &[]),
            wheel("pyrmm-cu12", &["librmm-cu12==26.*"], &rmm, &[]),
            preloaded,
            curand(&[RPATH]),
            importing("cudaMalloc"),
            // A library without a search path of its own inherits the RPATH of what needs it.
            changed(|artifact| {
                let mut library = artifact.modules[0].clone();
                library.path = "x/libfoo.so".to_owned();
                library.elf.rpath.clear();
                artifact.modules[0].elf.needed = vec!["libfoo.so".to_owned()];
                artifact.modules.push(library);
                artifact.files.insert("x/libfoo.so".to_owned());
            }),
            with_code(&["8.0", "9.0", "10.0", "12.0"], &["12.0"]),
        ];
        for artifact in good {
            assert!(texts(&artifact).is_empty(), "{:?}", texts(&artifact));
        }
        let bad = [
            (
                "error W01: needs",
                "a copy of the driver's `libcuda.so.1`",
                needs(libcuda),
            ),
            (
                "error W01: is a copy",
                "",
                with_file("x/libcuda-df60b7cf.so.1", "libcuda.so.1"),
            ),
            (
                "error W02",
                "modified copy of NVIDIA's",
                with_file(copy, "libcudart.so.13"),
            ),
            (
                "warning W02",
                "is a copy",
                with_file("x/libcudart.so.13", "libcudart.so.13"),
            ),
            ("warning W03", "needs `libcuda.so.1`", needs("libcuda.so.1")),
            (
                "error W04",
                "`/usr/local/cuda/lib64`",
                with_path("/usr/local/cuda/lib64"),
            ),
            ("error W04: `` in", "not relative", with_path("")),
            (
                "warning W04",
                "leaves site-packages",
                with_path("$ORIGIN/../../../lib"),
            ),
            (
                "error W05",
                "`libcublas.so.13` of `cublas`, and no",
                needs(cublas),
            ),
            ("warning W05", "only an extra", blas("extra == 'blas'")),
            ("note W05", "unless `torch` does", requires("torch", cublas)),
            (
                "note W05",
                "unless `torch` does",
                with(&[REQUIRES], &[cublas, "libtorch.so"]),
            ),
            (
                "note W05",
                "unless `cupy-cuda13x`",
                requires("cupy-cuda13x", cublas),
            ),
            (
                "error W06",
                "to `nvidia/cu13/lib`",
                wheel("saxpy", &[REQUIRES], &cudart, &["$ORIGIN"]),
            ),
            (
                "error W07",
                "of CUDA 11 or 12, and the module is for CUDA 13",
                wheel(
                    "saxpy",
                    &["cuda-toolkit[cudart,curand]>=13.0,<14"],
                    &["libcudart.so.13", "libcurand.so.10"],
                    &["$ORIGIN/../nvidia/cublas/lib", RPATH],
                ),
            ),
            (
                "warning W07",
                "of CUDA 11 or 12, and the module is for CUDA 13",
                with_path(cublas_12),
            ),
            ("error W07", "to another CUDA", curand(&[RPATH, cublas_12])),
            (
                "error W08",
                "the native modules are for CUDA 13, the requirements are for CUDA 13",
                wheel("saxpy-cu12", &[REQUIRES], &cudart, &[RPATH]),
            ),
            (
                "error W09",
                "newer CUDA majors",
                with(&["cuda-toolkit[cudart]>=13.0"], &[]),
            ),
            (
                "error W09",
                "a placeholder",
                requires("nvidia-cuda-runtime-cu13", "libc.so.6"),
            ),
            // CUDA 13.1 added it.
            (
                "error W10",
                "which the lowest version of",
                importing("cudaDeviceGetDevResource"),
            ),
            (
                "warning W13",
                "without code for future GPUs",
                with_code(&all, &[]),
            ),
        ];
        for (start, part, artifact) in bad {
            let texts = texts(&artifact);
            let [text] = &texts[..] else {
                panic!("{start} {part}: {texts:?}");
            };
            assert!(
                text.starts_with(start) && text.contains(part),
                "{start} {part}: {text}"
            );
        }
    }
}
