"""The crates: what is cut out of each, and a package that uses it."""

import pathlib
import re
import shutil

from cutting import code_lines, cut_item, cut_statement

HERE = pathlib.Path(__file__).resolve().parent
APP = """[package]
name = "app"
version = "0.1.0"
edition = "2021"

[workspace]
"""
# What build scripts print.
SEARCHED = r"rustc-link-search=native=(\S+)"
LINKED = r"rustc-link-lib=(\S+)"
INCLUDE = r"CUDA_INCLUDE_DIR=(\S+)"
ROOT = r"CUTILE_RESOLVED_CUDA_TOOLKIT_PATH=(\S+)"
KERNEL = """#include <cuda_fp16.h>
#include <cub/version.cuh>
#include <curand.h>
extern "C" __global__ void add(float *x) { x[threadIdx.x] += __half2float(__half(1.0f)); }
"""


class Crate:
    """A crate with a search of its own. `NAME.rs` beside this file takes its place in `file`."""

    version = ""
    # The file that searches, and its items and statements to cut out.
    file = "src/lib.rs"
    items: list[str] = []
    statements: list[str] = []
    # Words of other lines that become others: file, words, replacement.
    edits: list[tuple[str, str, str]] = []
    # Files that are part of the search as a whole, and would be removed.
    files: list[str] = []
    # Dependencies that only the search needs.
    unneeded: list[str] = []
    # One of them that does the search: its version, and its items that do.
    helper: tuple[str, str, list[str]] | None = None
    dependencies = "dependencies"
    default_features = True
    feature_list: list[str] = []
    libclang = False
    # Arguments of `cargo test`, if the crate has tests that can be run.
    tests: list[str] | None = None
    tests_load_cuda = False
    # The package that uses the crate.
    app_dependencies = "dependencies"
    app: dict[str, str] = {}

    def __init__(self, name: str):
        self.name = name

    def prepare(self, source: pathlib.Path, place: pathlib.Path, cuda_find: pathlib.Path, is_port: bool):
        """Copies the crate and writes the package that uses it; returns the lines before and after."""
        shutil.copytree(source, place / "crate", ignore=shutil.ignore_patterns(".cargo*"))
        crate = place / "crate"
        manifest = (crate / "Cargo.toml").read_text() + "\n[workspace]\n"
        before = after = 0
        if is_port:
            before, after = self.port(crate)
            for name in self.unneeded:
                manifest, removed = re.subn(rf"(?ms)^\[[\w-]*dependencies\.{name}\]\n.*?(?=^\[)", "", manifest)
                assert removed, name
            path = f'[{self.dependencies}.cuda-find]\npath = "{cuda_find}"\n'
            manifest = manifest.replace("\n[workspace]\n", f"\n{path}\n[workspace]\n")
        (crate / "Cargo.toml").write_text(manifest)
        self.write_app(place / "app", crate, is_port)
        return before, after

    def port(self, crate: pathlib.Path) -> tuple[int, int]:
        replacement = (HERE / f"{self.name}.rs").read_text()
        before = sum(code_lines((crate / file).read_text()) for file in self.files)
        text = (crate / self.file).read_text()
        for name in self.items:
            text, taken = cut_item(text, name)
            before += code_lines(taken)
        for needle in self.statements:
            text, taken = cut_statement(text, needle)
            before += code_lines(taken)
        (crate / self.file).write_text(text + "\n" + replacement)
        after = code_lines(replacement)
        for file, words, others in self.edits:
            text = (crate / file).read_text()
            assert words in text, words
            (crate / file).write_text(text.replace(words, others))
        return before, after

    def helper_lines(self, source: pathlib.Path) -> int:
        text, lines = (source / "src/lib.rs").read_text(), 0
        for name in self.helper[2]:
            text, taken = cut_item(text, name)
            lines += code_lines(taken)
        return lines

    def write_app(self, app: pathlib.Path, crate: pathlib.Path, is_port: bool):
        features = ""
        if not self.default_features:
            features = f", default-features = false, features = {self.feature_list}".replace("'", '"')
        dependency = f'\n[{self.app_dependencies}]\n{self.name} = {{ path = "{crate}"{features} }}\n'
        self.write(app, {"Cargo.toml": APP + dependency, **self.app})

    @staticmethod
    def write(app: pathlib.Path, files: dict[str, str]):
        for name, text in files.items():
            (app / name).parent.mkdir(parents=True, exist_ok=True)
            (app / name).write_text(text)

    def packages(self, place: pathlib.Path) -> list[pathlib.Path]:
        return [place / "app", place / "crate"]

    def timed(self, place: pathlib.Path) -> pathlib.Path:
        return place / "crate"

    @property
    def cleaned(self) -> list[str]:
        """What `cargo clean` removes besides the package that uses the crate."""
        return ["-p", self.name]

    def features(self) -> list[str]:
        return [] if self.default_features else ["--no-default-features", "--features", ",".join(self.feature_list)]

    def found(self, log: str) -> str:
        """What the crate found, by the lines that its build script printed for cargo."""
        return "builds"

    @staticmethod
    def printed(log: str, pattern: str) -> str:
        return ", ".join(dict.fromkeys(re.findall(pattern, log)))


