//! Fat binaries in every mode of compression, compared with what NVIDIA's own tool lists.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use cargo_cuda::audit::device::DeviceCode;
use cargo_cuda::audit::scan::scan;
use cuda_build::internal::fatbin::Kind;

use super::fixture::run;
use crate::components::{offline, site_packages};

/// What `cuobjdump` lists: `sm_90a` of `ELF file    1: k.1.sm_90a.cubin`.
fn listed(root: &Path, option: &str, file: &Path) -> BTreeSet<String> {
    let output = run(Command::new(root.join("bin/cuobjdump"))
        .arg(option)
        .arg(file));
    let text = String::from_utf8(output.stdout).unwrap();
    let parts = text
        .split(['.', '\n'])
        .filter(|part| part.starts_with("sm_"));
    parts.map(str::to_owned).collect()
}

fn found(code: &DeviceCode, kind: Kind) -> BTreeSet<String> {
    // `cuobjdump` leaves out the suffix `f`.
    code.capabilities(kind)
        .map(|capability| capability.sm().replace('f', ""))
        .collect()
}

#[test]
fn every_compression_has_the_images_of_cuobjdump() {
    if offline() {
        return;
    }
    let root = site_packages(13).unwrap().join("nvidia/cu13");
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("k.cu");
    let body: String = (0..200)
        .map(|n| format!("v[{n} + threadIdx.x] *= f + {n};\n"))
        .collect();
    fs::write(
        &source,
        format!("extern \"C\" __global__ void scale(float *v, float f) {{\n{body}}}\n"),
    )
    .unwrap();
    for mode in ["none", "speed", "size"] {
        let file = place.path().join(format!("{mode}.fatbin"));
        let mut nvcc = Command::new(root.join("bin/nvcc"));
        nvcc.args(["-fatbin", &format!("--compress-mode={mode}")]);
        for (virtual_architecture, code) in [
            ("compute_90a", "sm_90a"),
            ("compute_100f", "sm_100f"),
            ("compute_120", "[sm_120,compute_120]"),
        ] {
            nvcc.args([
                "-gencode",
                &format!("arch={virtual_architecture},code={code}"),
            ]);
        }
        run(nvcc.arg("-o").arg(&file).arg(&source));
        let code = scan(&mut File::open(&file).unwrap(), &[]).unwrap();
        assert_eq!(
            found(&code, Kind::Elf),
            listed(&root, "--list-elf", &file),
            "{mode}"
        );
        assert_eq!(
            found(&code, Kind::Ptx),
            listed(&root, "--list-ptx", &file),
            "{mode}"
        );
        // In the mode `speed`, nvcc 13.4 does not compress every image of this kernel.
        if mode != "speed" {
            assert_eq!(code.uncompressed == 0, mode == "size", "{mode}: {code:?}");
        }
        let ptx = code
            .images
            .keys()
            .find(|image| image.kind == Kind::Ptx)
            .unwrap();
        assert_eq!(ptx.isa, (9, 4), "the version that CUDA 13.4 writes");
        let total: u64 = code.images.values().sum();
        assert!(total < fs::metadata(&file).unwrap().len(), "{mode}");
    }
}
