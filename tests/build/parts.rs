//! Libraries and modules that are written for some capabilities.

mod online {
    use std::fs;

    use cuda_build::{Build, Engine, Format, Library, Module};
    use cuda_find_core::{env::Env, root::Root};

    use crate::components::site_packages;
    use crate::support::{components, listed};

    /// Compiles for 9.0a only.
    const HOPPER: &str = "\
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error only for 9.0a
#endif
extern \"C\" __global__ void hopper(int *p) { ++*p; }
";
    const PLAIN: &str = "__constant__ int one = 1;\n\
                         extern \"C\" __global__ void plain(int *p) { *p += one; }\n";

    #[test]
    fn each_part_has_code_for_what_it_is_written_for() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
        write("Cargo.toml", "[package]\nname = \"x\"\n\n[workspace]\n");
        write("hopper.cu", HOPPER);
        write("plain.cu", PLAIN);
        fs::create_dir(path("out")).unwrap();
        let env = Env::from_pairs([
            ("TARGET", "x86_64-unknown-linux-gnu"),
            ("CUDA_BUILD_CAPABILITIES", "8.0,9.0,12.0+PTX"),
        ])
        .with("CARGO_MANIFEST_DIR", place.path())
        .with("OUT_DIR", path("out"))
        .with("CUDA_BUILD_ROOTS", site_packages(13))
        .with("CUDA_BUILD_CACHE_DIR", path("cache"))
        .with("PATH", std::env::var_os("PATH").unwrap());
        let build = Build::from_env(env, Root::system()).unwrap();
        build
            .library(
                Library::new("hopper")
                    .file("hopper.cu")
                    .capabilities(["9.0a"]),
            )
            .module(
                Module::new("hopper.cu")
                    .engine(Engine::Nvcc)
                    .capabilities(["9.0a"]),
            )
            .module(
                Module::new("plain.cu")
                    .engine(Engine::Nvrtc)
                    .capabilities([">=9.0"]),
            )
            .module(Module::new("plain.cu").named("lowest").format(Format::Ptx))
            .module(
                Module::new("plain.cu")
                    .named("ampere")
                    .capabilities(["8.6"]),
            )
            .run()
            .unwrap();

        let bin = components(13).bin;
        let files = fs::read_dir(path("out")).unwrap();
        let mut files = files.map(|entry| entry.unwrap().path());
        let object = files.find(|path| path.extension().is_some_and(|ending| ending == "o"));
        let list = |file: &std::path::Path| {
            let mut names = listed(&bin, file);
            names.retain(|name| name.starts_with("sm_"));
            names.sort();
            names
        };
        assert_eq!(list(&object.unwrap()), ["sm_90a.cubin"]);
        assert_eq!(list(&path("out/hopper.fatbin")), ["sm_90a.cubin"]);
        let newer = ["sm_120.cubin", "sm_120.ptx", "sm_90.cubin"];
        assert_eq!(list(&path("out/plain.fatbin")), newer);
        let ptx = fs::read_to_string(path("out/lowest.ptx")).unwrap();
        assert!(ptx.contains(".target sm_80\n"), "{ptx}");
        assert!(!path("out/ampere.fatbin").exists());

        let source = fs::read_to_string(path("out/cuda_build.rs")).unwrap();
        let line = "(\"ampere\", (&[], &[], \"\"))";
        assert!(source.contains(line), "{line}\n{source}");
        assert!(!source.contains("AMPERE"), "{source}");
    }
}
