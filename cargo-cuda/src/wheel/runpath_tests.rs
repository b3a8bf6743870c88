//! Search paths as values. The facts of native modules are written by hand.

use super::*;

fn plan(components: &[Component], major: u32, kind: SearchPathKind) -> SearchPathPlan {
    SearchPathPlan::new(&components.iter().copied().collect(), major, kind).unwrap()
}

fn module(needed: &[&str], runpath: &[&str], rpath: &[&str]) -> ElfFacts {
    let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
    ElfFacts {
        needed: owned(needed),
        runpath: owned(runpath),
        rpath: owned(rpath),
        ..ElfFacts::default()
    }
}

#[test]
fn entries_lead_from_the_module_to_the_packages() {
    let plan = plan(&[Component::Cudart], 12, SearchPathKind::Runpath);
    assert_eq!(plan.entries(1), ["$ORIGIN/../nvidia/cuda_runtime/lib"]);
    assert_eq!(plan.entries(2), ["$ORIGIN/../../nvidia/cuda_runtime/lib"]);
}

#[test]
fn one_directory_per_component_before_13_and_one_for_all_since() {
    let both = [Component::Cublas, Component::Cudart];
    assert_eq!(
        plan(&both, 12, SearchPathKind::Runpath).entries(1),
        [
            "$ORIGIN/../nvidia/cuda_runtime/lib",
            "$ORIGIN/../nvidia/cublas/lib"
        ]
    );
    assert_eq!(
        plan(&both, 13, SearchPathKind::Runpath).entries(1),
        ["$ORIGIN/../nvidia/cu13/lib"]
    );
    assert_eq!(
        plan(&both, 13, SearchPathKind::Runpath).entries(3),
        ["$ORIGIN/../../../nvidia/cu13/lib"]
    );
    assert_eq!(
        plan(&both, 13, SearchPathKind::Runpath).entries(0),
        ["$ORIGIN/nvidia/cu13/lib"]
    );
    assert_eq!(
        plan(&[Component::Cudnn], 12, SearchPathKind::Runpath).entries(1),
        ["$ORIGIN/../nvidia/cudnn/lib"],
    );
}

#[test]
fn compilers_headers_and_the_driver_add_no_directory() {
    let unlinked = [
        Component::Nvcc,
        Component::Cccl,
        Component::Driver,
        Component::Nvml,
    ];
    let plan = plan(&unlinked, 13, SearchPathKind::Runpath);
    assert!(plan.entries(1).is_empty());
    assert!(plan.rustc_arguments(1).is_empty());
}

#[test]
fn arguments_name_the_kind() {
    let arguments = |kind| plan(&[Component::Cudart], 13, kind).rustc_arguments(1);
    assert_eq!(
        arguments(SearchPathKind::Runpath),
        [
            "-C",
            "link-arg=-Wl,--enable-new-dtags",
            "-C",
            "link-arg=-Xlinker",
            "-C",
            "link-arg=-rpath",
            "-C",
            "link-arg=-Xlinker",
            "-C",
            "link-arg=$ORIGIN/../nvidia/cu13/lib"
        ]
    );
    assert_eq!(
        arguments(SearchPathKind::Rpath)[1],
        "link-arg=-Wl,--disable-new-dtags"
    );
}

#[test]
fn a_module_is_held_to_the_plan() {
    let plan13 = plan(&[Component::Cudart], 13, SearchPathKind::Runpath);
    let good = "$ORIGIN/../nvidia/cu13/lib";
    let check = |facts: &ElfFacts| plan13.check("saxpy/saxpy.abi3.so", facts, |_| false);

    assert!(check(&module(&["libcudart.so.13"], &[good], &[])).is_ok());
    assert!(check(&module(&["libc.so.6"], &[], &[])).is_ok());
    for (runpath, rpath) in [
        (vec![], vec![]),
        (vec![], vec![good]),
        (vec![good], vec!["/usr/local/cuda/lib64"]),
        (vec![good, "/home/me/target/release"], vec![]),
        (vec!["$ORIGIN/../../nvidia/cu13/lib"], vec![]),
        (vec![good, "$ORIGIN/../nvidia/cuda_runtime/lib"], vec![]),
    ] {
        let error = check(&module(&["libcudart.so.13"], &runpath, &rpath)).unwrap_err();
        assert!(error.message.contains("expected DT_RUNPATH"), "{error}");
    }
    let error = check(&module(&["libc.so.6"], &["/build"], &[])).unwrap_err();
    assert!(error.to_string().contains("/build"), "{error}");
}

