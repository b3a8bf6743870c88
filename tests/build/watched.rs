//! What Cargo watches, if its target directory is among the sources.

use std::fs;

use crate::package::{Compiler, Package, kernel, succeeded};

/// A package that appends a line to a file each time that its script runs.
struct Counted {
    package: Package,
}

impl Counted {
    fn runs(&self) -> usize {
        let lines = fs::read_to_string(self.package.place.join("runs")).unwrap();
        lines.lines().count()
    }

    /// Builds twice. The script runs in the first build if `is_changed`, and never in the second.
    #[track_caller]
    fn build(&self, edit: &str, is_changed: bool) {
        let before = self.runs();
        self.package
            .build()
            .unwrap_or_else(|error| panic!("{edit}: {error}"));
        assert_eq!(self.runs() - before, usize::from(is_changed), "{edit}");
        self.package.build().unwrap();
        assert_eq!(
            self.runs() - before,
            usize::from(is_changed),
            "{edit}, without a change"
        );
    }

    /// Whether there is a module of this name in the generated source.
    fn has_module(&self, name: &str) -> bool {
        let source = fs::read_to_string(self.package.out().join("cuda_build.rs")).unwrap();
        source.contains(&format!("pub const {}:", name.to_uppercase()))
            || source.contains(&format!("pub static {}:", name.to_uppercase()))
    }
}

fn new_and_deleted_files(target: &str, pattern: &str) {
    let compiler = Compiler::Nvrtc13;
    let name = format!("watched-{}-{}", target.len(), pattern.len());
    let mut package = Package::new(&name, compiler);
    package.target = package.path.join(target);
    let runs = package.place.join("runs");
    fs::write(&runs, "").unwrap();
    package.write("first.cu", kernel("1"));
    package.write(
        "kernels/second.cu",
        format!(
            "#if __has_include(\"late.cuh\")\n#include \"late.cuh\"\n#endif\n{}",
            kernel("2")
        ),
    );
    let append = format!(
        "use std::io::Write as _;\n\
         let runs = std::fs::File::options().append(true).open({runs:?});\n\
         writeln!(runs.unwrap(), \"run\").unwrap();"
    );
    package.write_script_with(
        &append,
        &format!(".modules(Module::new({pattern:?}).engine(Engine::Nvrtc).include(\".\"))"),
    );
    package.write_program(&[], &[]);
    let counted = Counted { package };
    let write = |file: &str, text: &str| counted.package.write(file, text);

    counted.build("the first build", true);
    assert!(counted.has_module("first") && !counted.has_module("new"));
    write("new.cu", &kernel("3"));
    counted.build("a new file beside Cargo.toml", true);
    assert!(counted.has_module("new"));
    fs::remove_file(counted.package.path.join("new.cu")).unwrap();
    counted.build("a deleted file", true);
    assert!(!counted.has_module("new"));
    if pattern.contains("**") {
        write("kernels/deep/er/nested.cu", &kernel("4"));
        counted.build("a new file in a new directory", true);
        assert!(counted.has_module("nested"));
        write("late.cuh", "");
        counted.build("a header that was looked for", true);
    }
    // `**` searches `src`, too, where Cargo then watches each file.
    if !pattern.contains("**") {
        let program = fs::read_to_string(counted.package.path.join("src/main.rs")).unwrap();
        write("src/main.rs", &format!("{program}\n"));
        counted.build("a Rust source", false);
    }
}

mod online {
    use super::*;

    #[test]
    fn a_target_directory_beside_the_manifest() {
        new_and_deleted_files("target", "*.cu");
    }

    #[test]
    fn a_target_directory_in_a_directory_of_sources() {
        new_and_deleted_files("build/deep", "**/*.cu");
    }

    /// Cargo keeps the target directory of an earlier build, or of an editor.
    #[test]
    fn another_target_directory_beside_the_manifest() {
        let package = Package::new("watched-other", Compiler::Nvrtc13);
        package.write(
            "target/CACHEDIR.TAG",
            "Signature: 8a477f597d28d172789f06886806bc55",
        );
        package.write("first.cu", kernel("1"));
        package.write_script(".modules(Module::new(\"*.cu\").engine(Engine::Nvrtc))");
        package.write_program(&["first"], &[]);
        package.build().unwrap();
        package.write("second.cu", kernel("2"));
        package.write_program(&["first", "second"], &[]);
        let made = package.build().unwrap();
        assert!(made.contains_key("second.fatbin"));
        // What the editor writes there does not count.
        package.write("target/debug/x", "");
        let mut cargo = package.command("cargo".as_ref());
        let built = succeeded(cargo.args(["build", "-v", "--offline"]).output().unwrap());
        let printed = String::from_utf8(built.unwrap().stderr).unwrap();
        assert!(!printed.contains("Dirty"), "{printed}");
    }
}
