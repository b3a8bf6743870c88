//! A table of real situations: what is found where, what is requested, and the expected outcome.

use std::path::PathBuf;

use super::*;
use crate::component::Component;
use crate::error::Error;
use crate::probe::{Attempt, Found, Set};
use crate::sources::{Candidate, Label, Step};
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
        toolkit,
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

fn label(step: Step) -> Label {
    match step {
        Step::Variable => Label::Variable("CUDA_HOME"),
        Step::Roots => Label::Variable("CUDA_BUILD_ROOTS"),
        Step::Environment => "virtual environment of `VIRTUAL_ENV`".into(),
        Step::Stored => "toolkit from `cargo cuda toolkit add`".into(),
        _ => "place".into(),
    }
}

/// An attempt with one set per CUDA major among `components`.
fn at(step: Step, path: &str, components: &[&str]) -> Attempt {
    let all: Vec<Found> = components.iter().map(|text| found(text, path)).collect();
    let mut majors: Vec<u32> = all.iter().map(|f| f.major).collect();
    majors.sort_unstable_by(|a, b| b.cmp(a));
    majors.dedup();
    let sets = majors
        .into_iter()
        .map(|major| Set {
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

struct Case {
    name: &'static str,
    request: Request,
    attempts: Vec<Attempt>,
    /// `toolkit | component version at, …` or `error: text && text`.
    expected: &'static str,
}

fn outcome(case: &Case) -> String {
    match select(&case.request, &case.attempts) {
        Ok(selection) => {
            let place = |c: &Chosen| {
                c.origin
                    .rsplit_once('(')
                    .unwrap()
                    .1
                    .trim_end_matches(')')
                    .to_owned()
            };
            let mut places: Vec<String> = selection.chosen.iter().map(place).collect();
            places.dedup();
            let combined = if selection.is_combined() {
                " combined"
            } else {
                ""
            };
            format!(
                "{}{combined} {}",
                selection.toolkit.unwrap(),
                places.join(" ")
            )
        }
        Err(error) => format!("error: {error:?}"),
    }
}

fn cases() -> Vec<Case> {
    use Step::*;
    let case = |name, request, attempts, expected| Case {
        name,
        request,
        attempts,
        expected,
    };
    vec![
        case(
            "pip cu11, module",
            module(),
            vec![at(Environment, "/venv", PIP11)],
            "11.8 /venv",
        ),
        case(
            "pip cu12, module",
            module(),
            vec![at(Environment, "/venv", PIP12)],
            "12.9 /venv",
        ),
        case(
            "pip cu13, library",
            library(),
            vec![at(Environment, "/venv", PIP13)],
            "13.4 /venv",
        ),
        case(
            "cu12 and cu13 in one venv: the newest",
            module(),
            vec![at(Environment, "/venv", &[PIP12, PIP13].concat())],
            "13.4 /venv",
        ),
        case(
            "cu12 and cu13 in one venv, major fixed",
            for_major(module(), 12),
            vec![at(Environment, "/venv", &[PIP12, PIP13].concat())],
            "12.9 /venv",
        ),
        case(
            "unpinned pip: nvcc 13.5 beside nvtx 13.4 works",
            library(),
            vec![at(
                Environment,
                "/venv",
                &[
                    "nvcc 13.5.37",
                    "nvvm 13.5.37",
                    "crt 13.5.37",
                    "cudart 13.5.37",
                    "nvtx 13.4.92",
                ],
            )],
            "13.5 /venv",
        ),
        case(
            "nvcc 13.5 with cicc 13.0 is refused",
            library(),
            vec![at(
                Environment,
                "/venv",
                &[
                    "nvcc 13.5.37",
                    "nvvm 13.0.88",
                    "crt 13.5.37",
                    "cudart 13.5.37",
                ],
            )],
            "error: nvcc 13.5.37 && cicc (nvvm) 13.0.88 && nvidia-nvvm==13.5.*",
        ),
        case(
            "nvcc 13.4 with 13.5 headers is refused",
            library(),
            vec![at(
                Environment,
                "/venv",
                &[
                    "nvcc 13.4.92",
                    "nvvm 13.4.92",
                    "crt 13.4.92",
                    "cudart 13.5.37",
                ],
            )],
            "error: nvcc 13.4.92 && headers of cudart 13.5.37 && nvidia-cuda-runtime==13.4.*",
        ),
        case(
            "torch in a venv without nvcc does not hide /usr/local/cuda",
            library(),
            vec![
                at(Environment, "/venv", TORCH),
                at(DefaultPlace, "/usr/local/cuda", LOCAL124),
            ],
            "12.4 /usr/local/cuda",
        ),
        case(
            "torch in a venv serves a module",
            module(),
            vec![
                at(Environment, "/venv", TORCH),
                at(DefaultPlace, "/usr/local/cuda", LOCAL124),
            ],
            "13.0 /venv",
        ),
        case(
            "headers newer than the library are refused",
            module(),
            vec![at(
                DefaultPlace,
                "/usr/local/cuda",
                &["cudart 12.2.140/12.4", "nvrtc 12.4.127"],
            )],
            "error: headers && 12.4 && library is from CUDA 12.2",
        ),
        case(
            "the administrator's link beats a newer version beside it",
            library(),
            vec![
                at(DefaultPlace, "/usr/local/cuda", LOCAL124),
                at(VersionedPlace, "/usr/local/cuda-13.4", PIP13),
                at(VersionedPlace, "/usr/local/cuda-12.4", LOCAL124),
            ],
            "12.4 /usr/local/cuda",
        ),
        case(
            "a partial newest version does not win over a whole older one",
            library(),
            vec![
                at(VersionedPlace, "/usr/local/cuda-13.5", &["cudart 13.5.37"]),
                at(VersionedPlace, "/usr/local/cuda-12.4", LOCAL124),
            ],
            "12.4 /usr/local/cuda-12.4",
        ),
        case(
            "two variables: what is named first, not what is newest",
            module(),
            vec![
                at(Variable, "/opt/cuda-12", PIP12),
                at(Variable, "/opt/cuda-13", PIP13),
            ],
            "12.9 /opt/cuda-12",
        ),
        case(
            "two variables: the second where the first lacks what is needed",
            library(),
            vec![
                at(Variable, "/opt/cuda-12", PIP12),
                at(Variable, "/opt/cuda-13", PIP13),
            ],
            "13.4 /opt/cuda-13",
        ),
        case(
            "a set-but-wrong variable stops the search and names what else is there",
            library(),
            vec![
                at(Variable, "/nowhere", &[]),
                at(Environment, "/venv", PIP13),
            ],
            "error: `CUDA_HOME` (/nowhere): does not exist && available, not used && /venv && nvcc 13.4.92 && unset",
        ),
        case(
            "a named place without nvcc is not filled up from elsewhere",
            library(),
            vec![
                at(Variable, "/opt/cuda", &["cudart 12.6.77", "cublas 12.6"]),
                at(Environment, "/venv", PIP13),
            ],
            "error: `nvcc` not found (needed to compile 2 .cu files) && no `nvcc` && found cudart 12.6.77 && available, not used",
        ),
        case(
            "two named roots are combined",
            library(),
            vec![
                at(
                    Roots,
                    "/a",
                    &["nvcc 13.4.92", "nvvm 13.4.92", "crt 13.4.92"],
                ),
                at(Roots, "/b", &["cudart 13.4.92"]),
            ],
            "13.4 /b /a",
        ),
        case(
            "two named roots of different releases are refused",
            library(),
            vec![
                at(
                    Roots,
                    "/a",
                    &["nvcc 13.4.92", "nvvm 13.4.92", "crt 13.4.92"],
                ),
                at(Roots, "/b", &["cudart 13.0.48"]),
            ],
            "error: nvcc 13.4.92 && 13.0 && (/b)",
        ),
        case(
            "nothing complete: the same release is combined",
            library(),
            vec![
                at(
                    Environment,
                    "/venv",
                    &["nvcc 13.4.92", "nvvm 13.4.92", "crt 13.4.92"],
                ),
                at(Stored, "/store/13.0", &["cudart 13.0.48"]),
                at(Stored, "/store/13.4", &["cudart 13.4.92"]),
            ],
            "13.4 combined /store/13.4 /venv",
        ),
        case(
            "two toolkits fetched: the newest",
            module(),
            vec![
                at(Stored, "/store/13.4", PIP13),
                at(Stored, "/store/12.9", PIP12),
            ],
            "13.4 /store/13.4",
        ),
        case(
            "a library for 12 where only wheels of 12 are",
            for_major(library(), 12),
            vec![at(Stored, "/store/12.9", PIP12)],
            "error: `nvcc` not found && no wheel of CUDA 12 has nvcc",
        ),
        case(
            "the manifest's range rules a toolkit out",
            Request {
                toolkit: semver::VersionReq::parse("<13").unwrap(),
                ..module()
            },
            vec![at(Stored, "/store/13.4", PIP13)],
            "error: has CUDA 13.4, but `toolkit = \"<13\"` is requested",
        ),
        case(
            "nothing at all",
            library(),
            vec![],
            "error: `nvcc` not found && cargo cuda toolkit add 13",
        ),
    ]
}

#[test]
fn every_situation_has_the_expected_outcome() {
    let mut wrong = String::new();
    for case in cases() {
        let outcome = outcome(&case);
        let matches = match case.expected.strip_prefix("error: ") {
            None => outcome == case.expected,
            Some(texts) => {
                outcome.starts_with("error: ")
                    && texts.split(" && ").all(|text| outcome.contains(text))
            }
        };
        if !matches {
            wrong.push_str(&format!(
                "{}\n  expected {}\n  outcome  {outcome}\n",
                case.name, case.expected
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn other_toolkits_in_the_same_step_are_reported() {
    let attempts = [
        at(Step::Stored, "/store/13.4", PIP13),
        at(Step::Stored, "/store/12.9", PIP12),
    ];
    let selection = select(&module(), &attempts).unwrap();
    assert!(
        selection.notes[0]
            .to_string()
            .contains("CUDA 12.9 was also found"),
        "{:?}",
        selection.notes
    );
}

#[test]
fn nvrtc_is_preferred_to_nvcc() {
    let has = |components: &[&str], component| {
        let selection = select(&module(), &[at(Step::Stored, "/a", components)]).unwrap();
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
    let without = select(&request, &[at(Step::Stored, "/a", PIP13)]).unwrap();
    assert!(
        without
            .chosen
            .iter()
            .all(|c| c.found.component != Component::Cudnn)
    );
    let attempts = [
        at(Step::Stored, "/a", PIP13),
        at(Step::Python, "/b", &["cudnn 13.1"]),
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
    let fitting = select(&request, &[at(Step::Stored, "/a", PIP13)]).unwrap();
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
    let selection = select(&request, &[at(Step::Stored, "/a", &mixed)]).unwrap();
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
    let own = at(Step::Product, "/opt/cudnn", &["cudnn 13.1"]);
    let stored = at(
        Step::Stored,
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
    let named = at(Step::Variable, "/store/13.4", PIP13);
    assert_eq!(places(&[named, own, stored]), expected);
}

#[test]
fn a_wrong_variable_of_a_product_matters_if_one_is_needed() {
    let attempts = [
        at(Step::Product, "/nowhere", &[]),
        at(Step::Stored, "/store/13.4", PIP13),
    ];
    assert!(select(&module(), &attempts).is_ok());
    let error = select(&with_cudnn(), &attempts).unwrap_err().to_string();
    assert!(
        error.contains("/nowhere") && error.contains("does not exist"),
        "{error}"
    );
}
