//! What is selected from attempts that are made up here.

use std::path::PathBuf;

use super::*;
use crate::component::Component;
use crate::error::Error;
use crate::found::{Attempt, ComponentSet, Found};
use crate::list::sorted_set;
use crate::sources::{Candidate, SearchStep, variable_label};
use crate::target::Target;
use crate::toolkit::Toolkit;
use crate::version::ToolkitVersion;

/// `nvcc 13.4.92` found below a place; libraries, headers and tools as the real component has.
fn found(text: &str, place: &str) -> Found {
    let (name, version) = text.split_once(' ').unwrap();
    // `cudart 12.4.127/12.2`: library of one release, headers of another.
    let (version, headers) = version.split_once('/').unwrap_or((version, ""));
    let component: Component = name.parse().unwrap();
    let facts = component.facts();
    let package: Option<ToolkitVersion> = version.parse().ok().filter(|_| facts.follows_toolkit);
    let release = headers.parse().ok().or(package);
    let major = match (release, name) {
        (Some(release), _) => release.major,
        (None, "cublas" | "cudnn") => version.split('.').next().unwrap().parse().unwrap(),
        _ => 13,
    };
    let path = |file: String| PathBuf::from(place).join(file);
    let library = |name: &&str| path(format!("lib/lib{name}.so.{major}"));
    Found {
        version: Some(version.parse().unwrap()),
        release,
        include: facts
            .header
            .iter()
            .map(|_| path("include".to_owned()))
            .collect(),
        libraries: facts.libraries.iter().map(library).collect(),
        archives: facts
            .archives
            .iter()
            .map(|name| path(format!("lib/{name}")))
            .collect(),
        tools: facts
            .tools
            .iter()
            .map(|name| path(format!("bin/{name}")))
            .collect(),
        ..Found::new(component, major)
    }
}

const PIP13: &str =
    "nvcc 13.4.92, nvvm 13.4.92, crt 13.4.92, cudart 13.4.92, cccl 13.3.4, nvrtc 13.4.92";
const PIP12: &str = "cudart 12.9.79, nvrtc 12.9.86";
const PIP11: &str = "cudart 11.8.89, nvrtc 11.8.89";
const TORCH: &str = "cudart 13.0.48, cublas 13.0.0, nvrtc 13.0.48, cudnn 13.1";
const LOCAL: &str =
    "nvcc 12.4.131, nvvm 12.4.131, crt 12.4.131, cudart 12.4.127, nvrtc 12.4.127, cublas 12.4.5";

/// `stored /store/13.4: PIP13, cudnn 13.1`: an attempt with one set per CUDA major.
fn at(text: &str) -> Attempt {
    let (place, components) = text.split_once(':').unwrap();
    let (step, path) = place.trim().split_once(' ').unwrap();
    let (step, label) = match step {
        "variable" => (SearchStep::Variable, variable_label("CUDA_HOME")),
        "roots" => (SearchStep::Roots, variable_label("CUDA_BUILD_ROOTS")),
        "product" => (SearchStep::Product, variable_label("CUDNN_PATH")),
        "environment" => (SearchStep::Environment, "virtual environment".into()),
        "default" => (SearchStep::DefaultPlace, "default location".into()),
        "versioned" => (SearchStep::VersionedPlace, "default location".into()),
        "python" => (SearchStep::Python, "Python".into()),
        _ => (SearchStep::Stored, "toolkit".into()),
    };
    let candidate = Candidate::root(step, label, path);
    let mut components = components.to_owned();
    for (name, list) in [
        ("PIP13", PIP13),
        ("COMPILER13", "nvcc 13.4.92, nvvm 13.4.92, crt 13.4.92"),
        ("PIP12", PIP12),
        ("PIP11", PIP11),
        ("TORCH", TORCH),
        ("LOCAL", LOCAL),
    ] {
        components = components.replace(name, list);
    }
    let components = components
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty());
    let all: Vec<Found> = components.map(|text| found(text, path)).collect();
    let majors = sorted_set(all.iter().map(|found| found.major))
        .into_iter()
        .rev();
    let sets = majors.map(|major| {
        let found = all.iter().filter(|found| found.major == major);
        ComponentSet::new(&candidate, major, found.cloned().collect())
    });
    Attempt {
        sets: sets.collect(),
        unusable: Vec::new(),
        remarks: if all.is_empty() {
            vec!["does not exist".to_owned()]
        } else {
            Vec::new()
        },
        candidate,
    }
}

