//! `cuda-build` against real CUDA components and real consumers.

mod capability;
mod support;
