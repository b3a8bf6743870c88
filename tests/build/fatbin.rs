//! Fat binaries, beside those that NVIDIA's `fatbinary` writes.
#![allow(
    clippy::disallowed_methods,
    reason = "tests write files for NVIDIA's tools"
)]

use std::fs;
use std::path::Path;

use cuda_build::Capability;
use cuda_build::internal::fatbin::{CompiledImage, Compression, Fatbin, Kind};
use cuda_build::internal::nvrtc::Program;

use crate::support::{components, listed, nvrtc, tool};

const SAXPY: &str = "extern \"C\" __global__ void saxpy(float a, const float* x, float* y, int n) {\n    \
                     int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = a * x[i] + y[i];\n}\n";

/// Compiles `SAXPY` with this major's NVRTC for `sm_80` (a cubin) or `compute_80` (PTX).
fn compile(major: u32, architecture: &str) -> Option<CompiledImage> {
    let capability: Capability = architecture.parse().unwrap();
    let options = vec![format!("-arch={architecture}"), "-std=c++17".to_owned()];
    let program = Program {
        source: SAXPY.as_bytes(),
        name: "saxpy.cu",
        options,
        headers: Vec::new(),
    };
    let bytes = nvrtc(major)?
        .compile(&program)
        .unwrap_or_else(|failure| panic!("{failure}"))
        .image;
    Some(if architecture.starts_with("sm_") {
        CompiledImage::Cubin { capability, bytes }
    } else {
        CompiledImage::Ptx {
            capability,
            text: String::from_utf8(bytes).unwrap(),
        }
    })
}

