//! One row for each mix: the components, and the texts of the expected error.
//!
//! A component is `cusparse 12.5.8.93 for 12`, with `headers 13.0` or `builtins 12.4` where these differ from its
//! version, and `in /b` for its place.

use std::path::PathBuf;

use super::*;
use crate::capability::{Declared, Plan};

fn found(text: &str) -> Found {
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = |word: &str| Some(words[words.iter().position(|w| *w == word)? + 1]);
    let component: Component = words[0].parse().unwrap();
    let facts = component.facts();
    let major = after("for").unwrap().parse().unwrap();
    let release = after("headers").or(facts.follows_toolkit.then_some(words[1]));
    let library = |name: &&str| match after("builtins").filter(|_| *name == "nvrtc-builtins") {
        Some(builtins) => PathBuf::from(format!("lib{name}.so.{builtins}")),
        None => PathBuf::from(format!("lib{name}.so.{major}")),
    };
    Found {
        version: Some(words[1].parse().unwrap()),
        release: release.and_then(|text| text.parse().ok()),
        include: facts
            .header
            .iter()
            .map(|_| PathBuf::from("include"))
            .collect(),
        libraries: facts.libraries.iter().map(library).collect(),
        origin: after("in").unwrap_or("/a").to_owned(),
        ..Found::new(component, major)
    }
}

fn set(text: &str) -> Vec<Found> {
    text.split(',').map(found).collect()
}

/// Every order of the same components.
fn orders(set: &[Found]) -> Vec<Vec<Found>> {
    if set.len() < 2 {
        return vec![set.to_vec()];
    }
    let mut all = Vec::new();
    for index in 0..set.len() {
        let mut rest = set.to_vec();
        let first = rest.remove(index);
        all.extend(
            orders(&rest)
                .into_iter()
                .map(|rest| [vec![first.clone()], rest].concat()),
        );
    }
    all
}

#[test]
fn compatible_components_have_no_conflict() {
    for text in [
        "nvcc 13.4.92 for 13, nvvm 13.4.92 for 13, crt 13.4.92 for 13, cudart 13.4.92 for 13",
        // Math libraries of a later release beside an older compiler: the major is enough.
        "nvcc 12.4.131 for 12, cudart 12.4.127 for 12, cublas 12.9.1.4 for 12",
        // The `cuda-toolkit` metapackage 12.8.2 requires nvJitLink of 12.8 or newer.
        "cusparse 12.5.8.93 for 12, nvjitlink 12.9.86 for 12, cusolver 11.7.3.90 for 12",
        // An update that no metapackage names, within one release.
        "cusparse 12.5.1.3 for 12, nvjitlink 12.5.40 for 12",
        // Newer than the tables: no release is known, so nothing is refused.
        "cusparse 12.8.6.49 for 13, nvjitlink 13.4.92 for 13",
        // CCCL has a range of its own, with no upper end; profilers may be of any release.
        "nvcc 13.0.88 for 13, cccl 3.4.3 for 13, nvtx 13.5.40 for 13",
        "nvcc 13.5.37 for 13, cccl 1.15.1 for 11",
        "nvrtc 12.0.140 for 12 builtins 12.0, cccl 3.5.0 for 13",
        "nvrtc 11.8.89 for 11 builtins 11.8, cccl 2.8.2 for 12",
        // The runtime's library may be newer than its headers.
        "nvcc 12.4.131 for 12, cudart 12.9.79 for 12 headers 12.4",
        "cudart 12.4.127 for 12, cudnn 9.27.0.42 for 12",
        "cudart 13.4.92 for 13, nvml 12.9.79 for 12",
    ] {
        for order in orders(&set(text)) {
            assert_eq!(conflicts(&order), [], "{text}");
        }
    }
}

