//! Which code needs a capability with a suffix, such as 9.0a or 10.0f.
//!
//! The suffix gives code instructions that the plain capability lacks. Code asks for them by a macro, and often has
//! another branch that does nothing or traps, which nvcc compiles without a message for the plain capability. So the
//! suffix counts if any file outside the toolkit that a source may include mentions such a macro or instruction, under
//! whatever condition. The toolkit's own headers have a general form of everything, so only those count that are for such
//! code.
//!
//! What is not seen here is one of two things: an instruction without a condition, which the assembler refuses for the
//! plain capability; or a name that macros put together from parts, of which a part is enough to be found.

use cuda_find_core::list::each_once;

/// Texts in code that depends on a suffix.
///
/// Macros: `crt/host_defines.h` (`__CUDA_ARCH_FEAT_SM90_ALL`, `__CUDA_ARCH_HAS_FEATURE__`), NVIDIA's guide on families
/// (`__CUDA_ARCH_SPECIFIC__`, `__CUDA_ARCH_FAMILY_SPECIFIC__`), `nv/target` (`NV_HAS_FEATURE_SM_90a`), and functions of
/// `cuda/devices` that answer as these macros do. Instructions: those for which the PTX ISA requires a suffix and that
/// are in public kernels.
const TEXTS: [&str; 11] = [
    "CUDA_ARCH_FEAT_",
    "CUDA_ARCH_HAS_FEATURE",
    "ARCH_SPECIFIC",
    "FAMILY_SPECIFIC",
    "NV_HAS_FEATURE_SM",
    "current_arch_id",
    "current_arch_traits",
    "wgmma",
    "setmaxnreg",
    "tcgen05",
    ".kind::",
];

/// The starts of headers for code with a suffix: CUTLASS, the instructions of libcu++, and the formats that such GPUs
/// convert by an instruction.
const HEADERS: [&str; 6] = [
    "cutlass/",
    "cute/",
    "cuda/ptx",
    "cuda/__ptx/",
    "cuda_fp4",
    "cuda_fp6",
];

/// The macros of which a part is enough, because other macros may put a name together. Digits stand for any digits.
const MACROS: [&str; 4] = [
    "__CUDA_ARCH_FEAT_SM00_ALL",
    "__CUDA_ARCH_FEAT_SM000_ALL",
    "__CUDA_ARCH_FAMILY_SPECIFIC__",
    "__CUDA_ARCH_SPECIFIC__",
];

/// The words of these macros that are in no other macro of CUDA.
const WORDS: [&str; 3] = ["FEAT", "FAMILY", "SPECIFIC"];

/// The shortest part of a name that counts.
const SHORTEST_PART: usize = 4;

/// How many letters of a word a part has at least.
const LETTERS_OF_WORD: usize = 2;

/// The first text that depends on a suffix.
pub(super) fn mention(text: &str) -> Option<String> {
    if let Some(found) = TEXTS.iter().find(|it| text.contains(**it)) {
        return Some((*found).to_owned());
    }
    let is_separator = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let words = text.split(is_separator);
    let parts = words.filter(|word| word.len() >= SHORTEST_PART);
    each_once(parts)
        .into_iter()
        .find(|word| is_part_of_macro(word))
        .map(str::to_owned)
}

/// Whether a header is one whose code may need a suffix.
pub(super) fn is_of_kernels(header: &str) -> bool {
    HEADERS.iter().any(|start| header.starts_with(start))
}

fn is_part_of_macro(part: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    let part = part.replace(is_digit, "0");
    let starts = |name: &'static str| {
        name.match_indices(&*part)
            .map(|(start, _)| start)
            .collect::<Vec<_>>()
    };
    MACROS.iter().any(|name| {
        starts(name).into_iter().any(|start| {
            let end = start + part.len();
            WORDS.iter().any(|word| {
                let Some(word_start) = name.find(word) else {
                    return false;
                };
                let word_end = word_start + word.len();
                let shared = end.min(word_end).saturating_sub(start.max(word_start));
                shared >= LETTERS_OF_WORD
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_with_a_suffix_is_found() {
        for (text, expected) in [
            ("__global__ void k(int *p) { *p = __CUDA_ARCH__; }", None),
            ("#if __CUDA_ARCH__ >= 900 && defined(ARCH) // SM90", None),
            ("#ifdef __CUDA_ARCH_LIST__", None),
            (
                "#if defined(__CUDA_ARCH_FEAT_SM90_ALL)",
                Some("CUDA_ARCH_FEAT_"),
            ),
            (
                "#if __CUDA_ARCH_HAS_FEATURE__(SM100_ALL)",
                Some("CUDA_ARCH_HAS_FEATURE"),
            ),
            (
                "#if __CUDA_ARCH_FAMILY_SPECIFIC__ == 1000",
                Some("FAMILY_SPECIFIC"),
            ),
            (
                "NV_IF_TARGET(NV_HAS_FEATURE_SM_90a, (x;))",
                Some("NV_HAS_FEATURE_SM"),
            ),
            ("cuda::device::current_arch_id()", Some("current_arch_id")),
            ("asm(\"wgmma.fence.sync.aligned;\")", Some("wgmma")),
            // Parts of names.
            (
                "#define F(x) __CUDA_ARCH_##x\n#if F(FEAT_SM90_ALL)",
                Some("FEAT_SM90_ALL"),
            ),
            ("CAT(__CUDA_ARCH, _FEAT_SM, 90, _ALL)", Some("_FEAT_SM")),
            ("CAT(__CUDA_ARCH_FE, AT_SM90_ALL)", Some("__CUDA_ARCH_FE")),
            ("CAT3(__CUDA_, ARCH_, FEAT)", Some("FEAT")),
            ("CAT(__CUDA_ARCH_SPEC, IFIC__)", Some("__CUDA_ARCH_SPEC")),
            ("CAT(CUDA_ARCH, ALL)", None),
        ] {
            assert_eq!(mention(text).as_deref(), expected, "{text}");
        }
    }
}
