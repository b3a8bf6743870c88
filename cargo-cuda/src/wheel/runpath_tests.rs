//! Search paths as values. The facts of native modules are written by hand.

use cuda_find_core::search::SearchContext;
use cuda_find_core::select::{Need, Part, Request};
use cuda_find_core::{env::Env, root::Root, target::Target};

use super::*;

fn search_path(components: &[Component], major: u32) -> ModuleSearchPath {
    ModuleSearchPath::new(&components.iter().copied().collect(), major).unwrap()
}

#[test]
fn entries_lead_from_the_module_to_the_packages() {
    let both = &[Component::Cublas, Component::Cudart][..];
    let unlinked = &[Component::Nvcc, Component::Driver, Component::Nvml][..];
    for (components, major, depth, expected) in [
        (
            both,
            12,
            1,
            &[
                "$ORIGIN/../nvidia/cuda_runtime/lib",
                "$ORIGIN/../nvidia/cublas/lib",
            ][..],
        ),
        (both, 13, 1, &["$ORIGIN/../nvidia/cu13/lib"]),
        (both, 13, 3, &["$ORIGIN/../../../nvidia/cu13/lib"]),
        (both, 13, 0, &["$ORIGIN/nvidia/cu13/lib"]),
        (&[Component::Cudnn], 12, 1, &["$ORIGIN/../nvidia/cudnn/lib"]),
        (unlinked, 13, 1, &[]),
    ] {
        let found = search_path(components, major);
        assert_eq!(found.entries(depth), expected, "{components:?} {major}");
    }
    assert_eq!(
        search_path(both, 13).below("/site"),
        ["/site/nvidia/cu13/lib"]
    );
}

#[test]
fn arguments_name_the_kind() {
    let entries = ["$ORIGIN/a".to_owned()];
    let arguments = link_arguments(&entries, []).join(" ");
    let expected = "-C link-arg=-Wl,--disable-new-dtags -C link-arg=-Xlinker -C link-arg=-rpath \
                    -C link-arg=-Xlinker -C link-arg=$ORIGIN/a";
    assert_eq!(arguments, expected);
    assert!(link_arguments(&[], []).is_empty());
}

#[test]
fn the_depth_of_the_linked_module_is_found() {
    for (path, expected) in [
        ("_native.so", Some(0)),
        ("acme/gpu/deep/_native.so", Some(3)),
        ("saxpy-1.data/platlib/saxpy/x.so", Some(1)),
        ("saxpy-1.data/purelib/x.so", Some(0)),
        ("saxpy-1.data/scripts/saxpy", Some(1)),
        ("saxpy-1.data/data/lib/x.so", None),
    ] {
        assert_eq!(depth(path), expected, "{path}");
    }
    let cudart = ["libcudart.so.13"];
    let linked = ElfFacts::linking(&cudart, &["$ORIGIN/../nvidia/cu13/lib"]);
    let other = ElfFacts::linking(&cudart, &["$ORIGIN/../../../nvidia/cu13/lib"]);
    let path = search_path(&[Component::Cudart], 13);
    let modules = [("a/b/c/other.so", &other), ("a/b/_native.so", &linked)];
    assert_eq!(path.depth_of_linked(modules, 1), 2);
    assert_eq!(path.depth_of_linked(modules, 3), 3);
    // Nothing is passed to the linker if no component is declared.
    let (plain, unlinked) = (
        ElfFacts::linking(&["libc.so.6"], &[]),
        ElfFacts::linking(&cudart, &[]),
    );
    let modules = [("a/plain.so", &plain), ("a/b/_native.so", &unlinked)];
    assert_eq!(search_path(&[], 13).depth_of_linked(modules, 1), 2);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test makes libraries")]
fn what_a_library_finds_by_runpath_is_needed_directly() {
    let place = tempfile::tempdir().unwrap();
    let mut text = "format_version = 1\nversion = \"12.4\"\n".to_owned();
    for (component, soname, needed, options) in [
        ("nvjitlink", "libnvJitLink.so.12", "", ""),
        (
            "cusparse",
            "libcusparse.so.12",
            "libnvJitLink.so.12",
            "--enable-new-dtags",
        ),
        ("cublas", "libcublasLt.so.12", "", ""),
        (
            "cublas",
            "libcublas.so.12",
            "libcublasLt.so.12",
            "--enable-new-dtags",
        ),
        (
            "cufft",
            "libcufft.so.11",
            "libnvJitLink.so.12",
            "--disable-new-dtags",
        ),
    ] {
        let path = place.path().join(soname);
        let mut gcc = std::process::Command::new("gcc");
        gcc.args([
            "-shared",
            "-nostdlib",
            "-x",
            "c",
            "/dev/null",
            "-x",
            "none",
            "-Wl,--no-as-needed",
        ]);
        gcc.arg(format!("-Wl,-soname,{soname},{options},-rpath,$ORIGIN").replace(",,", ","));
        gcc.arg("-o")
            .arg(&path)
            .args((!needed.is_empty()).then(|| place.path().join(needed)));
        assert!(gcc.status().unwrap().success());
        if soname.contains("Lt") {
            continue;
        }
        let all = [path, place.path().join("libcublasLt.so.12")];
        let count = if component == "cublas" { 2 } else { 1 };
        text += &format!(
            "[[component]]\nname = \"{component}\"\nmajor = 12\nversion = \"12.4.1\"\ntoolkit = \"12.4\"\n\
             include = []\nlibraries = {:?}\narchives = []\ntools = []\nevidence = \"\"\norigin = \"\"\n",
            &all[..count]
        );
    }
    let file = place.path().join("toolkit.toml");
    std::fs::write(&file, text).unwrap();
    let search = SearchContext {
        root: &Root::system(),
        env: &Env::from_pairs([("CUDA_BUILD_TOOLKIT", &file)]),
        target: &Target::from_triple("x86_64-unknown-linux-gnu").unwrap(),
        places: Vec::new(),
        runs_nvcc: true,
    };
    let need = Need::new(
        Component::Cusparse,
        Part::main(Component::Cusparse),
        "to try",
    );
    let request = Request {
        alternatives: vec![vec![need]],
        take_everything: true,
        ..Request::default()
    };
    let toolkit = search.find(&request).unwrap();
    for (linked, expected) in [
        (
            "libcusparse.so.12",
            &[("libnvJitLink.so.12", Component::Nvjitlink)][..],
        ),
        (
            "libcublas.so.12",
            &[("libcublasLt.so.12", Component::Cublas)],
        ),
        ("libcufft.so.11", &[]),
        ("libc.so.6", &[]),
    ] {
        let found = needed_by_runpath(&[linked.to_owned()], &toolkit).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|(soname, it)| (soname.as_str(), *it))
            .collect();
        assert_eq!(found, expected, "{linked}");
    }
    let arguments = link_arguments(&["/x".to_owned()], &["liba.so.1".to_owned()]);
    let end = "-C link-arg=-Wl,--push-state,--no-as-needed -C link-arg=-l:liba.so.1 -C link-arg=-Wl,--pop-state";
    assert!(arguments.join(" ").ends_with(end), "{arguments:?}");
}
