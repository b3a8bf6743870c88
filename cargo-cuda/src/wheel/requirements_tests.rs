use super::*;

fn checked(major: u32, line: &str) -> Result<(), Failure> {
    check(&[line.to_owned()], major)
}

#[test]
fn requirements_that_are_not_valid_are_copied() {
    for line in ["numpy[x>=2", "pytz (>dev)"] {
        checked(13, line).unwrap();
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
        let error = checked(major, line).unwrap_err();
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
        let error = checked(13, line).unwrap_err();
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
        checked(13, line).unwrap();
    }
}

#[test]
fn extras_are_kept_and_follow_the_name() {
    let requires = [
        (
            "cupy-cuda12x; extra == 'cu12'",
            "cupy-cuda12x; extra == 'cu12'",
        ),
        (
            "saxpy[cu12,plot]>=0; extra == 'all'",
            "saxpy-cu13[cu12,plot]>=0; extra == 'all'",
        ),
        (
            "Saxpy [plot]; extra == 'all'",
            "saxpy-cu13 [plot]; extra == 'all'",
        ),
        ("saxpy-extras", "saxpy-extras"),
    ];
    let mut lines = requires.map(|(line, _)| line.to_owned());
    check(&lines, 13).unwrap();
    rename(&mut lines, ["Saxpy", "saxpy-cu13"]);
    assert_eq!(lines, requires.map(|(_, renamed)| renamed.to_owned()));
}

#[test]
fn bounded_requirements_of_the_author_replace_ours() {
    let is_added_beside = |author_line: &str, our_line: &str| {
        let mut lines = vec![author_line.to_owned()];
        add(&mut lines, &[our_line.to_owned()], 13);
        lines.len() == 2
    };
    let ours = "cuda-toolkit[cudart]>=13.0,<14";
    assert!(!is_added_beside("CUDA-Toolkit[cudart,nvrtc]==13.4.3", ours));
    assert!(!is_added_beside(ours, ours));
    assert!(is_added_beside("cuda-toolkit[nvrtc]==13.4.3", ours));
    assert!(is_added_beside("cuda-toolkit[cudart]>=12,<14", ours));
    assert!(is_added_beside(
        "cuda-toolkit[cudart]==13.*; extra == 'x'",
        ours
    ));
    let cudnn = "nvidia-cudnn-cu13>=9.12.0,<10";
    assert!(!is_added_beside("nvidia_cudnn-cu13==9.20.0.48", cudnn));
    assert!(is_added_beside("nvidia-cudnn-cu13", cudnn));
}
