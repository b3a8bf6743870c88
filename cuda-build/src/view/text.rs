//! Files that a view has and its sources don't, or not in a form that fits it.

use crate::component::Component;
use crate::probe::Found;
use crate::version::ToolkitVersion;

/// nvcc's own configuration. nvcc reads it from the directory that it was called in, and sets
/// `_HERE_` to that.
///
/// Those of the sources don't do: 13.0 to 13.2 in wheels name a `lib64` that is not there,
/// Debian's and Nix's name absolute places. cicc is found by `CICC_PATH` from 13 on, by `PATH`
/// before; the libraries' directory is the view's, whatever platform the sources name theirs for.
pub(super) fn nvcc_profile(cccl_apart: bool) -> String {
    let cccl = if cccl_apart {
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
    // Readers want three numbers. The compiler's are what it says of itself.
    let whole = [Component::Nvcc, Component::Cudart]
        .into_iter()
        .find_map(version);
    let whole = whole.unwrap_or_else(|| format!("{toolkit}.0"));
    let mut text =
        format!("{{\n  \"cuda\": {{ \"name\": \"CUDA SDK\", \"version\": \"{whole}\" }}");
    for found in found {
        if let Some(version) = &found.version {
            let id = found.component.id().replace('-', "_");
            let key = if id.starts_with("cu") && id != "cudart" || id.starts_with("lib") {
                id.clone()
            } else {
                format!("cuda_{id}")
            };
            text.push_str(&format!(
                ",\n  \"{key}\": {{ \"name\": \"{id}\", \"version\": \"{version}\" }}"
            ));
        }
    }
    text.push_str("\n}\n");
    text
}

/// A pkg-config file for one library. Its place is told by the file itself, so that a moved view
/// stays right; pkgconf escapes the blanks in it, which quotes here would undo.
pub(super) fn pkg_config(name: &str, library: &str, version: &str, stub: bool) -> String {
    let directory = if stub {
        "${prefix}/lib/stubs"
    } else {
        "${prefix}/lib"
    };
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir={directory}\n\
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
    fn profile_names_cccl_where_it_is_apart() {
        assert!(nvcc_profile(true).contains("\"-isystem\" \"$(TOP)/include/cccl\""));
        assert!(!nvcc_profile(false).contains("cccl"));
        assert!(nvcc_profile(false).contains("\"-L$(TOP)/lib/stubs\" \"-L$(TOP)/lib\""));
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
