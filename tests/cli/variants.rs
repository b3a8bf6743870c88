//! Variants: which wheel uv, with its preview of the drafts PEP 825 and 850, and pip choose for a driver and a GPU.

mod online {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use crate::project::{place, store};
    use crate::support::{Finished, python, uv};
    use crate::wheel_template::{clone, files, wheel};

    const PREVIEW: [&str; 2] = ["--preview-features", "wheel-variants"];

    /// A machine: the CUDA release of its driver and the capability of its GPU, which uv takes from variables.
    type Machine = Option<(&'static str, &'static str)>;

    struct Built {
        project: PathBuf,
        work: PathBuf,
        /// The directory of the wheels.
        wheels: PathBuf,
        report: String,
    }

    impl Built {
        fn new(name: &str, list: &str, options: &[&str]) -> Self {
            let work = place(name);
            store(&work.join("cache"), &[12, 13]);
            let project = clone(&format!("{name}-clone"));
            let manifest = project.join("Cargo.toml");
            let text = fs::read_to_string(&manifest).unwrap();
            let declared = r#"capabilities = ["8.0", "9.0", "10.0", "12.0+PTX"]"#;
            assert!(text.contains(declared));
            fs::write(&manifest, text.replace(declared, list)).unwrap();
            let mut built = Self {
                project,
                wheels: work.join("index/saxpy"),
                work,
                report: String::new(),
            };
            built.report = built.build(&[options, &["--cuda", "12,13"]].concat());
            built
        }

        /// What a build printed.
        fn build(&self, options: &[&str]) -> String {
            let index = self.wheels.parent().unwrap().to_str().unwrap();
            let options = [options, &["--variants", "--index", index]].concat();
            let built = wheel(&self.project, &self.work.join("cache"), &options).output();
            let built = Finished::of(built.unwrap());
            built.succeeded();
            built.stdout + &built.stderr
        }

        fn uv(&self, machine: Machine, arguments: &[&str]) -> Finished {
            let mut command = Command::new(uv());
            command.args(arguments).current_dir(&self.work);
            if let Some((driver, gpu)) = machine {
                command.env("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", driver);
                command.env("NV_VARIANT_PROVIDER_FORCE_SM_ARCH", gpu);
            }
            Finished::of(command.output().unwrap())
        }

        /// The label of the installed wheel, or `plain`.
        fn installed(&self, site: &Path) -> String {
            let label = fs::read_to_string(site.join("saxpy-0.1.0.dist-info/variant.json"));
            let Ok(text) = label else {
                assert!(site.join("saxpy-0.1.0.dist-info/METADATA").is_file());
                return "plain".to_owned();
            };
            let metadata: serde_json::Value = serde_json::from_str(&text).unwrap();
            let labels = metadata["variants"].as_object().unwrap();
            labels.keys().next().unwrap().clone()
        }

        fn chosen_with(&self, machine: Machine, options: &[&str]) -> String {
            let site = self.work.join("site");
            let _ = fs::remove_dir_all(&site);
            let place = ["--target", site.to_str().unwrap(), "--no-deps", "--quiet"];
            let install = ["pip", "install", "saxpy"];
            let run = self.uv(machine, &[&install[..], &place, options].concat());
            run.succeeded();
            self.installed(&site)
        }

        fn chosen(&self, machine: Machine) -> String {
            let directory = self.wheels.to_str().unwrap();
            let from = ["--no-index", "--find-links", directory];
            self.chosen_with(machine, &[&PREVIEW[..], &from].concat())
        }
    }

