//! Products in the system's directories, beside everything else that package managers put there.

use std::fs;

use cuda_build::{Component, Toolkit};
use cuda_find_core::error::Error;
use cuda_find_core::{
    root::Root,
    search::SearchContext,
    select::{Need, Request},
};

use crate::layout_files::Layout;
use crate::online::products::{optional, says, with};

/// `nvidia/cuda:12.4.1-cudnn-devel`, with changes.
fn image(change: impl Fn(String) -> String) -> Layout {
    let path = crate::layout_files::directory().join("usr-local-and-cudnn-from-apt.txt");
    Layout::parse(&change(fs::read_to_string(path).unwrap()))
}

fn found_in(layout: &Layout, needs: Vec<Need>) -> Result<Toolkit, Error> {
    let (root, env) = (Root::below(&layout.root), layout.environment());
    let request = Request {
        needs,
        ..Request::default()
    };
    SearchContext::new(&root, &env, &layout.target()).find(&request)
}

#[test]
fn the_systems_products_are_there_whatever_names_the_toolkit() {
    for variable in ["", "env CUDA_HOME=@ROOT@/usr/local/cuda\n"] {
        let layout = image(|text| format!("{variable}{text}"));
        for needs in [with(Component::Cudnn), optional(Component::Cudnn)] {
            let toolkit = found_in(&layout, needs).unwrap();
            assert_eq!(
                toolkit.get(Component::Cudnn).unwrap().to_string(),
                "cudnn 9.1.0"
            );
        }
    }
}

#[test]
fn the_package_manager_tells_which_cuda_the_systems_products_are_for() {
    let layout = image(|text| {
        text.replace("libcudnn9-cuda-12", "libcudnn9-cuda-13")
            .replace("dev-cuda-12", "dev-cuda-13")
    });
    let error = found_in(&layout, with(Component::Cudnn)).unwrap_err();
    says(
        &error,
        &[
            "cudnn` not found",
            "is for CUDA 12",
            "cudnn 9.1.0 (system directories",
            "is for CUDA 13",
        ],
    );
    let named = image(|text| {
        let text = text.replace("-cuda-12", "-cuda-13");
        format!("env CUDA_HOME=@ROOT@/usr/local/cuda\n{text}")
    });
    let error = found_in(&named, with(Component::Cudnn)).unwrap_err();
    assert!(matches!(error, Error::Inconsistent { .. }), "{error:?}");
    assert!(found_in(&layout, with(Component::Nccl)).is_ok());
    let toolkit = found_in(&layout, optional(Component::Cudnn)).unwrap();
    assert!(toolkit.get(Component::Cudnn).is_none());
    // Where nothing tells, it is for what is there.
    let silent =
        image(|text| text.replace("file var/lib/dpkg/status", "file var/lib/dpkg/status-old"));
    assert!(found_in(&silent, with(Component::Cudnn)).is_ok());
}

/// Debian's own libraries of CUDA, without compiler and headers, are no toolkit, and say nothing of
/// NVIDIA's cuDNN beside them.
#[test]
fn products_alone_count_in_the_systems_directories() {
    let library = "elf usr/lib/x86_64-linux-gnu/libcudart.so.11.0 libcudart.so.11.0\n\
                   elf usr/lib/x86_64-linux-gnu/libcufft.so.11 libcufft.so.11\n";
    let layout = image(|text| format!("{text}{library}").replace("dpkg/status", "dpkg/status-old"));
    assert!(found_in(&layout, with(Component::Cudnn)).is_ok());
    assert!(matches!(
        found_in(&layout, with(Component::Cufft)).unwrap_err(),
        Error::NotFound { .. }
    ));
}
