use super::*;

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
        "`native` selects 12.0 for this machine's GPU, but capability 12.0 needs CUDA 12.8 or newer; this toolkit is \
         12.0"
    );
    let error = plan("native", "12.8", "121").unwrap_err();
    assert_eq!(error.hints(), ["write 12.0, which runs on it"]);
}

/// The declared capability, the toolkit, the reason, and a part of the hint.
const REFUSALS: &str = "\
7.0 13.0: capability 7.0 was removed in CUDA 13.0; 12.x is the last that builds for it -> \
remove 7.0, or build with CUDA 12.x
3.5 12.4: capability 3.5 was removed in CUDA 12.0; 11.x is the last that builds for it -> 11.x
3.0 11.8: CUDA 11.8 does not support compute capability 3.0 -> it supports 3.5
10.1 13.4: capability 10.1 is called 11.0 from CUDA 13.0 on; this toolkit is 13.4 -> write 11.0
10.1a 13.0: capability 10.1a is called 11.0a from CUDA 13.0 on; this toolkit is 13.0 -> write 11.0a
11.0 12.9: capability 11.0 is called 10.1 before CUDA 13.0; this toolkit is 12.9 -> write 10.1
11.0 12.6: capability 11.0 needs CUDA 13.0 or newer; this toolkit is 12.6 -> use CUDA 13.0
12.0 12.0: capability 12.0 needs CUDA 12.8 or newer; this toolkit is 12.0 -> use CUDA 12.8
12.0f 12.8: capability 12.0f needs CUDA 12.9 or newer; this toolkit is 12.8 -> use CUDA 12.9
9.0f 13.4: CUDA 13.4 does not support compute capability 9.0f -> it supports 7.5, 8.0
9.9 13.4: CUDA 13.4 does not support compute capability 9.9 -> it supports 7.5, 8.0
13.0 13.9: CUDA 13.9 does not support compute capability 13.0 -> newer than 13.5";

#[test]
fn refusals_say_why_and_what_to_write() {
    for line in REFUSALS.lines() {
        let (case, texts) = line.split_once(": ").unwrap();
        let (declared, toolkit) = case.split_once(' ').unwrap();
        let (reason, hint) = texts.split_once(" -> ").unwrap();
        refuse(declared, toolkit, reason, hint);
    }
    refuse(
        "compute_70 10.1",
        "13.4",
        "capability 10.1 is called 11.0 from CUDA 13.0 on; this toolkit is 13.4\n\
         capability 7.0 was removed in CUDA 13.0; 12.x is the last that builds for it",
        "write 11.0 for CUDA 13\nremove 7.0, or build with CUDA 12.x",
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
        "CUDA 14.0 does not support compute capability 7.5"
    );
    assert_eq!(error.hints(), ["it supports 8.0, 9.0, 13.0, 13.0f"]);
}

mod declared {
    use super::super::*;

    fn check(items: &[&str], expected: &str) {
        let declared = Declared::parse(items).unwrap();
        assert_eq!(declared, Declared::parse([expected]).unwrap(), "{items:?}");
    }

    #[test]
    fn every_spelling_of_an_entry_is_read() {
        for (expected, spellings) in [
            ("8.0", "80 80-real sm_80 sm_80-real"),
            ("compute_80", "80-virtual compute_80-virtual"),
            ("8.6, compute_86", "8.6+PTX 8.6+ptx sm_86+PTX"),
            ("9.0a", "90a-real"),
            ("compute_90a", "9.0a-virtual"),
            ("10.0f, compute_100f", "100f+PTX"),
            ("native", "Native"),
            ("all-major", "ALL-major"),
        ] {
            spellings.split(' ').for_each(|it| check(&[it], expected));
        }
    }

    #[test]
    fn lists_in_lists_and_duplicates() {
        check(&["8.0;8.6;9.0+PTX"], "8.0, 8.6, 9.0, compute_90");
        check(&["8.0 8.6", " 12.0 , 9.0;; "], "8.0, 8.6, 9.0, 12.0");
        check(&["80-real;90a-real;120"], "8.0, 9.0a, 12.0");
        check(&["8.0", "80", "sm_80", "8.0+PTX"], "8.0, compute_80");
    }

