//! Search paths as values. The facts of native modules are written by hand.

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
    let arguments = link_arguments(SearchPathKind::Runpath, &entries, []).join(" ");
    let expected = "-C link-arg=-Wl,--enable-new-dtags -C link-arg=-Xlinker -C link-arg=-rpath \
                    -C link-arg=-Xlinker -C link-arg=$ORIGIN/a";
    assert_eq!(arguments, expected);
    let rpath = link_arguments(SearchPathKind::Rpath, &entries, []);
    assert_eq!(rpath[1], "link-arg=-Wl,--disable-new-dtags");
    assert!(link_arguments(SearchPathKind::Rpath, &[], []).is_empty());
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
