//! Generates Rust source that a crate includes, to check at run time whether a device can run the crate's code.

use cuda_find_core::capability::{Capability, Plan, Suffix, all, sass_runs_on};
use cuda_find_core::list::{joined, sorted_set};
use cuda_find_core::version::ToolkitVersion;

/// The template of the source. It has a placeholder such as `@PTX@` for each value that depends on the build.
const SOURCE: &str = include_str!("runtime_source.rs.in");

/// Rust source that the build script writes to `OUT_DIR`, and that the crate includes with `include!` in a separate
/// module. The source needs edition 2018 or later, and no crate but `core`.
///
/// SASS is machine code: `Plan::real` here, `CAPABILITIES` in the source. A device on which it runs has
/// `Support::Native`.
///
/// `cudart`, the way in which the CUDA runtime is linked, is `static`, `shared` or `none`. The source defines
///
/// - `CUDA_VERSION: (u32, u32)`, `CUDART: &str`;
/// - `CAPABILITIES` and `PTX`, each `&[Capability]`, and `CAPABILITY_LIST`, which has both lists as text:
///   `8.0, 9.0a, 12.0+PTX`;
/// - `check_device(major, minor) -> Result<Support, DeviceError>`, with `Support::Native` or `Support::Jit`
///   (PTX that the driver compiles). The text of the error is a message for the user.
///
/// `modules` has the name of each module, and the capabilities in its file. `None` gives the source of a skipped build,
/// whose `check_device` always returns an error.
///
/// ```
/// use cuda_build::runtime::generated_source;
/// use cuda_find_core::capability::Declared;
/// use cuda_build::ToolkitVersion;
/// let toolkit = ToolkitVersion::new(13, 4);
/// let plan = Declared::parse(["7.5+PTX"])?.plan(toolkit, &[], None)?;
/// let source = generated_source(&plan, toolkit, "static", Some(&[]));
/// assert!(source.contains(r#"CAPABILITY_LIST: &str = "7.5+PTX""#));
/// # Ok::<(), cuda_build::Error>(())
/// ```
pub fn generated_source(
    plan: &Plan,
    toolkit: ToolkitVersion,
    cudart: &str,
    modules: Option<&[(&str, Plan)]>,
) -> String {
    let (mut all, mut code_of_modules) = (plan.all(), Vec::new());
    for (name, plan) in modules.unwrap_or_default() {
        let (sass, ptx) = (codes(&plan.real), codes(&plan.ptx));
        code_of_modules.push(format!(
            "({name:?}, ({sass}, {ptx}, {:?}))",
            plan.to_string()
        ));
        all.extend(plan.all());
    }
    let version = (toolkit.major, toolkit.minor);
    SOURCE
        .replace("@SKIPPED@", &modules.is_none().to_string())
        .replace("@MODULES@", &array(code_of_modules))
        .replace("@CUDA_VERSION@", &format!("{version:?}"))
        .replace("@CUDART@", &format!("{cudart:?}"))
        .replace("@CAPABILITIES@", &codes(&plan.real))
        .replace("@PTX@", &codes(&plan.ptx))
        .replace("@CAPABILITY_LIST@", &format!("{:?}", plan.to_string()))
        .replace("@NOT_NATIVE@", &exceptions(&sorted_set(all), toolkit))
}

fn code(capability: Capability) -> String {
    let suffix = match capability.suffix.map(Suffix::letter) {
        Some(letter) => format!("::core::option::Option::Some('{letter}')"),
        None => "::core::option::Option::None".to_owned(),
    };
    let (major, minor) = (capability.major, capability.minor);
    format!("Capability {{ major: {major}, minor: {minor}, suffix: {suffix} }}")
}

fn codes(list: &[Capability]) -> String {
    array(list.iter().copied().map(code))
}

fn array(items: impl IntoIterator<Item = String>) -> String {
    format!("&[{}]", joined(items, ", "))
}

/// Pairs of code and device that `check_device` would wrongly accept, because it accepts code for a device of the same
/// major if the device's minor is not smaller. [`sass_runs_on`] has the facts.
fn exceptions(targets: &[Capability], toolkit: ToolkitVersion) -> String {
    let mut items = Vec::new();
    for &target in targets {
        for device in all().map(|facts| facts.capability) {
            let is_accepted = target.suffix != Some(Suffix::ArchSpecific)
                && target.major == device.major
                && target.minor <= device.minor;
            if is_accepted && !sass_runs_on(target, device, toolkit) {
                let (code, major, minor) = (code(target), device.major, device.minor);
                items.push(format!("({code}, ({major}, {minor}))"));
            }
        }
    }
    array(items)
}

#[cfg(test)]
mod tests;
