//! What is built again, and what is not: counted in what Cargo says with `-v`.

use std::fs;
use std::process::Command;
use std::time::SystemTime;

use crate::project::{CountingToolkit, Project};
use crate::support::Finished;

/// The packages that Cargo compiled or found out of date, each once, sorted.
fn compiled(build: &Finished) -> Vec<String> {
    build.succeeded();
    let mut names: Vec<String> = build
        .stderr
        .lines()
        .filter_map(|line| {
            let line = line.trim_start();
            let rest = line
                .strip_prefix("Compiling ")
                .or(line.strip_prefix("Dirty "))?;
            rest.split(' ').next().map(str::to_owned)
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

fn plain(project: &Project) -> Finished {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "-v"]);
    project.prepare(&mut cargo);
    Finished::of(cargo.output().unwrap())
}

#[test]
fn cargo_and_cargo_cuda_leave_each_others_work_alone() {
    let own = |project: Project| project.alone(&[12, 13]);
    let Some(project) = Project::template("library", &[12, 13]).and_then(own) else {
        return;
    };
    let all = |build: Finished| compiled(&build).contains(&"native-app".to_owned());
    assert!(all(plain(&project)));
    assert!(all(project.run(&["build", "-v"])));
    assert!(all(project.run(&["build", "-v", "--capabilities", "8.6"])));
    for _ in 0..2 {
        assert_eq!(compiled(&plain(&project)), [""; 0]);
        assert_eq!(compiled(&project.run(&["build", "-v"])), [""; 0]);
        let other = project.run(&["build", "-v", "--capabilities", "8.6"]);
        assert_eq!(compiled(&other), [""; 0]);
    }
}

/// Links CUDA without a build script that looks for it.
/// Links CUDA with nobody to look for it.
const DIRECT: &str = r#"
#[link(name = "cudart")]
unsafe extern "C" {
    fn cudaRuntimeGetVersion(version: *mut i32) -> i32;
}
#[link(name = "nvrtc", kind = "dylib")]
unsafe extern "C" {
    fn nvrtcVersion(major: *mut i32, minor: *mut i32) -> i32;
}
pub fn versions() -> (i32, i32) {
    let (mut runtime, mut major, mut minor) = (0, 0, 0);
    unsafe {
        cudaRuntimeGetVersion(&mut runtime);
        nvrtcVersion(&mut major, &mut minor);
    }
    (runtime, major * 1000 + minor * 10)
}
"#;

#[test]
fn crates_without_build_scripts_link_and_nothing_is_built_again() {
    let Some(project) = Project::bare("direct", &[12, 13]) else {
        return;
    };
    let package = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    let members = "[dependencies]\ndirect-sys = { path = \"sys\" }\n[workspace]\n";
    project.write("Cargo.toml", &(package.replace("NAME", "direct") + members));
    project.write(
        "src/main.rs",
        "fn main() { println!(\"{:?}\", direct_sys::versions()); }\n",
    );
    project.write("sys/Cargo.toml", &package.replace("NAME", "direct-sys"));
    project.write("sys/src/lib.rs", DIRECT);
    let run = project.run(&["run", "-v"]);
    assert_eq!(compiled(&run), ["direct", "direct-sys"]);
    assert_eq!(run.stdout, "(13040, 13040)\n");
    assert_eq!(compiled(&project.run(&["build", "-v"])), [""; 0]);
    let twelve = project.run(&["run", "--cuda", "12"]);
    assert_eq!(twelve.stdout, "(12090, 12090)\n", "{twelve:?}");
    assert_eq!(compiled(&project.run(&["build", "-v"])), [""; 0]);
}

/// A build script that tells Cargo nothing of what it reads.
const FORGETS: &str = r#"
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = std::path::PathBuf::from(std::env::var_os("CUDA_ROOT").expect("CUDA_ROOT"));
    let size = std::fs::metadata(root.join("bin/ptxas")).map_or(0, |m| m.len());
    let version = std::fs::read_to_string(root.join("version.json")).unwrap();
    let version = version.split("\"version\": \"").nth(1).unwrap().split('"').next().unwrap();
    println!("cargo::rustc-env=SEEN={version} {size} {}", std::env::var("CUDAARCHS").unwrap_or_default());
}
"#;

