//! Small replacements for the C and C++ headers that device code usually includes.
//!
//! NVRTC has the math functions, `printf`, `malloc`, `memcpy`, `memset` and `assert` built in, and
//! no system headers at all. CCCL's `cuda/std` headers would work, but would take most of
//! the compile time of a small kernel.
//!
//! The shims are passed to NVRTC as headers in memory, which NVRTC uses instead of any file of the same name. A
//! shim is therefore left out if the user or the toolkit has a header of the same name.
//!
//! Some shims define the same macros as a header of CCCL. If the source includes CCCL, these shims include
//! that header first. The tests compile a sample of toolkit and CCCL headers together with the
//! shims, with NVRTC 11.8, 12.9 and 13.4.

use std::sync::OnceLock;

use crate::includes::Scan;
use cuda_find_core::hash::Fnv;

macro_rules! shims {
    ($($name:literal $(with $counterpart:literal)?),* $(,)?) => {
        [$(($name, [$($counterpart)?].first().copied(), include_str!(concat!("shims/", $name)))),*]
    };
}

/// A shim: its name, the CCCL header that defines the same macros (if there is one), and its text.
type Shim = (&'static str, Option<&'static str>, &'static str);

#[rustfmt::skip]
const SHIMS: [Shim; 19] = shims![
    "assert.h", "cassert", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstdio", "cstdlib", "cstring",
    "stdbool.h", "stdio.h", "stdlib.h", "string.h",
    "float.h" with "cuda/std/cfloat", "limits.h" with "cuda/std/climits", "math.h" with "cuda/std/cmath",
    "stddef.h" with "cuda/std/cstddef", "stdint.h" with "cuda/std/cstdint",
];

/// The shims' names, as an `#include` spells them.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIMS.iter().map(|(name, _, _)| *name)
}

/// A digest of all shims. It is part of the key of every step that uses them.
pub(crate) fn identity() -> String {
    static IDENTITY: OnceLock<String> = OnceLock::new();
    let digest = || {
        let mut digest = Fnv::default();
        for (name, counterpart, text) in SHIMS {
            let parts = [name, text].into_iter().chain(counterpart);
            parts.for_each(|part| digest.field(part.as_bytes()));
        }
        digest.hex()
    };
    IDENTITY.get_or_init(digest).clone()
}

/// The shims for a scanned source, as [`Program::headers`](super::Program::headers). A shim is left out if the user or
/// the toolkit has a header of the same name. If the source includes CCCL, the shims include CCCL's headers.
pub(crate) fn for_scan(scan: &Scan) -> Vec<(String, String)> {
    let includes_cccl = scan.includes_cccl();
    let is_needed = |(name, ..): &&Shim| {
        !scan.user_names.contains(*name) && !scan.toolkit_names.contains(*name)
    };
    let headers = SHIMS
        .iter()
        .filter(is_needed)
        .map(|(name, counterpart, text)| {
            let header = counterpart.filter(|_| includes_cccl);
            let include = header.map(|header| format!("#include <{header}>\n"));
            ((*name).to_owned(), include.unwrap_or_default() + text)
        });
    headers.collect()
}
