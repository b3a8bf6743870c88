//! The messages of compilers, as Cargo shows them.

use crate::project::Project;

mod online {
    use super::*;

    /// The lines after `warning: <package>@<version>: `.
    fn shown(stderr: &str, package: &str) -> Vec<String> {
        let head = format!("warning: {package}@0.1.0: ");
        let lines = stderr.lines().filter_map(|line| line.strip_prefix(&head));
        lines.map(str::to_owned).collect()
    }

    /// Checks that there is one message about `variable`, with its source, and that it names the file in the package.
    #[track_caller]
    fn is_whole(lines: &[String], file: &str, variable: &str) {
        let first = format!("{file}(");
        let about = |line: &String| line.starts_with(&first) && line.contains(variable);
        let found: Vec<usize> = (0..lines.len()).filter(|i| about(&lines[*i])).collect();
        assert_eq!(found.len(), 1, "{variable}: {lines:#?}");
        assert!(lines[found[0] + 1].contains(variable), "{lines:#?}");
    }

    #[test]
    fn a_warning_is_whole_and_shown_once() {
        let script = r#"
use cuda_build::{Build, Engine, Library, Module};
fn main() -> Result<(), cuda_build::Error> {
    Build::new()?
        .module(Module::new("src/by_nvrtc.cu").engine(Engine::Nvrtc))
        .library(Library::new("x").file("src/by_nvcc.cu").include("include"))
        .run()
        .map(drop)
}
"#;
        let declared = "capabilities = [\"8.0\", \"9.0\", \"12.0+PTX\"]";
        let project = Project::new("warned", &[13], declared, script, "fn main() {}\n");
        let kernel = "__global__ void k() {\n    int NAME;\n}\n";
        project.write("src/by_nvrtc.cu", &kernel.replace("NAME", "first_unused"));
        let header = "__device__ inline void f() {\n    int third_unused;\n}\n";
        project.write("include/f.cuh", header);
        let source = kernel.replace("NAME", "second_unused");
        project.write("src/by_nvcc.cu", &format!("#include \"f.cuh\"\n{source}"));
        let build = project.run(&["build"]);
        build.succeeded();
        let lines = shown(&build.stderr, "warned");
        is_whole(&lines, "src/by_nvrtc.cu", "first_unused");
        is_whole(&lines, "src/by_nvcc.cu", "second_unused");
        is_whole(&lines, "include/f.cuh", "third_unused");
        // NVRTC prints it once for each capability.
        let remarks = lines.iter().filter(|line| line.starts_with("Remark"));
        assert_eq!(remarks.count(), 1, "{lines:#?}");
    }

    #[test]
    fn a_header_of_cuda_has_one_hint() {
        let script = "fn main() -> Result<(), cuda_build::Error> {\n    \
                  cuda_build::Build::new()?.module(\"src/m.cu\").run().map(drop)\n}\n";
        let declared = "capabilities = [\"8.0\"]";
        let project = Project::new("hinted", &[13], declared, script, "fn main() {}\n");
        project.write("src/m.cu", "#include \"mine.cuh\"\n");
        let build = project.run(&["build"]);
        assert_ne!(build.code, 0);
        assert!(!build.stderr.contains("hint: "), "{build:?}");
        // The script's hint names the component of CUDA's header, and `cargo cuda` does not repeat it.
        project.write("src/m.cu", "#include \"cuda_profiler_api.h\"\n");
        let hint = "hint: `cuda_profiler_api.h` is missing: this CUDA 13.4 has no profiler-api";
        let build = project.run(&["build"]);
        build.ended_with(101, &[hint]);
        assert_eq!(build.stderr.matches("hint: ").count(), 1, "{build:?}");
    }
}
