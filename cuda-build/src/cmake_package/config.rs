//! The text of the package's two files.

use std::fmt::Write as _;

use super::{BASE, Library, NAME, Part};
use crate::component::{Bundle, Component};
use crate::version::ToolkitVersion;

/// What `libcudart_static.a` and its like call besides.
const SYSTEM: [&str; 3] = ["dl", "rt", "pthread"];

/// `CUDAComponentsConfig.cmake`.
///
/// Each component's paths stand once, as a list that is checked before a target is made of it:
/// wheels that were removed are told by their name, not by the linker.
pub(super) fn config(version: ToolkitVersion, parts: &[Part]) -> String {
    let ids: Vec<&str> = parts.iter().map(|part| part.component.id()).collect();
    let mut text = format!(
        "# CUDA {version}, each component where it was found. Written by cuda-build.\n\
         if(CMAKE_VERSION VERSION_LESS 3.18)\n  \
         set({NAME}_FOUND FALSE)\n  \
         set({NAME}_NOT_FOUND_MESSAGE \"{NAME} needs CMake 3.18 or newer\")\n  \
         return()\n\
         endif()\n\
         cmake_policy(VERSION 3.18)\n\
         set(_cuda_here {})\n",
        ids.join(" ")
    );
    for part in parts {
        let id = part.component.id();
        let files = part
            .libraries
            .iter()
            .map(|library| &library.file)
            .chain(&part.include);
        let files: Vec<String> = files.map(|path| format!("\n  {}", quoted(path))).collect();
        let _ = writeln!(text, "set(_cuda_{id}_files{})", files.concat());
        for (what, list) in [("links", &part.links), ("loads", &part.loads)] {
            let names: Vec<&str> = list.iter().map(|component| component.id()).collect();
            let _ = writeln!(text, "set(_cuda_{id}_{what} {})", names.join(" "));
        }
    }
    // Every target has the directories of these, whatever is asked for.
    let base: Vec<String> = parts
        .iter()
        .filter(|part| BASE.contains(&part.component))
        .flat_map(|p| p.include.clone())
        .collect();
    let _ = writeln!(text, "set(_cuda_base {})", quoted(&base.join(";")));
    let _ = write!(
        text,
        "\n{}\n",
        CHOICE
            .replace("@VERSION@", &version.to_string())
            .replace("@MAJOR@", &version.major.to_string())
    );
    interface(&mut text, "toolkit", &base, &[], true);
    for part in parts {
        targets(&mut text, part, parts);
    }
    text.push_str(END);
    text
}

/// Which of the components that are asked for are there with all that they link.
const CHOICE: &str = r#"set(_cuda_wanted ${CUDAComponents_FIND_COMPONENTS})
if(NOT _cuda_wanted)
  set(_cuda_wanted ${_cuda_here})
endif()
set(_cuda_used "")
set(_cuda_absent "")
foreach(_cuda_component IN LISTS _cuda_wanted)
  set(CUDAComponents_${_cuda_component}_FOUND TRUE)
  foreach(_cuda_part IN ITEMS ${_cuda_component} ${_cuda_${_cuda_component}_links})
    set(_cuda_reason "")
    set(_cuda_gone FALSE)
    if(NOT _cuda_part IN_LIST _cuda_here)
      string(REPLACE ";" ", " _cuda_list "${_cuda_here}")
      set(_cuda_reason "CUDA @VERSION@ that was found has no component `${_cuda_part}` for CMake; it has ${_cuda_list}. `cargo cuda toolkit add @MAJOR@ --components ${_cuda_part}` fetches it, where that is a component's name")
    else()
      foreach(_cuda_file IN LISTS _cuda_${_cuda_part}_files)
        if(NOT EXISTS "${_cuda_file}")
          set(_cuda_reason "${_cuda_file} is not there any more: make this package anew, or the component `${_cuda_part}`")
          set(_cuda_gone TRUE)
        endif()
      endforeach()
    endif()
    if(_cuda_reason)
      set(CUDAComponents_${_cuda_component}_FOUND FALSE)
      if(NOT _cuda_part STREQUAL _cuda_component)
        string(PREPEND _cuda_reason "`${_cuda_component}` links `${_cuda_part}`. ")
      endif()
      if(CUDAComponents_FIND_REQUIRED_${_cuda_component} OR (_cuda_gone AND NOT CUDAComponents_FIND_COMPONENTS))
        list(APPEND _cuda_absent "${_cuda_reason}")
      endif()
    endif()
  endforeach()
  if(CUDAComponents_${_cuda_component}_FOUND)
    list(APPEND _cuda_used ${_cuda_component} ${_cuda_${_cuda_component}_links})
  endif()
endforeach()
foreach(_cuda_file IN LISTS _cuda_base)
  if(NOT EXISTS "${_cuda_file}")
    list(APPEND _cuda_absent "${_cuda_file} is not there any more, which all components need: make this package anew")
  endif()
endforeach()
if(NOT _cuda_used AND NOT CUDAComponents_FIND_COMPONENTS AND NOT _cuda_absent)
  list(APPEND _cuda_absent "CUDA @VERSION@ that was found has no component for CMake with all that it links")
endif()
if(_cuda_absent)
  list(REMOVE_DUPLICATES _cuda_absent)
  list(JOIN _cuda_absent "\n" CUDAComponents_NOT_FOUND_MESSAGE)
  set(CUDAComponents_FOUND FALSE)
  return()
endif()

