//! `cargo cuda audit`: planted defects, each in a wheel that is good otherwise.

mod compressed;
pub mod fixture;
mod hostile;

use std::fs;

use cargo_cuda::wheel::archive::Entry;
use serde_json::json;

use crate::components::offline;
use fixture::{GOOD, Module, RPATH, Wheel, audit, codes, cudart, library, report};

/// The name of a defect's check, and the wheel that has it.
fn defects() -> Vec<(&'static str, Wheel)> {
    let with = |change: &dyn Fn(&mut Module)| {
        let mut module = Module::good();
        change(&mut module);
        Wheel::with_module(module.link())
    };
    let changed = |change: &dyn Fn(&mut Wheel)| {
        let mut wheel = Wheel::good();
        change(&mut wheel);
        wheel
    };
    let adding = |path: &str, content: Vec<u8>| {
        changed(&|wheel| {
            wheel.files.insert(path.to_owned(), content.clone());
        })
    };
    let runtime = fs::read(cudart().join("libcudart.so.13")).unwrap();
    vec![
        (
            "W01",
            adding("saxpy.libs/libcuda-df60b7cf.so.1", library("libcuda.so.1")),
        ),
        (
            "W02",
            adding("saxpy.libs/libcudart-16e8815a.so.13", runtime.clone()),
        ),
        ("W02", adding("saxpy/libcudart.so.13", runtime)),
        ("W03", {
            let path = tempfile::tempdir().unwrap();
            fs::write(path.path().join("libcuda.so.1"), library("libcuda.so.1")).unwrap();
            let directory = format!("-L{}", path.path().display());
            with(&|module| {
                let options = ["-Wl,--no-as-needed", &directory, "-l:libcuda.so.1"];
                module.options.extend(options.map(str::to_owned));
            })
        }),
        (
            "W04",
            with(&|module| module.rpath.push("/usr/local/cuda/lib64".to_owned())),
        ),
        (
            "W04",
            with(&|module| module.rpath.push("$ORIGIN/../../../lib".to_owned())),
        ),
        ("W05", changed(&|wheel| wheel.requires.clear())),
        (
            "W05",
            changed(&|wheel| wheel.requires[0].push_str("; extra == \"gpu\"")),
        ),
        ("W06", with(&|module| module.rpath.clear())),
        (
            "W07",
            with(&|module| {
                module
                    .rpath
                    .push("$ORIGIN/../nvidia/cuda_runtime/lib".to_owned());
            }),
        ),
        (
            "W08",
            changed(&|wheel| wheel.name = "saxpy_cu12".to_owned()),
        ),
        (
            "W09",
            changed(&|wheel| wheel.requires[0] = "cuda-toolkit[cudart]>=13.0".to_owned()),
        ),
        (
            "W09",
            changed(&|wheel| wheel.requires.push("nvidia-cuda-runtime-cu13".to_owned())),
        ),
        (
            "W10",
            with(&|module| {
                // CUDA 13.1 added it.
                let code = "extern int cudaDeviceGetDevResource();\n\
                            int f(void) { return cudaDeviceGetDevResource(); }\n";
                module.code.push_str(code);
            }),
        ),
        (
            "W11",
            Wheel::with_module(without_needed(Module::good().link())),
        ),
        (
            "W12",
            adding("saxpy/libnvrtc.so.13", library("libnvrtc.so.13")),
        ),
        (
            "W13",
            with(&|module| module.images.retain(|image| !image.contains("PTX"))),
        ),
        (
            "W14",
            with(&|module| module.images = vec!["80", "90a", "100", "120", "120 PTX"]),
        ),
        ("W15", with(&|module| module.relocatable = true)),
        (
            "W16",
            with(&|module| {
                module.code.push_str(
                    "extern int pthread_create();\nint f(void) { return pthread_create(); }\n",
                );
            }),
        ),
        ("W17", adding("saxpy/data.bin", vec![0; 61 << 20])),
        (
            "W18",
            changed(&|wheel| {
                wheel.changed.insert(
                    "saxpy/__init__.py".to_owned(),
                    b"from .saxpy import *  # \n".to_vec(),
                );
            }),
        ),
        (
            "W19",
            changed(&|wheel| {
                let files = std::mem::take(&mut wheel.files).into_iter();
                wheel.files = files
                    .map(|(path, content)| (path.replace("saxpy/", "fast/"), content))
                    .collect();
            }),
        ),
        (
            "W20",
            with(&|module| module.options.push("-Wl,-z,execstack".to_owned())),
        ),
    ]
}

/// Takes the first library out of `NEEDED`, as tools do that leave the version table as it is.
fn without_needed(mut module: Vec<u8>) -> Vec<u8> {
    use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
    let file = ElfFile64::<object::Endianness>::parse(&*module).unwrap();
    let endian = file.elf_header().endian().unwrap();
    let sections = file.elf_section_table();
    let (_, dynamic) = sections.section_by_name(endian, b".dynamic").unwrap();
    let (start, _) = dynamic.file_range(endian).unwrap();
    let start = start as usize;
    assert_eq!(
        module[start..start + 8],
        1_u64.to_le_bytes(),
        "the first entry is DT_NEEDED"
    );
    // DT_DEBUG, which the loader ignores in a library.
    module[start..start + 8].copy_from_slice(&21_u64.to_le_bytes());
    module
}