class Cudarc(Crate):
    version = "0.19.10"
    file = "build.rs"
    items = [
        "TYPICAL_CUDA_PATH_ENV_VARS", "cuda_version_from_build_system", "dynamic_linking", "link_searches",
        "nccl_version_from_build_system", "cudnn_version_from_build_system", "cutensor_version_from_build_system",
        "find_header", "parse_define",
    ]
    statements = ["TYPICAL_CUDA_PATH_ENV_VARS"]
    dependencies = "build-dependencies"
    default_features = False
    feature_list = [
        "std", "driver", "runtime", "nvrtc", "cublas", "cublaslt", "curand", "cuda-version-from-build-system",
        "dynamic-linking",
    ]
    tests = ["--lib", "--no-default-features", "--features", ",".join(feature_list)]
    tests_load_cuda = True
    app = {"src/main.rs": """use cudarc::{cublas, cublaslt, curand, driver, nvrtc, runtime};
fn main() {
    let (mut v, mut w, mut handle) = (0, 0, std::ptr::null_mut());
    unsafe {
        println!("{:?}", driver::sys::cuDriverGetVersion(&mut v));
        println!("{:?}", runtime::sys::cudaRuntimeGetVersion(&mut v));
        println!("{:?}", nvrtc::sys::nvrtcVersion(&mut v, &mut w));
        println!("{:?}", curand::sys::curandGetVersion(&mut v));
        println!("{:?}", cublas::sys::cublasCreate_v2(&mut handle));
        println!("{:?}", cublaslt::sys::cublasLtGetVersion());
    }
}
"""}

    def found(self, log: str) -> str:
        version = ".".join(re.findall(r"CUDA_M\w+_VERSION=(\d+)", log)[:2])
        return f"{version}, {self.printed(log, SEARCHED)}"


class BindgenCuda(Crate):
    version = "0.1.6"
    items = ["cuda_include_dir", "compute_cap"]
    edits = [("src/lib.rs", 'std::process::Command::new("nvcc")', "nvcc()")]
    tests = []
    app_dependencies = "build-dependencies"
    app = {
        "build.rs": """fn main() {
    let kernels = bindgen_cuda::Builder::default().build_ptx().unwrap();
    kernels.write(std::path::Path::new(&std::env::var("OUT_DIR").unwrap()).join("kernels.rs")).unwrap();
}
""",
        "src/add.cu": KERNEL,
        "src/main.rs": 'include!(concat!(env!("OUT_DIR"), "/kernels.rs"));\nfn main() { println!("{ADD}") }\n',
    }

    def found(self, log: str) -> str:
        return f"compiles, CUDA_INCLUDE_DIR={self.printed(log, INCLUDE)}"


class Cudaforge(Crate):
    version = "0.1.6"
    file = "src/toolkit.rs"
    items = ["CUDA_SEARCH_PATHS", "detect", "from_nvcc_path", "find_nvcc", "detect_cuda_version"]
    edits = [
        ("src/builder.rs", "Command::new(&toolkit.nvcc_path)", "toolkit.nvcc()"),
        ("src/toolkit.rs", "version: Option<String>,", "version: Option<String>, include_dirs: Vec<PathBuf>,"),
    ]
    unneeded = ["which"]
    tests = []
    app_dependencies = "build-dependencies"
    app = {
        "build.rs": """fn main() {
    let found = cudaforge::CudaToolkit::detect().unwrap();
    println!("nvcc: {}", found.nvcc_path.display());
    println!("include: {} {}", found.include_dir.display(), found.include_dir.join("cuda.h").exists());
    println!("lib: {} {}", found.lib_dir.display(), found.lib_dir.is_dir());
    println!("release: {}", found.version.unwrap_or_default());
    cudaforge::KernelBuilder::new().source_files(vec!["src/add.cu"]).build_ptx().unwrap();
}
""",
        "src/add.cu": KERNEL,
        "src/main.rs": "fn main() {}\n",
    }

    def found(self, log: str) -> str:
        text = self.printed(log, r"\] ((?:nvcc|include|lib|release): [^\n]+)")
        return "compiles, " + text.replace(" true", "").replace(" false", " (absent)")


