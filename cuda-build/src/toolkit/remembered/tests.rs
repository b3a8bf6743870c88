use std::fs;
use std::time::SystemTime;

use super::*;
use crate::component::Component;
use crate::select::{Need, Part, Strength};

/// A directory with a CUDA runtime of this version, enough for the search.
fn cudart(place: &Path, name: &str) -> PathBuf {
    let root = place.join(name);
    fs::create_dir_all(root.join("include")).unwrap();
    fs::create_dir_all(root.join("lib64")).unwrap();
    fs::write(root.join("include/cuda.h"), "#define CUDA_VERSION 13040\n").unwrap();
    fs::write(root.join("include/cuda_runtime.h"), "").unwrap();
    fs::write(
        root.join("include/cuda_runtime_api.h"),
        "#define CUDART_VERSION 13040\n",
    )
    .unwrap();
    fs::write(root.join("lib64/libcudart_static.a"), "!<arch>\n").unwrap();
    root
}

struct Machine {
    place: tempfile::TempDir,
    root: Root,
    target: Target,
    request: Request,
}

impl Machine {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        cudart(place.path(), "usr/local/cuda");
        Self {
            root: Root::below(place.path()),
            place,
            target: Target::from_triple("x86_64-unknown-linux-gnu", false).unwrap(),
            request: Request {
                needs: vec![Need::new(Component::Cudart, Part::Headers, "a test")],
                ..Request::default()
            },
        }
    }

    fn file(&self) -> PathBuf {
        self.place.path().join("target/cuda/toolkit.toml")
    }

    fn find(&self, env: &Env) -> Toolkit {
        let search = self.search(env);
        find(&search, &self.request, &self.file()).unwrap()
    }

    fn search<'a>(&'a self, env: &'a Env) -> Search<'a> {
        Search {
            root: &self.root,
            env,
            target: &self.target,
            places: Vec::new(),
        }
    }

    /// What `cargo cuda` does; whether it wrote.
    fn remember(&self, env: &Env) -> bool {
        let search = self.search(env);
        let toolkit = search.find(&self.request).unwrap();
        let text = remember(&self.file(), &toolkit, &search).unwrap();
        text.iter()
            .for_each(|text| fs::write(self.file(), text).unwrap());
        text.is_some()
    }
}

fn is_remembered(toolkit: &Toolkit) -> bool {
    toolkit.components()[0].origin.contains("target directory")
}

#[test]
fn a_script_writes_what_is_missing_with_an_old_date_and_both_leave_it_alone() {
    let (machine, env) = (Machine::new(), Env::default());
    assert!(!is_remembered(&machine.find(&env)));
    let written = fs::metadata(machine.file()).unwrap().modified().unwrap();
    assert_eq!(written, SystemTime::UNIX_EPOCH);
    assert!(!machine.remember(&env), "nothing else is known");
    let again = machine.find(&env);
    assert!(is_remembered(&again), "{again:?}");
    assert_eq!(env.asked(), {
        machine.search(&env).find(&machine.request).unwrap();
        env.asked()
    });
}

#[test]
fn a_component_replaced_in_place_is_seen_whatever_its_date() {
    let (machine, env) = (Machine::new(), Env::default());
    machine.find(&env);
    let header = machine.place.path().join("usr/local/cuda/include/cuda.h");
    fs::write(&header, "#define CUDA_VERSION 13040\n// another\n").unwrap();
    fs::File::options()
        .append(true)
        .open(&header)
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH)
        .unwrap();
    fs::write(
        machine
            .place
            .path()
            .join("usr/local/cuda/lib64/libcudart_static.a"),
        "!<arch>\n2",
    )
    .unwrap();
    assert!(!is_remembered(&machine.find(&env)));
    assert!(machine.remember(&env));
    assert!(is_remembered(&machine.find(&env)));
    assert!(!machine.remember(&env));
}

#[test]
fn a_variable_or_a_named_place_wins() {
    let (machine, env) = (Machine::new(), Env::default());
    machine.find(&env);
    let elsewhere = cudart(machine.place.path(), "elsewhere");
    let named = Env::from_pairs([("CUDA_HOME", &elsewhere)]);
    assert!(
        machine.find(&named).get(Component::Cudart).unwrap().include[0].starts_with(&elsewhere)
    );
    let active = Env::from_pairs([("VIRTUAL_ENV", "/nonexistent")]);
    assert!(!is_remembered(&machine.find(&active)));
    assert!(is_remembered(&machine.find(&env)));
}

#[test]
fn what_it_lacks_is_searched_for_and_what_it_is_not_is_passed_over() {
    let (mut machine, env) = (Machine::new(), Env::default());
    machine.find(&env);
    machine
        .request
        .needs
        .push(Need::new(Component::Cudart, Part::Archive, "a test"));
    machine
        .request
        .needs
        .push(Need::new(Component::Nvrtc, Part::Shared, "a test"));
    let search = machine.search(&env);
    assert!(
        find(&search, &machine.request, &machine.file()).is_err(),
        "there is no NVRTC"
    );
    machine.request.needs.pop();
    for text in ["", "=", "format_version = 2"] {
        fs::write(machine.file(), text).unwrap();
        assert!(!is_remembered(&machine.find(&env)), "{text}");
        assert_eq!(fs::read_to_string(machine.file()).unwrap(), text);
    }
}

/// The first script of a workspace may have had no use for it.
#[test]
fn an_optional_product_that_it_lacks_is_searched_for() {
    let (mut machine, env) = (Machine::new(), Env::default());
    let library = machine
        .place
        .path()
        .join("usr/lib/x86_64-linux-gnu/libcudnn.so.9");
    fs::create_dir_all(library.parent().unwrap()).unwrap();
    fs::write(&library, "").unwrap();
    machine.find(&env);
    assert!(is_remembered(&machine.find(&env)));
    let optional = Need::new(Component::Cudnn, Part::Shared, "a test").with(Strength::Optional);
    machine.request.needs.push(optional);
    assert_eq!(
        machine.find(&env).get(Component::Cudnn).unwrap().libraries,
        [library]
    );
}
