use std::ffi::OsString;

use Component::{Cublas, Cudart, Cusolver, Npp, Nvrtc};

use super::*;

fn libraries(list: &[(&str, Component, &[&str])]) -> BundledFiles {
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

fn options(text: &str) -> CargoOptions {
    let words: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
    CargoOptions::parse(&words)
}

#[test]
fn a_package_has_one_program_or_library_to_bundle() {
    const LIB: Option<&str> = Some("a");
    for (given, programs, cdylib, expected) in [
        ("", &["app"][..], None, "app"),
        ("", &["app"], LIB, "app"),
        ("--lib", &["app", "b"], LIB, "liba.so"),
        ("", &[], LIB, "liba.so"),
        ("--bin b", &["app", "b"], LIB, "b"),
        ("", &["app", "b"], LIB, "none or several"),
        ("--lib", &["app"], None, "none or several"),
        ("", &[], None, "none or several"),
        ("--example x", &["app"], None, "programs and `cdylib`"),
    ] {
        let package = Package {
            programs: programs.iter().map(|name| (*name).to_owned()).collect(),
            cdylib: cdylib.map(str::to_owned),
            ..Package::default()
        };
        let file = built_file(&options(given), Some(&package));
        let file = file.unwrap_or_else(|failure| failure.message);
        assert!(
            file.contains(expected),
            "{given} {programs:?} {cdylib:?}: {file}"
        );
    }
}

#[test]
fn a_library_that_the_licence_does_not_name_is_left_out_or_refused() {
    let place = tempfile::tempdir().unwrap();
    let licence = "nvidia_cusolver-12.1.dist-info/licenses/License.txt";
    let text = b"NVIDIA Agreement: libcusolver.so, libcusolver_static.a";
    output::write(&place.path().join(licence), text).unwrap();
    let (main, several) = ("libcusolver.so.12", "libcusolverMg.so.12");
    for (needed, is_permitted) in [(main, true), (several, false)] {
        let mut files = libraries(&[(main, Cusolver, &[]), (several, Cusolver, &[])]);
        for (soname, (_, path, _)) in &mut files {
            *path = place.path().join("nvidia/cu13/lib").join(soname);
        }
        let program = ElfFacts::linking(&[needed], &[]);
        files.insert("app".to_owned(), (None, "app".into(), program));
        let licences = licences(&mut files, &Root::system(), 13);
        match licences {
            Ok(licences) if is_permitted => {
                assert_eq!(licences[&Cusolver].files.len(), 1);
                assert!(files.keys().eq(["app", main]));
            }
            Err(failure) if !is_permitted => assert!(failure.message.contains(several)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn cargo_gets_program_profile_and_search_path() {
    for (name, given, expected) in [
        ("app", "", "--bin app --release"),
        ("app", "--bin b -r", "--bin b -r"),
        ("app", "--profile dev", "--profile dev --bin app"),
        ("liba.so", "", "--lib --release"),
        ("liba.so", "--lib", "--lib --release"),
    ] {
        let words = |text: &str| text.split_whitespace().map(OsString::from).collect();
        let users = SplitArguments {
            for_cargo: words(given),
            ..SplitArguments::default()
        };
        let call = rustc_call(&users, &options(given), name, []);
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
    let none = Needs::new(built_with);
    let mut newer = none.clone();
    newer.raised.insert(Cudart, "13.1".parse().unwrap());
    let needed = ["libcublas.so.13", "libcuda.so.1", "libssl.so.3"];
    for (rpath, libraries_of, needs, expected) in [
        (SEARCH_PATH, both, &none, ""),
        (
            SEARCH_PATH,
            &both[..1],
            &none,
            "app needs libcublasLt.so.13, which CUDA 13.0",
        ),
        (
            SEARCH_PATH,
            both,
            &newer,
            "app needs cudart 13.1, which CUDA 13.0 does not",
        ),
        ("/opt", both, &none, "app does not search"),
    ] {
        let mut files = libraries(libraries_of);
        let program = (
            None,
            PathBuf::from("app"),
            ElfFacts::linking(&needed, &[rpath]),
        );
        files.insert("app".to_owned(), program);
        let checked = check("app", &files, needs);
        let message = checked
            .err()
            .map_or(String::new(), |failure| failure.message);
        assert!(
            message.starts_with(expected) && message.is_empty() == expected.is_empty(),
            "{message}"
        );
    }
    let mut files = libraries(both);
    let library = ElfFacts::linking(&[], &["$ORIGIN"]);
    files.insert("liba.so".to_owned(), (None, "liba.so".into(), library));
    assert!(check("liba.so", &files, &none).is_ok());
    let needs_none = installation(&none).unwrap();
    assert_eq!(
        needs_none,
        "  needs no library of NVIDIA's but the driver's\n"
    );
    let program = (None, PathBuf::from("app"), ElfFacts::linking(&needed, &[]));
    let files = BundledFiles::from([("app".to_owned(), program)]);
    let text = description(&BTreeMap::new(), &files, 13);
    assert!(
        text.contains("libcuda.so.1 is left out") && text.contains("libssl.so.3 must be"),
        "{text}"
    );
}