    /// The declared list, the reason, and a part of the hint.
    const REFUSALS: &str = "\
8.0;bogus: `bogus` is not a compute capability -> `native`, `all`, `all-major`
8+PTX: `8+PTX` is not a compute capability -> write a capability as
8.0-fast: `8.0-fast` is not a compute capability -> write a capability as
compute_80-real: `compute_80-real` contradicts itself -> `sm_80` for SASS
sm_80-virtual: `sm_80-virtual` contradicts itself -> `compute_80` for PTX
compute_80+PTX: `compute_80+PTX` contradicts itself -> `8.0+PTX` for both
native+PTX: `native+PTX` is not a compute capability -> or `native`, `all`, `all-major`
 ; : the list of capabilities is empty -> capabilities = [";

    #[test]
    fn refusals_name_the_entry_and_what_to_write() {
        for line in REFUSALS.lines() {
            let (declared, texts) = line.split_once(": ").unwrap();
            let (reason, hint) = texts.split_once(" -> ").unwrap();
            let error = Declared::parse([declared]).unwrap_err();
            assert_eq!(error.to_string(), reason);
            assert!(error.hints()[0].contains(hint), "{error:?}");
        }
    }

    #[test]
    fn undeclared_shows_the_manifest_to_write() {
        let text = format!("{:?}", undeclared());
        assert!(text.contains("no compute capability is declared"), "{text}");
        assert!(
            text.ends_with("[package.metadata.cuda]\ncapabilities = [\"8.0\", \"9.0+PTX\"]"),
            "{text}"
        );
    }
}

mod rules {
    use super::super::*;
    use crate::capability::{all, supported};

    const CUDA_12: ToolkitVersion = ToolkitVersion::new(12, 9);
    const CUDA_13: ToolkitVersion = ToolkitVersion::new(13, 5);

    fn c(text: &str) -> Capability {
        text.parse().unwrap()
    }

    #[test]
    fn families_as_ptxas_pairs_them() {
        for (code, devices) in [
            ("10.0f", &["10.0", "10.3", "10.7"][..]),
            ("10.3f", &["10.3", "10.7"]),
            ("10.7f", &["10.7"]),
            ("11.0f", &["11.0"]),
            ("12.0f", &["12.0", "12.1"]),
            ("12.1f", &["12.1"]),
            ("10.1f", &["10.1"]),
        ] {
            let runs: Vec<String> = all()
                .map(|row| row.capability)
                .filter(|&device| sass_runs_on(c(code), device, CUDA_13))
                .map(|device| device.to_string())
                .collect();
            assert_eq!(runs, devices, "{code}");
        }
        assert!(
            sass_runs_on(c("12.0f"), c("12.6"), CUDA_13),
            "a device not known yet joins"
        );
    }

    #[test]
    fn jetson_sass_is_separate_before_13() {
        assert!(!sass_runs_on(c("8.6"), c("8.7"), CUDA_12));
        assert!(sass_runs_on(c("8.6"), c("8.7"), CUDA_13));
        assert!(sass_runs_on(c("8.7"), c("8.7"), CUDA_12));
        assert!(ptx_runs_on(c("8.6"), c("8.7"), CUDA_12));
    }

    #[test]
    fn over_all_rows() {
        for toolkit in [CUDA_12, CUDA_13] {
            for code in supported(toolkit) {
                assert!(
                    sass_runs_on(code, code.base(), toolkit),
                    "{code} on its own device"
                );
                for device in all().map(|row| row.capability) {
                    let (sass, ptx) = (
                        sass_runs_on(code, device, toolkit),
                        ptx_runs_on(code, device, toolkit),
                    );
                    assert!(
                        !sass || ptx,
                        "{code} on {device}: SASS runs, but PTX does not"
                    );
                    assert!(
                        !sass || code.major == device.major,
                        "{code} on {device}: across majors"
                    );
                    assert!(
                        !ptx || code.base() <= device,
                        "{code} on {device}: on an older device"
                    );
                }
            }
        }
    }
}

mod render {
    use crate::capability::{Capability, Declared, Plan};
    use crate::version::ToolkitVersion;

    const TOOLKIT: ToolkitVersion = ToolkitVersion::new(13, 4);

    fn plan(declared: &str) -> Plan {
        let declared = Declared::parse([declared]).unwrap();
        declared.plan(TOOLKIT, &[], None).unwrap()
    }

    #[test]
    fn for_each_consumer() {
        let plan = plan("8.0 9.0a 12.0+PTX");
        assert_eq!(plan.cmake(), "80-real;90a-real;120-real;120-virtual");
        assert_eq!(plan.torch(), "8.0;9.0a;12.0+PTX");
    }

