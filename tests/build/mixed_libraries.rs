//! Libraries and products that do not belong together, as real packages side by side: for another
//! CUDA, another machine, or other capabilities.

use std::path::Path;

use cuda_build::{Build, Error};
use cuda_find_core::{env::Env, root::Root};

use crate::online::mixes::copied;
use crate::wheels::wheels;

mod online {
    use super::*;

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
            matches!(
                error,
                Error::Find(cuda_find_core::error::Error::Inconsistent { .. })
            ),
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
