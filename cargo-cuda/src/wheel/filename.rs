//! The file name of a wheel: `name-version(-build)-python-abi-platform.whl`.

use std::fmt;

/// The parts of a wheel's file name.
///
/// ```
/// use cargo_cuda::wheel::filename::FileName;
/// let name = FileName::parse("saxpy-0.1.0-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl").unwrap();
/// assert_eq!(name.distribution, "saxpy");
/// assert_eq!(name.tags(), ["cp39-abi3-manylinux_2_17_x86_64", "cp39-abi3-manylinux2014_x86_64"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    /// The distribution's name, escaped.
    pub distribution: String,
    /// Its version.
    pub version: String,
    /// The build number, which starts with a digit.
    pub build: Option<String>,
    /// The Python, ABI and platform tags. Each may be a set, separated by `.`.
    pub compatibility: [String; 3],
}

impl FileName {
    /// Parses a file name; `None` if it is not that of a wheel.
    pub fn parse(file_name: &str) -> Option<Self> {
        let parts: Vec<&str> = file_name.strip_suffix(".whl")?.split('-').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return None;
        }
        let (distribution, version, build, tags) = match parts[..] {
            [d, v, p, a, l] => (d, v, None, [p, a, l]),
            [d, v, b, p, a, l] if b.starts_with(|c: char| c.is_ascii_digit()) => {
                (d, v, Some(b), [p, a, l])
            }
            _ => return None,
        };
        Some(Self {
            distribution: distribution.to_owned(),
            version: version.to_owned(),
            build: build.map(str::to_owned),
            compatibility: tags.map(str::to_owned),
        })
    }

    /// The compatibility tags, one for each combination.
    pub fn tags(&self) -> Vec<String> {
        let [pythons, abis, platforms] = &self.compatibility;
        let mut tags = Vec::new();
        for python in pythons.split('.') {
            for abi in abis.split('.') {
                tags.extend(
                    platforms
                        .split('.')
                        .map(|platform| format!("{python}-{abi}-{platform}")),
                );
            }
        }
        tags
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.distribution, self.version)?;
        if let Some(build) = &self.build {
            write!(f, "-{build}")?;
        }
        write!(f, "-{}.whl", self.compatibility.join("-"))
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
        assert_eq!(
            FileName::parse("a_b-1-2x-py2.py3-none-any.whl")
                .unwrap()
                .tags(),
            ["py2-none-any", "py3-none-any"]
        );
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