    #[test]
    fn ptx_alone_and_suffixes() {
        let plan = plan("compute_90 10.0f compute_100 10.0a");
        assert_eq!(plan.cmake(), "100a-real;100f-real;90-virtual;100-virtual");
        assert_eq!(plan.torch(), "9.0+PTX;10.0+PTX;10.0a;10.0f");
    }

    #[test]
    fn cmake_and_torch_lists_read_back() {
        for declared in [
            "8.0 9.0a 12.0+PTX",
            "all",
            "all-major",
            "10.0f compute_100 7.5",
        ] {
            let plan = plan(declared);
            let toolkit = ToolkitVersion::new(13, 4);
            let again = Declared::parse([plan.cmake()])
                .unwrap()
                .plan(toolkit, &[], None)
                .unwrap();
            assert_eq!(again, plan, "{declared}");
        }
        let plan = plan("8.0 9.0a 12.0+PTX");
        assert_eq!(
            Declared::parse([plan.torch()])
                .unwrap()
                .plan(ToolkitVersion::new(13, 4), &[], None)
                .unwrap(),
            plan
        );
    }

    #[test]
    fn one_capability_for_consumers_that_take_one() {
        let declared = plan("8.0 9.0a 12.0+PTX");
        let single = |gpu: Option<(u32, u32)>| {
            let gpu = gpu.map(|(major, minor)| Capability::new(major, minor));
            declared.single_for(gpu, TOOLKIT).unwrap()
        };
        for (gpu, expected) in [((9, 0), "90"), ((8, 6), "80"), ((12, 1), "120")] {
            let single = single(Some(gpu));
            assert_eq!((&*single.compute_cap(), single.warning), (expected, None));
        }
        assert_eq!(
            single(None).warning.unwrap(),
            "CUDA_COMPUTE_CAP takes one capability: it gets the lowest declared, 8.0, and not 9.0a, 12.0; \
             set `single-capability` in [package.metadata.cuda] to choose"
        );
        let other = single(Some((7, 5)));
        assert_eq!(other.compute_cap(), "80");
        let warning = other.warning.unwrap();
        assert!(warning.contains("none runs on the 7.5 GPU"), "{warning}");
        let only = plan("8.0+PTX").single_for(Some(Capability::new(9, 0)), TOOLKIT);
        assert_eq!(only.unwrap().warning, None);
        let ptx = plan("compute_90").single_for(None, TOOLKIT).unwrap();
        assert_eq!(ptx.compute_cap(), "90");
        assert!(Plan::default().single_for(None, TOOLKIT).is_none());
    }

    /// The single capability is one whose code runs, by the rule for a whole plan.
    #[test]
    fn the_single_capability_runs_on_the_gpu() {
        let cuda_12 = ToolkitVersion::new(12, 9);
        for (declared, gpu, toolkit, expected) in [
            // 10.1 is a GPU of Jetson Thor, outside the family of 10.0.
            ("9.0 10.0f", (10, 1), cuda_12, None),
            ("9.0 10.0f", (10, 3), cuda_12, Some("100")),
            ("10.0a 10.3f", (10, 0), cuda_12, Some("100")),
            ("10.0a 10.3f", (10, 7), cuda_12, Some("103")),
            ("10.0a 12.0", (10, 3), TOOLKIT, None),
            ("10.0f 12.0f", (12, 1), TOOLKIT, Some("120")),
            // Before CUDA 13, code for other GPUs does not run on Jetson Orin.
            ("8.0 8.6", (8, 7), cuda_12, None),
            ("8.0 8.6", (8, 7), TOOLKIT, Some("86")),
            ("compute_80 compute_90", (12, 0), TOOLKIT, Some("90")),
            ("compute_80 compute_90", (8, 6), TOOLKIT, Some("80")),
            ("compute_80 compute_90", (7, 5), TOOLKIT, None),
        ] {
            let declared = Declared::parse([declared]).unwrap();
            let plan = declared.plan(toolkit, &[], None).unwrap();
            let gpu = Capability::new(gpu.0, gpu.1);
            let single = plan.single_for(Some(gpu), toolkit).unwrap();
            let chosen = single.warning.is_none().then(|| single.compute_cap());
            assert_eq!(chosen.as_deref(), expected, "{plan} on {gpu}");
        }
    }
}
