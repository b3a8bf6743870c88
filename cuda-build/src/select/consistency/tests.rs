//! One row for each mix: what is chosen, and the expected error.

use std::path::PathBuf;

use super::*;
use crate::capability::{Declared, Plan};
use crate::component::Component;
use crate::error::Conflict;
use crate::probe::Found;
use crate::select::Chosen;

/// `cusparse 12.8.6.72 for 13 in /venv`; `headers 13.0` and `builtins 12.4` where these differ.
fn chosen(text: &str) -> Chosen {
    let words: Vec<&str> = text.split(' ').collect();
    let after = |word: &str| {
        words
            .iter()
            .position(|w| *w == word)
            .map(|index| words[index + 1])
    };
    let component: Component = words[0].parse().unwrap();
    let facts = component.facts();
    let major = after("for").unwrap().parse().unwrap();
    let release = after("headers").or(facts.follows_toolkit.then_some(words[1]));
    let builtins = after("builtins").unwrap_or("");
    let library = |name: &&str| match *name {
        "nvrtc-builtins" if !builtins.is_empty() => {
            PathBuf::from(format!("lib{name}.so.{builtins}"))
        }
        name => PathBuf::from(format!("lib{name}.so.{major}")),
    };
    let found = Found {
        component,
        major,
        version: Some(words[1].parse().unwrap()),
        release: release.and_then(|text| text.parse().ok()),
        include: facts
            .header
            .iter()
            .map(|_| PathBuf::from("include"))
            .collect(),
        libraries: facts.libraries.iter().map(library).collect(),
        archives: Vec::new(),
        tools: Vec::new(),
        evidence: String::new(),
    };
    Chosen {
        found,
        origin: after("in").unwrap_or("/a").to_owned(),
    }
}

fn set(texts: &[&str]) -> Vec<Chosen> {
    texts.iter().map(|text| chosen(text)).collect()
}

/// Every order of the same components.
fn orders(set: &[Chosen]) -> Vec<Vec<Chosen>> {
    if set.len() < 2 {
        return vec![set.to_vec()];
    }
    let mut all = Vec::new();
    for index in 0..set.len() {
        let mut rest = set.to_vec();
        let first = rest.remove(index);
        all.extend(orders(&rest).into_iter().map(|mut order| {
            order.insert(0, first.clone());
            order
        }));
    }
    all
}

fn check(texts: &[&str], expected: &[&str]) {
    let set = set(texts);
    for order in orders(&set) {
        let found = conflicts(&order);
        if expected.is_empty() {
            assert_eq!(found, [], "{texts:?}");
            continue;
        }
        assert!(!found.is_empty(), "{texts:?} is let through");
        let all: String = found
            .iter()
            .map(|Conflict { reason, fix }| format!("{reason}\n{fix}\n"))
            .collect();
        for text in expected {
            assert!(all.contains(text), "no {text:?} in\n{all}");
        }
    }
}

#[test]
fn compatible_components_have_no_conflict() {
    check(
        &[
            "nvcc 13.4.92 for 13",
            "nvvm 13.4.92 for 13",
            "crt 13.4.92 for 13",
            "cudart 13.4.92 for 13",
        ],
        &[],
    );
    // Math libraries of a later release beside an older compiler: the major is enough.
    check(
        &[
            "nvcc 12.4.131 for 12",
            "cudart 12.4.127 for 12",
            "cublas 12.9.1.4 for 12",
        ],
        &[],
    );
    // What the `cuda-toolkit` metapackage 12.8.2 asks for: nvJitLink of 12.8 or newer.
    check(
        &[
            "cusparse 12.5.8.93 for 12",
            "nvjitlink 12.9.86 for 12",
            "cusolver 11.7.3.90 for 12",
        ],
        &[],
    );
    // An update that no metapackage names, within one release.
    check(
        &["cusparse 12.5.1.3 for 12", "nvjitlink 12.5.40 for 12"],
        &[],
    );
    // Newer than the tables: no release is known, so nothing is refused.
    check(
        &["cusparse 12.9.4.2 for 13", "nvjitlink 13.4.92 for 13"],
        &[],
    );
    // CCCL has a range of its own, with no upper end; tools and profilers follow nobody.
    check(
        &[
            "nvcc 13.0.88 for 13",
            "cccl 3.4.3 for 13",
            "nvtx 13.5.40 for 13",
        ],
        &[],
    );
    check(&["nvcc 13.5.37 for 13", "cccl 1.15.1 for 11"], &[]);
    check(
        &["nvrtc 12.0.140 for 12 builtins 12.0", "cccl 3.5.0 for 13"],
        &[],
    );
    check(
        &["nvrtc 11.8.89 for 11 builtins 11.8", "cccl 2.8.2 for 12"],
        &[],
    );
    // The runtime's library may be newer than its headers.
    check(
        &["nvcc 12.4.131 for 12", "cudart 12.9.79 for 12 headers 12.4"],
        &[],
    );
    // cuDNN goes by major alone.
    check(&["cudart 12.4.127 for 12", "cudnn 9.27.0.42 for 12"], &[]);
    check(&["cudart 13.4.92 for 13", "nvml 12.9.79 for 12"], &[]);
}

