//! A table of real situations: what is found where, what is requested, and the expected outcome.

use super::*;

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
                selection.release.unwrap(),
                places.join(" ")
            )
        }
        Err(error) => format!("error: {error:?}"),
    }
}

fn cases() -> Vec<Case> {
    use SearchStep::*;
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
