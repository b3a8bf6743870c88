//! `cargo cuda audit` of wheels and libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cargo_cuda::exit_code;
use cargo_cuda::package::archive::{WheelArchive, WheelFile};
use cargo_cuda::package::archive_writer;
use serde_json::{Value, json};

use crate::support::Finished;

fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{errors}");
    output
}

/// A library with this SONAME.
pub fn library(soname: &str) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("lib.so");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-nostdlib", "-x", "c", "/dev/null", "-o"])
        .arg(&output);
    run(gcc.arg(format!("-Wl,-soname,{soname}")));
    fs::read(output).unwrap()
}

/// Writes a wheel for CUDA 13 with these files.
fn wheel(place: &Path, files: &[(&str, Vec<u8>)]) -> PathBuf {
    let dist_info = "saxpy_cu13-0.1.0.dist-info";
    let metadata = "Metadata-Version: 2.4\nName: saxpy-cu13\nVersion: 0.1.0\n\
                    Requires-Dist: cuda-toolkit[cudart]>=13.0,<14\n";
    let texts = [("METADATA", metadata), ("WHEEL", "Wheel-Version: 1.0\n")];
    let texts = texts.map(|(name, text)| (format!("{dist_info}/{name}"), text.into()));
    let files = files
        .iter()
        .map(|(path, content)| ((*path).to_owned(), content.clone()));
    let entries = files
        .chain(texts)
        .map(|(path, content)| (path, WheelFile::new(content, false).unwrap()));
    let wheel = WheelArchive::new(dist_info.to_owned(), entries.collect());
    let path = place.join("saxpy_cu13-0.1.0-cp39-abi3-manylinux_2_17_x86_64.whl");
    archive_writer::write(&wheel, &path).unwrap();
    path
}

fn audit(arguments: &[&str], path: &Path) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    command.args(["cuda", "audit"]).args(arguments).arg(path);
    Finished::of(command.output().unwrap())
}

/// The JSON report of one artifact, and the exit code.
#[track_caller]
fn report(arguments: &[&str], path: &Path) -> (Value, u8) {
    let finished = audit(&[&["--json"], arguments].concat(), path);
    let report: Value =
        serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"));
    assert_eq!(report["format_version"], 1);
    let code = u8::try_from(finished.code).unwrap();
    (report["artifacts"][0].clone(), code)
}

#[test]
fn errors_decide_the_exit_code_unless_allowed() {
    let place = tempfile::tempdir().unwrap();
    let copy = library("libcudart.so.13");
    let unchanged = wheel(place.path(), &[("saxpy/libcudart.so.13", copy.clone())]);
    let (found, code) = report(&[], &unchanged);
    assert_eq!(code, exit_code::SUCCESS);
    assert_eq!(found["findings"][0]["severity"], "warning");
    let renamed = [
        ("saxpy.libs/libcudart-16e8815a.so.13", copy.clone()),
        ("saxpy.libs/libcudart-26e8815a.so.13", copy),
    ];
    let renamed = wheel(place.path(), &renamed);
    let (found, code) = report(&[], &renamed);
    assert_eq!(code, exit_code::AUDIT);
    let files = json!([
        "saxpy.libs/libcudart-16e8815a.so.13",
        "saxpy.libs/libcudart-26e8815a.so.13"
    ]);
    assert_eq!(found["findings"][0]["files"], files, "{found:#}");
    let (found, code) = report(&["--allow", "w02"], &renamed);
    assert_eq!(code, exit_code::SUCCESS);
    assert_eq!(
        (&found["findings"], &found["allowed"][0]["code"]),
        (&json!([]), &json!("W02"))
    );
    audit(&["--allow", "W99"], &renamed).failed(exit_code::USAGE, &["invalid value 'W99'", "W13"]);
}

mod online {
    use std::collections::BTreeSet;
    use std::fs::File;

    use cargo_cuda::package::device::{DeviceCode, ImageKind};
    use cuda_build::nvrtc::{Nvrtc, Program};

    use super::*;
    use crate::components::site_packages;

    const KERNEL: &str =
        "extern \"C\" __global__ void scale(float *v, float f) { v[threadIdx.x] *= f; }\n";

    fn root() -> PathBuf {
        site_packages(13).join("nvidia/cu13")
    }

