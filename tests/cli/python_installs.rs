//! Every way in which Python's tools install the template from source, in environments of their own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::components::site_packages;
use crate::python_backend::Package;
use crate::support::{Finished, python};
use crate::tools::tool;
use crate::wheel_template::files;

/// The versions of CUDA's packages, whatever is newest in the index.
const CONSTRAINTS: &str = "cuda-toolkit==13.4.3\n";

struct Flow {
    package: Package,
}

impl Flow {
    /// A program in the package's directory. Every call of rustc for a package is logged.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.package.command(program);
        let constraints = self.at("constraints.txt");
        command
            .env("RUSTC_WRAPPER", self.at("wrapper"))
            .env("PIP_CONSTRAINT", &constraints)
            .env("UV_CONSTRAINT", &constraints)
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        command
    }

    fn at(&self, name: &str) -> PathBuf {
        self.package.place.join(name)
    }

    fn run(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Finished {
        let run = self.command(program).args(arguments).output().unwrap();
        let run = Finished::of(run);
        run.succeeded();
        run
    }

    /// An environment with pip.
    fn venv(&self, name: &str) -> PathBuf {
        let venv = self.at(name);
        self.run(python(), &["-m", "venv", venv.to_str().unwrap()]);
        venv
    }

    fn uv_venv(&self, name: &str) -> PathBuf {
        let venv = self.at(name);
        self.run(tool("uv"), &["venv", "--quiet", venv.to_str().unwrap()]);
        venv
    }

    /// The names of the packages that were compiled since the last call.
    fn compiled(&self) -> BTreeSet<String> {
        let log = self.at("compiled");
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(log);
        text.lines().map(str::to_owned).collect()
    }

    /// Checks that only the package itself, the crates in its source tree and pyo3's crates were compiled.
    #[track_caller]
    fn compiled_little(&self, step: &str) {
        let compiled = self.compiled();
        eprintln!("{step}: {compiled:?}");
        let own = |name: &str| {
            ["saxpy", "cuda-build", "cuda-find-core"].contains(&name) || name.starts_with("pyo3")
        };
        assert!(
            compiled.iter().all(|name| own(name)),
            "{step}: {compiled:?}"
        );
    }

    /// Imports the package, and returns the paths of its native module and of the CUDA runtime.
    #[track_caller]
    fn import(&self, venv: &Path) -> [PathBuf; 2] {
        let code = "import saxpy, sys\n\
             assert saxpy.cuda_runtime_version() == 13040, saxpy.cuda_runtime_version()\n\
             print(sys.modules['saxpy._native'].__file__)\n\
             print(next(l.split()[-1] for l in open('/proc/self/maps') if 'libcudart' in l))\n";
        let mut command = Command::new(venv.join("bin/python"));
        command
            .args(["-c", code])
            .env_remove("LD_LIBRARY_PATH")
            .current_dir("/");
        let run = Finished::of(command.output().unwrap());
        run.succeeded();
        let mut paths = run
            .stdout
            .lines()
            .map(|path| fs::canonicalize(path).unwrap());
        [paths.next().unwrap(), paths.next().unwrap()]
    }

    /// The runtime is that of NVIDIA's package in the environment.
    #[track_caller]
    fn import_with_packages(&self, venv: &Path) -> PathBuf {
        let [module, runtime] = self.import(venv);
        let venv = fs::canonicalize(venv).unwrap();
        assert!(runtime.starts_with(&venv), "{}", runtime.display());
        module
    }
}

