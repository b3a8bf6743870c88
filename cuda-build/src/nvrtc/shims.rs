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

use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::includes::Scan;
use cuda_find_core::hash::Hasher;

/// The C headers: the name, the CCCL header that defines the same macros (if there is one), and the text. A header with
/// an empty text has only names that are built in, such as `printf`, or part of C++, such as `bool`.
#[rustfmt::skip]
const C_HEADERS: [(&str, Option<&str>, &str); 10] = [
    ("assert.h", None, include_str!("shims/assert.h")),
    ("float.h", Some("cuda/std/cfloat"), include_str!("shims/float.h")),
    ("limits.h", Some("cuda/std/climits"), include_str!("shims/limits.h")),
    ("math.h", Some("cuda/std/cmath"), include_str!("shims/math.h")),
    ("stdbool.h", None, ""),
    ("stddef.h", Some("cuda/std/cstddef"), include_str!("shims/stddef.h")),
    ("stdint.h", Some("cuda/std/cstdint"), include_str!("shims/stdint.h")),
    ("stdio.h", None, "#include <stddef.h>\n"),
    ("stdlib.h", None, "#include <stddef.h>\n"),
    ("string.h", None, include_str!("shims/string.h")),
];

/// The C++ headers: the name, the C header that it includes, and the names of that header that `std` has, too.
const CPP_HEADERS: [(&str, &str, &str); 9] = [
    ("cassert", "assert.h", ""),
    ("cfloat", "float.h", ""),
    ("climits", "limits.h", ""),
    (
        "cmath",
        "math.h",
        "abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim \
         floor fma fmax fmin fmod frexp hypot ilogb isfinite isinf isnan ldexp lgamma llrint llround log log10 log1p \
         log2 logb lrint lround modf nearbyint nextafter pow remainder remquo rint round scalbln scalbn signbit sin \
         sinh sqrt tan tanh tgamma trunc",
    ),
    ("cstddef", "stddef.h", "size_t ptrdiff_t"),
    (
        "cstdint",
        "stdint.h",
        "int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t intptr_t uintptr_t intmax_t uintmax_t",
    ),
    ("cstdio", "stdio.h", "printf size_t"),
    ("cstdlib", "stdlib.h", "abs free labs llabs malloc size_t"),
    ("cstring", "string.h", "memcpy memmove memset size_t"),
];

/// What `stdint.h` defines for one width.
const STDINT_WIDTH: &str = include_str!("shims/stdint_width.h.in");

struct Shim {
    name: &'static str,
    counterpart: Option<&'static str>,
    text: String,
}

static SHIMS: LazyLock<Vec<Shim>> = LazyLock::new(|| {
    let c_headers = C_HEADERS.into_iter().map(|(name, counterpart, text)| {
        let mut text = text.to_owned();
        if name == "stdint.h" {
            text.extend(stdint_widths());
        }
        Shim {
            name,
            counterpart,
            text: define_if_undefined(&text),
        }
    });
    let cpp_headers = CPP_HEADERS.into_iter().map(|(name, c_header, names)| {
        let names: String = (names.split_whitespace())
            .map(|name| format!("using ::{name};\n"))
            .collect();
        Shim {
            name,
            counterpart: None,
            text: format!("#include <{c_header}>\nnamespace std {{\n{names}}}\n"),
        }
    });
    c_headers.chain(cpp_headers).collect()
});

fn stdint_widths() -> impl Iterator<Item = String> {
    let types = [
        ["8", "char", "SCHAR", "UCHAR"],
        ["16", "short", "SHRT", "USHRT"],
        ["32", "int", "INT", "UINT"],
        ["64", "long long", "LLONG", "ULLONG"],
    ];
    types.into_iter().map(|[width, name, signed, unsigned]| {
        STDINT_WIDTH
            .replace("@WIDTH@", width)
            .replace("@TYPE@", name)
            .replace("@SIGNED@", signed)
            .replace("@UNSIGNED@", unsigned)
    })
}

/// Puts each `#define` under an `#ifndef`, because the user, the toolkit or CCCL may have defined the macro already.
fn define_if_undefined(text: &str) -> String {
    let mut guarded = String::new();
    for line in text.lines() {
        let definition = line.strip_prefix("#define ");
        // A `writeln!` into a `String` cannot fail.
        let _ = match definition.and_then(|definition| definition.split([' ', '(']).next()) {
            Some(name) => writeln!(guarded, "#ifndef {name}\n{line}\n#endif"),
            None => writeln!(guarded, "{line}"),
        };
    }
    guarded
}

/// The shims' names, as an `#include` spells them.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIMS.iter().map(|shim| shim.name)
}

/// A digest of all shims. It is part of the key of every step that uses them.
pub(crate) fn identity() -> String {
    let mut digest = Hasher::default();
    for shim in SHIMS.iter() {
        for part in [shim.name, &shim.text].into_iter().chain(shim.counterpart) {
            digest.field(part.as_bytes());
        }
    }
    digest.digest().to_string()
}

/// The shims for a scanned source, as [`Program::headers`](super::Program::headers). A shim is left out if the user or
/// the toolkit has a header of the same name. If the source includes CCCL, the shims include CCCL's headers.
pub(crate) fn for_scan(scan: &Scan) -> Vec<(String, String)> {
    let includes_cccl = scan.includes_cccl();
    let mut headers = Vec::new();
    for shim in SHIMS.iter() {
        if scan.user_names.contains(shim.name) || scan.toolkit_names.contains(shim.name) {
            continue;
        }
        let header = shim.counterpart.filter(|_| includes_cccl);
        let include = header.map(|header| format!("#include <{header}>\n"));
        headers.push((
            shim.name.to_owned(),
            include.unwrap_or_default() + &shim.text,
        ));
    }
    headers
}
