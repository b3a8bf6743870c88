//! Small replacements for the C and C++ headers that device code usually includes.
//!
//! NVRTC has the math functions, `printf`, `malloc`, `memcpy`, `memset` and `assert` built in, and
//! no system headers at all. CCCL's `cuda/std` headers would work, but would take most of
//! the compile time of a small kernel.
//!
//! The shims are passed to NVRTC as headers in memory, which NVRTC uses instead of any file of the same name. A
//! shim is therefore left out if the user has a header of the same name (`except`).
//!
//! Some shims define the same macros as a header of CCCL. If the source includes CCCL, these shims include
//! that header first (`beside_cccl`). The tests compile a sample of toolkit and CCCL headers together with the
//! shims, with NVRTC 11.8, 12.9 and 13.4.

use std::sync::OnceLock;

use crate::hash::Fnv;
use crate::includes::Scan;

/// For each shim: its name, the CCCL header that defines the same macros (if there is one), and its text.
const SHIMS: [(&str, Option<&str>, &str); 19] = [
    ("assert.h", None, include_str!("shims/assert.h")),
    ("cassert", None, include_str!("shims/cassert")),
    ("cfloat", None, include_str!("shims/cfloat")),
    ("climits", None, include_str!("shims/climits")),
    ("cmath", None, include_str!("shims/cmath")),
    ("cstddef", None, include_str!("shims/cstddef")),
    ("cstdint", None, include_str!("shims/cstdint")),
    ("cstdio", None, include_str!("shims/cstdio")),
    ("cstdlib", None, include_str!("shims/cstdlib")),
    ("cstring", None, include_str!("shims/cstring")),
    (
        "float.h",
        Some("cuda/std/cfloat"),
        include_str!("shims/float.h"),
    ),
    (
        "limits.h",
        Some("cuda/std/climits"),
        include_str!("shims/limits.h"),
    ),
    (
        "math.h",
        Some("cuda/std/cmath"),
        include_str!("shims/math.h"),
    ),
    ("stdbool.h", None, include_str!("shims/stdbool.h")),
    (
        "stddef.h",
        Some("cuda/std/cstddef"),
        include_str!("shims/stddef.h"),
    ),
    (
        "stdint.h",
        Some("cuda/std/cstdint"),
        include_str!("shims/stdint.h"),
    ),
    ("stdio.h", None, include_str!("shims/stdio.h")),
    ("stdlib.h", None, include_str!("shims/stdlib.h")),
    ("string.h", None, include_str!("shims/string.h")),
];

/// The shims' names, as an `#include` spells them.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIMS.iter().map(|(name, _, _)| *name)
}

/// The shims as [`Program::headers`](super::Program::headers), without those in `except`.
/// Set `beside_cccl` for a source that includes CCCL
/// ([`Scan::includes_cccl`](crate::includes::Scan::includes_cccl)); CCCL must then be among the include directories.
///
/// ```
/// use cuda_build::internal::nvrtc::shims;
/// let headers = shims::headers(&["math.h".to_owned()], false);
/// assert!(headers.iter().any(|(name, _)| name == "stdint.h"));
/// assert!(!headers.iter().any(|(name, _)| name == "math.h"));
/// ```
#[must_use]
pub fn headers(except: &[String], beside_cccl: bool) -> Vec<(String, String)> {
    let kept = SHIMS
        .iter()
        .filter(|(name, _, _)| !except.iter().any(|own| own == name));
    kept.map(|(name, counterpart, text)| {
        let lead = match counterpart {
            Some(header) if beside_cccl => format!("#include <{header}>\n"),
            _ => String::new(),
        };
        ((*name).to_owned(), lead + text)
    })
    .collect()
}

/// A digest of all shims. It is part of the key of every step that uses them.
pub(crate) fn identity() -> String {
    static IDENTITY: OnceLock<String> = OnceLock::new();
    let digest = || {
        let mut digest = Fnv::default();
        for (name, counterpart, text) in SHIMS {
            [name, counterpart.unwrap_or_default(), text]
                .iter()
                .for_each(|part| digest.field(part.as_bytes()));
        }
        digest.hex()
    };
    IDENTITY.get_or_init(digest).clone()
}

/// The shims for a scanned source. A shim is left out if the user or the toolkit has a header of the same
/// name. If the source includes CCCL, the shims include CCCL's headers.
#[must_use]
pub fn for_scan(scan: &Scan) -> Vec<(String, String)> {
    let except = [&scan.own[..], &scan.toolkit].concat();
    headers(&except, scan.includes_cccl())
}
