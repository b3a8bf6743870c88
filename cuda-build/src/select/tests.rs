//! What is selected from attempts that are made up here.

mod situations;

use std::path::PathBuf;

use super::*;
use crate::component::Component;
use crate::error::Error;
use crate::probe::{Attempt, ComponentSet, Found};
use crate::sources::{Candidate, Label, SearchStep};
use crate::version::ToolkitVersion;

/// `nvcc 13.4.92` found below a place; libraries, headers and tools as the real component has.
fn found(text: &str, place: &str) -> Found {
    let (name, version) = text.split_once(' ').unwrap();
    // `cudart 12.4.127/12.2`: library of one release, headers of another.
    let (version, headers) = version.split_once('/').unwrap_or((version, ""));
    let component: Component = name.parse().unwrap();
    let facts = component.facts();
    let release: Option<ToolkitVersion> = version.parse().ok().filter(|_| facts.follows_toolkit);
    let toolkit = if headers.is_empty() {
        release
    } else {
        headers.parse().ok()
    };
    let major = release.or(toolkit).map_or_else(
        || match name {
            "cublas" | "cudnn" => version.split('.').next().unwrap().parse().unwrap(),
            _ => 13,
        },
        |v| v.major,
    );
    let path = |directory: &str, file: &str| PathBuf::from(format!("{place}/{directory}/{file}"));
    Found {
        component,
        major,
        version: Some(version.parse().unwrap()),
        release: toolkit,
        include: facts
            .header
            .iter()
            .map(|_| PathBuf::from(format!("{place}/include")))
            .collect(),
        libraries: facts
            .libraries
            .iter()
            .map(|l| path("lib", &format!("lib{l}.so.{major}")))
            .collect(),
        archives: facts.archives.iter().map(|a| path("lib", a)).collect(),
        tools: facts.tools.iter().map(|t| path("bin", t)).collect(),
        evidence: String::new(),
    }
}

fn select(request: &Request, attempts: &[Attempt]) -> Result<Selection, Error> {
    super::select(request, &attempts.iter().collect::<Vec<_>>())
}

fn label(step: SearchStep) -> Label {
    match step {
        SearchStep::Variable => Label::Variable("CUDA_HOME"),
        SearchStep::Roots => Label::Variable("CUDA_BUILD_ROOTS"),
        SearchStep::Environment => "virtual environment of `VIRTUAL_ENV`".into(),
        SearchStep::Stored => "toolkit from `cargo cuda toolkit add`".into(),
        _ => "place".into(),
    }
}

/// An attempt with one set per CUDA major among `components`.
fn at(step: SearchStep, path: &str, components: &[&str]) -> Attempt {
    let all: Vec<Found> = components.iter().map(|text| found(text, path)).collect();
    let mut majors: Vec<u32> = all.iter().map(|f| f.major).collect();
    majors.sort_unstable_by(|a, b| b.cmp(a));
    majors.dedup();
    let sets = majors
        .into_iter()
        .map(|major| ComponentSet {
            major,
            found: all.iter().filter(|f| f.major == major).cloned().collect(),
        })
        .collect::<Vec<_>>();
    let remarks = if sets.is_empty() {
        vec!["does not exist".to_owned()]
    } else {
        Vec::new()
    };
    let candidate = Candidate::root(step, label(step), path);
    Attempt {
        candidate,
        sets,
        unusable: Vec::new(),
        remarks,
    }
}

fn nvcc_needs() -> Vec<Need> {
    let why = "needed to compile 2 .cu files";
    vec![
        Need::new(Component::Nvcc, Part::Tools, why),
        Need::new(Component::Nvvm, Part::Tools, why),
        Need::new(Component::Crt, Part::Headers, why),
        Need::new(Component::Cudart, Part::Headers, why),
    ]
}

fn nvrtc_needs() -> Vec<Need> {
    vec![Need::new(
        Component::Nvrtc,
        Part::Shared,
        "needed to compile 1 module",
    )]
}

fn library() -> Request {
    Request {
        needs: nvcc_needs(),
        ..Request::default()
    }
}

fn module() -> Request {
    let cudart = Need::new(Component::Cudart, Part::Shared, "declared in the manifest");
    Request {
        needs: vec![cudart],
        alternatives: vec![nvrtc_needs(), nvcc_needs()],
        ..Request::default()
    }
}

fn for_major(mut request: Request, major: u32) -> Request {
    request.major = Some(major);
    request
}

const PIP13: &[&str] = &[
    "nvcc 13.4.92",
    "nvvm 13.4.92",
    "crt 13.4.92",
    "cudart 13.4.92",
    "cccl 13.3.4",
    "nvrtc 13.4.92",
];
const PIP12: &[&str] = &["cudart 12.9.79", "nvrtc 12.9.86"];
const PIP11: &[&str] = &["cudart 11.8.89", "nvrtc 11.8.89"];
const TORCH: &[&str] = &[
    "cudart 13.0.48",
    "cublas 13.0.0",
    "nvrtc 13.0.48",
    "cudnn 13.1",
];
const LOCAL124: &[&str] = &[
    "nvcc 12.4.131",
    "nvvm 12.4.131",
    "crt 12.4.131",
    "cudart 12.4.127",
    "nvrtc 12.4.127",
    "cublas 12.4.5",
];

