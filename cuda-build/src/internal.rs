//! The parts that `cargo cuda` and the tests of this repository use. They may change in any
//! release, and `cargo-cuda` requires exactly the release of `cuda-build` that it was built with.

pub use crate::capability::Declared;
pub use crate::config::Config;
pub use crate::env::Env;
pub use crate::error::{Conflict, io_hint};
pub use crate::root::Root;
pub use crate::script::{request, skipped_by};
pub use crate::select::NotFound;
pub use crate::target::Target;
pub use crate::toolkit::{Outcome, Search};
pub use crate::version::RequestedRelease;
#[cfg(feature = "view")]
pub use crate::view::ViewPlace;

pub mod capability {
    pub use crate::capability::*;
}
pub mod command {
    pub use crate::command::*;
}
pub mod component {
    pub use crate::component::*;
}
pub mod config {
    pub use crate::config::*;
}
pub mod directive {
    pub use crate::directive::*;
}
pub mod link {
    pub use crate::link::nixos_driver_directory;
}
pub mod nvcc {
    pub use crate::nvcc::*;
}
pub mod probe {
    pub use crate::probe::*;
}
pub mod release {
    pub use crate::release::*;
}
pub mod select {
    pub use crate::select::*;
}
pub mod sources {
    pub use crate::sources::*;
}
pub mod store {
    pub use crate::store::*;
}

#[cfg(feature = "compile")]
mod compiling {
    pub mod compile {
        pub use crate::compile::*;
    }
    pub mod driver {
        pub use crate::driver::*;
    }
    pub mod fatbin {
        pub use crate::fatbin::*;
    }
    pub mod host_compiler {
        pub use crate::host_compiler::*;
    }
    pub mod includes {
        pub use crate::includes::*;
    }
    pub mod nvrtc {
        pub use crate::nvrtc::*;
    }
}
#[cfg(feature = "compile")]
pub use compiling::*;
