//! The source that a crate includes: capabilities, `check_device` and the modules.

use super::Build;
use super::compiling::Code;
use crate::capability::{self, Plan};
use crate::compile::Format;
use crate::component::Component;
use crate::error::Error;
use crate::output;
use crate::toolkit::Toolkit;

/// The beginning of the generated module. It defines `Aligned`, because the driver reads 8-byte integers from fat
/// binaries, and `include_bytes!` alone guarantees only an alignment of one byte.
const MODULES_HEAD: &str = "
/// The compiled modules.
#[allow(unreachable_pub)]
pub mod modules {
    #[allow(dead_code)]
    #[repr(C, align(16))]
    struct Aligned<T: ?Sized>(T);
";

impl Code {
    /// The part of the generated source that defines a constant for each module. In a skipped build, every module is
    /// empty.
    fn modules_source(&self, skipped: bool) -> String {
        let mut source = String::from(MODULES_HEAD);
        for module in &self.modules {
            let constant = module.constant();
            let shown = module.source().display();
            // `{file:?}` writes a Rust string literal with escapes, because a file may be named `a"b.cu`.
            let file = format!("/{}", module.file_name());
            let path = format!("concat!(env!(\"OUT_DIR\"), {file:?})");
            source.push_str(&format!(
                "\n    /// `{shown}`, compiled.\n    #[allow(dead_code)]\n"
            ));
            source.push_str(&match module.wanted_format() {
                Format::Ptx if skipped => format!("    pub static {constant}: &str = \"\";\n"),
                Format::Ptx => format!("    pub static {constant}: &str = include_str!({path});\n"),
                // The slice is empty, but the driver gets only its address, and must be able to read a header there.
                _ if skipped => format!(
                    "    pub static {constant}: &[u8] = {{\n        static CODE: Aligned<[u8; 64]> = \
                     Aligned([0; 64]);\n        CODE.0.split_at(0).0\n    }};\n"
                ),
                _ => format!(
                    "    pub static {constant}: &[u8] = {{\n        static CODE: &Aligned<[u8]> = \
                     &Aligned(*include_bytes!({path}));\n        &CODE.0\n    }};\n"
                ),
            });
        }
        source.push_str("}\n");
        source
    }
}

impl Build {
    /// Writes `cuda_build.rs` into `OUT_DIR`: the source that the crate includes to use the plan, the release and the
    /// compiled modules at run time.
    pub(super) fn write_source(&self, toolkit: &Toolkit, plan: &Plan) -> Result<(), Error> {
        let cudart = if self.links(Component::Cudart, toolkit) {
            self.config.cudart.as_str()
        } else {
            "none"
        };
        let mut source = capability::generated_source(plan, toolkit.version(), cudart);
        source.push_str(&self.code.modules_source(false));
        self.write_generated(&source)
    }

    /// Writes the same file for a skipped build.
    pub(super) fn write_empty_source(&self) -> Result<(), Error> {
        if self.code.is_empty() {
            return Ok(());
        }
        self.code.check_names()?;
        let mut source = capability::source_of_skipped_build();
        source.push_str(&self.code.modules_source(true));
        self.write_generated(&source)
    }

    fn write_generated(&self, source: &str) -> Result<(), Error> {
        output::write_if_changed(&self.out.join("cuda_build.rs"), source.as_bytes())
    }
}
