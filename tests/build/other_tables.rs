//! Where other public tables say something else than the toolkits: what ours must keep saying.

use cuda_build::internal::Declared;
use cuda_build::internal::capability::{facts, supported};
use cuda_build::internal::release::{self, was_released};
use cuda_build::{Capability, ToolkitVersion};

fn v(text: &str) -> ToolkitVersion {
    text.parse().unwrap()
}

fn c(text: &str) -> Capability {
    text.parse().unwrap()
}

/// The first toolkit that builds for it, and that none before does.
fn begins(capability: &str, at: &str) {
    let capability = c(capability);
    let since = facts(capability).unwrap().since(capability.suffix);
    assert_eq!(since, Some(v(at)), "{capability}");
}

/// The last toolkit that builds for it, and the next.
fn ends(capability: &str, last: &str, first_without: &str) {
    assert!(
        supported(v(last)).contains(&c(capability)),
        "{capability} with {last}"
    );
    assert!(
        !supported(v(first_without)).contains(&c(capability)),
        "{capability} with {first_without}"
    );
}

#[test]
fn nixpkgs() {
    // It says 11.2 for both.
    begins("8.0", "11.0");
    begins("8.6", "11.1");
    // It says 12.7, which never was.
    begins("10.0", "12.8");
    begins("10.1", "12.8");
    assert!(!was_released(v("12.7")));
    // Its last toolkits are documented as excluded and read as included.
    ends("10.1f", "12.9", "13.0");
    // It stops at 12.2, by policy.
    ends("7.2", "12.9", "13.0");
    // It has none of these.
    for (capability, toolkit) in [
        ("5.3", "12.9"),
        ("6.2", "12.9"),
        ("8.8", "13.0"),
        ("10.7", "13.4"),
    ] {
        assert!(
            supported(v(toolkit)).contains(&c(capability)),
            "{capability}"
        );
    }
}

#[test]
fn meson() {
    // It says 11.5, 12.9 and 10.0, and has no 10.7.
    begins("8.7", "11.4");
    begins("12.0a", "12.8");
    begins("7.2", "9.0");
    begins("10.7", "13.4");
}

#[test]
fn spack() {
    // It says 12.0, and no end of 7.2.
    begins("9.0", "11.8");
    ends("7.2", "12.9", "13.0");
    // It has neither of these.
    begins("8.8", "13.0");
    begins("10.7", "13.4");
}

#[test]
fn pytorch() {
    // It takes gcc 13 for 12.3, whose header refuses it.
    assert_eq!(release::facts(v("12.3")).unwrap().gcc_max, 12);
    assert_eq!(release::facts(v("12.4")).unwrap().gcc_max, 13);
    // It has no family variant, no 10.1, no 10.7.
    for capability in ["10.0f", "10.3f", "12.0f", "12.1f"] {
        begins(capability, "12.9");
    }
    begins("10.1", "12.8");
}

#[test]
fn cmake() {
    // Its list for 13.x has no 107.
    assert!(supported(v("13.4")).contains(&c("10.7")));
    // Its `all` keeps PTX of the last in the list, 12.1; nvcc of the first of the newest major.
    let plan = Declared::parse(["all"])
        .unwrap()
        .plan(v("13.5"), &[], None)
        .unwrap();
    assert_eq!(plan.ptx, [c("12.0")]);
}

#[test]
fn rules_ml_toolchain() {
    // It refuses the suffix.
    assert!(supported(v("12.9")).contains(&c("10.0f")));
    assert!(!supported(v("12.8")).contains(&c("10.0f")));
}
