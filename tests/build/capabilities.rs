//! Capabilities that change, with variables that nvcc reads.

use std::fs;

use crate::package::{Compiler, Package, difference, script_outputs, succeeded};

const SOURCE: &str = "\
#ifndef ARCHITECTURES
#define ARCHITECTURES 1
#endif
template <int... N> __device__ constexpr int number() { return sizeof...(N); }
extern \"C\" __global__ void k(int *p) { *p = number<ARCHITECTURES>(); }
extern \"C\" void run(int *p) { k<<<1, 1>>>(p); }
";

#[test]
fn flags_in_a_variable() {
    let mut package = Package::new("flags-in-a-variable", Compiler::Nvcc13);
    package.write("kernels/a.cu", SOURCE);
    package.write_script(
        ".module(Module::new(\"kernels/a.cu\").engine(Engine::Nvcc))\n\
         .library(Library::new(\"l\").file(\"kernels/a.cu\"))",
    );
    package.write_program(&["a"], &[]);
    package.build().unwrap();
    let out = package.place.join("incremental");
    for flags in [
        "-DARCHITECTURES=__CUDA_ARCH_LIST__",
        "-lineinfo -gencode=arch=compute_80,code=sm_80",
    ] {
        package.set("NVCC_APPEND_FLAGS", flags);
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).unwrap();
        for list in ["8.0", "8.0,9.0", "9.0"] {
            package.set("CUDA_BUILD_CAPABILITIES", list);
            succeeded(package.script(&out).output().unwrap()).unwrap();
            let fresh = package.build_afresh().unwrap();
            let made = script_outputs(&out);
            assert_eq!(difference(&made, &fresh), None, "{flags} for {list}");
        }
    }
}
