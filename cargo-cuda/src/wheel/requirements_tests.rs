use super::*;

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