#[test]
fn each_defect_has_exactly_its_code() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for (code, wheel) in defects() {
        let path = wheel.write(place.path());
        let finished = audit(&["--json"], &[&path]);
        let report = report(&finished);
        assert_eq!(codes(&report), [code], "{report:#}");
        let is_error = report["findings"][0]["severity"] == "error";
        assert_eq!(finished.code, if is_error { 17 } else { 0 }, "{code}");
        let allowed = audit(&["--json", "--allow", code], &[&path]);
        assert_eq!(allowed.code, 0, "{code}");
        assert!(codes(&fixture::report(&allowed)).is_empty(), "{code}");
        fs::remove_file(path).unwrap();
        seen.push(code);
    }
    seen.dedup();
    let all: Vec<&str> = cargo_cuda::audit::check::ALL
        .iter()
        .map(|check| check.code)
        .collect();
    assert_eq!(seen, all);
}

#[test]
fn a_good_wheel_has_no_findings() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let wheel = Wheel::good();
    let path = wheel.write(place.path());
    let finished = audit(&["--json"], &[&path]);
    assert_eq!(finished.code, 0);
    let report = report(&finished);
    assert_eq!(report["findings"], json!([]), "{report:#}");
    assert_eq!(report["name"], "saxpy-cu13");
    assert_eq!(
        report["modules"][0]["libraries"],
        json!(["libcudart.so.13"])
    );
    assert_eq!(report["modules"][0]["search_path"], json!([RPATH]));

    let text = audit(&[], &[&path]).stdout;
    for line in [
        "saxpy/saxpy.abi3.so needs libcudart.so.13",
        "SASS needs driver 580.65.06 or newer",
        "Turing     7.5                      none",
        "Ampere     8.0, 8.6, 8.7, 8.8       native",
        "Blackwell  11.0                     none",
        "no errors, no warnings",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    // The unpacked wheel and the library alone are good too.
    for (name, content) in wheel.all_files() {
        let file = place.path().join("unpacked").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    let unpacked = place.path().join("unpacked");
    for path in [unpacked.as_path(), &unpacked.join("saxpy/saxpy.abi3.so")] {
        let report = fixture::report(&audit(&["--json"], &[path]));
        assert_eq!(report["findings"], json!([]), "{report:#}");
        assert_eq!(
            report["device_code"][0]["images"].as_array().unwrap().len(),
            GOOD.len()
        );
    }
}

#[test]
fn device_code_in_data_is_found() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut module = Module::good();
    module.section = ".rodata";
    module.code.push_str("const char odd[3] = \"ab\";\n");
    let path = Wheel::with_module(module.link()).write(place.path());
    let in_data = report(&audit(&["--json"], &[&path]));
    let path = Wheel::good().write(place.path());
    let in_section = report(&audit(&["--json"], &[&path]));
    assert_eq!(in_data["device_code"], in_section["device_code"]);
    let mut wheel = Wheel::good();
    wheel.files.insert(
        "saxpy/kernels.fatbin".to_owned(),
        fixture::container(&["80"]),
    );
    let report = report(&audit(&["--json"], &[&wheel.write(place.path())]));
    let files: Vec<&str> = report["device_code"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| device["files"][0].as_str().unwrap())
        .collect();
    assert_eq!(files, ["saxpy/saxpy.abi3.so", "saxpy/kernels.fatbin"]);
    assert_eq!(codes(&report), ["W13"]);
}

#[test]
fn lto_ir_runs_where_it_can_be_linked() {
    if offline() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut module = Module::good();
    module.images = vec!["80", "90 LTO"];
    let library = module.link();
    let entry = Entry::new(library.clone(), true).unwrap();
    assert!(entry.elf.unwrap().has_lto_ir());
    let good = Entry::new(Module::good().link(), true).unwrap();
    assert!(!good.elf.unwrap().has_lto_ir());
    let path = Wheel::with_module(library).write(place.path());
    let report = report(&audit(&["--json"], &[&path]));
    assert_eq!(report["findings"], json!([]), "{report:#}");
    let device = &report["device_code"][0];
    assert_eq!(device["images"][1]["kind"], "lto-ir");
    assert_eq!(device["images"][1]["capability"], "9.0");
    let text = audit(&[], &[&path]).stdout;
    for line in [
        "SASS 8.0",
        "LTO-IR 9.0",
        "Ampere     8.0, 8.6, 8.7, 8.8       native",
        "Hopper     9.0                      linked from LTO-IR by nvJitLink",
        "Turing     7.5                      none",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn unknown_codes_are_a_usage_error() {
    let finished = audit(&["--allow", "W99"], &[std::path::Path::new("x.whl")]);
    finished.failed(
        2,
        &["`W99` is not the code of a check, which is one of W01 to W20"],
    );
}
