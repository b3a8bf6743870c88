//! The host compiler, with a real nvcc and real compilers.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::host_compiler::{HostCompiler, choose};
use cuda_build::{Component, Error, Toolkit};
use cuda_find_core::{
    env::Env,
    root::Root,
    search::SearchContext,
    select::{Need, Part, Request},
    target::Target,
};

use crate::wheels::wheels;

fn toolkit() -> Toolkit {
    let place = wheels(&[
        "nvidia-cuda-nvcc==13.4.92",
        "nvidia-nvvm==13.4.92",
        "nvidia-cuda-crt==13.4.92",
        "nvidia-cuda-runtime==13.4.92",
    ]);
    let need = |component, part| Need::new(component, part, "a test");
    let needs = vec![
        need(Component::Nvcc, Part::Tools),
        need(Component::Nvvm, Part::Tools),
        need(Component::Crt, Part::Headers),
        need(Component::Cudart, Part::Headers),
    ];
    let (root, env) = (Root::system(), Env::from_pairs::<&str, &str>([]));
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let search = SearchContext {
        root: &root,
        env: &env,
        target: &target,
        places: vec![place],
        runs_nvcc: true,
    };

    search
        .find(&Request {
            needs,
            ..Request::default()
        })
        .unwrap()
}

/// A directory with a `gcc` and a `g++` that are the machine's own and define themselves as 99.
fn impostors() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["gcc", "g++"] {
        let path = directory.path().join(name);
        let script = "#!/bin/sh\nexec /usr/bin/g++ -U__GNUC__ -D__GNUC__=99 \"$@\"\n";
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

fn chosen(toolkit: &Toolkit, path: &[&Path], more: &[(&str, &str)]) -> Result<HostCompiler, Error> {
    chosen_for("x86_64-unknown-linux-gnu", toolkit, path, more)
}

fn chosen_for(
    triple: &str,
    toolkit: &Toolkit,
    path: &[&Path],
    more: &[(&str, &str)],
) -> Result<HostCompiler, Error> {
    let mut env = Env::from_pairs([("PATH", std::env::join_paths(path).unwrap())]);
    for (name, value) in more {
        env = env.with(name, value);
    }
    let target = Target::from_triple(triple).unwrap();
    choose(&env, &Root::system(), toolkit, &target)
}

const SYSTEM: &str = "/usr/bin";

mod online {
    use super::*;

    #[test]
    fn a_named_compiler_is_used_or_refused() {
        let toolkit = toolkit();
        let system = [Path::new(SYSTEM)];
        let named = chosen(&toolkit, &system, &[("NVCC_CCBIN", "/usr/bin/g++")]).unwrap();
        assert_eq!(named.compiler.path, PathBuf::from("/usr/bin/g++"));
        assert_eq!(named.option, None, "this nvcc reads the variable itself");

        let new = impostors();
        let too_new = new.path().join("g++");
        let too_new = too_new.to_str().unwrap();
        let error = chosen(&toolkit, &system, &[("NVCC_CCBIN", too_new)]).unwrap_err();
        let shown = format!("{error:?}");
        for wanted in [
            "host compiler gcc 99.",
            too_new,
            "which `NVCC_CCBIN` names",
            "not accepted by CUDA 13.4: unsupported GNU version! gcc versions later than 16 are not supported! (CUDA 13.4 \
         supports gcc up to 16 and clang up to 22)",
            "hint: name /usr/bin/",
            "NVCC_APPEND_FLAGS=-allow-unsupported-compiler",
        ] {
            assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
        }
        let flags = [
            ("NVCC_CCBIN", too_new),
            ("NVCC_APPEND_FLAGS", "-allow-unsupported-compiler"),
        ];
        assert_eq!(
            chosen(&toolkit, &system, &flags).unwrap().compiler.major,
            99
        );

        let error = chosen(
            &toolkit,
            &system,
            &[("NVCC_APPEND_FLAGS", &format!("-ccbin {too_new}"))],
        )
        .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("which `NVCC_APPEND_FLAGS` names"),
            "{error}"
        );
        let error = chosen(&toolkit, &system, &[("NVCC_CCBIN", "/nonexistent/g++")]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("`NVCC_CCBIN` names /nonexistent/g++"),
            "{error}"
        );
    }

    #[test]
    fn a_refused_choice_of_nvcc_is_replaced_or_an_error() {
        let toolkit = toolkit();
        let new = impostors();
        let host = chosen(&toolkit, &[new.path(), Path::new(SYSTEM)], &[]).unwrap();
        assert!(host.option.unwrap().starts_with(SYSTEM) && host.compiler.major < 99);
        let host = chosen(&toolkit, &[Path::new(SYSTEM)], &[]).unwrap();
        assert_eq!(host.option, None, "nvcc's own choice is accepted");
        let error = chosen(&toolkit, &[new.path()], &[]).unwrap_err();
        assert!(error.to_string().contains("gcc 99."), "{error}");
        assert!(error.hints()[0].contains("install g++-16"), "{error:?}");
        let empty = tempfile::tempdir().unwrap();
        let error = chosen(&toolkit, &[empty.path()], &[]).unwrap_err();
        assert!(
            error.to_string().contains("there is none on `PATH`"),
            "{error}"
        );
    }

    #[test]
    fn a_verdict_is_kept_until_the_compiler_changes() {
        let toolkit = toolkit();
        let directory = tempfile::tempdir().unwrap();
        let (compiler, log) = (directory.path().join("g++"), directory.path().join("log"));
        let install = |defines: &str| {
            let script = format!(
                "#!/bin/sh\necho x >> {}\nexec /usr/bin/g++ {defines} \"$@\"\n",
                log.display()
            );
            let write =
                "printf %s \"$1\" > \"$2.new\" && chmod +x \"$2.new\" && mv \"$2.new\" \"$2\"";
            let mut command = Command::new("sh");
            command.args(["-c", write, "sh", &script]).arg(&compiler);
            assert!(command.status().unwrap().success());
        };
        let starts = || std::fs::read_to_string(&log).map_or(0, |log| log.lines().count());
        let cache = directory.path().join("cache");
        let variables = [
            ("NVCC_CCBIN", compiler.to_str().unwrap()),
            ("CUDA_BUILD_CACHE_DIR", cache.to_str().unwrap()),
        ];
        let choose = || chosen(&toolkit, &[Path::new(SYSTEM)], &variables);
        install("");
        let first = choose().unwrap();
        let cold = starts();
        assert!(cold > 0);
        assert_eq!(choose().unwrap(), first);
        assert_eq!(starts(), cold, "no process is started");
        install("-U__GNUC__ -D__GNUC__=99");
        let error = choose().unwrap_err();
        assert!(
            error.to_string().contains("host compiler gcc 99."),
            "{error}"
        );
        let (warm, again) = (starts(), choose().unwrap_err());
        assert_eq!((again.to_string(), starts()), (error.to_string(), warm));
        // Behind the script is the same compiler; the script itself counts too.
        install("-DX");
        let third = choose().unwrap();
        assert_ne!(third.compiler.fingerprint, first.compiler.fingerprint);
        assert_eq!(third.compiler.version, first.compiler.version);
    }

    /// A toolkit with the real nvcc and a header of our own.
    #[test]
    fn the_verdict_is_that_of_the_toolkits_header() {
        let real = wheels(&["nvidia-cuda-nvcc==13.4.92"]);
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("cuda");
        std::fs::create_dir_all(root.join("include/crt")).unwrap();
        std::fs::create_dir(root.join("bin")).unwrap();
        for entry in std::fs::read_dir(real.join("nvidia/cu13/bin")).unwrap() {
            let entry = entry.unwrap();
            let link = root.join("bin").join(entry.file_name());
            std::os::unix::fs::symlink(entry.path(), link).unwrap();
        }
        let (header, cuda) = (
            root.join("include/crt/host_config.h"),
            root.join("include/cuda.h"),
        );
        std::fs::write(&header, "").unwrap();
        std::fs::write(cuda, "#define CUDA_VERSION 13040\n").unwrap();
        let (disk, env) = (
            Root::system(),
            Env::from_pairs([
                ("PATH", SYSTEM),
                ("CUDA_BUILD_ROOTS", root.to_str().unwrap()),
            ]),
        );
        let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
        let search = SearchContext::new(&disk, &env, &target);
        let needs = vec![
            Need::new(Component::Nvcc, Part::Tools, "a test"),
            Need::new(Component::Crt, Part::Headers, "a test"),
        ];
        let request = Request {
            needs,
            ..Request::default()
        };
        let toolkit = search.find(&request).unwrap();
        let cache = place.path().to_str().unwrap();
        let choose = || {
            chosen(
                &toolkit,
                &[Path::new(SYSTEM)],
                &[("CUDA_BUILD_CACHE_DIR", cache)],
            )
        };
        choose().unwrap();
        let check = "#if defined(__CUDACC__) && defined(__NVCC__) && __GNUC__ >= 3\n\
                 #error -- unsupported today! The nvcc flag 'x' can be used\n#endif\n";
        std::fs::write(&header, check).unwrap();
        let error = choose().unwrap_err().to_string();
        assert!(
            error.contains("CUDA 13.4: unsupported today! (CUDA 13.4 supports gcc up to 16"),
            "{error}"
        );
        // A header that cannot be judged leaves the decision to the table.
        std::fs::write(&header, "#include <absent-on-this-machine.h>\n").unwrap();
        choose().unwrap();
    }

    /// Compilers for 64-bit ARM by what they define. No code is compiled with them.
    #[test]
    fn a_cross_build_uses_a_cross_compiler() {
        let toolkit = toolkit();
        let directory = tempfile::tempdir().unwrap();
        for (name, major) in [
            ("aarch64-linux-gnu-g++", "99"),
            ("aarch64-linux-gnu-g++-12", "12"),
            ("aarch64-linux-gnu-g++-13", "13"),
            ("aarch64-poky-linux-g++", "11"),
        ] {
            let path = directory.path().join(name);
            let script = format!(
                "#!/bin/sh\nexec /usr/bin/g++ -U__x86_64__ -D__aarch64__=1 -U__GNUC__ -D__GNUC__={major} \"$@\"\n"
            );
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = [directory.path(), Path::new(SYSTEM)];
        let arm = |more: &[(&str, &str)]| {
            chosen_for("aarch64-unknown-linux-gnu", &toolkit, &path, more).unwrap()
        };
        let poky = directory.path().join("aarch64-poky-linux-g++");
        let with_launcher = format!("ccache {}", poky.display());
        for (variables, expected) in [
            // The first one is too new for this toolkit.
            (&[][..], "aarch64-linux-gnu-g++-13"),
            (
                &[("CXX_aarch64_unknown_linux_gnu", "aarch64-poky-linux-g++")],
                "aarch64-poky-linux-g++",
            ),
            (&[("TARGET_CXX", &*with_launcher)], "aarch64-poky-linux-g++"),
            (
                &[
                    ("NVCC_CCBIN", "aarch64-linux-gnu-g++-12"),
                    ("CXX", "aarch64-poky-linux-g++"),
                ],
                "aarch64-linux-gnu-g++-12",
            ),
        ] {
            let host = arm(variables);
            assert_eq!(
                host.compiler.path,
                directory.path().join(expected),
                "{variables:?}"
            );
        }
        assert_eq!(
            arm(&[]).option,
            Some(directory.path().join("aarch64-linux-gnu-g++-13")),
            "nvcc does not choose it by itself"
        );
        // A build for this machine does not read these variables, and does not take such a compiler.
        let own = chosen(&toolkit, &path, &[("TARGET_CXX", &with_launcher)]).unwrap();
        assert_eq!(own.option, None);
        let error = chosen(&toolkit, &path, &[("NVCC_CCBIN", poky.to_str().unwrap())]);
        let shown = format!("{:?}", error.unwrap_err());
        assert!(
        shown.contains("which `NVCC_CCBIN` names, compiles for aarch64, but the build is for x86_64-unknown-linux-gnu"),
        "{shown}"
    );
    }
}
