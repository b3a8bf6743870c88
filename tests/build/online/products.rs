//! Products with a life of their own, in places that hold nothing else and that variables name.
//! cuDNN's own packages have up to a gigabyte, so products are stand-ins here; the toolkit beside
//! them is real.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_build::{Component, Toolkit};
use cuda_find_core::error::Error;
use cuda_find_core::{
    env::Env,
    root::Root,
    search::SearchContext,
    select::{Need, Part, Request, Strength},
    target::Target,
};

use crate::wheels::wheels;

/// A disk of its own, with a real runtime of CUDA 13 as a plain root.
struct Machine {
    top: tempfile::TempDir,
    cuda: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let wheels = wheels(&["nvidia-cuda-runtime==13.4.92"]);
        Self {
            top: tempfile::tempdir().unwrap(),
            cuda: wheels.join("nvidia/cu13"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// cuDNN 9.5.0 as in its archive: headers and libraries below a root.
    fn cudnn(&self, root: &str) -> PathBuf {
        self.write(&format!("{root}/include/cudnn.h"), "");
        self.write(&format!("{root}/include/cudnn_version.h"), CUDNN_VERSION);
        self.write(&format!("{root}/lib/libcudnn.so.9"), "");
        self.path(root)
    }

    fn find(&self, variables: &[(&str, &Path)], needs: Vec<Need>) -> Result<Toolkit, Error> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let env = Env::from_pairs(variables.iter().map(|(name, path)| (*name, text(path))));
        let root = Root::below(self.top.path());
        let request = Request {
            needs,
            ..Request::default()
        };
        SearchContext::new(&root, &env, &target()).find(&request)
    }
}

const CUDNN_VERSION: &str =
    "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 5\n#define CUDNN_PATCHLEVEL 0\n";

fn target() -> Target {
    Target::from_triple("x86_64-unknown-linux-gnu").unwrap()
}

pub fn need(component: Component) -> Need {
    let part = if [Component::Cutensor, Component::Cutlass].contains(&component) {
        Part::Headers
    } else {
        Part::Shared
    };
    Need::new(component, part, "declared in `[package.metadata.cuda]`")
}

/// The runtime and a product.
pub fn with(product: Component) -> Vec<Need> {
    vec![need(Component::Cudart), need(product)]
}

pub fn optional(product: Component) -> Vec<Need> {
    vec![
        need(Component::Cudart),
        need(product).with(Strength::Optional),
    ]
}

#[track_caller]
pub fn says(error: &Error, texts: &[&str]) {
    let shown = format!("{error:?}");
    for text in texts {
        assert!(shown.contains(text), "no {text:?} in\n{shown}");
    }
}

#[test]
fn a_variable_names_a_directory_of_one_product_alone() {
    let machine = Machine::new();
    let plain = machine.cudnn("x/cudnn");
    let archive = machine.cudnn("x/cudnn-linux-x86_64-9.5.0.50_cuda13-archive");
    let wheel = machine.cudnn("venv/lib/python3.11/site-packages/nvidia/cudnn");
    machine.write(
        "venv/lib/python3.11/site-packages/nvidia_cudnn_cu13-9.5.0.50.dist-info/METADATA",
        "",
    );
    for place in [&plain, &archive, &wheel] {
        for toolkit in ["CUDA_HOME", "CUDA_BUILD_ROOTS"] {
            let variables = [(toolkit, machine.cuda.as_path()), ("CUDNN_PATH", place)];
            let toolkit = machine.find(&variables, with(Component::Cudnn)).unwrap();
            let cudnn = toolkit.get(Component::Cudnn).unwrap();
            assert_eq!(cudnn.to_string(), "cudnn 9.5.0");
            assert_eq!(
                (cudnn.major, &cudnn.libraries[0]),
                (13, &place.join("lib/libcudnn.so.9"))
            );
            assert_eq!(
                toolkit.version().to_string(),
                "13.4",
                "a product is no toolkit"
            );
        }
    }
    let roots = [
        ("CUDA_HOME", machine.cuda.as_path()),
        ("CUDA_BUILD_ROOTS", &plain),
    ];
    assert!(machine.find(&roots, with(Component::Cudnn)).is_ok());
    // Nobody names the toolkit.
    fs::create_dir_all(machine.path("usr/local")).unwrap();
    std::os::unix::fs::symlink(&machine.cuda, machine.path("usr/local/cuda")).unwrap();
    for needs in [with(Component::Cudnn), vec![need(Component::Cudnn)]] {
        let toolkit = machine.find(&[("CUDNN_PATH", &plain)], needs).unwrap();
        assert_eq!(toolkit.version().to_string(), "13.4");
    }
}

#[test]
fn every_products_variable_does() {
    let machine = Machine::new();
    for (variable, component, files, version) in [
        (
            "NCCL_HOME",
            Component::Nccl,
            [
                (
                    "include/nccl.h",
                    "#define NCCL_MAJOR 2\n#define NCCL_MINOR 22\n#define NCCL_PATCH 3\n",
                ),
                ("lib/libnccl.so.2", ""),
            ]
            .as_slice(),
            "2.22.3",
        ),
        (
            "CUTENSOR_PATH",
            Component::Cutensor,
            &[
                (
                    "include/cutensor.h",
                    "#define CUTENSOR_MAJOR 2 //!< major\n#define CUTENSOR_MINOR 8\n#define CUTENSOR_PATCH 0\n",
                ),
                ("lib/libcutensor.so.2", ""),
            ],
            "2.8.0",
        ),
        (
            "CUTLASS_PATH",
            Component::Cutlass,
            &[(
                "include/cutlass/version.h",
                "#define CUTLASS_MAJOR 3\n#define CUTLASS_MINOR 8\n#define CUTLASS_PATCH 0\n",
            )],
            "3.8.0",
        ),
    ] {
        for (file, text) in files {
            machine.write(&format!("x/{component}/{file}"), text);
        }
        let place = machine.path(&format!("x/{component}"));
        let variables = [("CUDA_HOME", machine.cuda.as_path()), (variable, &place)];
        let toolkit = machine.find(&variables, with(component)).unwrap();
        assert_eq!(
            toolkit.get(component).unwrap().to_string(),
            format!("{component} {version}")
        );
    }
}

#[test]
fn a_product_for_another_cuda_is_refused_whatever_tells_it() {
    let machine = Machine::new();
    let archive = machine.cudnn("x/cudnn-linux-x86_64-9.5.0.50_cuda12-archive");
    let wheel = machine.cudnn("venv/lib/python3.11/site-packages/nvidia/cudnn");
    machine.write(
        "venv/lib/python3.11/site-packages/nvidia_cudnn_cu12-9.5.0.50.dist-info/METADATA",
        "",
    );
    let link = machine.path("x/cudnn");
    std::os::unix::fs::symlink(&archive, &link).unwrap();
    let words = [
        "cudart 13.4",
        "is for CUDA 13",
        "cudnn 9.5.0",
        "is for CUDA 12",
        "hint: take the cudnn that is built",
    ];
    for place in [&archive, &wheel, &link] {
        // One that may be left out is not left out in silence where a variable names it.
        for needs in [with(Component::Cudnn), optional(Component::Cudnn)] {
            let variables = [("CUDA_HOME", machine.cuda.as_path()), ("CUDNN_PATH", place)];
            let error = machine.find(&variables, needs).unwrap_err();
            assert!(matches!(error, Error::Inconsistent { .. }), "{error:?}");
            says(&error, &words);
        }
        let list = PathBuf::from(format!("{}:{}", machine.cuda.display(), place.display()));
        let error = machine
            .find(&[("CUDA_BUILD_ROOTS", &list)], with(Component::Cudnn))
            .unwrap_err();
        says(&error, &words);
    }
    // Nor is another place's taken instead.
    let fitting = machine.cudnn("y/cudnn-linux-x86_64-9.5.0.50_cuda13-archive");
    let list = PathBuf::from(format!("{}:{}", machine.cuda.display(), fitting.display()));
    assert!(
        machine
            .find(&[("CUDA_BUILD_ROOTS", &list)], with(Component::Cudnn))
            .is_ok()
    );
    let variables = [
        ("CUDA_BUILD_ROOTS", list.as_path()),
        ("CUDNN_PATH", &archive),
    ];
    says(
        &machine
            .find(&variables, with(Component::Cudnn))
            .unwrap_err(),
        &words,
    );
    // Who uses none is not concerned.
    assert!(
        machine
            .find(&variables, vec![need(Component::Cudart)])
            .is_ok()
    );
}

/// cuTENSOR's archives before 2.3 and its packages for Debian have a directory a major.
#[test]
fn libraries_in_a_directory_of_their_major() {
    let machine = Machine::new();
    let root = "x/libcutensor-linux-x86_64-2.2.0.0-archive";
    machine.write(&format!("{root}/include/cutensor.h"), "");
    for major in [11, 12] {
        machine.write(&format!("{root}/lib/{major}/libcutensor.so.2"), "");
    }
    let place = machine.path(root);
    let variables = [
        ("CUDA_HOME", machine.cuda.as_path()),
        ("CUTENSOR_PATH", &place),
    ];
    let error = machine
        .find(&variables, with(Component::Cutensor))
        .unwrap_err();
    assert!(matches!(error, Error::Inconsistent { .. }), "{error:?}");
    says(
        &error,
        &[
            "cudart 13.4",
            "is for CUDA 13",
            "cutensor",
            "is for CUDA 12",
        ],
    );
    machine.write(&format!("{root}/lib/13/libcutensor.so.2"), "");
    let toolkit = machine.find(&variables, with(Component::Cutensor)).unwrap();
    assert_eq!(
        toolkit.get(Component::Cutensor).unwrap().libraries[0],
        place.join("lib/13/libcutensor.so.2")
    );

    // The alternative that the administrator chose is for 12.
    machine.write("usr/include/cutensor.h", "");
    machine.write(
        "usr/lib/x86_64-linux-gnu/libcutensor/12/libcutensor.so.2",
        "",
    );
    let link = machine.path("usr/lib/x86_64-linux-gnu/libcutensor.so.2");
    std::os::unix::fs::symlink("libcutensor/12/libcutensor.so.2", link).unwrap();
    let named = [("CUDA_HOME", machine.cuda.as_path())];
    says(
        &machine.find(&named, with(Component::Cutensor)).unwrap_err(),
        &["cutensor", "is for CUDA 12"],
    );
    machine.write(
        "usr/lib/x86_64-linux-gnu/libcutensor/13/libcutensor.so.2",
        "",
    );
    let toolkit = machine.find(&named, with(Component::Cutensor)).unwrap();
    let library = machine.path("usr/lib/x86_64-linux-gnu/libcutensor/13/libcutensor.so.2");
    assert_eq!(
        toolkit.get(Component::Cutensor).unwrap().libraries,
        [library]
    );
}

#[test]
fn a_product_alone_is_no_toolkit() {
    let machine = Machine::new();
    let place = machine.cudnn("x/cudnn");
    for variable in ["CUDA_BUILD_ROOTS", "CUDNN_PATH"] {
        let error = machine
            .find(&[(variable, &place)], vec![need(Component::Cudnn)])
            .unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
        says(
            &error,
            &[
                "`cudart` not found (needed to determine the CUDA release)",
                "cudnn 9.5.0",
            ],
        );
    }
}

/// A product that is named for another CUDA decides the major where nothing else does, be it needed
/// or only wished for.
#[test]
fn a_named_product_decides_an_open_major() {
    let machine = Machine::new();
    let of_12 = wheels(&["nvidia-cuda-runtime-cu12==12.9.79"]);
    let cudnn = machine.cudnn("x/cudnn-linux-x86_64-9.5.0.50_cuda12-archive");
    let both = std::env::join_paths([&machine.cuda, &of_12]).unwrap();
    let variables = [
        ("CUDA_BUILD_ROOTS", Path::new(&both)),
        ("CUDNN_PATH", cudnn.as_path()),
    ];
    for needs in [with(Component::Cudnn), optional(Component::Cudnn)] {
        let toolkit = machine.find(&variables, needs).unwrap();
        assert_eq!(toolkit.version().to_string(), "12.9");
        assert_eq!(toolkit.get(Component::Cudnn).unwrap().major, 12);
    }
    let toolkit = machine
        .find(&variables, vec![need(Component::Cudart)])
        .unwrap();
    assert_eq!(toolkit.version().to_string(), "13.4", "nobody wants it");
}
