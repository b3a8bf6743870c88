//! The C++ runtime library that is linked with the host code of libraries.

use std::collections::BTreeSet;

use super::build::Build;
use crate::cc_variables::names_for_target;
use crate::compile::identity::Variables;
use crate::compile::{CppRuntime, Library};
use crate::error::Error;
use crate::host_compiler::{Family, HostCompiler};
use cuda_find_core::command::Invocation;
use cuda_find_core::directive::Directives;
use cuda_find_core::{env::Env, target::Target};

/// gcc's runtime, which the `cc` crate takes on Linux.
const LIBSTDCXX: &str = "stdc++";

/// LLVM's runtime.
const LIBCXX: &str = "c++";

impl Build {
    /// Links the C++ runtime of each library: the one that the build script names, otherwise that of `CXXSTDLIB`, which
    /// the `cc` crate reads, too, otherwise the one that the host compiler uses. Without a host compiler, it is
    /// taken for gcc.
    pub(super) fn link_cpp_runtimes(
        &self,
        host: Option<&HostCompiler>,
        directives: &mut Directives,
    ) -> Result<(), Error> {
        let target = self.target()?;
        let mut names = BTreeSet::new();
        for library in &self.code.libraries {
            let name = match &library.cpp_runtime {
                CppRuntime::Named(name) => name.clone(),
                CppRuntime::None => continue,
                CppRuntime::OfCompiler => match of_variable(&self.env, &target) {
                    Some(name) => name,
                    None => of_compiler(&self.env, host, library).to_owned(),
                },
            };
            names.insert(name);
        }
        for name in names.iter().filter(|name| !name.is_empty()) {
            match name.strip_prefix("static=") {
                Some(name) => directives.link("static", name),
                None => directives.link("dylib", name.as_str()),
            }
        }
        Ok(())
    }
}

/// The value of `CXXSTDLIB` and its forms for a target. An empty value means that none is linked.
fn of_variable(env: &Env, target: &Target) -> Option<String> {
    let names = names_for_target("CXXSTDLIB", env, target.triple());
    let mut values = names.iter().map(|name| env.get_or_empty(name));
    let value = values.find_map(|value| value)?;
    Some(value.to_string_lossy().into_owned())
}

/// The runtime whose headers the compiler includes.
fn of_compiler(env: &Env, host: Option<&HostCompiler>, library: &Library) -> &'static str {
    let variables = Variables::of_nvcc(env).options;
    let options = library
        .host_flags
        .iter()
        .chain(&library.options.flags)
        .chain(&variables);
    let mut named = options.filter_map(|option| {
        let (_, value) = option.split_once("stdlib=")?;
        value.split([',', '\'', '"']).next()
    });
    if let Some(named) = named.next_back() {
        return match named {
            "libc++" => LIBCXX,
            _ => LIBSTDCXX,
        };
    }
    match host {
        Some(host) if host.compiler.family == Family::Clang && uses_libcxx(env, host) => LIBCXX,
        _ => LIBSTDCXX,
    }
}

/// Whether a clang uses LLVM's headers by default, as one that was built so, or one with a configuration file.
fn uses_libcxx(env: &Env, host: &HostCompiler) -> bool {
    let preprocess = Invocation::new(&host.compiler.path).args([
        "-dM",
        "-E",
        "-x",
        "c++",
        "-include",
        "cstddef",
        "/dev/null",
    ]);
    let macros = preprocess.query(env).map(|finished| finished.stdout);
    macros.is_ok_and(|macros| macros.contains("#define _LIBCPP_VERSION "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_or_a_variable_names_the_runtime() {
        let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
        let of_env =
            |pairs: &[(&str, &str)]| of_variable(&Env::from_pairs(pairs.to_vec()), &target);
        assert_eq!(of_env(&[]), None);
        assert_eq!(of_env(&[("CXXSTDLIB", "")]).as_deref(), Some(""));
        let both = [
            ("CXXSTDLIB", "c++"),
            ("CXXSTDLIB_x86_64_unknown_linux_gnu", "static=c++"),
        ];
        assert_eq!(of_env(&both).as_deref(), Some("static=c++"));

        let library = || Library::new("x");
        for (library, variable, expected) in [
            (library(), "", LIBSTDCXX),
            (library().host_flag("-stdlib=libc++"), "", LIBCXX),
            (
                library().flag("-Xcompiler=-stdlib=libc++,-fPIC"),
                "",
                LIBCXX,
            ),
            (library().flag("-stdlib=libc++"), "", LIBCXX),
            (library(), "-Xcompiler -stdlib=libc++ -O3", LIBCXX),
            (
                library().host_flag("-stdlib=libc++"),
                "-Xcompiler=-stdlib=libstdc++",
                LIBSTDCXX,
            ),
        ] {
            let env = Env::from_pairs([("NVCC_APPEND_FLAGS", variable)]);
            let found = of_compiler(&env, None, &library);
            assert_eq!(found, expected, "{library:?} {variable}");
        }
    }
}
