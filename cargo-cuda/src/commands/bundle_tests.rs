use std::ffi::OsString;

use Component::{Cublas, Cudart, Npp, Nvrtc};

use super::*;

fn libraries(list: &[(&str, Component, &[&str])]) -> Files {
    let library = |&(soname, component, needed): &(&str, Component, &[&str])| {
        let library = (
            Some(component),
            PathBuf::from(soname),
            ElfFacts::linking(needed, &[]),
        );
        (soname.to_owned(), library)
    };
    list.iter().map(library).collect()
}

#[test]
fn cargo_gets_program_profile_and_search_path() {
    for (given, expected) in [
        ("", "--bin app --release"),
        ("--bin b -r", "--bin b -r"),
        ("--profile dev", "--profile dev --bin app"),
    ] {
        let words = |text: &str| text.split_whitespace().map(OsString::from).collect();
        let users = SplitArguments {
            for_cargo: words(given),
            ..SplitArguments::default()
        };
        let call = rustc_call(&users, &CargoOptions::parse(&users.for_cargo), "app");
        assert_eq!(call.for_cargo, words(expected));
        let search = "-- -C link-arg=-Wl,--disable-new-dtags -C link-arg=-Xlinker -C link-arg=-rpath \
                      -C link-arg=-Xlinker -C link-arg=$ORIGIN/../lib";
        assert_eq!(call.for_program, words(search));
    }
}

#[test]
fn linked_libraries_come_alone_and_opened_components_whole() {
    let all = libraries(&[
        ("libnppc.so.13", Npp, &[]),
        ("libnppig.so.13", Npp, &["libnppc.so.13", "libm.so.6"]),
        ("libnppist.so.13", Npp, &["libnppc.so.13"]),
        ("libcublas.so.13", Cublas, &["libcublasLt.so.13"]),
        ("libcublasLt.so.13", Cublas, &[]),
        ("libnvrtc.so.13", Nvrtc, &[]),
        ("libnvrtc-builtins.so.13.4", Nvrtc, &[]),
    ]);
    let program = ElfFacts::linking(&["libnppig.so.13", "libnvrtc.so.13", "libcuda.so.1"], &[]);
    let selected = selected(&program, &[Npp, Nvrtc].into(), all);
    let mut names: Vec<&str> = selected.keys().map(String::as_str).collect();
    names.retain(|name| !name.starts_with("libcublas"));
    assert_eq!(selected.len() - names.len(), 2);
    let expected = "libnppc.so.13 libnppig.so.13 libnvrtc-builtins.so.13.4 libnvrtc.so.13";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn what_the_loader_or_the_program_would_lack_is_an_error() {
    const LT: &str = "libcublasLt.so.13";
    let both: &[(&str, Component, &[&str])] =
        &[("libcublas.so.13", Cublas, &[LT]), (LT, Cublas, &[])];
    let built_with = BuiltWith {
        toolkit: "13.0".parse().unwrap(),
        components: [(Cudart, "13.0.48".parse().unwrap())].into(),
    };
    let mut newer = Needs::default();
    newer.raised.insert(Cudart, "13.1".parse().unwrap());
    let needed = ["libcublas.so.13", "libcuda.so.1", "libssl.so.3"];
    for (rpath, libraries_of, needs, expected) in [
        (SEARCH_PATH, both, &Needs::default(), ""),
        (
            SEARCH_PATH,
            &both[..1],
            &Needs::default(),
            "app needs libcublasLt.so.13, which CUDA 13.0",
        ),
        (
            SEARCH_PATH,
            both,
            &newer,
            "app needs cudart 13.1, which CUDA 13.0 does not",
        ),
        ("/opt", both, &Needs::default(), "app does not search"),
    ] {
        let mut files = libraries(libraries_of);
        let program = (
            None,
            PathBuf::from("app"),
            ElfFacts::linking(&needed, &[rpath]),
        );
        files.insert("app".to_owned(), program);
        let checked = check("app", &files, needs, &built_with);
        let message = checked
            .err()
            .map_or(String::new(), |failure| failure.message);
        assert!(
            message.starts_with(expected) && message.is_empty() == expected.is_empty(),
            "{message}"
        );
    }
    let needs_none = installation(&Needs::default(), &built_with).unwrap();
    assert_eq!(
        needs_none,
        "  needs no library of NVIDIA's but the driver's\n"
    );
    let program = (None, PathBuf::from("app"), ElfFacts::linking(&needed, &[]));
    let files = Files::from([("app".to_owned(), program)]);
    let text = description(&BTreeMap::new(), &files, 13);
    assert!(
        text.contains("libcuda.so.1 is left out") && text.contains("libssl.so.3 must be"),
        "{text}"
    );
}