    #[test]
    fn an_installer_chooses_by_driver_and_gpu() {
        let built = Built::new(
            "variants",
            r#"capabilities = ["8.0", "9.0", "12.0+PTX"]"#,
            &[],
        );
        let text = "is chosen for: driver for CUDA 13.0 or newer; 80_real, 90_real, 120_real";
        assert!(built.report.contains(text), "{}", built.report);
        for (driver, gpu, expected) in [
            ("12.9", "9.0", "cu12"),
            ("13.1", "9.0", "cu13"),
            ("13.5", "12.1", "cu13"),
            ("13.5", "8.9", "cu13"),
            // PTX alone serves it: the wheel without a label has it.
            ("13.5", "10.0", "plain"),
            ("11.4", "9.0", "plain"),
        ] {
            let chosen = built.chosen(Some((driver, gpu)));
            assert_eq!(chosen, expected, "driver {driver}, GPU {gpu}");
        }
        assert_eq!(built.chosen(None), "plain");
        let machine = Some(("13.1", "9.0"));
        let directory = built.wheels.to_str().unwrap();
        let links = ["--no-index", "--find-links", directory];
        assert_eq!(built.chosen_with(machine, &links), "plain");
        // What uv resolves has the requirements of the chosen wheel, and its lock file those of the plain one.
        fs::write(built.work.join("saxpy.in"), "saxpy==0.1.0").unwrap();
        for (driver, package) in [
            ("12.9", "nvidia-cuda-runtime-cu12"),
            ("13.1", "cuda-toolkit"),
        ] {
            let compile = ["pip", "compile", "--no-header", "saxpy.in"];
            let find = ["--find-links", directory];
            let arguments = [&compile[..], &PREVIEW, &find].concat();
            let run = built.uv(Some((driver, "9.0")), &arguments);
            let mut lines = run.stdout.lines();
            assert!(
                lines.any(|line| line.starts_with(&format!("{package}=="))),
                "{run:?}"
            );
        }
        let project = format!(
            "[project]\nname = \"app\"\nversion = \"1\"\nrequires-python = \">=3.10\"\ndependencies = [\"saxpy==0.1.0\"]\n\
             [tool.uv]\nfind-links = [{directory:?}]\n"
        );
        fs::write(built.work.join("pyproject.toml"), project).unwrap();
        let lock = built.uv(machine, &[&["lock"][..], &PREVIEW].concat());
        lock.succeeded();
        let lock = fs::read_to_string(built.work.join("uv.lock")).unwrap();
        assert!(lock.contains("nvidia-cuda-runtime-cu12"), "{lock}");
        // A wheel that is named by its path is refused on a machine that is not its own.
        let name = |end: &str| {
            let mut paths = files(&built.wheels).into_iter();
            paths
                .find(|path| path.to_str().unwrap().ends_with(end))
                .unwrap()
        };
        let site = built.work.join("named");
        let named = [
            "pip",
            "install",
            "--no-deps",
            "--target",
            site.to_str().unwrap(),
        ];
        for (driver, is_accepted) in [("12.9", false), ("13.1", true)] {
            let file = name("-cu13.whl");
            let arguments = [&named[..], &PREVIEW, &[file.to_str().unwrap()]].concat();
            let run = built.uv(Some((driver, "9.0")), &arguments);
            assert_eq!(run.code == 0, is_accepted, "{driver}: {run:?}");
        }
        let mut pip = Command::new(python());
        pip.args([
            "-m",
            "pip",
            "install",
            "--no-index",
            "--no-deps",
            "--find-links",
            directory,
        ]);
        let site = built.work.join("pip");
        pip.arg("--target").arg(&site).arg("saxpy");
        Finished::of(pip.output().unwrap()).succeeded();
        assert_eq!(built.installed(&site), "plain");

        // The audit of what lies there, and of a wheel that promises more than it has.
        let audit = |path: &Path| {
            let mut audit = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
            Finished::of(audit.args(["cuda", "audit"]).arg(path).output().unwrap())
        };
        audit(&name("-cu13.whl")).succeeded();
        // A wheel with a label and no properties, beside a good one.
        let damaged = built.work.join("damaged");
        fs::create_dir(&damaged).unwrap();
        let [good, bad] = ["-cu13.whl", "-cu12.whl"].map(|end| {
            let copy = damaged.join(name(end).file_name().unwrap());
            fs::copy(name(end), &copy).unwrap();
            copy
        });
        let mut delete = Command::new(python());
        let script = "import sys, zipfile\n\
                      old = zipfile.ZipFile(sys.argv[1])\n\
                      with zipfile.ZipFile(sys.argv[2], 'w') as new:\n    \
                          for name in old.namelist():\n        \
                              if not name.endswith('variant.json'):\n            \
                                  new.writestr(name, old.read(name))\n";
        delete.args(["-c", script]).arg(name("-cu12.whl")).arg(&bad);
        Finished::of(delete.output().unwrap()).succeeded();
        for (path, text) in [
            (
                &bad,
                "error[W23]: its name has the label `cu12`, and its metadata does not",
            ),
            (&good, "error[W24]: "),
            (&good, "has no `variant.json`"),
        ] {
            let audited = audit(path);
            assert_eq!(audited.code, 17);
            assert!(audited.stdout.contains(text), "{text}: {audited:?}");
        }
        let stated = name("-cu12.whl");
        let script = "import sys, zipfile, json\n\
                      old, new = sys.argv[1:]\n\
                      with zipfile.ZipFile(old) as a, zipfile.ZipFile(new, 'w') as b:\n    \
                          for name in a.namelist():\n        \
                              data = a.read(name)\n        \
                              if name.endswith('variant.json'):\n            \
                                  data = data.replace(b'80_real', b'75_real')\n        \
                              b.writestr(name, data)\n";
        let lying = built.work.join(stated.file_name().unwrap());
        let mut lie = Command::new(python());
        Finished::of(
            lie.args(["-c", script])
                .arg(&stated)
                .arg(&lying)
                .output()
                .unwrap(),
        )
        .succeeded();
        for (path, text) in [
            (
                &lying,
                "error[W23]: states `75_real`, but no code that such a GPU",
            ),
            (&lying, "warning[W24]: there is no wheel without a label"),
            (
                &stated,
                "error[W24]: the file with the properties of all wheels has others",
            ),
        ] {
            let audited = audit(path);
            assert_eq!(audited.code, 17);
            assert!(audited.stdout.contains(text), "{text}: {audited:?}");
            fs::copy(&lying, &stated).unwrap();
        }
    }