fn attempts(text: &str) -> Vec<Attempt> {
    text.split(';')
        .filter(|text| !text.trim().is_empty())
        .map(at)
        .collect()
}

fn select(request: &Request, places: &str) -> Result<Toolkit, Error> {
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let target = target.built_on("x86_64-unknown-linux-gnu");
    let attempts = attempts(places);
    super::select(request, &target, &attempts.iter().collect::<Vec<_>>())
}

fn nvcc_needs() -> Vec<Need> {
    let need = |component, part| Need::new(component, part, "needed to compile 2 .cu files");
    vec![
        need(Component::Nvcc, Part::Tools),
        need(Component::Nvvm, Part::Tools),
        need(Component::Crt, Part::Headers),
        need(Component::Cudart, Part::Headers),
    ]
}

fn library() -> Request {
    Request {
        needs: nvcc_needs(),
        ..Request::default()
    }
}

fn module() -> Request {
    let nvrtc = Need::new(Component::Nvrtc, Part::Shared, "needed to compile 1 module");
    Request {
        needs: vec![Need::new(Component::Cudart, Part::Shared, "declared")],
        alternatives: vec![vec![nvrtc], nvcc_needs()],
        ..Request::default()
    }
}

fn with(mut request: Request, component: Component, strength: Strength) -> Request {
    let need = Need::new(component, Part::Shared, "declared").with(strength);
    request.needs.push(need);
    request
}

/// Release and places of the chosen components, or the error.
fn outcome(result: Result<Toolkit, Error>) -> String {
    let toolkit = match result {
        Ok(toolkit) => toolkit,
        Err(error) => return format!("error: {error:?}"),
    };
    let place = |found: &Found| found.origin.rsplit_once('(').unwrap().1.replace(')', "");
    let mut places: Vec<String> = toolkit.components().iter().map(place).collect();
    places.dedup();
    let combined = if toolkit.is_combined() {
        " combined"
    } else {
        ""
    };
    format!("{}{combined} {}", toolkit.version(), places.join(" "))
}

/// Three lines for each situation: its name; the request and the places; the outcome, or texts of the error.
const SITUATIONS: &str = r#"
pip cu11
    module | environment /venv: PIP11
    11.8 /venv
pip cu12
    module | environment /venv: PIP12
    12.9 /venv
pip cu13
    library | environment /venv: PIP13
    13.4 /venv
two majors in one venv: the newest
    module | environment /venv: PIP12, PIP13
    13.4 /venv
two majors in one venv, major fixed
    module 12 | environment /venv: PIP12, PIP13
    12.9 /venv
unpinned pip: nvcc 13.5 beside nvtx 13.4 works
    library | environment /venv: nvcc 13.5.37, nvvm 13.5.37, crt 13.5.37, cudart 13.5.37, nvtx 13.4.92
    13.5 /venv
nvcc 13.5 with cicc 13.0 is refused
    library | environment /venv: nvcc 13.5.37, nvvm 13.0.88, crt 13.5.37, cudart 13.5.37
    error: nvcc 13.5.37 && cicc (nvvm) 13.0.88 && nvidia-nvvm==13.5.*
torch without nvcc does not hide /usr/local/cuda
    library | environment /venv: TORCH; default /usr/local/cuda: LOCAL
    12.4 /usr/local/cuda
torch serves a module
    module | environment /venv: TORCH; default /usr/local/cuda: LOCAL
    13.0 /venv
headers newer than the library are refused
    module | default /usr/local/cuda: cudart 12.2.140/12.4, nvrtc 12.4.127
    error: headers && 12.4 && library is from CUDA 12.2
the administrator's link beats a newer version beside it
    library | default /usr/local/cuda: LOCAL; versioned /usr/local/cuda-13.4: PIP13
    12.4 /usr/local/cuda
