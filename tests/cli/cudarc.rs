//! cudarc, and the releases of CUDA that it is for.

use cargo_cuda::exit_code;

use crate::project::Project;

const MANIFEST: &str = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
                        [dependencies.cudarc]\nversion = \"=0.19.10\"\ndefault-features = false\n";

fn with_features(project: &Project, features: &str) {
    let list: Vec<String> = features
        .split(' ')
        .map(|name| format!("{name:?}"))
        .collect();
    let features = format!("features = [{}]\n", list.join(", "));
    project.write("Cargo.toml", &(MANIFEST.to_owned() + &features));
    project.write(
        "src/main.rs",
        "fn main() { let _ = cudarc::driver::CudaContext::new(0); }\n",
    );
}

mod online {
    use super::*;

    #[test]
    fn a_release_of_another_major_matters_if_a_library_is_linked() {
        let project = Project::bare_at("cudarc-major", "app", &[12, 13]);
        let build = |features: &str, major: &str| {
            with_features(&project, features);
            project.run(&["build", "--cuda", major])
        };
        let note = "note: the feature `cuda-12080` of cudarc is for cudart of CUDA 12";
        // The driver's library is the same for every major.
        let driver = build("std driver dynamic-linking cuda-12080", "13");
        driver.succeeded();
        assert!(!driver.stderr.contains("cuda-12080"), "{driver:?}");
        let loaded = build("std driver runtime dynamic-loading cuda-12080", "13");
        loaded.ended_with(exit_code::SUCCESS, &[note]);
        let linked = "std driver runtime dynamic-linking cuda-12080";
        build(linked, "12").succeeded();
        let words = [
            "the feature `cuda-12080` of cudarc is for cudart of CUDA 12",
            "`--cuda 12`",
        ];
        build(linked, "13").failed(exit_code::INCONSISTENT, &words);
        let doctor = project.run(&["doctor", "--cuda", "13"]);
        assert_eq!(
            doctor.code,
            i32::from(exit_code::INCONSISTENT),
            "{doctor:?}"
        );
        assert!(
            doctor
                .stdout
                .contains("Not ready to build: cudarc is for another CUDA"),
            "{doctor:?}"
        );
    }
}
