use super::*;

fn requirement(text: &str) -> Requirement {
    Requirement::parse(text).unwrap()
}

#[test]
fn lines_are_parsed() {
    let parsed = requirement("CUDA_Toolkit[cudart, cublas] (>=13.0,<14) ; extra == \"cu13\"");
    assert_eq!(parsed.name, "cuda-toolkit");
    assert_eq!(parsed.extras, ["cublas", "cudart"]);
    assert_eq!(parsed.of_extra().unwrap(), "cu13");
    assert_eq!(parsed.lowest, Some("13.0".parse().unwrap()));
    assert!(requirement("x @ https://example.org/x.whl").has_upper_bound());
    assert!(Requirement::parse("x >== 1").is_err());
    assert!(Requirement::parse("x[a>=1").is_err());
}

#[test]
fn only_the_variable_extra_makes_a_requirement_optional() {
    for (marker, extra) in [
        ("extra == 'cu12'", Some("cu12")),
        ("extra==\"All_GPUs\"", Some("all-gpus")),
        ("python_version > '3.9' and extra == 'plot'", Some("plot")),
        ("platform_release == 'extra'", None),
        ("sys_platform == 'linux'", None),
        ("", None),
    ] {
        let parsed = requirement(&format!("numpy; {marker}"));
        assert_eq!(parsed.of_extra().as_deref(), extra, "{marker}");
    }
}

#[test]
fn unbounded_majors_are_found() {
    for text in [
        "cuda-toolkit[cudart]",
        "cuda-toolkit[cudart]>=13.0",
        "nvidia-cublas>=13.0.0.19",
        "nvidia-cuda-runtime>=13.0.48",
        "nvidia-curand>=10.4",
        "nvidia-cuda-runtime-cu13",
    ] {
        assert!(requirement(text).unbounded().is_some(), "{text}");
    }
    for text in [
        "cuda-toolkit[cudart]>=13.0,<14",
        "cuda-toolkit[cudart]==13.*",
        "nvidia-nvjitlink<14,>=13.3",
        "nvidia-curand~=10.0",
        "nvidia-cublas-cu12>=12.1",
        "nvidia-nccl-cu13",
        "nvidia-cublas @ https://example.org/nvidia_cublas.whl",
        "numpy",
    ] {
        assert_eq!(requirement(text).unbounded(), None, "{text}");
    }
}

#[test]
fn packages_bring_what_they_require() {
    let brought = requirement("nvidia-cusolver-cu12").components(12);
    assert!(brought.contains(&Component::Cusolver) && brought.contains(&Component::Cublas));
    let brought = requirement("cutensor-cu13").components(13);
    assert_eq!(brought, BTreeSet::from([Component::Cutensor]));
    let brought = requirement("cuda-toolkit[cudart,cublas]==13.*").components(13);
    assert!(brought.contains(&Component::Cudart) && brought.contains(&Component::Cublas));
}

#[test]
fn majors_are_in_names_or_versions() {
    for (text, expected) in [
        ("nvidia-cublas-cu12", Some(12..=12)),
        ("cupy-cuda12x", Some(12..=12)),
        ("jax-cuda13-plugin>=0.7", Some(13..=13)),
        ("cumm-cu121", Some(12..=12)),
        ("nvidia-cublas>=13,<14", Some(13..=NEWEST_MAJOR)),
        ("cuda-toolkit==13.4.3", Some(13..=13)),
        ("cuda-toolkit==13.*", Some(13..=13)),
        ("cuda-toolkit~=12.9", Some(12..=12)),
        ("cuda-toolkit>=12,<14", Some(12..=13)),
        ("cuda-toolkit>=12.4,<13.1", Some(12..=13)),
        ("cuda-toolkit", Some(OLDEST_MAJOR..=u32::MAX)),
        ("numpy", None),
        ("cuda-pathfinder", None),
        ("cudf", None),
        ("thing-cu9", None),
    ] {
        assert_eq!(requirement(text).cuda_majors(), expected, "{text}");
    }
    assert_eq!(requirement("cuda-toolkit==13.2.2").cuda_major(), Some(13));
    assert_eq!(requirement("cuda-toolkit>=12").cuda_major(), None);
}
