//! Files that are generated for a view, because the components lack them or have ones that do not
//! fit a view.

use crate::component::Component;
use crate::probe::Found;
use crate::version::ToolkitVersion;

/// nvcc's configuration file. nvcc is started by a path; it reads the file from the directory of that path, and
/// sets `_HERE_` to the directory.
///
/// The components' own profiles do not fit a view: in the wheels of 13.0 to 13.2 they name a `lib64`
/// that does not exist; in Debian and Nix they name absolute directories. nvcc finds cicc through
/// `CICC_PATH` since CUDA 13, and through `PATH` before.
pub(super) fn nvcc_profile(has_cccl_directory: bool) -> String {
    let cccl = if has_cccl_directory {
        "SYSTEM_INCLUDES +=  \"-isystem\" \"$(TOP)/include/cccl\" $(_SPACE_)\n"
    } else {
        ""
    };
    format!(
        "\nTOP              = $(_HERE_)/..\n\
         \n\
         CICC_PATH        = $(TOP)/nvvm/bin\n\
         NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice\n\
         \n\
         LD_LIBRARY_PATH += $(TOP)/lib:\n\
         PATH            += $(CICC_PATH):$(_HERE_):\n\
         \n\
         INCLUDES        +=  \"-I$(TOP)/include\" $(_SPACE_)\n\
         {cccl}\
         \n\
         LIBRARIES        =+ $(_SPACE_) \"-L$(TOP)/lib/stubs\" \"-L$(TOP)/lib\"\n\
         \n\
         CUDAFE_FLAGS    +=\n\
         PTXAS_FLAGS     +=\n"
    )
}

/// `version.json` in the form of NVIDIA's installers.
pub(super) fn version_json(toolkit: ToolkitVersion, found: &[&Found]) -> String {
    let version = |component: Component| {
        let found = found.iter().find(|f| f.component == component)?;
        found
            .version
            .as_ref()
            .filter(|v| v.parts().len() >= 3)
            .map(ToString::to_string)
    };
    // Readers expect three numbers.
    let whole = [Component::Nvcc, Component::Cudart]
        .into_iter()
        .find_map(version);
    let whole = whole.unwrap_or_else(|| format!("{toolkit}.0"));
    let mut text =
        format!("{{\n  \"cuda\": {{ \"name\": \"CUDA SDK\", \"version\": \"{whole}\" }}");
    for found in found {
        if let Some(version) = &found.version {
            let id = found.component.id();
            // The installers name the components as NVIDIA's redistributable archives do: `libcublas`.
            let key = found.component.facts().redist.first().unwrap_or(&id);
            text.push_str(&format!(
                ",\n  \"{key}\": {{ \"name\": \"{id}\", \"version\": \"{version}\" }}"
            ));
        }
    }
    text.push_str("\n}\n");
    text
}

/// A pkg-config file for one library in a directory of the view. `pcfiledir` stays valid if the view
/// is moved. The values are not quoted, because pkgconf escapes the spaces of `pcfiledir` only in unquoted values.
pub(super) fn pkg_config(library: &str, directory: &str, version: &str) -> String {
    let name = library.to_ascii_lowercase();
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/{directory}\n\
         includedir=${{prefix}}/include\n\
         \n\
         Name: {name}\n\
         Description: {library} of CUDA\n\
         Version: {version}\n\
         Libs: -L${{libdir}} -l{library}\n\
         Cflags: -I${{includedir}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_names_the_directory_of_cccl() {
        assert!(nvcc_profile(true).contains("\"-isystem\" \"$(TOP)/include/cccl\""));
        assert!(!nvcc_profile(false).contains("cccl"));
        assert!(nvcc_profile(false).contains("\"-L$(TOP)/lib/stubs\" \"-L$(TOP)/lib\""));
    }

    #[test]
    fn version_json_has_the_names_of_the_installers() {
        let found = [
            Component::Cudart,
            Component::Cublas,
            Component::Nvjitlink,
            Component::Cccl,
        ]
        .map(|component| Found {
            version: "12.4.127".parse().ok(),
            ..Found::new(component, 12)
        });
        let found: Vec<&Found> = found.iter().collect();
        let text = version_json(ToolkitVersion::new(12, 4), &found);
        for key in ["cuda_cudart", "libcublas", "libnvjitlink", "cuda_cccl"] {
            assert!(text.contains(&format!("\n  \"{key}\": {{")), "{text}");
        }
    }

    #[test]
    fn version_json_has_three_numbers() {
        let text = version_json(ToolkitVersion::new(13, 4), &[]);
        assert_eq!(
            text,
            "{\n  \"cuda\": { \"name\": \"CUDA SDK\", \"version\": \"13.4.0\" }\n}\n"
        );
    }
}
