//! What a crate knows at run time about the code it was built with.

use std::fmt::Write as _;

use super::{Capability, Plan, Suffix, all, ptx_runs_on, sass_runs_on};
use crate::version::ToolkitVersion;

/// The part that is the same for every plan.
const FIXED: &str = include_str!("runtime_source.rs.in");

/// Rust source for a build script to write to `OUT_DIR` and the crate to `include!` in a module of
/// its own. It needs `std` and no crate, in edition 2018 or later.
///
/// `cudart` is `static`, `shared` or `none`. The source defines
///
/// - `CUDA_VERSION: (u32, u32)`, `CUDART: &str`;
/// - `CAPABILITIES` (SASS) and `PTX`, each `&[(u32, u32, Option<char>)]`, and `CAPABILITY_LIST`,
///   the same as text: `8.0, 9.0a, 12.0+PTX`;
/// - `enum Support { Native, Jit, None }` and `support(major, minor)`, what there is for a device;
/// - `check_device(major, minor) -> Result<Support, String>` with the message to show;
/// - `warn_if_jit(major, minor)`, which says once on stderr that the driver has to compile first.
///
/// ```
/// use cuda_build::internal::capability::generated_source;
/// use cuda_build::internal::Declared;
/// use cuda_build::ToolkitVersion;
/// let toolkit = ToolkitVersion::new(13, 4);
/// let plan = Declared::parse(["7.5+PTX"])?.plan(toolkit, &[], None)?;
/// let source = generated_source(&plan, toolkit, "static");
/// assert!(source.contains(r#"CAPABILITY_LIST: &str = "7.5+PTX""#));
/// # Ok::<(), cuda_build::Error>(())
/// ```
#[must_use]
pub fn generated_source(plan: &Plan, toolkit: ToolkitVersion, cudart: &str) -> String {
    let mut source = String::from("// Written by cuda-build.\n");
    let mut constant = |doc: &str, name: &str, kind: &str, value: &str| {
        // Writing to a String can't fail.
        let _ = write!(
            source,
            "\n/// {doc}\n#[allow(dead_code, unreachable_pub, clippy::type_complexity)]\npub const {name}: {kind} = {value};\n"
        );
    };
    const CODES: &str = "&[(u32, u32, ::std::option::Option<char>)]";
    constant(
        "The toolkit that this was built with: major, minor.",
        "CUDA_VERSION",
        "(u32, u32)",
        &format!("({}, {})", toolkit.major, toolkit.minor),
    );
    constant(
        "How the CUDA runtime is linked: `static`, `shared` or `none`.",
        "CUDART",
        "&str",
        &quoted(cudart),
    );
    constant(
        "What there is machine code for: major, minor, suffix.",
        "CAPABILITIES",
        CODES,
        &codes(&plan.real),
    );
    constant(
        "What there is PTX for: major, minor, suffix.",
        "PTX",
        CODES,
        &codes(&plan.ptx),
    );
    constant(
        "All of it, as text.",
        "CAPABILITY_LIST",
        "&str",
        &quoted(&plan.to_string()),
    );
    constant(
        "Code and device of one major that do not go together although the device is newer.",
        "NOT_NATIVE",
        "&[((u32, u32, ::std::option::Option<char>), (u32, u32))]",
        &exceptions(plan, toolkit),
    );
    source.push('\n');
    source.push_str(FIXED);
    source
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_default())
}

fn code(capability: Capability) -> String {
    let suffix = match capability.suffix.map(Suffix::letter) {
        Some(letter) => format!("::std::option::Option::Some('{letter}')"),
        None => "::std::option::Option::None".to_owned(),
    };
    format!("({}, {}, {suffix})", capability.major, capability.minor)
}

fn codes(list: &[Capability]) -> String {
    let items: Vec<String> = list.iter().map(|&c| code(c)).collect();
    format!("&[{}]", items.join(", "))
}

/// Where the rules in [`super::rules`] refuse a device that the plain rule (same major, minor not
/// smaller) admits. The written source holds the plain rule and this list.
fn exceptions(plan: &Plan, toolkit: ToolkitVersion) -> String {
    let mut targets: Vec<Capability> = plan.real.clone();
    targets.extend(plan.ptx.iter().filter(|c| c.suffix == Some(Suffix::Family)));
    targets.sort_unstable();
    targets.dedup();
    let mut items = Vec::new();
    for target in targets
        .into_iter()
        .filter(|c| c.suffix != Some(Suffix::ArchSpecific))
    {
        for device in all().map(|facts| facts.capability) {
            let admitted = target.major == device.major && target.minor <= device.minor;
            if admitted && !sass_runs_on(target, device, toolkit) {
                items.push(format!(
                    "({}, ({}, {}))",
                    code(target),
                    device.major,
                    device.minor
                ));
            }
        }
    }
    format!("&[{}]", items.join(", "))
}

impl Plan {
    /// Whether a device runs this plan's SASS, or at least its PTX: what the written source
    /// answers at run time.
    #[must_use]
    pub fn runs_on(&self, device: Capability, toolkit: ToolkitVersion) -> Support {
        if self
            .real
            .iter()
            .any(|&code| sass_runs_on(code, device, toolkit))
        {
            Support::Native
        } else if self
            .ptx
            .iter()
            .any(|&code| ptx_runs_on(code, device, toolkit))
        {
            Support::Jit
        } else {
            Support::None
        }
    }
}

/// What a plan has for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// SASS.
    Native,
    /// PTX alone, which the driver compiles.
    Jit,
    /// Nothing that can run.
    None,
}

#[cfg(test)]
mod tests;
