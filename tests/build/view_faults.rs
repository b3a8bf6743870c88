//! Views under bad conditions: damaged views, replaced components, no space, no permission. The
//! toolkit is a small one made here; what is in its files does not matter.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use cuda_build::internal::{Root, Target, ViewPlace};
use cuda_build::{Error, Toolkit, View};

use crate::support::everything_in;

pub struct Place(pub tempfile::TempDir);

impl Place {
    /// Two wheels' worth of files: enough that making a view takes a while.
    pub fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let put = |file: String, text: &str| {
            let path = place.source().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("nvidia/cu13/include/cuda_runtime.h".to_owned(), "");
        put("nvidia/cu13/lib/libcudart.so.13".to_owned(), "one");
        put("nvidia/cu13/include/crt/host_config.h".to_owned(), "");
        let functions: String = (0..600)
            .map(|n| format!("CUresult CUDAAPI cuFunction{n}(int);\n"))
            .collect();
        put(
            "nvidia/cu13/include/cuda.h".to_owned(),
            &format!("#define CUDA_VERSION 13040\n{functions}"),
        );
        for number in 0..150 {
            put(format!("nvidia/cu13/include/header_{number}.h"), "");
        }
        place
    }

    pub fn source(&self) -> PathBuf {
        self.0.path().join("site-packages")
    }

    pub(super) fn views(&self) -> PathBuf {
        self.0.path().join("views")
    }

    pub fn toolkit(&self) -> Toolkit {
        everything_in(&[&self.source()])
    }

    pub(super) fn view(&self) -> Result<View, Error> {
        self.view_at(&ViewPlace::below(&self.views(), &target()))
    }

    pub fn view_at(&self, place: &ViewPlace) -> Result<View, Error> {
        self.toolkit().view(place, &Root::system())
    }

    /// The test program itself, as another process that makes this view.
    pub(super) fn child(&self, mode: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "view_faults::other_process",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(MODE, mode)
            .env("VIEW_TEST_PLACE", self.0.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Names in the directory of views.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.views()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

/// Begins the names of directories in which views are written.
pub(super) const TEMPORARY: &str = ".cuda-build-view-";

/// Dates a directory back by two days.
pub(super) fn age(directory: &Path) {
    let two_days_ago = SystemTime::now() - Duration::from_secs(2 * 24 * 60 * 60);
    let directory = fs::File::open(directory).unwrap();
    directory.set_modified(two_days_ago).unwrap();
}

/// Names of temporary directories beside a view.
pub fn temporaries(parent: &Path) -> Vec<String> {
    let entries = fs::read_dir(parent).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(TEMPORARY)).collect()
}

pub fn target() -> Target {
    Target::from_triple("x86_64-unknown-linux-gnu").unwrap()
}

/// Everything below a directory: what a link says, or the length of a file.
pub fn contents(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut contents = BTreeMap::new();
    let mut rest = vec![directory.to_owned()];
    while let Some(at) = rest.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let what = if metadata.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if metadata.is_dir() {
                rest.push(path.clone());
                "directory".to_owned()
            } else {
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
            };
            contents.insert(path.strip_prefix(directory).unwrap().to_owned(), what);
        }
    }
    contents
}

const MODE: &str = "VIEW_TEST_MODE";

/// Not a test of its own: what the others start as another process.
#[test]
#[ignore = "started by other tests"]
fn other_process() {
    let Ok(mode) = std::env::var(MODE) else {
        panic!("started by other tests")
    };
    let path = PathBuf::from(std::env::var("VIEW_TEST_PLACE").unwrap());
    let toolkit = everything_in(&[&path.join("site-packages")]);
    let place = ViewPlace::below(&path.join("views"), &target());
    match mode.as_str() {
        // Replaces a view of the other kind, again and again.
        "copies" | "links" => {
            let mut place = ViewPlace::at(&path.join("exact"), &target());
            place.copy = mode == "copies";
            for _ in 0..100 {
                toolkit.view(&place, &Root::system()).unwrap();
            }
        }
        "once" => match toolkit.view(&place, &Root::system()) {
            Ok(view) => println!("made {}", view.root().display()),
            Err(error) => panic!("{error:?}"),
        },
        // Makes the view and removes it, until killed.
        _ => loop {
            let view = toolkit.view(&place, &Root::system()).unwrap();
            fs::remove_dir_all(view.root()).unwrap();
        },
    }
}