/// What `fatbinary` makes of the images, in this order.
fn fatbinary(bin: &Path, directory: &Path, mode: &str, images: &[CompiledImage]) -> Vec<u8> {
    let mut arguments = vec![
        "-64".to_owned(),
        "--create=theirs.fatbin".to_owned(),
        format!("--compress-mode={mode}"),
    ];
    for (index, image) in images.iter().enumerate() {
        let (kind, capability, bytes) = match image {
            CompiledImage::Cubin { capability, bytes } => ("elf", capability, bytes.as_slice()),
            CompiledImage::Ptx { capability, text } => ("ptx", capability, text.as_bytes()),
        };
        let file = format!("{index}.{kind}");
        fs::write(directory.join(&file), bytes).unwrap();
        let digits = capability.digits();
        arguments.push(format!("--image3=kind={kind},sm={digits},file={file}"));
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    tool(bin, "fatbinary", directory, &arguments);
    fs::read(directory.join("theirs.fatbin")).unwrap()
}

/// PTX as `fatbinary` leaves it, without comments and indentation.
fn as_fatbinary_leaves_it(bin: &Path, directory: &Path, image: CompiledImage) -> CompiledImage {
    let CompiledImage::Ptx { capability, .. } = image else {
        return image;
    };
    let theirs = Fatbin::parse(&fatbinary(bin, directory, "none", &[image])).unwrap();
    let text = theirs.entries().next().unwrap().image().unwrap().to_vec();
    CompiledImage::Ptx {
        capability,
        text: String::from_utf8(text).unwrap(),
    }
}

/// Byte for byte what `fatbinary` writes, for images of this major. The architectures are in the
/// order of the container.
fn check_same_as_fatbinary(major: u32, architectures: &[&str]) {
    let Some(tools) = components(13) else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut images = Vec::new();
    for architecture in architectures {
        let Some(image) = compile(major, architecture) else {
            return;
        };
        images.push(as_fatbinary_leaves_it(&tools.bin, directory.path(), image));
    }
    let theirs = fatbinary(&tools.bin, directory.path(), "none", &images);
    images.reverse();
    let ours = Fatbin::from_images(images).unwrap().write();
    let first = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    assert_eq!(
        (first, ours.len()),
        (None, theirs.len()),
        "first difference, length"
    );
    let read = Fatbin::parse(&theirs).unwrap();
    let listed = read.entries().map(|entry| match entry.kind() {
        Kind::Ptx => entry.capability().compute(),
        _ => entry.capability().sm(),
    });
    assert_eq!(listed.collect::<Vec<_>>(), architectures);
    assert_eq!(read.write(), theirs);
}

#[test]
fn same_as_fatbinary_for_cuda_11() {
    check_same_as_fatbinary(11, &["sm_52", "sm_80", "sm_90", "compute_90"]);
}

#[test]
fn same_as_fatbinary_for_cuda_12() {
    let architectures = [
        "sm_75",
        "sm_80",
        "sm_90",
        "sm_90a",
        "sm_100f",
        "sm_120",
        "compute_90a",
        "compute_120",
    ];
    check_same_as_fatbinary(12, &architectures);
}

#[test]
fn same_as_fatbinary_for_cuda_13() {
    let architectures = [
        "sm_75",
        "sm_90a",
        "sm_100",
        "sm_100a",
        "sm_100f",
        "sm_110",
        "sm_120",
        "compute_75",
        "compute_100f",
        "compute_120a",
    ];
    check_same_as_fatbinary(13, &architectures);
}

/// One `.fatbin` with three capabilities and PTX, which NVIDIA's tools list and take apart again
/// into what went in.
fn check_saxpy(major: u32) {
    let Some(tools) = components(13) else { return };
    let Some(images) = ["sm_80", "sm_90", "sm_120", "compute_120"]
        .map(|architecture| compile(major, architecture))
        .into_iter()
        .collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("saxpy.fatbin");
    fs::write(&path, Fatbin::from_images(images.clone()).unwrap().write()).unwrap();
    assert_eq!(
        listed(&tools.bin, &path),
        ["sm_80.cubin", "sm_90.cubin", "sm_120.cubin", "sm_120.ptx"]
    );

    tool(
        &tools.bin,
        "cuobjdump",
        directory.path(),
        &["-xelf", "all", "saxpy.fatbin"],
    );
    tool(
        &tools.bin,
        "cuobjdump",
        directory.path(),
        &["-xptx", "all", "saxpy.fatbin"],
    );
    let names = [
        "saxpy.1.sm_80.cubin",
        "saxpy.2.sm_90.cubin",
        "saxpy.3.sm_120.cubin",
        "saxpy.1.sm_120.ptx",
    ];
    for (image, name) in images.iter().zip(names) {
        let expected = match image {
            CompiledImage::Cubin { bytes, .. } => bytes.as_slice(),
            CompiledImage::Ptx { text, .. } => text.as_bytes(),
        };
        assert!(
            fs::read(directory.path().join(name)).unwrap() == expected,
            "{name} came out changed"
        );
    }
}

#[test]
fn saxpy_with_nvrtc_12() {
    check_saxpy(12);
}

#[test]
fn saxpy_with_nvrtc_13() {
    check_saxpy(13);
}

#[test]
fn compressed_entries_stay_as_they_are() {
    let Some(tools) = components(13) else { return };
    let Some(image) = compile(13, "compute_80") else {
        return;
    };
    for (mode, expected) in [("speed", Compression::Lz4), ("size", Compression::Zstd)] {
        let directory = tempfile::tempdir().unwrap();
        let theirs = fatbinary(
            &tools.bin,
            directory.path(),
            mode,
            std::slice::from_ref(&image),
        );
        let read = Fatbin::parse(&theirs).unwrap();
        let entry = read.entries().next().unwrap();
        assert_eq!(
            (entry.kind(), entry.compression(), entry.image()),
            (Kind::Ptx, expected, None)
        );
        assert_eq!(read.write(), theirs);
    }
}

#[test]
fn every_truncation_of_a_real_one_is_refused() {
    let Some(image) = compile(13, "sm_120") else {
        return;
    };
    let whole = Fatbin::from_images(vec![image]).unwrap().write();
    for len in 0..whole.len() {
        assert!(
            Fatbin::parse(&whole[..len]).is_err(),
            "{len} of {} bytes",
            whole.len()
        );
    }
}

/// The source's name, which `fatbinary --ident` adds, makes the header longer.
#[test]
fn a_longer_header_is_kept() {
    let Some(tools) = components(13) else { return };
    let Some(CompiledImage::Cubin { bytes, .. }) = compile(13, "sm_120") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.cubin"), bytes).unwrap();
    let image = "--image3=kind=elf,sm=120,file=a.cubin";
    let arguments = [
        "-64",
        "--create=t.fatbin",
        "--compress-mode=none",
        "--ident=kernels.cu",
        image,
    ];
    tool(&tools.bin, "fatbinary", directory.path(), &arguments);
    let theirs = fs::read(directory.path().join("t.fatbin")).unwrap();
    let read = Fatbin::parse(&theirs).unwrap();
    assert_eq!(read.entries().count(), 1);
    assert_eq!(read.write(), theirs);
}
