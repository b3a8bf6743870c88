//! The file name of a wheel: `name-version(-build)-python-abi-platform.whl`.

use std::fmt;

/// The parts of a wheel's file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    /// The distribution's name, escaped.
    pub distribution: String,
    pub version: String,
    /// The build number, if there is one, and the compatibility tags.
    pub rest: String,
}

impl FileName {
    /// Parses a file name; `None` if it is not that of a wheel.
    pub fn parse(file_name: &str) -> Option<Self> {
        let parts: Vec<&str> = file_name.strip_suffix(".whl")?.split('-').collect();
        let is_wheel = match parts[..] {
            [_, _, _, _, _] => true,
            [_, _, build, _, _, _] => build.starts_with(|c: char| c.is_ascii_digit()),
            _ => false,
        };
        (is_wheel && parts.iter().all(|part| !part.is_empty())).then(|| Self {
            distribution: parts[0].to_owned(),
            version: parts[1].to_owned(),
            rest: parts[2..].join("-"),
        })
    }

    /// The oldest glibc that the platform tag allows: `2.34` of `manylinux_2_34_x86_64`.
    pub fn glibc(&self) -> Option<String> {
        let mut parts = self.rest.split_once("-manylinux_")?.1.split('_');
        let (major, minor) = (parts.next()?, parts.next()?);
        Some(format!("{major}.{minor}"))
    }
}

/// A compatibility tag, such as `cp39-abi3-manylinux_2_34_x86_64`, with the platform `linux_x86_64`, which promises
/// nothing about the libraries of a machine.
pub fn with_local_platform(tag: &str) -> String {
    let (start, platform) = tag.rsplit_once('-').unwrap_or(("", tag));
    let machine = ["x86_64", "aarch64"]
        .into_iter()
        .find(|machine| platform.ends_with(machine));
    match machine {
        Some(machine) => format!("{start}-linux_{machine}"),
        None => tag.to_owned(),
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, version) = (&self.distribution, &self.version);
        write!(f, "{name}-{version}-{}.whl", self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_printed() {
        for name in [
            "saxpy-0.1.0-cp39-abi3-linux_x86_64.whl",
            "a_b-1-2x-py2.py3-none-any.whl",
        ] {
            assert_eq!(FileName::parse(name).unwrap().to_string(), name);
        }
        let name = "saxpy-0.1.0-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl";
        let name = FileName::parse(name).unwrap();
        assert_eq!(name.distribution, "saxpy");
        assert_eq!(name.glibc().as_deref(), Some("2.17"));
    }

    #[test]
    fn a_tag_loses_its_promise() {
        let of = with_local_platform;
        assert_eq!(
            of("cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64"),
            "cp39-abi3-linux_x86_64"
        );
        assert_eq!(
            of("py3-none-manylinux_2_34_aarch64"),
            "py3-none-linux_aarch64"
        );
        assert_eq!(of("py3-none-linux_x86_64"), "py3-none-linux_x86_64");
        assert_eq!(of("py3-none-any"), "py3-none-any");
    }

    #[test]
    fn other_file_names_are_refused() {
        for name in [
            "saxpy-0.1.0.tar.gz",
            "saxpy.whl",
            "a-1-x-py3-none-any.whl",
            "a--py3-none-any.whl",
            "a-1-2-3-py3-none-any.whl",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