#[test]
fn a_complete_view_is_not_touched() {
    let place = Place::new();
    let view = place.view().unwrap();
    assert!(view.was_made());
    let times = |view: &View| -> Vec<(PathBuf, SystemTime)> {
        let mut all: Vec<PathBuf> = contents(view.root()).into_keys().collect();
        all.push(PathBuf::new());
        all.push(PathBuf::from(".."));
        let time = |path: &PathBuf| {
            fs::symlink_metadata(view.root().join(path))
                .unwrap()
                .modified()
                .unwrap()
        };
        all.iter().map(|path| (path.clone(), time(path))).collect()
    };
    let before = times(&view);
    std::thread::sleep(Duration::from_millis(20));
    let again = place.view().unwrap();
    assert!(!again.was_made());
    assert_eq!(again.root(), view.root());
    assert_eq!(times(&again), before);
}

#[test]
fn a_damaged_view_is_written_again() {
    let place = Place::new();
    let view = place.view().unwrap();
    let reference = contents(view.root());
    let source = contents(&place.source());
    let at = |name: &str| view.root().join(name);
    let stub = fs::read(at("lib/stubs/libcuda.so")).unwrap().len();
    // The same length and date, other bytes.
    let zeros = |name: &str| {
        let date = fs::metadata(at(name)).unwrap().modified().unwrap();
        let zeros = vec![0; reference[Path::new(name)].len()];
        fs::write(at(name), zeros).unwrap();
        let file = fs::File::options().write(true).open(at(name)).unwrap();
        file.set_modified(date).unwrap();
    };
    let damages: [&dyn Fn(); 12] = [
        &|| zeros("version.json"),
        &|| zeros("cmake/toolchain.cmake"),
        &|| fs::write(at("lib/stubs/libcuda.so"), vec![0; stub]).unwrap(),
        &|| zeros(".cuda-build-view"),
        &|| fs::remove_file(at("lib/libcudart.so")).unwrap(),
        &|| fs::remove_dir_all(at("lib")).unwrap(),
        &|| fs::remove_file(at(".cuda-build-view")).unwrap(),
        &|| fs::write(at("lib/stubs/libcuda.so"), "half").unwrap(),
        &|| {
            fs::remove_file(at("include/cuda.h")).unwrap();
            symlink("/elsewhere/cuda.h", at("include/cuda.h")).unwrap();
        },
        // A link where a directory was: what is written through it would land in the wheel.
        &|| {
            fs::remove_dir_all(at("include")).unwrap();
            symlink(place.source().join("nvidia/cu13/include"), at("include")).unwrap();
        },
        &|| {
            fs::remove_file(at("version.json")).unwrap();
            fs::create_dir_all(at("version.json/deep")).unwrap();
        },
        &|| {
            fs::remove_dir_all(view.root()).unwrap();
            fs::create_dir(view.root()).unwrap();
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        damage();
        let repaired = place
            .view()
            .unwrap_or_else(|error| panic!("damage {number}: {error:?}"));
        assert!(repaired.was_made(), "damage {number} was not seen");
        assert_eq!(contents(repaired.root()), reference, "damage {number}");
        assert_eq!(
            contents(&place.source()),
            source,
            "damage {number} reached the components"
        );
        assert!(!place.view().unwrap().was_made(), "damage {number}");
    }
    // Moved away: made anew, and the old one still leads where it led.
    let moved = place.0.path().join("moved");
    fs::rename(view.root(), &moved).unwrap();
    assert!(place.view().unwrap().was_made());
    assert_eq!(fs::read(moved.join("lib64/libcudart.so")).unwrap(), b"one");
}

#[test]
fn replaced_components_give_another_view() {
    let place = Place::new();
    let first = place.view().unwrap();
    let library = place.source().join("nvidia/cu13/lib/libcudart.so.13");
    fs::write(&library, "another").unwrap();
    let second = place.view().unwrap();
    assert_ne!(first.root(), second.root());
    assert_eq!(
        fs::read(second.root().join("lib/libcudart.so")).unwrap(),
        b"another"
    );
    // Same size, other time.
    let file = fs::File::options().write(true).open(&library).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(5))
        .unwrap();
    assert_ne!(place.view().unwrap().root(), second.root());
    // A header more: `crt` is one link, so its own directory has to tell.
    let third = place.view().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    fs::write(place.source().join("nvidia/cu13/include/crt/new.h"), "").unwrap();
    assert_ne!(place.view().unwrap().root(), third.root());
}

