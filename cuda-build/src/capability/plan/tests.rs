use super::*;
use crate::capability::all;

fn v(text: &str) -> ToolkitVersion {
    text.parse().unwrap()
}

fn list(text: &str) -> Vec<Capability> {
    text.split_whitespace()
        .map(|digits| digits.parse().unwrap())
        .collect()
}

fn plan(declared: &str, toolkit: &str, gpus: &str) -> Result<Plan, Error> {
    Declared::parse([declared])
        .unwrap()
        .plan(v(toolkit), &list(gpus), None)
}

fn check(declared: &str, toolkit: &str, expected: &str) {
    assert_eq!(
        plan(declared, toolkit, "").unwrap().to_string(),
        expected,
        "{declared} with CUDA {toolkit}"
    );
}

fn refuse(declared: &str, toolkit: &str, reason: &str, hint: &str) {
    let error = plan(declared, toolkit, "").unwrap_err();
    assert_eq!(error.to_string(), reason);
    assert!(error.hints().join("").contains(hint), "{error:?}");
}

#[test]
fn sorted_and_merged() {
    check("12.0+PTX 8.0 9.0a 80", "13.4", "8.0, 9.0a, 12.0+PTX");
    check("compute_90 8.0", "13.4", "8.0, compute_90");
    check("9.0 9.0a", "13.4", "9.0, 9.0a");
    check(
        "10.0a 10.0f compute_100",
        "13.4",
        "compute_100, 10.0a, 10.0f",
    );
}

#[test]
fn all_as_nvcc_means_it() {
    // `nvcc -arch=all` and `-arch=all-major` of 13.4.92, taken from its dry run.
    check(
        "all",
        "13.4",
        "7.5, 8.0, 8.6, 8.7, 8.8, 8.9, 9.0, 10.0, 10.3, 10.7, 11.0, 12.0+PTX, 12.1",
    );
    check("all-major", "13.4", "7.5, 8.0, 9.0, 10.0, 11.0, 12.0+PTX");
    check(
        "all-major",
        "12.9",
        "5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0+PTX",
    );
    check("all-major", "11.8", "3.5, 5.0, 6.0, 7.0, 8.0, 9.0+PTX");
}

#[test]
fn native_is_the_gpus_of_this_machine() {
    assert_eq!(
        plan("native", "13.4", "86 86 90").unwrap().to_string(),
        "8.6, 9.0"
    );
    assert_eq!(
        plan("native 8.0+PTX", "13.4", "90").unwrap().to_string(),
        "8.0+PTX, 9.0"
    );
    let error = plan("native", "13.4", "").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`native` builds for the GPUs in this machine, and there is none"
    );
    assert!(error.hints()[0].contains("capabilities = ["), "{error:?}");
    let error = plan("native", "12.0", "120").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`native`: this machine has a 12.0 GPU: capability 12.0 needs CUDA 12.8 or newer; this toolkit is 12.0"
    );
    let error = plan("native", "12.8", "121").unwrap_err();
    assert_eq!(error.hints(), ["write 12.0, which runs on it"]);
}

