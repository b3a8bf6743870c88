//! Libraries and products that do not belong together, as real packages side by side: for another
//! CUDA, another machine, or other capabilities.

use std::path::Path;

use cuda_build::{Build, Component, Error};
use cuda_find::detail::{env::Env, root::Root};

use crate::online::mixes::{copied, refused, shared};
use crate::wheels::wheels;

mod online {
    use super::*;

    #[test]
    fn libraries_of_two_majors_or_releases_are_refused() {
        let cudart12 = "nvidia-cuda-runtime-cu12==12.9.79";
        for (packages, components, expected) in [
            (
                &[cudart12, "nvidia-nvjitlink==13.4.92"][..],
                [Component::Cudart, Component::Nvjitlink],
                &[
                    "cudart 12.9.79 (argument ({place})) is for CUDA 12",
                    "nvjitlink 13.4.92 (argument ({place})) is for CUDA 13",
                    "hint: take all components from one CUDA major: `nvidia-nvjitlink-cu12` in Python packages",
                ][..],
            ),
            (
                &[cudart12, "nvidia-cusparselt-cu13==0.10.0"],
                [Component::Cudart, Component::Cusparselt],
                &[
                    "cusparselt 0.10.0 (argument ({place})) is for CUDA 13",
                    "hint: take the cusparselt that is built for CUDA 12: `nvidia-cusparselt-cu12`",
                ],
            ),
            (
                &[
                    "nvidia-cuda-runtime==13.4.92",
                    "nvidia-cusparse==12.8.6.72",
                    "nvidia-nvjitlink==13.0.88",
                ],
                [Component::Cudart, Component::Cusparse],
                &[
                    "cusparse 12.8.6.72 (argument ({place})) is from CUDA 13.4",
                    "nvjitlink 13.0.88 (argument ({place})) is from CUDA 13.0",
                    "hint: install `nvidia-nvjitlink>=13.4,<14`",
                ],
            ),
        ] {
            refused(&wheels(packages), &shared(&components), expected);
        }
    }

    /// The one mix that the plan decides. cuDNN's own package has 700 MB: its files are stand-ins here,
    /// everything else is real.
    #[test]
    fn cudnn_without_code_for_a_declared_capability() {
        let whole = wheels(&[
            "nvidia-cuda-runtime-cu12==12.9.79",
            "nvidia-cuda-nvrtc-cu12==12.9.86",
        ]);
        let place = copied(&whole);
        for file in [
            "nvidia/cudnn/lib/libcudnn.so.9",
            "nvidia/cudnn/include/cudnn.h",
            "nvidia_cudnn_cu12-9.27.0.42.dist-info/RECORD",
        ] {
            let path = place.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let package = tempfile::tempdir().unwrap();
        std::fs::write(
            package.path().join("k.cu"),
            "extern \"C\" __global__ void k() {}\n",
        )
        .unwrap();
        let built = |capabilities: &str| {
            let manifest = format!(
                "[package]\nname = \"k\"\n[package.metadata.cuda]\ncomponents = [\"cudnn\"]\ncapabilities = [{capabilities}]\n"
            );
            std::fs::write(package.path().join("Cargo.toml"), manifest).unwrap();
            let text = |path: &Path| path.to_str().unwrap().to_owned();
            let env = Env::from_pairs([
                ("CARGO_MANIFEST_DIR", text(package.path())),
                ("OUT_DIR", text(package.path())),
                ("TARGET", "x86_64-unknown-linux-gnu".to_owned()),
                ("CUDA_BUILD_ROOTS", text(place.path())),
            ]);
            Build::from_env(env, Root::system())
                .unwrap()
                .module("k.cu")
                .run()
        };
        let error = built("\"7.0\", \"8.0\"").unwrap_err();
        assert!(
            matches!(error, Error::Find(cuda_find::Error::Inconsistent { .. })),
            "{error:?}"
        );
        let shown = format!("{error:?}");
        for wanted in [
            "cudnn 9.27.0.42",
            "supports capabilities from 7.5 on",
            "this build is for 7.0",
            "hint: remove 7.0",
        ] {
            assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
        }
        assert!(
            shown.contains(&place.path().display().to_string()),
            "{shown}"
        );
        assert!(
            !package.path().join("k.fatbin").exists(),
            "refused before anything was compiled"
        );
        assert!(built("\"7.5\", \"8.0\"").is_ok());
    }
}
