//! The dependencies between components, and their transitive closure.
//!
//! Link edges are the `NEEDED` entries (`readelf -d`) of the libraries in NVIDIA's wheels of CUDA 11.8, 12.1, 12.9 and
//! 13.4. Load edges are for libraries that are not `NEEDED`, but are opened by name at run time. The names were found
//! in the data of the library that opens them (`strings`). Such an edge is [`EdgeKind::Load`] if the package of the
//! opening library requires the package of the opened library, and [`EdgeKind::LoadIfPresent`] otherwise. An edge
//! between files of one component (`libcublas` → `libcublasLt`, NVRTC → its builtins) is not listed, because a
//! component counts as found only if it is complete.

use super::table::Component;
use crate::list::sort_by_key;

/// How a component A needs a component B. The kinds are ordered from the strongest to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    /// A library of A links a library of B (`NEEDED`). A program that links A does not start without B.
    Link,
    /// A library of A opens a library of B while the program runs (`dlopen`). Some functions of A fail without B.
    Load,
    /// Like `Load`, but A also works without B.
    LoadIfPresent,
    /// The programs of A run programs of B or read headers of B. B is not needed at run time.
    Build,
}

impl EdgeKind {
    /// Whether the edge matters when a program runs.
    pub fn is_run_time(self) -> bool {
        self != Self::Build
    }
}

/// Component A, how it needs B, component B, and the first and the last CUDA major for which the edge holds.
type Edge = (Component, EdgeKind, Component, (u32, u32));

/// The last major of an edge that also holds for every later major.
const NO_END: u32 = u32::MAX;

static EDGES: &[Edge] = {
    use Component::*;
    use EdgeKind::*;
    &[
        (Nvcc, Build, Nvvm, (11, NO_END)),
        (Nvcc, Build, Crt, (11, NO_END)),
        (Nvcc, Build, Cudart, (11, NO_END)),
        (Nvcc, Build, Cccl, (11, NO_END)),
        // libcublasLt opens NVRTC. cuBLAS's wheels for CUDA 11 and for 12 up to 12.9.1 do not require NVRTC's wheel.
        (Cublas, LoadIfPresent, Nvrtc, (11, 12)),
        (Cublas, Load, Nvrtc, (13, NO_END)),
        // cuFFT needs nvJitLink for callbacks, which it links while the program runs.
        (Cufft, Load, Nvjitlink, (12, NO_END)),
        (Cufft, LoadIfPresent, Nvrtc, (12, NO_END)),
        (Cusolver, Link, Cublas, (11, NO_END)),
        // cuSPARSE became `NEEDED` in a release after 12.1, and not later than 12.9.
        (Cusolver, Link, Cusparse, (12, NO_END)),
        (Cusolver, Link, Nvjitlink, (12, NO_END)),
        // cuSPARSE links nvJitLink in CUDA 12, and opens it by name in CUDA 13.
        (Cusparse, Link, Nvjitlink, (12, 12)),
        (Cusparse, Load, Nvjitlink, (13, NO_END)),
        // The package of tileiras requires nvJitLink's of any newer release, too.
        (Tileiras, Load, Nvjitlink, (13, NO_END)),
        (Cudnn, Load, Cublas, (11, NO_END)),
        (Cudnn, Load, Nvrtc, (11, NO_END)),
        (Cutensor, Link, Cublas, (11, NO_END)),
        (Cudss, Link, Cublas, (12, NO_END)),
        (Cudss, Load, Nvrtc, (12, NO_END)),
        (Cublasmp, Link, Cublas, (12, NO_END)),
        (Cublasmp, Link, Nccl, (12, NO_END)),
        (Cusolvermp, Link, Cusolver, (12, NO_END)),
        (Cusolvermp, Link, Cublasmp, (12, NO_END)),
        (Libmathdx, Link, Nvrtc, (12, NO_END)),
    ]
};