#[test]
#[ignore = "minutes: pip, uv and build install the template, editable and not"]
fn every_installer_gives_a_package_that_imports() {
    let package = Package::new("python-installs");
    let flow = Flow { package };
    fs::write(flow.at("constraints.txt"), CONSTRAINTS).unwrap();
    let log = flow.at("compiled");
    let wrapper = format!(
        "#!/bin/sh\nif [ -n \"$CARGO_PKG_NAME\" ]; then echo \"$CARGO_PKG_NAME\" >> '{}'; fi\nexec \"$@\"\n",
        log.display()
    );
    fs::write(flow.at("wrapper"), wrapper).unwrap();
    fs::set_permissions(flow.at("wrapper"), fs::Permissions::from_mode(0o755)).unwrap();
    let source = fs::canonicalize(&flow.package.path).unwrap();
    let settings = ["-C", "cuda=13"];

    let first = flow.venv("pip");
    let pip = first.join("bin/pip");
    flow.run(&pip, &[&["install", "."][..], &settings].concat());
    let all = flow.compiled();
    eprintln!("pip install: {} packages", all.len());
    assert!(all.len() > 10, "{all:?}");
    flow.import_with_packages(&first);

    let editable = flow.venv("pip-editable");
    flow.run(
        editable.join("bin/pip"),
        &[&["install", "-e", "."][..], &settings].concat(),
    );
    flow.compiled_little("pip install -e");
    let module = flow.import_with_packages(&editable);
    assert_eq!(module, source.join("python/saxpy/_native.abi3.so"));

    let out = flow.at("wheels");
    let arguments = [
        "cuda",
        "wheel",
        "--cuda",
        "13",
        "--out",
        out.to_str().unwrap(),
    ];
    flow.run(env!("CARGO_BIN_EXE_cargo-cuda"), &arguments);
    flow.compiled_little("cargo cuda wheel");
    let [wheel] = &files(&out)[..] else {
        panic!("{out:?}");
    };
    let published = flow.uv_venv("published");
    flow.install(&published, wheel);
    flow.import_with_packages(&published);

    // NVIDIA's libraries are elsewhere: `__init__.py` loads them with cuda-pathfinder.
    let elsewhere = flow.uv_venv("elsewhere");
    let target = [elsewhere.to_str().unwrap(), wheel.to_str().unwrap()];
    let install = [
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "cuda-pathfinder",
        "--python",
    ];
    flow.run(tool("uv"), &[&install[..], &target].concat());
    let mut import = Command::new(elsewhere.join("bin/python"));
    import
        .args(["-c", "import saxpy; print(saxpy.cuda_runtime_version())"])
        .current_dir("/");
    Finished::of(import.env_remove("CUDA_HOME").output().unwrap())
        .ended_with(1, &["libcudart.so.13"]);
    let toolkit = site_packages(13).join("nvidia/cu13");
    let run = Finished::of(import.env("CUDA_HOME", toolkit).output().unwrap());
    assert_eq!(run.stdout, "13040\n", "{run:?}");

    // What cibuildwheel's build step runs.
    let out = flow.at("pip-wheel");
    let directory = out.to_str().unwrap();
    flow.run(
        &pip,
        &[&["wheel", ".", "--no-deps", "-w", directory][..], &settings].concat(),
    );
    flow.compiled_little("pip wheel");
    assert_eq!(
        files(&out),
        [out.join("saxpy-0.1.0-cp39-abi3-linux_x86_64.whl")]
    );

    // A changed source is built again.
    flow.package
        .edit("src/lib.rs", "cuda::CAPABILITY_LIST", "\"changed\"");
    let again = ["install", "--quiet", "--editable", "."];
    flow.run(editable.join("bin/pip"), &[&again[..], &settings].concat());
    flow.compiled_little("pip install --editable");
    let mut run = Command::new(editable.join("bin/python"));
    run.args(["-c", "import saxpy; print(saxpy.capabilities())"])
        .current_dir("/");
    assert_eq!(Finished::of(run.output().unwrap()).stdout, "changed\n");

    // uv does not report the environment to a backend, so the module uses the libraries of the toolkit.
    flow.run(tool("uv"), &["sync", "--quiet"]);
    flow.compiled_little("uv sync");
    let [synced, _] = flow.import(&source.join(".venv"));
    assert_eq!(synced, module);

    flow.run(
        tool("uv"),
        &["build", "--quiet", "--wheel", "--out-dir", "uv-build"],
    );
    flow.compiled_little("uv build");
    flow.run(&pip, &["install", "--quiet", "build"]);
    // These build from an unpacked source distribution. Its path is another one, which is replaced in what rustc writes,
    // so cargo compiles all crates again.
    flow.run(
        first.join("bin/python"),
        &["-m", "build", "--outdir", "dist"],
    );
    let built = files(&source.join("dist"));
    let [wheel, sdist] = &built[..] else {
        panic!("{built:?}");
    };
    for (name, file) in [("built-wheel", wheel), ("built-sdist", sdist)] {
        let venv = flow.uv_venv(name);
        flow.install(&venv, file);
        flow.import_with_packages(&venv);
    }
    // What decides about the device code is part of what uv compares.
    flow.compiled();
    let mut sync = flow.command(tool("uv"));
    sync.args(["sync", "--quiet"])
        .env("CUDA_BUILD_CAPABILITIES", "8.0");
    Finished::of(sync.output().unwrap()).succeeded();
    assert!(flow.compiled().contains("saxpy"));
}

impl Flow {
    fn install(&self, venv: &Path, file: &Path) {
        let (venv, file) = (venv.to_str().unwrap(), file.to_str().unwrap());
        self.run(
            tool("uv"),
            &["pip", "install", "--quiet", "--python", venv, file],
        );
    }
}
