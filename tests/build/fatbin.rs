//! Fat binaries, beside those that NVIDIA's `fatbinary` writes.
#![allow(
    clippy::disallowed_methods,
    reason = "tests write files for NVIDIA's tools"
)]

use std::fs;
use std::path::Path;

use cuda_build::Capability;
use cuda_build::{
    fatbin::{Compression, Entry, Fatbin, Kind},
    nvrtc::Program,
};

use crate::support::{components, listed, nvrtc, tool};

const SAXPY: &str = "extern \"C\" __global__ void saxpy(float a, const float* x, float* y, int n) {\n    \
                     int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = a * x[i] + y[i];\n}\n";

/// What a compiler made.
#[derive(Clone)]
enum Compiled {
    Cubin(Capability, Vec<u8>),
    Ptx(Capability, String),
}

fn fat_binary(images: &[Compiled]) -> Vec<u8> {
    let entry = |image: &Compiled| match image {
        Compiled::Cubin(capability, bytes) => Entry::cubin(*capability, bytes.clone()).unwrap(),
        Compiled::Ptx(capability, text) => Entry::ptx(*capability, text).unwrap(),
    };
    Fatbin::from_entries(images.iter().map(entry).collect()).write()
}

/// Compiles `SAXPY` with this major's NVRTC for `sm_80` (a cubin) or `compute_80` (PTX).
fn compile(major: u32, architecture: &str) -> Compiled {
    let capability: Capability = architecture.parse().unwrap();
    let options = vec![format!("-arch={architecture}"), "-std=c++17".to_owned()];
    let program = Program {
        source: SAXPY.as_bytes(),
        name: "saxpy.cu",
        options,
        headers: Vec::new(),
    };
    let bytes = nvrtc(major)
        .compile(&program)
        .unwrap_or_else(|failure| panic!("{failure}"))
        .image;
    if architecture.starts_with("sm_") {
        Compiled::Cubin(capability, bytes)
    } else {
        Compiled::Ptx(capability, String::from_utf8(bytes).unwrap())
    }
}

/// What `fatbinary` makes of the images, in this order.
fn fatbinary(bin: &Path, directory: &Path, mode: &str, images: &[Compiled]) -> Vec<u8> {
    let mut arguments = vec![
        "-64".to_owned(),
        "--create=theirs.fatbin".to_owned(),
        format!("--compress-mode={mode}"),
    ];
    for (index, image) in images.iter().enumerate() {
        let (kind, capability, bytes) = match image {
            Compiled::Cubin(capability, bytes) => ("elf", capability, bytes.as_slice()),
            Compiled::Ptx(capability, text) => ("ptx", capability, text.as_bytes()),
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
fn as_fatbinary_leaves_it(bin: &Path, directory: &Path, image: Compiled) -> Compiled {
    let Compiled::Ptx(capability, _) = image else {
        return image;
    };
    let theirs = Fatbin::parse(&fatbinary(bin, directory, "none", &[image])).unwrap();
    let text = theirs.entries().next().unwrap().image().unwrap().to_vec();
    Compiled::Ptx(capability, String::from_utf8(text).unwrap())
}

mod online {
    use super::*;

    /// Byte for byte what `fatbinary` writes, for images of each major. The architectures are in the
    /// order of the container.
    #[test]
    fn fat_binaries_equal_those_of_fatbinary() {
        let tools = components(13);
        for (major, architectures) in [
            (11, &["sm_52", "sm_80", "sm_90", "compute_90"][..]),
            (
                12,
                &[
                    "sm_75",
                    "sm_90a",
                    "sm_100f",
                    "sm_120",
                    "compute_90a",
                    "compute_120",
                ],
            ),
            (
                13,
                &[
                    "sm_75",
                    "sm_100",
                    "sm_100a",
                    "sm_100f",
                    "compute_75",
                    "compute_100f",
                    "compute_120a",
                ],
            ),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let images = architectures.iter().map(|architecture| {
                let image = compile(major, architecture);
                as_fatbinary_leaves_it(&tools.bin, directory.path(), image)
            });
            let images: Vec<Compiled> = images.collect();
            let theirs = fatbinary(&tools.bin, directory.path(), "none", &images);
            let written = fat_binary(&images);
            let first = written.iter().zip(&theirs).position(|(a, b)| a != b);
            assert_eq!((first, written.len()), (None, theirs.len()), "CUDA {major}");
            let read = Fatbin::parse(&theirs).unwrap();
            let listed = read.entries().map(|entry| match entry.header().kind {
                Kind::Ptx => entry.header().capability.compute(),
                _ => entry.header().capability.sm(),
            });
            assert_eq!(listed.collect::<Vec<_>>(), architectures);
        }
    }

    /// NVIDIA's tools list a `.fatbin` and take it apart again into what went in.
    #[test]
    fn tools_of_nvidia_read_a_fat_binary() {
        let tools = components(13);
        let images =
            ["sm_80", "sm_120", "compute_120"].map(|architecture| compile(13, architecture));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("saxpy.fatbin");
        fs::write(&path, fat_binary(&images)).unwrap();
        let names = ["sm_80.cubin", "sm_120.cubin", "sm_120.ptx"];
        assert_eq!(listed(&tools.bin, &path), names);
        for option in ["-xelf", "-xptx"] {
            let arguments = [option, "all", "saxpy.fatbin"];
            tool(&tools.bin, "cuobjdump", directory.path(), &arguments);
        }
        for (image, name) in images
            .iter()
            .zip(["1.sm_80.cubin", "2.sm_120.cubin", "1.sm_120.ptx"])
        {
            let expected = match image {
                Compiled::Cubin(_, bytes) => bytes.as_slice(),
                Compiled::Ptx(_, text) => text.as_bytes(),
            };
            let extracted = fs::read(directory.path().join(format!("saxpy.{name}"))).unwrap();
            assert!(extracted == expected, "{name} came out changed");
        }
    }

    #[test]
    fn unknown_parts_are_written_as_they_were_read() {
        let tools = components(13);
        let image = compile(13, "compute_80");
        for (mode, expected) in [("speed", Compression::Lz4), ("size", Compression::Zstd)] {
            let directory = tempfile::tempdir().unwrap();
            let images = std::slice::from_ref(&image);
            let theirs = fatbinary(&tools.bin, directory.path(), mode, images);
            let read = Fatbin::parse(&theirs).unwrap();
            let entry = read.entries().next().unwrap();
            let header = entry.header();
            assert_eq!((header.kind, header.compression), (Kind::Ptx, expected));
            assert_eq!(entry.image(), None);
            assert_eq!(read.write(), theirs);
        }
        // The source's name makes the header longer.
        let Compiled::Cubin(_, bytes) = compile(13, "sm_120") else {
            unreachable!("a real architecture gives a cubin");
        };
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.cubin"), bytes).unwrap();
        let arguments = [
            "-64",
            "--create=t.fatbin",
            "--compress-mode=none",
            "--ident=kernels.cu",
            "--image3=kind=elf,sm=120,file=a.cubin",
        ];
        tool(&tools.bin, "fatbinary", directory.path(), &arguments);
        let theirs = fs::read(directory.path().join("t.fatbin")).unwrap();
        assert_eq!(Fatbin::parse(&theirs).unwrap().write(), theirs);
    }
}