    /// A fat binary that nvcc makes, with `compute_80,sm_80` for each of `codes`.
    fn fatbin(kernel: &str, codes: &[&str], options: &[&str]) -> Vec<u8> {
        let place = tempfile::tempdir().unwrap();
        let (source, output) = (place.path().join("k.cu"), place.path().join("k.fatbin"));
        fs::write(&source, kernel).unwrap();
        let mut nvcc = Command::new(root().join("bin/nvcc"));
        nvcc.args(["-fatbin", "-o"])
            .arg(&output)
            .arg(&source)
            .args(options);
        for code in codes {
            let (architecture, code) = code.split_once(',').unwrap();
            nvcc.arg(format!("-gencode=arch={architecture},code={code}"));
        }
        run(&mut nvcc);
        fs::read(output).unwrap()
    }

    /// A module that is linked to the CUDA runtime, with device code in a section.
    fn module(section: &str, codes: &[&str]) -> Vec<u8> {
        let place = tempfile::tempdir().unwrap();
        let (source, output) = (place.path().join("m.c"), place.path().join("m.so"));
        let image = place.path().join("image");
        fs::write(&image, fatbin(KERNEL, codes, &[])).unwrap();
        let image = image.display();
        let code = format!(
            "const char odd[3] = \"ab\";\nextern int cudaRuntimeGetVersion(int *);\n\
             int saxpy(void) {{ int v = 0; return cudaRuntimeGetVersion(&v) + v; }}\n\
             __asm__(\".section {section},\\\"a\\\"\\n.incbin \\\"{image}\\\"\\n.previous\");\n"
        );
        fs::write(&source, code).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args([
            "-shared",
            "-fPIC",
            "-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib",
            "-o",
        ]);
        gcc.arg(&output)
            .arg(&source)
            .arg("-L")
            .arg(root().join("lib"));
        run(gcc.arg("-l:libcudart.so.13"));
        fs::read(output).unwrap()
    }

    #[test]
    fn a_good_wheel_has_no_findings() {
        let place = tempfile::tempdir().unwrap();
        let codes = [
            "compute_80,sm_80",
            "compute_90,sm_90",
            "compute_100,sm_100",
            "compute_120,[sm_120,compute_120]",
        ];
        let module = module(".nv_fatbin", &codes);
        let path = wheel(place.path(), &[("saxpy/saxpy.so", module.clone())]);
        let (found, code) = report(&[], &path);
        assert_eq!((code, &found["findings"]), (0, &json!([])), "{found:#}");
        assert_eq!(
            (&found["name"], &found["cuda_majors"]),
            (&json!("saxpy-cu13"), &json!([13]))
        );
        let text = audit(&[], &path).stdout;
        for line in [
            "SASS needs driver 580.65.06 or newer",
            "errors: 0, warnings: 0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let alone = place.path().join("saxpy.so");
        fs::write(&alone, module).unwrap();
        let (library, _) = report(&[], &alone);
        assert_eq!(library["findings"], json!([]), "{library:#}");
        assert_eq!(
            library["device_code"][0]["images"],
            found["device_code"][0]["images"]
        );
    }

    /// A library of several sources, of which one kernel has SASS for 8.0 alone, and one source has no kernel.
    #[test]
    fn a_kernel_without_code_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let kernel = |name: &str| format!("__global__ void {name}(float *v) {{ v[0] *= 2; }}\n");
        let host = "extern \"C\" int host() { return 1; }\n".to_owned();
        let all = "compute_80,[sm_80,compute_80]";
        for (sources, finding) in [
            (vec![(kernel("a"), all), (host, "compute_80,sm_80")], None),
            (
                vec![(kernel("a"), all), (kernel("b"), "compute_80,sm_80")],
                Some(
                    "has device functions without code for GPUs 9.0, 10.0, 10.3, 10.7, 12.0, 12.1 and future GPUs",
                ),
            ),
            (
                vec![(kernel("a"), all), (kernel("b"), "compute_90a,sm_90a")],
                None,
            ),
        ] {
            for compression in ["none", "size"] {
                let parts = sources.iter().map(|(source, code)| {
                    let option = format!("--compress-mode={compression}");
                    let image = place.path().join("image");
                    fs::write(&image, fatbin(source, &[code], &[&option])).unwrap();
                    fs::read(image).unwrap()
                });
                let path = place.path().join("library.so");
                fs::write(
                    &path,
                    [vec![library("libplain.so")], parts.collect()]
                        .concat()
                        .concat(),
                )
                .unwrap();
                let (found, _) = report(&[], &path);
                assert_eq!(
                    found["findings"][0]["message"].as_str(),
                    finding,
                    "{found:#}"
                );
            }
        }
    }

