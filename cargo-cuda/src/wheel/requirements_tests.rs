use super::*;

fn limited(major: u32, requires: &[&str], extras: &[&str]) -> Result<Requirements, Failure> {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let mut requirements = Requirements {
        requires: owned(requires),
        extras: owned(extras),
    };
    let name = format!("saxpy-cu{major}");
    requirements.limit_to(major, "Saxpy", &name)?;
    Ok(requirements)
}

fn error(major: u32, line: &str) -> Failure {
    limited(major, &[line], &[]).unwrap_err()
}

#[test]
fn requirements_that_are_not_valid_are_copied() {
    for line in ["numpy[x>=2", "pytz (>dev)"] {
        assert_eq!(limited(13, &[line], &[]).unwrap().requires, [line]);
    }
}

#[test]
fn dependencies_of_another_major_are_errors() {
    for (major, line, other) in [
        (13, "nvidia-cublas-cu12>=12", 12),
        (13, "cupy-cuda12x", 12),
        (12, "cuda-toolkit[cudart]>=13,<14", 13),
        (12, "cuda-toolkit[cudart]>=13", 13),
        (12, "nvidia-cublas>=13,<14", 13),
    ] {
        let error = error(major, line);
        let expected = format!("requires `{line}`, but the wheel is for CUDA {major}");
        assert!(error.message.contains(&expected), "{error}");
        let table = format!("[package.metadata.cuda.major.{other}]");
        assert!(error.hints[0].contains(&table), "{error}");
    }
}

#[test]
fn unsuffixed_packages_need_an_upper_bound() {
    for line in [
        "cuda-toolkit[cudart]",
        "cuda-toolkit[cudart]>=13.0",
        "nvidia-cublas",
        "NVIDIA_cuSPARSE>=12.6",
        "nvidia-cublas!=13.1; python_version < '3.13'",
    ] {
        let error = error(13, line);
        assert!(
            error.message.contains("without an upper bound"),
            "{line}: {error}"
        );
        assert!(error.hints[0].contains(">=13.0,<14"), "{error}");
    }
    for line in [
        "cuda-toolkit[cudart]==13.4.3",
        "nvidia-cublas>=13,<14",
        "nvidia-curand~=10.4",
        "nvidia-cudnn-cu13",
        "cuda-pathfinder",
    ] {
        assert_eq!(limited(13, &[line], &[]).unwrap().requires, [line]);
    }
}

#[test]
fn extras_keep_what_belongs_to_the_major() {
    let requires = [
        "numpy",
        "cupy-cuda12x; extra == 'cu12'",
        "cuda-toolkit[nvrtc]>=13,<14; extra == 'cu13'",
        "cupy-cuda13x; extra == 'cu13'",
        "cupy-cuda12x; extra == 'plot'",
        "matplotlib; extra == 'plot'",
        "saxpy[cu12]; extra == 'twelve'",
        "saxpy[cu12,plot]>=0; extra == 'all'",
    ];
    let extras = ["cu12", "cu13", "plot", "twelve", "all"];
    let found = limited(13, &requires, &extras).unwrap();
    assert_eq!(
        found.requires,
        [
            "numpy",
            "cuda-toolkit[nvrtc]>=13,<14; extra == 'cu13'",
            "cupy-cuda13x; extra == 'cu13'",
            "matplotlib; extra == 'plot'",
            "saxpy-cu13[plot]>=0; extra == 'all'",
        ]
    );
    assert_eq!(found.extras, ["cu13", "plot", "twelve", "all"]);
}

#[test]
fn bounded_requirements_of_the_author_replace_ours() {
    let added = |own: &str, line: &str| {
        let mut requirements = limited(13, &[own], &[]).unwrap();
        requirements.add(&[line.to_owned()], 13);
        requirements.requires.len() == 2
    };
    let ours = "cuda-toolkit[cudart]>=13.0,<14";
    assert!(!added("CUDA-Toolkit[cudart,nvrtc]==13.4.3", ours));
    assert!(!added(ours, ours));
    assert!(added("cuda-toolkit[nvrtc]==13.4.3", ours));
    assert!(added("cuda-toolkit[cudart]>=12,<14", ours));
    assert!(added("cuda-toolkit[cudart]==13.*; extra == 'x'", ours));
    let cudnn = "nvidia-cudnn-cu13>=9.12.0,<10";
    assert!(!added("nvidia_cudnn-cu13==9.20.0.48", cudnn));
    assert!(added("nvidia-cudnn-cu13", cudnn));
}
