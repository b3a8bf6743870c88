//! Variables of the `cc` crate, which this crate reads as `cc` does.

use cuda_find_core::env::Env;

/// The variables from which the `cc` crate reads a setting. The first that is set counts:
/// `CXX_<triple>`, the same with underscores, `HOST_CXX` or `TARGET_CXX`, `CXX`.
pub(crate) fn names_for_target(name: &str, env: &Env, triple: &str) -> [String; 4] {
    // Only build scripts have `HOST`.
    let is_host = match env.peek("HOST") {
        Some(host) => host == triple,
        None => triple.split('-').next() == Some(std::env::consts::ARCH),
    };
    let kind = if is_host { "HOST" } else { "TARGET" };
    [
        format!("{name}_{triple}"),
        format!("{name}_{}", triple.replace(['-', '.'], "_")),
        format!("{kind}_{name}"),
        name.to_owned(),
    ]
}