#[test]
fn rpath_on_request_must_be_rpath() {
    let plan = plan(&[Component::Cudart], 13, SearchPathKind::Rpath);
    let good = "$ORIGIN/../nvidia/cu13/lib";
    assert!(
        plan.check(
            "a/b.so",
            &module(&["libcudart.so.13"], &[], &[good]),
            |_| { false }
        )
        .is_ok()
    );
    assert!(
        plan.check(
            "a/b.so",
            &module(&["libcudart.so.13"], &[good], &[]),
            |_| { false }
        )
        .is_err()
    );
}

#[test]
fn what_is_needed_must_be_covered() {
    let plan = plan(&[Component::Cudart], 12, SearchPathKind::Runpath);
    let facts = module(
        &["libcublas.so.12"],
        &["$ORIGIN/../nvidia/cuda_runtime/lib"],
        &[],
    );
    let error = plan.check("a/b.so", &facts, |_| false).unwrap_err();
    assert!(error.message.contains("of `cublas`, which"), "{error}");
    assert!(error.hints[0].contains("\"cublas\""));
}

#[test]
fn each_file_has_its_own_depth() {
    for (path, expected) in [
        ("_native.so", Some(0)),
        ("saxpy/saxpy.abi3.so", Some(1)),
        ("acme/gpu/deep/_native.so", Some(3)),
        ("saxpy-1.data/platlib/saxpy/x.so", Some(1)),
        ("saxpy-1.data/purelib/x.so", Some(0)),
        ("saxpy-1.data/scripts/saxpy", Some(1)),
        ("saxpy-1.data/data/lib/x.so", None),
    ] {
        assert_eq!(depth(path), expected, "{path}");
    }
    let plan = plan(&[Component::Cudart], 13, SearchPathKind::Rpath);
    let needed = ["libcudart.so.13"];
    let deep = module(&needed, &[], &["$ORIGIN/../../nvidia/cu13/lib"]);
    assert!(plan.check("a/b/c.so", &deep, |_| false).is_ok());
    let error = plan.check("a/c.so", &deep, |_| false).unwrap_err();
    for text in [
        "expected DT_RPATH: $ORIGIN/../nvidia/cu13/lib\n",
        "has DT_RPATH: $ORIGIN/../../nvidia/cu13/lib\n",
    ] {
        assert!(error.message.contains(text), "{error}");
    }
    let last = error.hints.last().unwrap();
    let expected = "`patchelf --force-rpath --set-rpath '$ORIGIN/../nvidia/cu13/lib' c.so`";
    assert!(last.contains(expected), "{error}");
    let data = plan.check("a-1.data/data/c.so", &deep, |_| false);
    assert!(data.unwrap_err().message.contains("outside site-packages"));
}

#[test]
fn the_depth_of_the_linked_module_is_found() {
    let of = |plan: &SearchPathPlan, modules: &[(&str, ElfFacts)], depth| {
        let named: Vec<(String, &ElfFacts)> =
            modules.iter().map(|(p, f)| ((*p).to_owned(), f)).collect();
        plan.depth_of_linked(named.iter().map(|(path, facts)| (path, *facts)), depth)
    };
    let cudart = ["libcudart.so.13"];
    let linked = module(&cudart, &[], &["$ORIGIN/../nvidia/cu13/lib"]);
    let other = module(&cudart, &[], &["$ORIGIN/../../../nvidia/cu13/lib"]);
    let rpath = plan(&[Component::Cudart], 13, SearchPathKind::Rpath);
    let modules = [("a/b/c/other.so", other), ("a/b/_native.so", linked)];
    assert_eq!(of(&rpath, &modules, 1), 2);
    assert_eq!(of(&rpath, &modules, 3), 3);
    // Nothing is passed to the linker if no component is declared.
    let none = plan(&[], 13, SearchPathKind::Rpath);
    let modules = [
        ("a/plain.so", module(&["libc.so.6"], &[], &[])),
        ("a/b/_native.so", module(&cudart, &[], &[])),
    ];
    assert_eq!(of(&none, &modules, 1), 2);
}

#[test]
fn directories_of_the_wheel_are_accepted() {
    let plan = plan(&[Component::Cudart], 13, SearchPathKind::Rpath);
    let is_inside = |directory: &str| directory == "saxpy.libs";
    let check = |path: &str, facts: &ElfFacts| plan.check(path, facts, is_inside).is_ok();
    let entries = ["$ORIGIN/../nvidia/cu13/lib", "$ORIGIN/../saxpy.libs"];
    let grafted = module(&["libcudart.so.13", "libx-1.so"], &[], &entries);
    assert!(check("saxpy/_native.so", &grafted));
    assert!(!check("saxpy/deep/_native.so", &grafted));
    let library = module(&["liby-1.so"], &["$ORIGIN"], &[]);
    assert!(check("saxpy.libs/libx-1.so", &library));
    let above = module(&["libc.so.6"], &["$ORIGIN/../../saxpy.libs"], &[]);
    assert!(!check("saxpy/_native.so", &above));
}
