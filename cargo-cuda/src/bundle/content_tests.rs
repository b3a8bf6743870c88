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
        let licences = licences(&mut files, &Root::system(), 13, &[]);
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
fn a_licence_that_is_not_recognised_needs_the_users_word() {
    let place = tempfile::tempdir().unwrap();
    let text = b"NVIDIA: Terms of use";
    let licence = "nvidia_cusolver-12.1.dist-info/licenses/License.txt";
    output::write(&place.path().join(licence), text).unwrap();
    for (component, library) in [(Cusolver, "libcusolver.so.12"), (Npp, "libnppc.so.13")] {
        let mut files = libraries(&[(library, component, &[])]);
        for (soname, (_, path, _)) in &mut files {
            *path = place.path().join("nvidia/cu13/lib").join(soname);
        }
        let program = ElfFacts::linking(&[library], &[]);
        files.insert("app".to_owned(), (None, "app".into(), program));
        let of = |permitted: &[Component], files: &BundledFiles| {
            licences(&mut files.clone(), &Root::system(), 13, permitted)
        };
        let refused = of(&[Cublas], &files).unwrap_err().to_string();
        let option = format!("--redistribute {component}");
        assert!(
            refused.contains("is not known") && refused.contains(&option),
            "{refused}"
        );
        assert!(of(&[component], &files).is_ok());
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
    for (libraries_of, needs, expected) in [
        (both, &none, ""),
        (
            &both[..1],
            &none,
            "app needs libcublasLt.so.13, which CUDA 13.0",
        ),
        (
            both,
            &newer,
            "app needs cudart 13.1, which CUDA 13.0 does not",
        ),
    ] {
        let mut files = libraries(libraries_of);
        let program = (None, PathBuf::from("app"), ElfFacts::linking(&needed, &[]));
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
}