/// The components that `component` needs directly, in the order of the component table.
pub fn edges(component: Component, major: u32) -> Vec<(Component, EdgeKind)> {
    let edges = EDGES.iter().filter(|(from, _, _, (first, last))| {
        *from == component && (*first..=*last).contains(&major)
    });
    let mut list: Vec<_> = edges.map(|(_, kind, to, _)| (*to, *kind)).collect();
    sort_by_key(&mut list, |edge| *edge);
    list
}

/// All direct and indirect dependencies of `components`, without `components` themselves, in the
/// order of the component table.
///
/// The weakest edge of a path gives the path its kind. For example, if A loads B and B links C, A needs C with the
/// kind `Load`. If several paths lead to a component, the path with the strongest kind counts.
///
/// ```
/// use cuda_find_core::component::Component;
/// use cuda_find_core::component::{EdgeKind, closure};
/// let needed = closure(&[Component::Cusolver], 13);
/// assert_eq!(needed, [
///     (Component::Nvrtc, EdgeKind::Load),
///     (Component::Nvjitlink, EdgeKind::Link),
///     (Component::Cublas, EdgeKind::Link),
///     (Component::Cusparse, EdgeKind::Link),
/// ]);
/// ```
pub fn closure(components: &[Component], major: u32) -> Vec<(Component, EdgeKind)> {
    let mut reached: Vec<(Component, EdgeKind)> = Vec::new();
    let mut open: Vec<_> = components.iter().map(|c| (*c, EdgeKind::Link)).collect();
    while let Some((from, way)) = open.pop() {
        for (to, kind) in edges(from, major) {
            let kind = kind.max(way);
            match reached.iter_mut().find(|(component, _)| *component == to) {
                Some((_, known)) if *known <= kind => continue,
                Some((_, known)) => *known = kind,
                None => reached.push((to, kind)),
            }
            open.push((to, kind));
        }
    }
    reached.retain(|(component, _)| !components.contains(component));
    sort_by_key(&mut reached, |edge| *edge);
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(components: &[Component], major: u32) -> String {
        let shown: Vec<String> = closure(components, major)
            .iter()
            .map(|(c, kind)| format!("{c} {kind:?}"))
            .collect();
        shown.join(", ")
    }

    #[test]
    fn closures_have_the_expected_kinds() {
        use Component::{Cudart, Cudnn, Cufft, Cusolver, Cusparse, Nvcc, Nvrtc};
        for (components, major, expected) in [
            (&[Cudart][..], 13, ""),
            (&[Nvrtc], 13, ""),
            (&[Cufft], 11, ""),
            (&[Cufft], 12, "nvrtc LoadIfPresent, nvjitlink Load"),
            (&[Cusolver], 11, "nvrtc LoadIfPresent, cublas Link"),
            (
                &[Cusolver],
                12,
                "nvrtc LoadIfPresent, nvjitlink Link, cublas Link, cusparse Link",
            ),
            // The link edge of cuSOLVER is closer than the load edge through cuSPARSE.
            (
                &[Cusolver, Cusparse],
                13,
                "nvrtc Load, nvjitlink Link, cublas Link",
            ),
            (&[Cudnn], 12, "nvrtc Load, cublas Load"),
            (
                &[Nvcc],
                13,
                "cudart Build, nvvm Build, crt Build, cccl Build",
            ),
        ] {
            assert_eq!(names(components, major), expected, "{components:?} {major}");
        }
    }

    #[test]
    fn one_edge_at_most_from_one_to_another() {
        for major in 11..=14 {
            for component in Component::all() {
                let mut targets: Vec<Component> =
                    edges(component, major).iter().map(|(to, _)| *to).collect();
                let all = targets.len();
                targets.dedup();
                assert_eq!(targets.len(), all, "{component} {major}");
            }
        }
    }

    #[test]
    fn no_component_needs_itself() {
        for major in 11..=14 {
            for component in Component::all() {
                let needed = closure(&[component], major);
                assert!(needed.iter().all(|(other, _)| *other != component));
                // Nor does what it needs.
                for (other, _) in needed {
                    assert!(
                        closure(&[other], major)
                            .iter()
                            .all(|(c, _)| *c != component),
                        "{component} {other}"
                    );
                }
            }
        }
    }
}
