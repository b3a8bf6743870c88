//! Views under bad conditions: damaged views, replaced components, no space, other users, processes that write one
//! view at once or are killed. The toolkit is a small one made here; what is in its files does not matter.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use cuda_build::view::ViewPlace;
use cuda_build::{Error, View};
use cuda_find_core::{env::Env, root::Root, target::Target};

use crate::support::everything_in;

struct Place(tempfile::TempDir);

impl Place {
    /// Two wheels' worth of files: enough that making a view takes a while.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let put = |file: &str, text: &str| {
            let path = place.source().join("nvidia/cu13").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("include/cuda_runtime.h", "");
        put("lib/libcudart.so.13", "one");
        put("include/crt/host_config.h", "");
        let declarations = "CUresult CUDAAPI cuInit(int);\n";
        put(
            "include/cuda.h",
            &format!("#define CUDA_VERSION 13040\n{declarations}"),
        );
        for number in 0..150 {
            put(&format!("include/header_{number}.h"), "");
        }
        place
    }

    fn source(&self) -> PathBuf {
        self.0.path().join("site-packages")
    }

    fn change_library(&self) {
        fs::write(
            self.source().join("nvidia/cu13/lib/libcudart.so.13"),
            "newer",
        )
        .unwrap();
    }

    fn views(&self) -> PathBuf {
        self.0.path().join("views")
    }

    fn view(&self) -> Result<View, Error> {
        let toolkit = everything_in(&[&self.source()]);
        let place = ViewPlace::below(&self.views(), &target());
        View::create(&toolkit, &place, &Root::system(), &Env::from_process())
    }

    /// The test program itself as another process, started by `shell` with the program as `$@`.
    fn child(&self, shell: &str, mode: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", shell, "sh"])
            .arg(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "view_faults::other_process",
            "--ignored",
            "--nocapture",
        ]);
        command
            .env(MODE, mode)
            .env("VIEW_TEST_PLACE", self.0.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Names in the directory of views.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.views()).into_iter().flatten();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

fn target() -> Target {
    Target::from_triple("x86_64-unknown-linux-gnu").unwrap()
}

/// Everything below a directory: what a link says, or the bytes of a file.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut contents = BTreeMap::new();
    let mut rest = vec![directory.to_owned()];
    while let Some(at) = rest.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let what = if metadata.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display()).into_bytes()
            } else if metadata.is_dir() {
                rest.push(path.clone());
                b"directory".to_vec()
            } else {
                fs::read(&path).unwrap()
            };
            contents.insert(path.strip_prefix(directory).unwrap().to_owned(), what);
        }
    }
    contents
}

const MODE: &str = "VIEW_TEST_MODE";

#[test]
#[ignore = "started by other tests"]
fn other_process() {
    let mode = std::env::var(MODE).expect("started by other tests");
    let path = PathBuf::from(std::env::var("VIEW_TEST_PLACE").unwrap());
    let toolkit = everything_in(&[&path.join("site-packages")]);
    let at = ViewPlace::below(&path.join("views"), &target());
    let view = || View::create(&toolkit, &at, &Root::system(), &Env::from_process());
    match mode.as_str() {
        "once" => println!("made {}", view().unwrap().root().display()),
        // Makes the view and removes it, until killed.
        _ => loop {
            fs::remove_dir_all(view().unwrap().root()).unwrap();
        },
    }
}