    #[test]
    #[ignore = "minutes: eleven wheels are built"]
    fn thin_wheels_are_chosen_by_their_device_code() {
        let list = r#"capabilities = ["8.0", "8.6", "9.0+PTX", "10.0a"]"#;
        let built = Built::new("thin-variants", list, &["--split"]);
        // One call of nvcc or NVRTC for each major and capability: the thin wheels take their code from the first one,
        // and CUDA 13, of which no wheel has all, compiles each once.
        let compiled = built.report.matches("Compiling kernels/").count();
        assert_eq!(compiled, 1 + 5, "{}", built.report);
        let mut unlabelled = files(&built.wheels);
        unlabelled.retain(|path| path.to_str().unwrap().ends_with("_x86_64.whl"));
        assert_eq!(unlabelled.len(), 1);
        for (driver, gpu, expected) in [
            ("12.9", "9.0", "cu12_sm90"),
            ("13.0", "9.0", "cu13_sm90"),
            ("13.5", "9.0", "cu13_sm90"),
            ("13.5", "8.0", "cu13_sm80"),
            ("13.5", "8.6", "cu13_sm86"),
            ("13.5", "8.9", "cu13_sm86"),
            // PTX of CUDA 13.4 needs a driver for it; that of 12.9 does not.
            ("13.5", "12.1", "cu13_ptx"),
            ("13.0", "12.0", "cu12_ptx"),
            ("12.4", "12.0", "plain"),
            // Code with a letter is for no GPU that installers know.
            ("13.5", "10.0", "cu13_ptx"),
            ("13.5", "10.3", "cu13_ptx"),
            ("13.5", "7.5", "plain"),
        ] {
            let chosen = built.chosen(Some((driver, gpu)));
            assert_eq!(chosen, expected, "driver {driver}, GPU {gpu}");
        }
        assert_eq!(built.chosen(None), "plain");
        // The same from the page that a web server has.
        let server = Server::start(built.wheels.parent().unwrap());
        let options = [&PREVIEW[..], &["--default-index", &server.url]].concat();
        assert_eq!(
            built.chosen_with(Some(("13.5", "8.9")), &options),
            "cu13_sm86"
        );
        // Majors may be built one after the other: the wheel without a label has the oldest declared one.
        let plain = fs::read(&unlabelled[0]).unwrap();
        let report = built.build(&["--cuda", "13"]);
        assert!(fs::read(&unlabelled[0]).unwrap() == plain, "{report}");
        let note = "built before, which installers may choose: cu12_ptx, cu12_sm100a, cu12_sm80,";
        assert!(report.contains(note), "{report}");
    }

    /// A web server for a directory, which ends with the test.
    struct Server {
        process: std::process::Child,
        url: String,
    }

    impl Server {
        fn start(directory: &Path) -> Self {
            use std::io::{BufRead as _, BufReader};
            let script = "import functools, http.server as h, sys\n\
                          handler = functools.partial(h.SimpleHTTPRequestHandler, directory=sys.argv[1])\n\
                          server = h.ThreadingHTTPServer(('127.0.0.1', 0), handler)\n\
                          print(server.server_port, flush=True)\n\
                          server.serve_forever()\n";
            let mut command = Command::new(python());
            command.args(["-c", script]).arg(directory);
            command
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null());
            let mut process = command.spawn().unwrap();
            let mut port = String::new();
            let mut output = BufReader::new(process.stdout.take().unwrap());
            output.read_line(&mut port).unwrap();
            Self {
                process,
                url: format!("http://127.0.0.1:{}/", port.trim()),
            }
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}