#[test]
fn other_toolkits_in_the_same_step_are_reported() {
    let attempts = [
        at(SearchStep::Stored, "/store/13.4", PIP13),
        at(SearchStep::Stored, "/store/12.9", PIP12),
        at(SearchStep::Stored, "/store/12.4", LOCAL124),
    ];
    let selection = select(&module(), &attempts).unwrap();
    let [note] = selection.notes.as_slice() else {
        panic!("{:?}", selection.notes);
    };
    let note = note.to_string();
    assert!(
        note.starts_with("also found and not used: CUDA 12.9, ") && note.contains("; CUDA 12.4, "),
        "{note}"
    );
}

#[test]
fn nvrtc_is_preferred_to_nvcc() {
    let has = |components: &[&str], component| {
        let selection = select(&module(), &[at(SearchStep::Stored, "/a", components)]).unwrap();
        selection
            .chosen
            .iter()
            .any(|c| c.found.component == component)
    };
    assert!(has(PIP13, Component::Nvrtc) && !has(PIP13, Component::Nvcc));
    let without = PIP13.iter().copied().filter(|c| !c.starts_with("nvrtc"));
    assert!(has(&without.collect::<Vec<_>>(), Component::Nvcc));
}

#[test]
fn optional_needs_may_be_absent() {
    let mut request = module();
    request
        .needs
        .push(Need::new(Component::Cudnn, Part::Shared, "optional").with(Strength::Optional));
    let without = select(&request, &[at(SearchStep::Stored, "/a", PIP13)]).unwrap();
    assert!(
        without
            .chosen
            .iter()
            .all(|c| c.found.component != Component::Cudnn)
    );
    let attempts = [
        at(SearchStep::Stored, "/a", PIP13),
        at(SearchStep::Python, "/b", &["cudnn 13.1"]),
    ];
    let with = select(&request, &attempts).unwrap();
    let cudnn = with
        .chosen
        .iter()
        .find(|c| c.found.component == Component::Cudnn)
        .unwrap();
    assert!(cudnn.origin.contains("/b"), "{cudnn:?}");
}

#[test]
fn an_extra_that_does_not_fit_is_not_used() {
    let mut request = library();
    request
        .needs
        .push(Need::new(Component::Nvrtc, Part::Shared, "extra").with(Strength::Extra));
    let fitting = select(&request, &[at(SearchStep::Stored, "/a", PIP13)]).unwrap();
    assert!(
        fitting
            .chosen
            .iter()
            .any(|c| c.found.component == Component::Nvrtc)
    );
    let mixed = [
        "nvcc 13.4.92",
        "nvvm 13.4.92",
        "crt 13.4.92",
        "cudart 13.4.92",
        "nvrtc 13.5.37",
    ];
    let selection = select(&request, &[at(SearchStep::Stored, "/a", &mixed)]).unwrap();
    assert!(
        selection
            .chosen
            .iter()
            .all(|c| c.found.component != Component::Nvrtc)
    );
}

fn with_cudnn() -> Request {
    let mut request = module();
    request.needs.push(Need::new(
        Component::Cudnn,
        Part::Shared,
        "declared in the manifest",
    ));
    request
}

#[test]
fn the_variable_of_a_product_counts_only_for_it() {
    let own = at(SearchStep::Product, "/opt/cudnn", &["cudnn 13.1"]);
    let stored = at(
        SearchStep::Stored,
        "/store/13.4",
        &[PIP13, &["cudnn 13.0"]].concat(),
    );
    let places = |attempts: &[Attempt]| {
        let selection = select(&with_cudnn(), attempts).unwrap();
        let of = |component| {
            let chosen = selection
                .chosen
                .iter()
                .find(|c| c.found.component == component)
                .unwrap();
            chosen.origin.rsplit_once('(').unwrap().1.to_owned()
        };
        (of(Component::Cudart), of(Component::Cudnn))
    };
    let expected = ("/store/13.4)".to_owned(), "/opt/cudnn)".to_owned());
    assert_eq!(places(&[own.clone(), stored.clone()]), expected);
    let named = at(SearchStep::Variable, "/store/13.4", PIP13);
    assert_eq!(places(&[named, own, stored]), expected);
}

#[test]
fn a_wrong_variable_of_a_product_matters_if_one_is_needed() {
    let attempts = [
        at(SearchStep::Product, "/nowhere", &[]),
        at(SearchStep::Stored, "/store/13.4", PIP13),
    ];
    assert!(select(&module(), &attempts).is_ok());
    let error = select(&with_cudnn(), &attempts).unwrap_err().to_string();
    assert!(
        error.contains("/nowhere") && error.contains("does not exist"),
        "{error}"
    );
}
