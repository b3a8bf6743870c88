//! Products against the capabilities that are built for.

use super::toolkit::name;
use crate::capability::{Capability, Plan};
use crate::error::Conflict;
use crate::select::Chosen;

/// Chosen products that have no code for a capability of the plan.
///
/// A capability that is there as PTX alone counts as well: the device that loads that PTX may be
/// of just this capability.
#[must_use]
pub fn capability_conflicts(chosen: &[Chosen], plan: &Plan) -> Vec<Conflict> {
    let mut capabilities: Vec<Capability> = plan.real.iter().chain(&plan.ptx).copied().collect();
    capabilities.sort_unstable();
    capabilities.dedup();
    chosen
        .iter()
        .filter_map(|product| too_old(product, &capabilities))
        .collect()
}

fn too_old(product: &Chosen, capabilities: &[Capability]) -> Option<Conflict> {
    let facts = product.found.component.facts();
    let version = product.found.version.as_ref()?;
    let release = (version.part(0), version.part(1));
    let mut known = facts.oldest_capabilities.iter().copied();
    let (since, oldest) = known.find(|(since, _)| release >= *since)?;
    let without: Vec<String> = capabilities
        .iter()
        .filter(|c| c.base() < oldest)
        .map(ToString::to_string)
        .collect();
    let older = facts
        .oldest_capabilities
        .iter()
        .find(|(release, capability)| *release < since && *capability < oldest);
    let stay = older
        .map(|_| format!(", or use {} before {}.{}", facts.id, since.0, since.1))
        .unwrap_or_default();
    (!without.is_empty()).then(|| Conflict {
        reason: format!(
            "{} has no code below capability {oldest} (since {}.{}), and this builds for {}",
            name(product),
            since.0,
            since.1,
            without.join(", ")
        ),
        fix: format!("remove {} from the capabilities{stay}", without.join(", ")),
    })
}