#[test]
fn refusals_say_why_and_what_to_write() {
    refuse(
        "7.0",
        "13.0",
        "capability 7.0 was removed in CUDA 13.0; 12.x is the last that builds for it",
        "remove 7.0 for CUDA 13",
    );
    refuse(
        "3.5",
        "12.4",
        "capability 3.5 was removed in CUDA 12.0; 11.x is the last that builds for it",
        "11.x",
    );
    refuse(
        "3.0",
        "11.8",
        "capability 3.0 was removed in CUDA 11.0; 10.x is the last that builds for it",
        "remove 3.0: CUDA before 11 is not supported",
    );
    refuse(
        "10.1",
        "13.4",
        "capability 10.1 is called 11.0 from CUDA 13.0 on; this toolkit is 13.4",
        "write 11.0",
    );
    refuse(
        "10.1a",
        "13.0",
        "capability 10.1a is called 11.0a from CUDA 13.0 on; this toolkit is 13.0",
        "write 11.0a",
    );
    refuse(
        "11.0",
        "12.9",
        "capability 11.0 is called 10.1 before CUDA 13.0; this toolkit is 12.9",
        "write 10.1",
    );
    refuse(
        "11.0",
        "12.6",
        "capability 11.0 needs CUDA 13.0 or newer; this toolkit is 12.6",
        "use CUDA 13.0",
    );
    refuse(
        "12.0",
        "12.0",
        "capability 12.0 needs CUDA 12.8 or newer; this toolkit is 12.0",
        "use CUDA 12.8",
    );
    refuse(
        "12.0f",
        "12.8",
        "capability 12.0f needs CUDA 12.9 or newer; this toolkit is 12.8",
        "use CUDA 12.9",
    );
    refuse(
        "9.0f",
        "13.4",
        "capability 9.0 has no `f` variant",
        "CUDA 13.4 has 9.0, 9.0a",
    );
    refuse(
        "8.0a",
        "13.4",
        "capability 8.0 has no `a` variant",
        "CUDA 13.4 has 8.0",
    );
    refuse(
        "9.9",
        "13.4",
        "CUDA 13.4 does not support compute capability 9.9",
        "it supports 7.5, 8.0",
    );
    refuse(
        "13.0",
        "13.9",
        "CUDA 13.9 does not support compute capability 13.0",
        "newer than 13.5",
    );
    refuse(
        "compute_70 10.1",
        "13.4",
        "capability 10.1 is called 11.0 from CUDA 13.0 on; this toolkit is 13.4\n\
         capability 7.0 was removed in CUDA 13.0; 12.x is the last that builds for it",
        "write 11.0 for CUDA 13\nremove 7.0 for CUDA 13, or build with CUDA 12.x",
    );
}

#[test]
fn one_slot_for_the_family_and_its_base() {
    refuse(
        "10.0 10.0f",
        "13.4",
        "capabilities 10.0 and 10.0f can't both be compiled to SASS: nvcc refuses",
        "`compute_100` adds PTX",
    );
    refuse(
        "all 12.1f",
        "13.4",
        "capabilities 12.1 and 12.1f can't both be compiled to SASS: nvcc refuses",
        "keep 12.1f",
    );
}

#[test]
fn the_compilers_own_list_decides() {
    let declared = Declared::parse(["8.0", "13.0+PTX"]).unwrap();
    let observed = list("80 90 130 130f");
    let plan = declared.plan(v("14.0"), &[], Some(&observed)).unwrap();
    assert_eq!(plan.to_string(), "8.0, 13.0+PTX");
    let all = Declared::parse(["all"])
        .unwrap()
        .plan(v("14.0"), &[], Some(&observed))
        .unwrap();
    assert_eq!(all.to_string(), "8.0, 9.0, 13.0+PTX");
    let error = Declared::parse(["7.5"])
        .unwrap()
        .plan(v("14.0"), &[], Some(&observed))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the compiler of this CUDA 14.0 does not list capability 7.5"
    );
    assert_eq!(error.hints(), ["it lists 8.0, 9.0, 13.0, 13.0f"]);
}

#[test]
fn every_target_of_every_toolkit_is_planned_or_refused_with_a_reason() {
    let suffixes = [None, Some(Suffix::ArchSpecific), Some(Suffix::Family)];
    for major in release::majors() {
        for toolkit in (0..=9).map(|minor| ToolkitVersion::new(major, minor)) {
            let supported = supported(toolkit);
            for capability in all().flat_map(|row| suffixes.map(|s| row.capability.with_suffix(s)))
            {
                for text in [
                    capability.sm(),
                    capability.compute(),
                    format!("{capability}+PTX"),
                ] {
                    let declared = Declared::parse([&text]).unwrap();
                    match declared.plan(toolkit, &[], None) {
                        Ok(plan) => {
                            assert!(supported.contains(&capability), "{text} with {toolkit}");
                            let again = Declared::parse([plan.to_string()]).unwrap();
                            assert_eq!(
                                again.plan(toolkit, &[], None).unwrap(),
                                plan,
                                "{text} reads back"
                            );
                        }
                        Err(error) => {
                            assert!(!supported.contains(&capability), "{text} with {toolkit}");
                            let reason = error.to_string();
                            assert!(reason.contains(&capability.base().to_string()), "{reason}");
                            assert_eq!(error.hints().len(), 1, "{reason}");
                        }
                    }
                }
            }
        }
    }
}
