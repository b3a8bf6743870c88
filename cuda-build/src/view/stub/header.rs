//! Extracts the names of functions from the driver's headers, such as `cuda.h` and `nvml.h`.
//!
//! No preprocessor is run, because a program may be compiled with any branch of an `#if`. The result
//! has every declared function. For a macro that renames a function, it has the name of the macro and the
//! name of the function that is called instead. If the macro also adds a suffix for per-thread default
//! streams (`_ptds`, `_ptsz`), it has the name with the suffix too:
//!
//! ```c
//! #define cuCtxCreate                 cuCtxCreate_v2
//! #define cuMemcpyHtoD                __CUDA_API_PTDS(cuMemcpyHtoD_v2)   // cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds
//! #define cuMemcpyAsync               __CUDA_API_PTSZ(cuMemcpyAsync)     // cuMemcpyAsync_ptsz
//! CUresult CUDAAPI cuInit(unsigned int Flags);
//! ```

use crate::list::Set;

/// All functions whose names start with `prefix` and a capital letter, sorted.
pub(super) fn functions(text: &str, prefix: &str) -> Vec<String> {
    let text = without_comments(&text.replace("\\\r\n", " ").replace("\\\n", " "));
    let mut names = Set::default();
    let mut declarations = String::new();
    for line in text.lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            declarations.push_str(line);
            declarations.push('\n');
            continue;
        };
        if let Some(definition) = directive.trim_start().strip_prefix("define") {
            macro_targets(definition, prefix, &mut names);
        }
    }
    for statement in declarations.split([';', '{', '}']) {
        names.extend(declared(statement, prefix).map(str::to_owned));
    }
    names.into_iter().collect()
}

fn macro_targets(definition: &str, prefix: &str, names: &mut Set<String>) {
    let definition = definition.trim();
    let end = definition
        .find(|c: char| !is_word(c))
        .unwrap_or(definition.len());
    let (key, body) = definition.split_at(end);
    let body = body.trim();
    if !is_name(key, prefix) {
        return;
    }
    let (target, suffix) = match body.strip_suffix(')').and_then(|body| body.split_once('(')) {
        Some((wrapper, target)) if wrapper.trim_end().ends_with("_PTDS") => {
            (target.trim(), "_ptds")
        }
        Some((wrapper, target)) if wrapper.trim_end().ends_with("_PTSZ") => {
            (target.trim(), "_ptsz")
        }
        _ => (body, ""),
    };
    // The target of a macro that renames a function starts with the name of the macro: `cuCtxCreate` →
    // `cuCtxCreate_v2`. Other macros with this prefix are constants and types.
    if target.starts_with(key) && target.chars().all(is_word) {
        names.extend([
            key.to_owned(),
            target.to_owned(),
            format!("{target}{suffix}"),
        ]);
    }
}

/// The name of the function that a statement declares: `cuInit` in
/// `DEPRECATED(13.0) CUresult CUDAAPI cuInit(…)`. It is the first word before an outermost `(` that has
/// the prefix. `None` unless the text before it looks like a return type with attributes.
fn declared<'a>(statement: &'a str, prefix: &str) -> Option<&'a str> {
    let mut depth = 0;
    for (at, c) in statement.char_indices() {
        match c {
            '(' if depth == 0 => {
                let before = statement[..at].trim_end();
                let start = before.rfind(|c: char| !is_word(c)).map_or(0, |at| at + 1);
                let (head, name) = before.split_at(start);
                if is_name(name, prefix) {
                    return is_return_type(head).then_some(name);
                }
                depth = 1;
            }
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn is_return_type(head: &str) -> bool {
    let is_type = |c: char| is_word(c) || c.is_whitespace() || "*().\"".contains(c);
    !head.trim().is_empty()
        && head.chars().all(is_type)
        && !head
            .split_whitespace()
            .any(|word| word == "typedef" || word == "return")
}

fn is_name(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        kept.push_str(&rest[..at]);
        let comment = &rest[at..];
        let end = if comment.starts_with("/*") {
            comment.find("*/").map_or(comment.len(), |end| end + 2)
        } else if comment.starts_with("//") {
            comment.find('\n').unwrap_or(comment.len())
        } else {
            kept.push('/');
            1
        };
        if end > 1 {
            kept.push(' ');
        }
        rest = &comment[end..];
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_versions_and_streams() {
        let text = r"
#define CUDA_VERSION 13040
#define cuDeviceTotalMem                    cuDeviceTotalMem_v2 // trailing
    #define cuMemcpyHtoD                    __CUDA_API_PTDS(cuMemcpyHtoD_v2)
    #define cuMemcpyAsync  \
        __CUDA_API_PTSZ(cuMemcpyAsync)
#define cuSomeConstant 0x01
/* cuCommented(void); CUresult CUDAAPI cuHidden(int); */
typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult;
typedef void (CUDA_CB *CUhostFn)(void *userData);
typedef size_t (CUDA_CB *CUoccupancyB2DSize)(int blockSize);
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuLaunchHostFunc(CUstream s, CUhostFn fn, void *userData);
extern __CUDA_DEPRECATED CUresult CUDAAPI
cuCtxAttach(CUcontext *pctx, unsigned int flags);
#if defined(__CUDA_API_VERSION_INTERNAL)
    #undef cuMemAlloc
    CUresult CUDAAPI cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize);
#endif
static inline CUresult cuShort(int a) { return cuInit(a); }
";
        assert_eq!(
            functions(text, "cu"),
            [
                "cuCtxAttach",
                "cuDeviceTotalMem",
                "cuDeviceTotalMem_v2",
                "cuInit",
                "cuLaunchHostFunc",
                "cuMemAlloc",
                "cuMemcpyAsync",
                "cuMemcpyAsync_ptsz",
                "cuMemcpyHtoD",
                "cuMemcpyHtoD_v2",
                "cuMemcpyHtoD_v2_ptds",
                "cuShort",
            ]
        );
    }

    #[test]
    fn management_library() {
        let text = "#define nvmlInit nvmlInit_v2\n#define nvmlEventTypeNone 0x0LL\n\
                    nvmlReturn_t DECLDIR nvmlInit_v2(void);\n\
                    DEPRECATED(13.0) nvmlReturn_t DECLDIR nvmlOld(nvmlDevice_t device);\nconst DECLDIR char* nvmlErrorString(nvmlReturn_t r);\n\
                    typedef struct nvmlDevice_st* nvmlDevice_t;\n#define nvmlMemory_v2 NVML_STRUCT_VERSION(Memory, 2)\n";
        assert_eq!(
            functions(text, "nvml"),
            ["nvmlErrorString", "nvmlInit", "nvmlInit_v2", "nvmlOld"]
        );
    }

    #[test]
    fn comments_end_where_they_end() {
        assert_eq!(without_comments("a/* x */b/c//d\ne/*open"), "a b/c \ne ");
    }
}