#[test]
fn a_damaged_view_is_written_again_and_a_complete_one_is_not_touched() {
    let place = Place::new();
    let view = place.view().unwrap();
    let reference = contents(view.root());
    let source = contents(&place.source());
    let at = |name: &str| view.root().join(name);
    let modified = |path: &Path| fs::symlink_metadata(path).unwrap().modified().unwrap();
    let before = (modified(view.root()), modified(&place.views()));
    assert!(!place.view().unwrap().was_made());
    assert_eq!((modified(view.root()), modified(&place.views())), before);
    let damages: [&dyn Fn(); 8] = [
        // The same length, other bytes.
        &|| {
            fs::write(
                at("version.json"),
                vec![0; reference[Path::new("version.json")].len()],
            )
            .unwrap();
        },
        &|| fs::write(at("lib/stubs/libcuda.so"), "").unwrap(),
        &|| fs::remove_file(at("lib/libcudart.so")).unwrap(),
        &|| fs::remove_dir_all(at("lib")).unwrap(),
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
        let repaired = place.view().unwrap();
        assert!(repaired.was_made(), "damage {number} was not seen");
        assert_eq!(contents(repaired.root()), reference, "damage {number}");
        assert_eq!(contents(&place.source()), source, "damage {number}");
        assert!(!place.view().unwrap().was_made(), "damage {number}");
    }
}

#[test]
fn replaced_components_give_another_view() {
    let place = Place::new();
    let first = place.view().unwrap();
    place.change_library();
    let second = place.view().unwrap();
    assert_ne!(first.root(), second.root());
    assert_eq!(
        fs::read(second.lib().join("libcudart.so")).unwrap(),
        b"newer"
    );
    // Same size, other time.
    let library = place.source().join("nvidia/cu13/lib/libcudart.so.13");
    let file = fs::File::options().write(true).open(&library).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(5))
        .unwrap();
    let third = place.view().unwrap();
    assert_ne!(third.root(), second.root());
    // A header more: `crt` is one link, so its own directory has to tell.
    std::thread::sleep(Duration::from_millis(20));
    fs::write(place.source().join("nvidia/cu13/include/crt/new.h"), "").unwrap();
    assert_ne!(place.view().unwrap().root(), third.root());
}

#[test]
fn without_a_compiler_there_is_no_stub_and_a_note() {
    let place = Place::new();
    let toolkit = everything_in(&[&place.source()]);
    let at = ViewPlace::below(&place.views(), &target());
    let env = Env::from_pairs([("PATH", place.0.path())]);
    let view = View::create(&toolkit, &at, &Root::system(), &env).unwrap();
    assert!(!view.contains("lib/stubs/libcuda.so"));
    let note = view.notes().concat();
    assert!(
        note.starts_with("the view has no `lib/stubs/libcuda.so`, because no C compiler"),
        "{note}"
    );
    assert!(
        place.view().unwrap().contains("lib/stubs/libcuda.so"),
        "with a compiler"
    );
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let place = Place::new();
    // No file may grow: what a full disk does to a writer, without one.
    let shell = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
    let output = place.child(shell, "once").output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains("could not write") && text.contains("views"),
        "{text}"
    );
    assert_eq!(place.names(), [""; 0]);
    assert!(place.view().unwrap().was_made());
}

#[test]
fn a_view_that_others_can_change_is_not_used() {
    let place = Place::new();
    // A process that lets everybody write into its files.
    for _ in 0..2 {
        let output = place
            .child("umask 0; exec \"$@\"", "once")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
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
}

#[test]
fn many_processes_make_one_view() {
    let place = Place::new();
    let start = |_| place.child("exec \"$@\"", "once").spawn().unwrap();
    let children: Vec<Child> = (0..12).map(start).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(place.names().len(), 1, "{:?}", place.names());
    assert!(!place.view().unwrap().was_made());
}

#[test]
fn a_killed_process_leaves_no_damaged_view() {
    let place = Place::new();
    let reference = contents(place.view().unwrap().root());
    let source = contents(&place.source());
    for round in 0..8 {
        fs::remove_dir_all(place.views()).unwrap();
        let mut child = place
            .child("exec \"$@\"", "again and again")
            .spawn()
            .unwrap();
        // Until it has begun, then for a moment.
        let begun = Instant::now();
        while place.names().is_empty() {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the other process does nothing"
            );
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(
            begun.elapsed().subsec_nanos() as u64 % 20_000,
        ));
        child.kill().unwrap();
        child.wait().unwrap();
        let view = place.view().unwrap();
        assert_eq!(contents(view.root()), reference, "round {round}");
        assert_eq!(contents(&place.source()), source, "round {round}");
    }
}