#[test]
fn a_script_that_forgets_to_say_what_it_reads_is_never_stale() {
    let Some(project) = Project::bare("forgetful", &[12, 13]) else {
        return;
    };
    let package = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    let members = "[dependencies]\nforgetful-sys = { path = \"sys\" }\nother = { path = \"other\" }\n\
                   [workspace]\nmembers = [\"sys\", \"other\"]\n";
    project.write("Cargo.toml", &(package.replace("NAME", "app") + members));
    project.write(
        "src/main.rs",
        "fn main() { println!(\"{}\", forgetful_sys::SEEN); }\n",
    );
    project.write("sys/Cargo.toml", &package.replace("NAME", "forgetful-sys"));
    project.write("sys/build.rs", FORGETS);
    project.write("sys/src/lib.rs", "pub const SEEN: &str = env!(\"SEEN\");\n");
    project.write("other/Cargo.toml", &package.replace("NAME", "other"));
    project.write("other/src/lib.rs", "");
    let counting = CountingToolkit::new(project.path.parent().unwrap()).unwrap();
    let run = |arguments: &[&str], thirteen: bool| {
        let mut command = project.command(&[&["run", "-v"], arguments].concat());
        if thirteen {
            command.env("CUDA_BUILD_ROOTS", &counting.path);
        }
        let run = Finished::of(command.output().unwrap());
        (compiled(&run), run.stdout)
    };
    let (_, first) = run(&[], true);
    assert!(first.starts_with("13.4."), "{first}");
    let (_, twelve) = run(&["--cuda", "12"], false);
    assert!(twelve.starts_with("12.9."), "{twelve}");
    for (thirteen, arguments, expected) in
        [(true, &[][..], &first), (false, &["--cuda", "12"], &twelve)]
    {
        assert_eq!(run(arguments, thirteen), (Vec::new(), expected.clone()));
    }
    let (_, capabilities) = run(&["--capabilities", "8.0"], true);
    assert!(
        capabilities.trim_end().ends_with("80-real"),
        "{capabilities}"
    );
    assert_eq!(run(&[], true), (Vec::new(), first.clone()));

    // A program of the toolkit replaced in its place, with an old date.
    let ptxas = counting.path.join("bin/ptxas");
    fs::remove_file(&ptxas).unwrap();
    fs::write(&ptxas, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&ptxas, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let file = fs::File::options().append(true).open(&ptxas).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let (_, replaced) = run(&[], true);
    assert_ne!(replaced, first);
    assert!(replaced.trim_end().ends_with(" 10"), "{replaced}");
}

const CALLS_THE_DRIVER: &str = r#"
unsafe extern "C" {
    fn cuInit(flags: u32) -> i32;
}
fn main() {
    println!("{}", unsafe { cuInit(0) });
}
"#;

const HANDS_A_ROOT_ON: &str = "fn main() -> Result<(), cuda_build::Error> {
    let build = cuda_build::Build::new()?;
    let view = build.view()?;
    println!(\"cargo::rustc-env=VIEW_ROOT={}\", view.root().display());
    build.run().map(drop)
}
";

#[test]
fn a_view_that_others_were_told_of_is_made_again() {
    let run =
        "fn main() -> Result<(), cuda_build::Error> { cuda_build::Build::new()?.run().map(drop) }";
    let (driver, cudart) = (
        "components = [\"cuda-driver\"]",
        "components = [\"cudart\"]",
    );
    let nothing = "fn main() {}\n";
    let root = "fn main() { assert!(std::path::Path::new(env!(\"VIEW_ROOT\")).is_dir()); }\n";
    for (name, cuda, script, main) in [
        ("view-linked", driver, run, CALLS_THE_DRIVER),
        ("view-links", cudart, run, nothing),
        ("view-root", cudart, HANDS_A_ROOT_ON, root),
    ] {
        let project = Project::new(name, &[13], cuda, script, main);
        let Some(project) = project.and_then(|project| project.alone(&[13])) else {
            return;
        };
        if name == "view-links" {
            let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
            let links = manifest.replace("edition", "links = \"thing\"\nedition");
            project.write("Cargo.toml", &links);
        }
        let views = || {
            fs::read_dir(project.cache.join("views"))
                .into_iter()
                .flatten()
                .count()
        };
        assert!(compiled(&plain(&project)).contains(&name.to_owned()));
        assert_eq!(views(), 1, "{name}");
        // The view is newer than the script's start, and is none the less no reason to run it.
        for _ in 0..2 {
            assert_eq!(compiled(&plain(&project)), [""; 0], "{name}");
        }
        fs::remove_dir_all(project.cache.join("views")).unwrap();
        project.write("src/main.rs", &format!("{main}// changed\n"));
        assert_eq!(compiled(&plain(&project)), [name]);
        assert_eq!(views(), 1, "{name}");
        assert_eq!(compiled(&plain(&project)), [""; 0], "{name}");
    }
}