#[test]
fn incompatible_components_have_a_conflict() {
    for (texts, expected) in [
        (
            &[
                "nvcc 13.5.37 for 13 in /a",
                "nvvm 13.0.88 for 13 in /b",
                "cudart 13.5.37 for 13",
            ][..],
            &[
                "nvcc 13.5.37 (/a) is from CUDA 13.5",
                "cicc (nvvm) 13.0.88 (/b) is from CUDA 13.0",
                "nvidia-nvvm==13.5.*",
            ][..],
        ),
        (
            &["nvcc 13.0.88 for 13", "crt 13.5.37 for 13 in /b"],
            &[
                "nvcc 13.0.88 (/a)",
                "crt 13.5.37 (/b) is from CUDA 13.5",
                "nvidia-cuda-crt==13.0.*",
            ],
        ),
        (
            &["nvcc 13.4.92 for 13", "cudart 13.0.96 for 13 in /b"],
            &[
                "nvcc 13.4.92 (/a)",
                "headers of cudart 13.0.96 (/b) is from CUDA 13.0",
                "nvidia-cuda-runtime==13.4.*",
            ],
        ),
        (
            &[
                "nvrtc 13.2.51 for 13 builtins 13.2",
                "cudart 13.0.96 for 13 in /usr",
            ],
            &[
                "nvrtc 13.2.51 (/a)",
                "headers of cudart 13.0.96 (/usr)",
                "nvidia-cuda-runtime==13.2.*",
            ],
        ),
        (
            &[
                "nvrtc 11.8.89 for 11 builtins 11.8",
                "cccl 3.0.1 for 13 in /b",
            ],
            &[
                "nvrtc 11.8.89 (/a) is from CUDA 11.8",
                "the headers of cccl 3.0.1 (/b) require CUDA 12.0 or newer",
                "nvidia-cuda-cccl-cu11",
            ],
        ),
        (
            &["nvcc 11.8.89 for 11", "cccl 3.5.0 for 11 in /b"],
            &[
                "nvcc 11.8.89 (/a) is from CUDA 11.8",
                "take cccl before 3.0",
            ],
        ),
        (
            &[
                "cudart 12.9.79 for 12 in /a",
                "cublas 13.8.0.4 for 13 in /b",
            ],
            &[
                "cudart 12.9.79 (/a) is for CUDA 12",
                "cublas 13.8.0.4 (/b) is for CUDA 13",
                "one CUDA major",
            ],
        ),
        (
            &["cudart 12.9.79 for 12", "cudnn 9.27.0.42 for 13 in /b"],
            &[
                "cudart 12.9.79 (/a) is for CUDA 12",
                "cudnn 9.27.0.42 (/b) is for CUDA 13",
            ],
        ),
        (
            &[
                "nvjitlink 12.4.127 for 12 in /b",
                "cusparse 12.5.10.65 for 12",
            ],
            &[
                "cusparse 12.5.10.65 (/a) is from CUDA 12.9",
                "nvjitlink 12.4.127 (/b) is from CUDA 12.4",
                "nvidia-nvjitlink-cu12>=12.9,<13",
            ],
        ),
        (
            &[
                "nvjitlink 13.0.88 for 13",
                "cufft 12.4.0.43 for 13",
                "cusolver 12.3.5.3 for 13",
            ],
            &[
                "cufft 12.4.0.43 (/a) is from CUDA 13.4",
                "cusolver 12.3.5.3 (/a) is from CUDA 13.4",
            ],
        ),
        (
            &["nvrtc 12.9.86 for 12 builtins 12.4"],
            &[
                "nvrtc 12.9.86 (/a) is from CUDA 12.9",
                "libnvrtc-builtins.so.12.4",
                "nvidia-cuda-nvrtc-cu12==12.9.*",
            ],
        ),
        (
            &["cudart 12.2.140 for 12 headers 12.4"],
            &[
                "headers of cudart 12.2.140 (/a) are from CUDA 12.4",
                "library is from CUDA 12.2",
                "toolkit add 12.4",
            ],
        ),
    ] {
        check(texts, expected);
    }
}

fn plan(declared: &str) -> Plan {
    Declared::parse([declared])
        .unwrap()
        .plan("12.9".parse().unwrap(), &[], None)
        .unwrap()
}

#[test]
fn cudnn_has_code_down_to_a_capability() {
    let refused = |version: &str, declared: &str| {
        let set = set(&[
            &format!("cudnn {version} for 12 in /b"),
            "cudart 12.9.79 for 12",
        ]);
        capability_conflicts(&set, &plan(declared))
    };
    assert_eq!(refused("9.27.0.42", "7.5 8.0 9.0a 12.0+PTX"), []);
    assert_eq!(refused("9.10.2.21", "6.1 7.0"), []);
    assert_eq!(refused("9.27", "compute_75 8.0"), []);
    let [conflict] = &refused("9.27.0.42", "6.1 7.0 8.0")[..] else {
        panic!("one conflict is wanted")
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
    // Who has no cuDNN is not bound by it.
    assert_eq!(
        capability_conflicts(&set(&["cudart 12.9.79 for 12"]), &plan("5.0")),
        []
    );
}