class LlamaCpp(Crate):
    version = "0.1.161"
    file = "build.rs"
    statements = ['if cfg!(feature = "cuda") && !build_shared_libs {']
    dependencies = "build-dependencies"
    unneeded = ["find_cuda_helper"]
    helper = ("find_cuda_helper", "0.2.0", [
        # One for Windows and one for other systems.
        "find_cuda_lib_dirs", "find_cuda_lib_dirs", "find_cuda_root", "is_cuda_root_path", "read_env",
    ])
    call = "link_cuda();"
    cleaned: list[str] = []

    def port(self, crate: pathlib.Path) -> tuple[int, int]:
        text = (crate / self.file).read_text()
        rest, block = cut_statement(text, self.statements[0])
        replacement = (HERE / f"{self.name}.rs").read_text()
        at = text.index(block.rstrip("\n"))
        call = f"    {self.statements[0]} {self.call} }}\n"
        (crate / self.file).write_text(rest[:at] + call + rest[at:] + "\n" + replacement)
        return code_lines(block), code_lines(replacement) + 1

    def write_app(self, app: pathlib.Path, crate: pathlib.Path, is_port: bool):
        """One package with only the lines that link CUDA, and one that compiles the whole script as a program."""
        manifest = (crate / "Cargo.toml").read_text()
        dependencies = dict(re.findall(r"(?ms)^\[build-dependencies\.([\w-]+)\]\n(.*?)(?=^\[)", manifest))
        searching = "cuda-find" if is_port else "find_cuda_helper"
        script = (crate / "build.rs").read_text()
        if is_port:
            block, functions = f"{self.call}\n", (HERE / f"{self.name}.rs").read_text()
        else:
            block, functions = cut_statement(script, self.statements[0])[1], ""
        features = '\n[features]\ndefault = ["cuda"]\ncuda = []\ncuda-no-vmm = []\n'
        needs = f"[build-dependencies.{searching}]\n{dependencies[searching]}"
        self.write(app, {
            "Cargo.toml": f"{APP}{features}{needs}",
            "build.rs": f"fn main() {{\nlet build_shared_libs = false;\n_ = build_shared_libs;\n{block}}}\n{functions}",
            "src/main.rs": """extern "C" {
    fn cudaRuntimeGetVersion(version: *mut i32) -> i32;
    fn cuDriverGetVersion(version: *mut i32) -> i32;
}
fn main() {
    let mut version = 0;
    println!("{}", unsafe { cudaRuntimeGetVersion(&mut version) + cuDriverGetVersion(&mut version) });
}
""",
        })
        needs = "".join(f"[dependencies.{name}]\n{text}" for name, text in dependencies.items())
        features = re.search(r"(?ms)^\[features\]\n.*?(?=^\[)", manifest)[0]
        self.write(app.parent / "script", {"Cargo.toml": f"{APP}\n{features}{needs}", "src/main.rs": script})

    def packages(self, place: pathlib.Path) -> list[pathlib.Path]:
        return [place / "app", place / "script"]

    def timed(self, place: pathlib.Path) -> pathlib.Path:
        return place / "script"

    def found(self, log: str) -> str:
        return f"{self.printed(log, LINKED)} in {self.printed(log, SEARCHED)}"


class CudaBindings(Crate):
    version = "0.5.0"
    file = "build.rs"
    files = ["toolkit_target.rs"]
    items = [
        "TOOLKIT_ENV_VARS", "SETUP_DIAGNOSTICS_ENV", "TOOLKIT_TARGET_DIR_ENV", "MIN_CUDA_VERSION", "ResolvedToolkit",
        "resolve_cuda_toolkit", "resolve_explicit_cuda_toolkit", "find_default_cuda_toolkit",
        "build_include_candidates", "default_cuda_toolkit_candidates", "validate_cuda_toolkit",
        "cuda_version_from_header", "format_cuda_version", "setup_diagnostics_enabled", "emit_setup_diagnostic",
        "bindgen_builder",
    ]
    statements = [
        'include!("toolkit_target.rs")', 'println!("cargo:rerun-if-changed=toolkit_target.rs")',
        "for var in TOOLKIT_ENV_VARS", 'println!("cargo:rerun-if-env-changed={TOOLKIT_TARGET_DIR_ENV}")',
        'println!("cargo:rerun-if-env-changed={SETUP_DIAGNOSTICS_ENV}")',
    ]
    edits = [("build.rs", "ffi::OsString,", "")]
    dependencies = "build-dependencies"
    libclang = True
    tests = []
    app = {"src/main.rs": """fn main() {
    println!("{} {:?}", cuda_bindings::CUDA_VERSION, cuda_bindings::cuda_toolkit_dir());
}
"""}

    def found(self, log: str) -> str:
        return f"binds, root {self.printed(log, ROOT)}"


CRATES = {
    crate.name: crate
    for crate in (
        Cudarc("cudarc"), BindgenCuda("bindgen_cuda"), Cudaforge("cudaforge"), LlamaCpp("llama-cpp-sys-2"),
        CudaBindings("cuda-bindings"),
    )
}