a partial newest version does not win over a whole older one
    library | versioned /usr/local/cuda-13.5: cudart 13.5.37; versioned /usr/local/cuda-12.4: LOCAL
    12.4 /usr/local/cuda-12.4
two variables: the first, not the newest
    module | variable /12: PIP12; variable /13: PIP13
    12.9 /12
two variables: the second if the first lacks nvcc
    library | variable /12: PIP12; variable /13: PIP13
    13.4 /13
a wrong variable stops the search and names what else is there
    library | variable /nowhere: ; environment /venv: PIP13
    error: `CUDA_HOME` (/nowhere): does not exist && available, not used && /venv && nvcc 13.4.92 && unset
a named place without nvcc is not filled up from elsewhere
    library | variable /opt/cuda: cudart 12.6.77, cublas 12.6; environment /venv: PIP13
    error: `nvcc` not found (needed to compile 2 .cu files) && no `nvcc` && found cudart 12.6.77 && available, not used
two named roots are combined
    library | roots /a: nvcc 13.4.92, nvvm 13.4.92, crt 13.4.92; roots /b: cudart 13.4.92
    13.4 /b /a
two named roots of different releases are refused
    library | roots /a: nvcc 13.4.92, nvvm 13.4.92, crt 13.4.92; roots /b: cudart 13.0.48
    error: nvcc 13.4.92 && 13.0 && (/b)
nothing complete: the same release is combined
    library | environment /venv: COMPILER13; stored /s/13.0: cudart 13.0.48; stored /s/13.4: cudart 13.4.92
    13.4 combined /s/13.4 /venv
two toolkits fetched: the newest
    module | stored /s/13: PIP13; stored /s/12: PIP12
    13.4 /s/13
