//! Products against the capabilities that are built for.

use super::toolkit::name;
use crate::capability::{Capability, Plan};
use crate::component::Component;
use crate::error::Conflict;
use crate::select::Chosen;
use crate::version::Version;

/// The oldest capability that a cuDNN release has code for, newest release first: what
/// `libcudnn_ops` (`libcudnn_ops_infer` before 9) of the wheels 8.5.0, 8.7.0, 8.8.0, 8.9.7, 9.0.0,
/// 9.10.2, 9.11.0, 9.12.0 and 9.28.0 holds, for CUDA 11, 12 and 13 alike. That other libraries of
/// 9.11 still have code for 5.0 helps nobody: every program goes through this one. Newer
/// capabilities need no rule: they get PTX.
const CUDNN_OLDEST: &[((u64, u64), Capability)] = &[
    ((9, 11), Capability::new(7, 5)),
    ((8, 8), Capability::new(5, 0)),
    ((8, 5), Capability::new(3, 5)),
];

/// Chosen products that have no code for a capability of the plan.
///
/// A capability that is there as PTX alone counts as well: the device that loads that PTX may be
/// of just this capability.
#[must_use]
pub fn capability_conflicts(chosen: &[Chosen], plan: &Plan) -> Vec<Conflict> {
    let mut capabilities: Vec<Capability> = plan.real.iter().chain(&plan.ptx).copied().collect();
    capabilities.sort_unstable();
    capabilities.dedup();
    let products = chosen
        .iter()
        .filter(|c| c.found.component == Component::Cudnn);
    products
        .filter_map(|product| too_old(product, &capabilities))
        .collect()
}

fn too_old(cudnn: &Chosen, capabilities: &[Capability]) -> Option<Conflict> {
    let (since, oldest) = cudnn_oldest(cudnn.found.version.as_ref()?)?;
    let without: Vec<String> = capabilities
        .iter()
        .filter(|c| c.base() < oldest)
        .map(ToString::to_string)
        .collect();
    let older = CUDNN_OLDEST
        .iter()
        .find(|(release, capability)| *release < since && *capability < oldest);
    let stay = older
        .map(|_| format!(", or use cuDNN before {}.{}", since.0, since.1))
        .unwrap_or_default();
    (!without.is_empty()).then(|| Conflict {
        reason: format!(
            "{} has no code below capability {oldest} (since cuDNN {}.{}), and this builds for {}",
            name(cudnn),
            since.0,
            since.1,
            without.join(", ")
        ),
        fix: format!("remove {} from the capabilities{stay}", without.join(", ")),
    })
}

fn cudnn_oldest(version: &Version) -> Option<((u64, u64), Capability)> {
    let release = (version.part(0), version.part(1));
    CUDNN_OLDEST
        .iter()
        .find(|(since, _)| release >= *since)
        .copied()
}