#[test]
fn an_unwritable_place_is_named() {
    let place = Place::new();
    let file = place.0.path().join("file");
    fs::write(&file, "").unwrap();
    for directory in [
        file.join("views"),
        PathBuf::from("/sys/cuda-build-test/views"),
    ] {
        let error = place
            .view_at(&ViewPlace::below(&directory, &target()))
            .unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(
            error.to_string().contains(&*directory.to_string_lossy()),
            "{error}"
        );
    }
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let place = Place::new();
    // No file may grow: what a full disk does to a writer, without one.
    let mut shell = Command::new("sh");
    let child = place.child("once");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"])
        .arg(child.get_program());
    shell
        .args(child.get_args())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    shell
        .envs(
            child
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .arg0("sh");
    let output = shell.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains("could not write") && text.contains("views"),
        "{text}"
    );
    assert_eq!(place.names(), Vec::<String>::new());
    assert!(place.view().unwrap().was_made());
}

#[test]
fn abandoned_directories_are_removed_by_age() {
    let place = Place::new();
    fs::create_dir_all(place.views()).unwrap();
    let at = |name: &str| place.views().join(name);
    let old = format!("{TEMPORARY}4194999-1-0");
    let young = format!("{TEMPORARY}4194999-2-0");
    for name in [&old, &young, "mine.part", ".mine.part"] {
        fs::create_dir_all(at(name).join("bin")).unwrap();
        age(&at(name));
    }
    fs::create_dir(at(&young).join("lib")).unwrap();
    place.view().unwrap();
    assert!(!at(&old).exists());
    for name in [&young, "mine.part", ".mine.part"] {
        assert!(at(name).exists(), "{name}");
    }
}

#[test]
fn a_view_that_others_can_change_is_not_used() {
    let place = Place::new();
    let view = place.view().unwrap();
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for path in [view.root(), &place.views()] {
        mode(path, 0o777);
        let error = place.view().unwrap_err();
        assert!(matches!(error, Error::ViewNotCreated { .. }), "{error}");
        assert!(
            error.to_string().contains("written by every user"),
            "{error}"
        );
        mode(path, 0o755);
        assert!(!place.view().unwrap().was_made());
    }
    // Only root can give a view to another user.
    if std::os::unix::fs::chown(view.root(), Some(12345), None).is_ok() {
        let error = place.view().unwrap_err().to_string();
        assert!(error.contains("belongs to user 12345"), "{error}");
    }
    // A process that lets everybody write into its files.
    fs::remove_dir_all(place.views()).unwrap();
    for _ in 0..2 {
        let child = place.child("once");
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 0; exec \"$@\"", "sh"]);
        shell.arg(child.get_program()).args(child.get_args());
        let variables = child.get_envs();
        shell.envs(variables.filter_map(|(name, value)| Some((name, value?))));
        let output = shell.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
    }
}
