use std::ffi::OsString;

use super::*;

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
        let call = rustc_call(
            &users,
            &options(given),
            name,
            vec!["-C link-arg=x".to_owned()],
        );
        assert_eq!(call.for_cargo, words(expected));
        assert_eq!(call.for_program, ["--", "-C link-arg=x"]);
    }
}