    /// A program with code of an older compiler, which no name and no needed library reveals.
    #[test]
    fn the_release_that_made_an_image_decides() {
        let place = tempfile::tempdir().unwrap();
        let cubin = |libraries: PathBuf, capability: &str| {
            let options = vec![format!("-arch=sm_{capability}")];
            let program = Program {
                source: KERNEL.as_bytes(),
                name: "k.cu",
                options,
                headers: Vec::new(),
            };
            Nvrtc::load(&libraries)
                .unwrap()
                .compile(&program)
                .unwrap()
                .image
        };
        let eleven = site_packages(11).join("nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2");
        let twelve = site_packages(12).join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        for (libraries, capability, options, driver) in [
            (&eleven, "70", &["--compress-mode=none"][..], "450.80.02"),
            (
                &eleven,
                "70",
                &["--compress-all", "--compress-mode=speed"],
                "450.80.02",
            ),
            (&twelve, "100", &["--compress-mode=none"], "525.60.13"),
        ] {
            let (image, output) = (place.path().join("cubin"), place.path().join("image"));
            fs::write(&image, cubin(libraries.clone(), capability)).unwrap();
            let image = format!("--image3=kind=elf,sm={capability},file={}", image.display());
            run(Command::new(root().join("bin/fatbinary"))
                .args(options)
                .args(["--64", "--create"])
                .arg(&output)
                .arg(image));
            let program = place.path().join("program");
            let code = [
                library("libplain.so"),
                vec![0; 8],
                fs::read(output).unwrap(),
            ]
            .concat();
            fs::write(&program, code).unwrap();
            let text = audit(&[], &program).stdout;
            let line = format!("SASS needs driver {driver}");
            assert!(text.contains(&line), "{line} {options:?}\n{text}");
        }
    }

    /// Fat binaries in every mode of compression, compared with what NVIDIA's own tool lists.
    #[test]
    fn every_compression_has_the_images_of_cuobjdump() {
        let place = tempfile::tempdir().unwrap();
        let lines = (0..100).map(|n| format!("v[{n} + threadIdx.x] *= f + {n};\n"));
        let body: String = lines.collect();
        let kernel =
            format!("extern \"C\" __global__ void scale(float *v, float f) {{\n{body}}}\n");
        let codes = ["compute_100f,sm_100f", "compute_120,[sm_120,compute_120]"];
        for mode in ["none", "size"] {
            let file = place.path().join(mode);
            let option = format!("--compress-mode={mode}");
            fs::write(&file, fatbin(&kernel, &codes, &[&option])).unwrap();
            let code = DeviceCode::scan(&mut File::open(&file).unwrap(), &[]).unwrap();
            for (kind, option) in [
                (ImageKind::Sass, "--list-elf"),
                (ImageKind::Ptx, "--list-ptx"),
            ] {
                let list = run(Command::new(root().join("bin/cuobjdump"))
                    .arg(option)
                    .arg(&file));
                let list = String::from_utf8(list.stdout).unwrap();
                // `sm_90a` of `ELF file    1: k.1.sm_90a.cubin`.
                let words = list
                    .split(['.', '\n'])
                    .filter(|word| word.starts_with("sm_"));
                let listed: BTreeSet<String> = words.map(str::to_owned).collect();
                // `cuobjdump` leaves out the suffix `f`.
                let images = code.images().into_iter().filter(|image| image.kind == kind);
                let found = images.map(|image| image.capability.sm().replace('f', ""));
                assert_eq!(found.collect::<BTreeSet<_>>(), listed, "{mode}");
            }
            let images = code.images();
            let ptx = images
                .iter()
                .find(|image| image.kind == ImageKind::Ptx)
                .unwrap();
            assert_eq!(ptx.isa, (9, 4), "the version that CUDA 13.4 writes");
            let total: u64 = images.iter().map(|image| image.bytes).sum();
            assert!(total < fs::metadata(&file).unwrap().len(), "{mode}");
        }
    }
}