# Directories of what is used and of what that loads while it runs, for LD_LIBRARY_PATH.
set(CUDAComponents_LIBRARY_DIRS "")
foreach(_cuda_component IN LISTS _cuda_used)
  foreach(_cuda_part IN ITEMS ${_cuda_component} ${_cuda_${_cuda_component}_loads})
    foreach(_cuda_file IN LISTS _cuda_${_cuda_part}_files)
      if(_cuda_file MATCHES "\\.so[.0-9]*$")
        get_filename_component(_cuda_file "${_cuda_file}" DIRECTORY)
        list(APPEND CUDAComponents_LIBRARY_DIRS "${_cuda_file}")
      endif()
    endforeach()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES CUDAComponents_LIBRARY_DIRS)

# CMake's own module makes CUDA::toolkit before all others.
set(_cuda_names TRUE)
if(TARGET CUDA::toolkit)
  get_target_property(_cuda_alias CUDA::toolkit ALIASED_TARGET)
  if(NOT _cuda_alias STREQUAL "CUDAComponents::toolkit")
    set(_cuda_names FALSE)
  endif()
endif()
"#;

const END: &str = "unset(_cuda_names)\nunset(_cuda_used)\nunset(_cuda_wanted)\n";

fn targets(text: &mut String, part: &Part, parts: &[Part]) {
    let id = part.component.id();
    let _ = writeln!(text, "if(\"{id}\" IN_LIST _cuda_used)");
    // What a component links is a component; what CMake links is its libraries, the main one first.
    let main = |component: &Component| -> Option<String> {
        let part = parts.iter().find(|part| part.component == *component)?;
        part.libraries
            .iter()
            .find(|library| library.shared)
            .map(|library| library.target.clone())
    };
    let links: Vec<String> = part.links.iter().filter_map(main).collect();
    let known = part.component.facts().bundle == Bundle::Toolkit;
    for library in &part.libraries {
        imported(text, library, &part.include, &links, known);
    }
    if !part.libraries.iter().any(|library| library.target == id) {
        let shared = part.libraries.iter().filter(|library| library.shared);
        let all: Vec<String> = shared.map(|library| library.target.clone()).collect();
        interface(text, id, &part.include, &all, false);
    }
    text.push_str("endif()\n");
}

fn imported(
    text: &mut String,
    library: &Library,
    include: &[String],
    links: &[String],
    known: bool,
) {
    let Library {
        target,
        file,
        shared,
    } = library;
    let kind = if *shared { "SHARED" } else { "STATIC" };
    let mut all = vec![format!("{NAME}::toolkit")];
    if *shared {
        all.extend(links.iter().map(|name| format!("{NAME}::{name}")));
    } else {
        all.extend(SYSTEM.map(str::to_owned));
    }
    let _ = write!(
        text,
        "if(NOT TARGET {NAME}::{target})\n  \
         add_library({NAME}::{target} {kind} IMPORTED)\n  \
         set_target_properties({NAME}::{target} PROPERTIES\n    \
         IMPORTED_LOCATION {}\n    \
         INTERFACE_INCLUDE_DIRECTORIES {}\n    \
         INTERFACE_LINK_LIBRARIES {})\n\
         endif()\n",
        quoted(file),
        quoted(&include.join(";")),
        quoted(&all.join(";")),
    );
    if known {
        alias(text, target);
    }
}

fn interface(text: &mut String, target: &str, include: &[String], links: &[String], known: bool) {
    let mut all: Vec<String> = links.iter().map(|name| format!("{NAME}::{name}")).collect();
    if target != "toolkit" {
        all.insert(0, format!("{NAME}::toolkit"));
    }
    let _ = write!(
        text,
        "if(NOT TARGET {NAME}::{target})\n  \
         add_library({NAME}::{target} INTERFACE IMPORTED)\n  \
         set_target_properties({NAME}::{target} PROPERTIES\n    \
         INTERFACE_INCLUDE_DIRECTORIES {}\n    \
         INTERFACE_LINK_LIBRARIES {})\n\
         endif()\n",
        quoted(&include.join(";")),
        quoted(&all.join(";")),
    );
    if known {
        alias(text, target);
    }
}

fn alias(text: &mut String, target: &str) {
    // CMake's module sets a property of this one, whoever made it, which an alias can't have.
    if target == "nvToolsExt" {
        return;
    }
    let _ = write!(
        text,
        "if(_cuda_names AND NOT TARGET CUDA::{target})\n  \
         add_library(CUDA::{target} ALIAS {NAME}::{target})\n\
         endif()\n"
    );
}

/// `CUDAComponentsConfigVersion.cmake`: releases of one major stand in for older ones of it.
pub(super) fn version(version: ToolkitVersion) -> String {
    VERSION
        .replace("@VERSION@", &version.to_string())
        .replace("@MAJOR@", &version.major.to_string())
}

const VERSION: &str = r#"set(PACKAGE_VERSION "@VERSION@")
set(PACKAGE_VERSION_COMPATIBLE FALSE)
if(PACKAGE_FIND_VERSION_RANGE)
  if(PACKAGE_VERSION VERSION_GREATER_EQUAL PACKAGE_FIND_VERSION_MIN)
    if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION_MAX)
      set(PACKAGE_VERSION_COMPATIBLE TRUE)
    elseif(PACKAGE_FIND_VERSION_RANGE_MAX STREQUAL "INCLUDE" AND PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION_MAX)
      set(PACKAGE_VERSION_COMPATIBLE TRUE)
    endif()
  endif()
elseif(NOT PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
elseif(PACKAGE_FIND_VERSION_MAJOR EQUAL @MAJOR@ AND NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
# CUDA's libraries are for 64 bits.
if(CMAKE_SIZEOF_VOID_P AND NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(PACKAGE_VERSION_UNSUITABLE TRUE)
endif()
"#;

/// In quotes, with what CMake would take for its own escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        if matches!(letter, '"' | '\\' | '$') {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted.push('"');
    quoted
}
