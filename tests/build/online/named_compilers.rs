//! Compilers that variables name: the one that runs, and those that are none.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use cuda_build::view::ViewPlace;
use cuda_build::{Component, Engine, Module, View};
use cuda_find_core::{env::Env, root::Root, target::Target};

use crate::components::site_packages;
use crate::layout_files::Layout;
use crate::named_places::{package, refused, report, script, search, summaries};
use crate::support::toolkit13;

#[test]
fn a_compiler_that_is_named_is_the_one_that_runs() {
    let real = toolkit13();
    // Links are followed, also those above the place for temporary files and above the user's cache.
    let real = real.canonicalize().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let root = &directory.path().canonicalize().unwrap();
    let nvcc = real.join("bin/nvcc");
    // A link without anything beside it.
    let lone = root.join("lone/bin/nvcc");
    fs::create_dir_all(lone.parent().unwrap()).unwrap();
    symlink(&nvcc, &lone).unwrap();
    // What a site puts before its compiler, beside another one.
    let (wrapper, log) = (root.join("tools/bin/my-nvcc"), root.join("log"));
    let text = format!(
        "#!/bin/sh\necho \"$@\" >> {}\nexec {} \"$@\"\n",
        log.display(),
        nvcc.display()
    );
    script(&wrapper, &text);
    script(&root.join("tools/bin/nvcc"), "#!/bin/sh\nexit 1\n");
    let bare = PathBuf::from("my-nvcc");
    let path = PathBuf::from(format!(
        "{}:/usr/bin:/bin",
        root.join("tools/bin").display()
    ));
    for (named, expected) in [
        (&nvcc, &nvcc),
        (&lone, &nvcc),
        (&wrapper, &wrapper),
        (&bare, &wrapper),
    ] {
        for variable in ["NVCC", "CUDACXX"] {
            for directory in ["out", "cache"] {
                let _ = fs::remove_dir_all(root.join(directory));
            }
            let _ = fs::remove_file(&log);
            let build = package(root, &[(variable, named), ("PATH", &path)])
                .module(Module::new("k.cu").engine(Engine::Nvcc));
            let toolkit = build.toolkit().unwrap();
            assert_eq!(toolkit.version().major, 13);
            assert_eq!(
                toolkit.tool(Component::Nvcc, "nvcc"),
                Some(expected.as_path()),
                "{variable}"
            );
            assert!(
                toolkit.get(Component::Cudart).is_some(),
                "{}",
                named.display()
            );
            assert_eq!(build.run().unwrap().compiled.made.len(), 1);
            let logged = fs::read_to_string(&log).unwrap_or_default();
            assert_eq!(
                logged.contains("k.cu"),
                expected == &wrapper,
                "{}: {logged}",
                named.display()
            );
        }
    }
    // For what insists on one root it has the usual name there.
    let build =
        package(root, &[("NVCC", &wrapper)]).module(Module::new("k.cu").engine(Engine::Nvcc));
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let place = ViewPlace::below(&root.join("views"), &target);
    let view = View::create(
        build.toolkit().unwrap(),
        &place,
        &Root::system(),
        &Env::from_process(),
    )
    .unwrap();
    let answer =
        crate::support::succeeds(std::process::Command::new(view.nvcc().unwrap()).arg("--version"));
    assert!(answer.contains("release 13.4"), "{answer}");
}

#[test]
fn a_compiler_that_is_none_is_an_error() {
    let layout = Layout::load("usr-local-12.4");
    let nvcc = layout.root.join("usr/local/cuda/bin/nvcc");
    assert!(nvcc.is_file());
    script(
        &layout.root.join("tools/bin/cc"),
        "#!/bin/sh\necho cc: no input files >&2\nexit 1\n",
    );
    for variable in ["NVCC", "CUDACXX"] {
        let report = search(
            &layout.root,
            &[(variable, "@ROOT@/usr/local/cuda/bin/nvcc")],
            Component::Nvcc,
        );
        assert!(report.toolkit.is_ok(), "{}", summaries(&report));
        for (value, reason) in [
            (
                "@ROOT@/usr/local/cuda/bin/nvcc-13.9",
                "bin/nvcc-13.9: does not exist",
            ),
            ("@ROOT@/usr/local/cuda/bin", "cuda/bin: not a file"),
            ("nvcc-13.9", "no program `nvcc-13.9` is on `PATH`"),
            ("cuda/bin/nvcc", "is a relative path"),
            (
                "@ROOT@/tools/bin/cc",
                "tools/bin/cc does not answer as nvcc does",
            ),
        ] {
            let path = ("PATH", "@ROOT@/usr/local/cuda/bin");
            let text = refused(&search(
                &layout.root,
                &[(variable, value), path],
                Component::Nvcc,
            ));
            assert!(
                text.contains(reason) && text.contains(variable),
                "{value}: {text}"
            );
            assert!(
                text.contains(&format!("hint: correct environment variable `{variable}`")),
                "{text}"
            );
        }
    }
    // A good one in the same place does not make up for it.
    let both = [
        ("NVCC", "@ROOT@/usr/local/cuda/bin/nvcc"),
        ("CUDACXX", "@ROOT@/usr/local/cuda/bin/nvcc-13.9"),
    ];
    let text = refused(&search(&layout.root, &both, Component::Nvcc));
    assert!(
        text.contains("`CUDACXX`") && text.contains("bin/nvcc-13.9: does not exist"),
        "{text}"
    );
}

#[test]
fn a_compiler_with_a_launcher_or_arguments_is_refused() {
    let site = site_packages(13);
    let nvcc = site.join("nvidia/cu13/bin/nvcc");
    for value in [
        format!("ccache {}", nvcc.display()),
        format!("{} -O2", nvcc.display()),
    ] {
        let env = [("CUDACXX".to_owned(), value)];
        let error = refused(&report(&Root::system(), &env, Component::Nvcc));
        assert!(error.contains("write only the path of nvcc"), "{error}");
    }
}