a library for 12 with wheels alone
    library 12 | stored /s: PIP12
    error: `nvcc` not found && for CUDA 12 (its Python packages have no nvcc
the manifest's range
    module <13 | stored /s: PIP13
    error: has CUDA 13.4, but CUDA `<13` is requested
a release that nothing shows
    module | stored /s: cudnn 13.1
    error: `cudart` not found && cudnn 13.1
nothing at all
    library |
    error: `nvcc` not found && cargo cuda toolkit add 13
"#;

#[test]
fn every_situation_has_the_expected_outcome() {
    let mut wrong = String::new();
    let lines: Vec<&str> = SITUATIONS.trim().lines().map(str::trim).collect();
    for situation in lines.chunks(3) {
        let [name, request, expected] = *situation else {
            panic!("{situation:?}");
        };
        let (request, places) = request.split_once('|').unwrap();
        let request = request.trim();
        let (base, limit) = request.split_once(' ').unwrap_or((request, ""));
        let mut request = if base == "module" {
            module()
        } else {
            library()
        };
        request.major = limit.parse().ok();
        if limit.starts_with('<') {
            request.toolkit = limit.parse().unwrap();
        }
        let outcome = outcome(select(&request, places));
        let is_expected = match expected.strip_prefix("error: ") {
            None => outcome == expected,
            Some(texts) => texts.split(" && ").all(|text| outcome.contains(text)),
        };
        if !is_expected {
            wrong.push_str(&format!(
                "{name}\n  expected {expected}\n  outcome  {outcome}\n"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_component_that_two_need_is_missing_once() {
    let need = |why| Need::new(Component::Cublas, Part::Shared, why);
    let request = Request {
        needs: vec![need("declared"), need("cusolver needs it")],
        ..Request::default()
    };
    let error = select(&request, "stored /s/13.4: PIP13").unwrap_err();
    let Error::NotFound { missing, hints, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(missing, [Component::Cublas]);
    assert!(hints[0].contains("--components cublas`"), "{hints:?}");
}

#[test]
fn nvrtc_is_preferred_to_nvcc_and_extras_have_to_fit() {
    let has = |request: &Request, places: &str, component| {
        select(request, places).unwrap().get(component).is_some()
    };
    assert!(has(&module(), "stored /a: PIP13", Component::Nvrtc));
    assert!(!has(&module(), "stored /a: PIP13", Component::Nvcc));
    let nvcc = "stored /a: nvcc 13.4.92, nvvm 13.4.92, crt 13.4.92, cudart 13.4.92";
    assert!(has(&module(), nvcc, Component::Nvcc));
    let extra = with(library(), Component::Nvrtc, Strength::Extra);
    assert!(has(&extra, "stored /a: PIP13", Component::Nvrtc));
    assert!(!has(
        &extra,
        &format!("{nvcc}, nvrtc 13.5.37"),
        Component::Nvrtc
    ));
    let optional = with(module(), Component::Cudnn, Strength::Optional);
    assert!(!has(&optional, "stored /a: PIP13", Component::Cudnn));
    let toolkit = select(&optional, "stored /a: PIP13; python /b: cudnn 13.1").unwrap();
    assert!(toolkit.get(Component::Cudnn).unwrap().origin.contains("/b"));
}

#[test]
fn the_variable_of_a_product_counts_only_for_it() {
    let request = with(module(), Component::Cudnn, Strength::Required);
    let (own, stored) = (
        "product /opt/cudnn: cudnn 13.1",
        "stored /s: PIP13, cudnn 13.0",
    );
    for places in [
        format!("{own}; {stored}"),
        format!("variable /s: PIP13; {own}; {stored}"),
    ] {
        assert_eq!(outcome(select(&request, &places)), "13.4 /s /opt/cudnn");
    }
    // A wrong one matters only if a product is needed.
    let places = "product /nowhere: ; stored /s: PIP13";
    assert!(select(&module(), places).is_ok());
    let error = select(&request, places).unwrap_err().to_string();
    assert!(
        error.contains("/nowhere") && error.contains("does not exist"),
        "{error}"
    );
}

#[test]
fn an_unfit_version_of_a_variable_is_a_warning() {
    let mut request = with(module(), Component::Cudnn, Strength::Required);
    request.needs[1].version = Some("<13.1".parse().unwrap());
    let places = "product /opt/cudnn: cudnn 13.1; stored /s: PIP13, cudnn 13.0";
    let expected = "environment variable `CUDNN_PATH` (/opt/cudnn) has cudnn 13.1, but `<13.1` is required: 13.0 of \
                    toolkit (/s) is used";
    assert_eq!(select(&request, places).unwrap().warnings(), [expected]);
}

#[test]
fn needs_of_a_major_replace_the_general_needs() {
    let mut request = with(module(), Component::Cublas, Strength::Required);
    request.by_major = vec![(12, module().needs)];
    let venv = "environment /venv: PIP12";
    // CUDA 13 lacks cuBLAS, which CUDA 12 does not need.
    assert_eq!(
        outcome(select(&request, &format!("{venv}; stored /s: PIP13"))),
        "12.9 /venv"
    );
    // The first step with everything wins, not the newest major.
    let later = format!("{venv}; default /usr/local/cuda: PIP13, cublas 13.0.0");
    assert_eq!(outcome(select(&request, &later)), "12.9 /venv");
    request.major = Some(13);
    assert_eq!(outcome(select(&request, &later)), "13.4 /usr/local/cuda");
    let mut workspace = module();
    workspace.require(&request);
    workspace.require(&library());
    let needs = |major| {
        workspace
            .needs_of(major)
            .iter()
            .map(|need| need.component)
            .collect::<Vec<_>>()
    };
    assert!(needs(13).contains(&Component::Cublas) && !needs(12).contains(&Component::Cublas));
    assert!(needs(12).contains(&Component::Nvcc));
}

#[test]
fn a_lock_applies_to_the_wanted_major_only() {
    let is_locked = |declared: &[u32], major: Option<u32>, toolkit: &str| {
        let request = Request {
            declared_majors: declared.to_vec(),
            major,
            toolkit: toolkit.parse().unwrap(),
            ..Request::default()
        };
        [12, 13].map(|major| request.is_locked_by(ToolkitVersion::new(major, 4)))
    };
    assert_eq!(is_locked(&[], None, "*"), [true, true]);
    assert_eq!(is_locked(&[12], None, "*"), [true, false]);
    assert_eq!(is_locked(&[12, 13], None, "*"), [false, true]);
    assert_eq!(is_locked(&[12, 13], Some(12), "*"), [true, false]);
    assert_eq!(is_locked(&[12, 13], None, "<13"), [true, false]);
}
