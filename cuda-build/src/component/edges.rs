//! What a component needs besides itself, and the closure over that.
//!
//! Link edges are the `NEEDED` entries (`readelf -d`) of the libraries in NVIDIA's wheels of
//! CUDA 11.8, 12.1, 12.9 and 13.4. Load edges are invisible there: they are file names in the
//! libraries' data that are opened while the program runs (`strings`), and
//! [`EdgeKind::Load`] where the package that carries the library requires the other one's.
//! An edge between files of one component (`libcublas` → `libcublasLt`, NVRTC → its builtins)
//! is no edge here: a component counts as found only when it is whole.

use super::Component;

/// How one component needs another, from the closest to the loosest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// Its library links the other's (`NEEDED`): without it no program starts.
    Link,
    /// Its library opens the other's while the program runs (`dlopen`), and cannot do all of its work without it.
    Load,
    /// As `Load`, but it works without the other.
    LoadIfThere,
    /// Its programs run the other's programs or read its headers. Not needed at run time.
    Build,
}

impl EdgeKind {
    /// Whether the edge matters when a program runs.
    #[must_use]
    pub fn is_run_time(self) -> bool {
        self != Self::Build
    }
}

/// One component needs another, in some CUDA majors.
struct Edge {
    from: Component,
    to: Component,
    kind: EdgeKind,
    /// The first major it holds in, and the last.
    majors: (u32, u32),
}

const fn edge(from: Component, kind: EdgeKind, to: Component, majors: (u32, u32)) -> Edge {
    Edge {
        from,
        to,
        kind,
        majors,
    }
}

/// Also for every later major.
const ON: u32 = u32::MAX;

static EDGES: &[Edge] = {
    use Component::*;
    use EdgeKind::*;
    &[
        edge(Nvcc, Build, Nvvm, (11, ON)),
        edge(Nvcc, Build, Crt, (11, ON)),
        edge(Nvcc, Build, Cudart, (11, ON)),
        edge(Nvcc, Build, Cccl, (11, ON)),
        // libcublasLt. The wheels of 11 and 12 up to 12.9.1 do not require NVRTC's.
        edge(Cublas, LoadIfThere, Nvrtc, (11, 12)),
        edge(Cublas, Load, Nvrtc, (13, ON)),
        // For callbacks that are linked while the program runs.
        edge(Cufft, Load, Nvjitlink, (12, ON)),
        edge(Cufft, LoadIfThere, Nvrtc, (12, ON)),
        edge(Cusolver, Link, Cublas, (11, ON)),
        // From 12.1 to 12.9 it came into `NEEDED`.
        edge(Cusolver, Link, Cusparse, (12, ON)),
        edge(Cusolver, Link, Nvjitlink, (12, ON)),
        // `NEEDED` in 12, opened by name in 13.
        edge(Cusparse, Link, Nvjitlink, (12, 12)),
        edge(Cusparse, Load, Nvjitlink, (13, ON)),
        edge(Cudnn, Load, Cublas, (11, ON)),
        edge(Cudnn, Load, Nvrtc, (11, ON)),
        edge(Cutensor, Link, Cublas, (11, ON)),
        edge(Cudss, Link, Cublas, (12, ON)),
        edge(Cudss, Load, Nvrtc, (12, ON)),
    ]
};

/// What `component` needs by itself, in the order of the component table.
///
/// ```
/// use cuda_build::Component;
/// use cuda_build::internal::component::{EdgeKind, edges};
/// // A library that `readelf` shows in CUDA 12, and that is opened by name in 13.
/// assert_eq!(edges(Component::Cusparse, 12), [(Component::Nvjitlink, EdgeKind::Link)]);
/// assert_eq!(edges(Component::Cusparse, 13), [(Component::Nvjitlink, EdgeKind::Load)]);
/// assert!(edges(Component::Cusparse, 11).is_empty());
/// ```
#[must_use]
pub fn edges(component: Component, major: u32) -> Vec<(Component, EdgeKind)> {
    let holds =
        |edge: &&Edge| edge.from == component && (edge.majors.0..=edge.majors.1).contains(&major);
    let mut list: Vec<_> = EDGES
        .iter()
        .filter(holds)
        .map(|edge| (edge.to, edge.kind))
        .collect();
    list.sort_unstable();
    list
}

/// Everything that `components` need, directly and through others, in the order of the component
/// table; they themselves are not in it.
///
/// The kind is that of the loosest edge on the way, and of the closest way where there are
/// several: what a linked library opens by name is opened by name, whatever it then links.
///
/// ```
/// use cuda_build::Component;
/// use cuda_build::internal::component::{EdgeKind, closure};
/// let needed = closure(&[Component::Cusolver], 13);
/// assert_eq!(needed, [
///     (Component::Nvrtc, EdgeKind::Load),
///     (Component::Nvjitlink, EdgeKind::Link),
///     (Component::Cublas, EdgeKind::Link),
///     (Component::Cusparse, EdgeKind::Link),
/// ]);
/// ```
#[must_use]
pub fn closure(components: &[Component], major: u32) -> Vec<(Component, EdgeKind)> {
    let mut reached: Vec<(Component, EdgeKind)> = Vec::new();
    let mut open: Vec<(Component, EdgeKind)> =
        components.iter().map(|c| (*c, EdgeKind::Link)).collect();
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
    reached.sort_unstable();
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
    fn closures() {
        use Component::{Cudart, Cudnn, Cufft, Cusolver, Cusparse, Nvcc, Nvrtc};
        for (components, major, expected) in [
            (&[Cudart][..], 13, ""),
            (&[Nvrtc], 13, ""),
            (&[Cufft], 11, ""),
            (&[Cufft], 12, "nvrtc LoadIfThere, nvjitlink Load"),
            (&[Cusolver], 11, "nvrtc LoadIfThere, cublas Link"),
            (
                &[Cusolver],
                12,
                "nvrtc LoadIfThere, nvjitlink Link, cublas Link, cusparse Link",
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
                // Nothing below needs it back: the closure of what it needs leaves it out.
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
