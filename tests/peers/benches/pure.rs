//! What is computed without a disk: capability plans and fat binaries.

use cuda_build::internal::Declared;
use cuda_build::internal::fatbin::{CompiledImage, Fatbin};
use cuda_build::{Capability, ToolkitVersion};
use divan::counter::BytesCount;

fn main() {
    divan::main();
}

const LISTS: [&[&str]; 3] = [&["8.0"], &["8.0", "9.0a", "12.0+PTX"], &["all"]];

/// From the manifest's words to nvcc's options.
#[divan::bench(args = [0, 1, 2])]
fn capability_plan(bencher: divan::Bencher<'_, '_>, list: usize) {
    let toolkit: ToolkitVersion = "13.0".parse().unwrap();
    bencher.bench(|| {
        let declared = Declared::parse(divan::black_box(LISTS[list])).unwrap();
        declared.plan(toolkit, &[], None).unwrap().nvcc_gencode()
    });
}

/// Three PTX images of `len` bytes each.
fn images(len: usize) -> Vec<CompiledImage> {
    let image = |major| {
        let text = format!(".version 9.0\n.target sm_{major}0\n.address_size 64\n// and so on\n");
        CompiledImage::Ptx {
            capability: Capability::new(major, 0),
            text: text.repeat(len / text.len()),
        }
    };
    [8, 9, 12].map(image).into()
}

const LENGTHS: [usize; 2] = [10_000, 10_000_000];

#[divan::bench(args = LENGTHS)]
fn fatbin_write(bencher: divan::Bencher<'_, '_>, len: usize) {
    bencher
        .counter(BytesCount::new(3 * len))
        .with_inputs(|| images(len))
        .bench_values(|images| Fatbin::from_images(images).unwrap().write());
}

#[divan::bench(args = LENGTHS)]
fn fatbin_parse(bencher: divan::Bencher<'_, '_>, len: usize) {
    let bytes = Fatbin::from_images(images(len)).unwrap().write();
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench(|| Fatbin::parse(divan::black_box(&bytes)).unwrap());
}