#[test]
fn incompatible_components_have_a_conflict() {
    for (text, expected) in [
        (
            "nvcc 13.5.37 for 13, nvvm 13.0.88 for 13 in /b, cudart 13.5.37 for 13",
            "nvcc 13.5.37 (/a) is from CUDA 13.5 & cicc (nvvm) 13.0.88 (/b) is from CUDA 13.0 & nvidia-nvvm==13.5.*",
        ),
        (
            "nvcc 13.0.88 for 13, crt 13.5.37 for 13 in /b",
            "nvcc 13.0.88 (/a) & crt 13.5.37 (/b) is from CUDA 13.5 & nvidia-cuda-crt==13.0.*",
        ),
        (
            "nvcc 13.4.92 for 13, cudart 13.0.96 for 13 in /b",
            "nvcc 13.4.92 (/a) & headers of cudart 13.0.96 (/b) are from CUDA 13.0 & nvidia-cuda-runtime==13.4.*",
        ),
        (
            "nvrtc 13.2.51 for 13 builtins 13.2, cudart 13.0.96 for 13 in /usr",
            "nvrtc 13.2.51 (/a) & headers of cudart 13.0.96 (/usr) & nvidia-cuda-runtime==13.2.*",
        ),
        (
            "nvrtc 11.8.89 for 11 builtins 11.8, cccl 3.0.1 for 13 in /b",
            "nvrtc 11.8.89 (/a) is from CUDA 11.8 & headers of cccl 3.0.1 (/b) require CUDA 12.0 & \
             nvidia-cuda-cccl-cu11",
        ),
        (
            "nvcc 11.8.89 for 11, cccl 3.5.0 for 11 in /b",
            "nvcc 11.8.89 (/a) is from CUDA 11.8 & take cccl before 3.0",
        ),
        (
            "cudart 12.9.79 for 12, cublas 13.8.0.4 for 13 in /b",
            "cudart 12.9.79 (/a) is for CUDA 12 & cublas 13.8.0.4 (/b) is for CUDA 13 & one CUDA major",
        ),
        (
            "cudart 12.9.79 for 12, cudnn 9.27.0.42 for 13 in /b",
            "cudart 12.9.79 (/a) is for CUDA 12 & cudnn 9.27.0.42 (/b) is for CUDA 13",
        ),
        (
            "nvjitlink 12.4.127 for 12 in /b, cusparse 12.5.10.65 for 12",
            "cusparse 12.5.10.65 (/a) is from CUDA 12.9 & nvjitlink 12.4.127 (/b) is from CUDA 12.4 & \
             nvidia-nvjitlink-cu12==12.9.*",
        ),
        (
            "nvjitlink 13.0.88 for 13, cufft 12.4.0.43 for 13, cusolver 12.3.5.3 for 13",
            "cufft 12.4.0.43 (/a) is from CUDA 13.4 & cusolver 12.3.5.3 (/a) is from CUDA 13.4",
        ),
        (
            "nvrtc 12.9.86 for 12 builtins 12.4",
            "nvrtc 12.9.86 (/a) is from CUDA 12.9 & libnvrtc-builtins.so.12.4 & nvidia-cuda-nvrtc-cu12==12.9.*",
        ),
        (
            "cudart 12.2.140 for 12 headers 12.4",
            "headers of cudart 12.2.140 (/a) are from CUDA 12.4 & library is from CUDA 12.2 & toolkit add 12.4",
        ),
    ] {
        for order in orders(&set(text)) {
            let all: String = conflicts(&order)
                .iter()
                .map(|Conflict { reason, fix }| format!("{reason}\n{fix}\n"))
                .collect();
            for expected in expected.split(" & ") {
                assert!(all.contains(expected), "{text}: no {expected:?} in\n{all}");
            }
        }
    }
}

#[test]
fn cudnn_has_code_down_to_a_capability() {
    let plan = |declared: &str| -> Plan {
        let declared = Declared::parse([declared]).unwrap();
        declared.plan("12.9".parse().unwrap(), &[], None).unwrap()
    };
    let refused = |version: &str, declared: &str| {
        let set = set(&format!(
            "cudnn {version} for 12 in /b, cudart 12.9.79 for 12"
        ));
        capability_conflicts(set.iter(), &plan(declared))
    };
    assert_eq!(refused("9.27.0.42", "7.5 8.0 9.0a 12.0+PTX"), []);
    assert_eq!(refused("9.10.2.21", "6.1 7.0"), []);
    assert_eq!(refused("9.27", "compute_75 8.0"), []);
    let [conflict] = &refused("9.27.0.42", "6.1 7.0 8.0")[..] else {
        panic!("one conflict is expected")
    };
    assert_eq!(
        conflict.reason,
        "cudnn 9.27.0.42 (/b) supports capabilities from 7.5 on (since version 9.11), but this build is for 6.1, 7.0"
    );
    assert_eq!(
        conflict.fix,
        "remove 6.1, 7.0 from the capabilities, or use cudnn before 9.11"
    );
    assert!(!refused("9.11.0.98", "compute_70").is_empty());
}
