//! What `cargo cuda wheel` prints about the wheels that it has built.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cuda_build::internal::command::Invocation;

use super::rewrite::BuiltWheel;
use crate::failure::Failure;
use crate::store::human_size;

/// The largest file that the Python Package Index accepts by default.
const DEFAULT_MAX_SIZE: u64 = 100 << 20;

/// The report about finished wheels, with the commands that publish them.
pub fn report(built: &[BuiltWheel], sdists: &[PathBuf], metapackage: Option<&Path>) -> String {
    let mut text = String::new();
    for wheel in built {
        let size = human_size(wheel.size);
        text.push_str(&format!("{} ({size})\n", wheel.path.display()));
        text.push_str(&largest_parts(wheel));
        for requirement in wheel.cuda_requirements() {
            text.push_str(&format!("  requires {requirement}\n"));
        }
        if let Some(glibc) = &wheel.glibc {
            text.push_str(&format!(
                "  requires glibc {glibc} or newer, which the build machine determines\n"
            ));
        }
        for library in &wheel.needed_driver {
            text.push_str(&format!(
                "  needs {library} of NVIDIA's driver: the import fails on machines without the driver\n"
            ));
        }
        if wheel.static_runtime {
            text.push_str(
                "  contains NVIDIA's static CUDA runtime, with a notice among the licence files\n",
            );
        }
        for library in &wheel.expected_on_system {
            text.push_str(&format!("  expects {library} on the system\n"));
        }
        if wheel.glibc.is_none() && !wheel.expected_on_system.is_empty() {
            text.push_str(
                "  has no manylinux tag, so package indexes refuse it: install auditwheel and patchelf, or give \
                 `--fetch`, to copy these libraries into the wheel\n",
            );
        }
    }
    for path in sdists {
        text.push_str(&format!("{}\n", path.display()));
    }
    if let Some(path) = metapackage {
        text.push_str(&format!("{}\n", path.display()));
        let extras: BTreeSet<u32> = built.iter().map(|wheel| wheel.major).collect();
        for major in extras {
            text.push_str(&format!("  extra cu{major}\n"));
        }
    }
    text.push_str(&publishing(built, sdists, metapackage));
    text
}

/// Files with at least a tenth of the wheel's size, in their compressed size, and the device code for each capability,
/// in the size that it has inside the files. The largest are first.
fn largest_parts(wheel: &BuiltWheel) -> String {
    let large = wheel
        .files
        .iter()
        .filter(|(_, size)| size * 10 >= wheel.size);
    let mut text: String = large
        .map(|(path, size)| format!("  {path}: {}\n", human_size(*size)))
        .collect();
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    let devices = &wheel.audited.device_code;
    for image in devices.iter().flat_map(|device| &device.images) {
        *sizes.entry(image.label()).or_default() += image.bytes;
    }
    let mut sizes: Vec<(String, u64)> = sizes.into_iter().filter(|(_, size)| *size > 0).collect();
    sizes.sort_by_key(|(_, size)| Reverse(*size));
    if !sizes.is_empty() {
        let sizes = sizes
            .iter()
            .map(|(label, size)| format!("{label} {}", human_size(*size)));
        let sizes = Vec::from_iter(sizes).join(", ");
        text.push_str(&format!("  device code: {sizes}\n"));
    }
    text
}

/// The metapackage is uploaded last: the wheels that it requires must be on the index.
fn publishing(built: &[BuiltWheel], sdists: &[PathBuf], metapackage: Option<&Path>) -> String {
    let wheels = built.iter().map(|wheel| wheel.path.as_path());
    let wheels: Vec<&Path> = wheels.chain(sdists.iter().map(PathBuf::as_path)).collect();
    let mut text = String::new();
    for (words, command) in [
        ("to publish:", ["uv", "publish"]),
        ("or:", ["twine", "upload"]),
    ] {
        text.push_str(&format!("{words}\n"));
        let uploads = [wheels.as_slice(), metapackage.as_slice()];
        for paths in uploads.into_iter().filter(|paths| !paths.is_empty()) {
            let [program, subcommand] = command;
            let line = Invocation::new(program)
                .args([subcommand])
                .args(paths.to_vec());
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}

/// Notes about Python code that fails because the distribution has a suffix. The wheels of all
/// majors have the same Python code, so each call is reported once.
pub fn notes(built: &[BuiltWheel]) -> Vec<String> {
    let lookups: BTreeSet<_> = built
        .iter()
        .flat_map(|wheel| {
            wheel
                .lookups
                .iter()
                .map(|lookup| (lookup, &wheel.base_name))
        })
        .collect();
    lookups
        .into_iter()
        .map(|(lookup, name)| {
            format!(
                "note: {}:{}: `{}` fails, because no distribution is named `{name}`: the wheels are named \
                 `{name}-cu<major>`",
                lookup.file, lookup.line, lookup.call
            )
        })
        .collect()
}

/// The messages of the audit of each wheel. A message about all wheels is printed once, and any other names its wheels.
pub fn findings(audited: &[(&Path, Vec<String>)]) -> Vec<String> {
    let mut wheels_of: Vec<(&String, Vec<String>)> = Vec::new();
    for (wheel, messages) in audited {
        for message in messages {
            let path = wheel.display().to_string();
            match wheels_of.iter_mut().find(|(known, _)| *known == message) {
                Some((_, wheels)) => wheels.push(path),
                None => wheels_of.push((message, vec![path])),
            }
        }
    }
    let text = |(message, wheels): (&String, Vec<String>)| match wheels.len() == audited.len() {
        true => message.clone(),
        false => format!("{}:\n{message}", wheels.join(", ")),
    };
    wheels_of.into_iter().map(text).collect()
}

/// Fails if a wheel is larger than the index accepts. The wheels are finished and stay.
pub fn check_sizes(built: &[BuiltWheel], max_size: Option<u64>) -> Result<(), Failure> {
    let limit = max_size.unwrap_or(DEFAULT_MAX_SIZE);
    let too_large: Vec<String> = built
        .iter()
        .filter(|wheel| wheel.size > limit)
        .map(|wheel| {
            let (path, size) = (wheel.path.display(), human_size(wheel.size));
            format!("{path} has {size}\n{}", largest_parts(wheel))
        })
        .collect();
    if too_large.is_empty() {
        return Ok(());
    }
    let text = format!(
        "the index accepts {} per file\n{}",
        human_size(limit),
        too_large.concat().trim_end()
    );
    Err(Failure::wheel(text)
        .hint("drop capabilities: code for 8.0 also runs on GPUs with 8.6 and 8.9")
        .hint("remove symbols with `strip = true` below `[tool.maturin]`, and files of `data` and `include` there")
        .hint(
            "if the index accepts more, set `max-size = \"200 MiB\"` below `[package.metadata.cuda.wheel]` in Cargo.toml",
        ))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::audit::report::{Audited, Device, ListedImage};
    use crate::wheel::distribution_lookups::Lookup;

    fn device(images: &[(&str, &str, u64)]) -> Device {
        let image = |&(kind, capability, bytes): &(&str, &str, u64)| ListedImage {
            kind: kind.to_owned(),
            capability: capability.to_owned(),
            version: None,
            bytes,
        };
        Device {
            files: Vec::new(),
            images: images.iter().map(image).collect(),
            driver: None,
            gpus: Vec::new(),
        }
    }

    fn wheel(major: u32, size: u64) -> BuiltWheel {
        BuiltWheel {
            path: PathBuf::from(format!("my dist/saxpy_cu{major}-0.1.0.whl")),
            name: format!("saxpy-cu{major}"),
            base_name: "saxpy".to_owned(),
            version: "0.1.0".to_owned(),
            major,
            requires: ["numpy>=2", "cuda-toolkit[cudart]>=13.0,<14"]
                .map(str::to_owned)
                .to_vec(),
            glibc: Some("2.34".to_owned()),
            size,
            files: vec![("saxpy/a.so".to_owned(), size - 1), ("b.py".to_owned(), 1)],
            expected_on_system: Vec::new(),
            needed_driver: vec!["libcuda.so.1".to_owned()],
            static_runtime: true,
            lookups: vec![Lookup {
                file: "saxpy/__init__.py".to_owned(),
                line: 3,
                call: "version(\"saxpy\")".to_owned(),
            }],
            audited: Audited {
                device_code: vec![
                    device(&[("sass", "8.0", 300), ("ptx", "12.0", 7)]),
                    device(&[("sass", "8.0", 1000)]),
                ],
                ..Audited::default()
            },
        }
    }

    #[test]
    fn the_report_has_sizes_driver_and_uploads() {
        let built = [wheel(12, 2_000), wheel(13, 2_000)];
        let text = report(
            &built,
            &[],
            Some(Path::new("my dist/saxpy-0.1.0-py3-none-any.whl")),
        );
        for line in [
            "my dist/saxpy_cu12-0.1.0.whl (2.0 kB)",
            "  saxpy/a.so: 2.0 kB",
            "  device code: SASS 8.0 1.3 kB, PTX 12.0 7 B",
            "  needs libcuda.so.1 of NVIDIA's driver: the import fails on machines without the driver",
            "  contains NVIDIA's static CUDA runtime, with a notice among the licence files",
            "  requires cuda-toolkit[cudart]>=13.0,<14",
            "  extra cu13",
        ] {
            assert!(text.lines().any(|l| l == line), "`{line}`: {text}");
        }
        assert!(!text.contains("b.py") && !text.contains("numpy"), "{text}");
        let expected = "to publish:\n  \
            uv publish 'my dist/saxpy_cu12-0.1.0.whl' 'my dist/saxpy_cu13-0.1.0.whl'\n  \
            uv publish 'my dist/saxpy-0.1.0-py3-none-any.whl'\nor:\n  \
            twine upload 'my dist/saxpy_cu12-0.1.0.whl' 'my dist/saxpy_cu13-0.1.0.whl'\n  \
            twine upload 'my dist/saxpy-0.1.0-py3-none-any.whl'\n";
        assert!(text.ends_with(expected), "{text}");
        assert_eq!(notes(&built).len(), 1);
    }

    #[test]
    fn findings_of_all_wheels_appear_once() {
        let [both, one] = ["both", "one"].map(str::to_owned);
        let audited = [
            (Path::new("cu12.whl"), vec![both.clone()]),
            (Path::new("cu13.whl"), vec![both, one]),
        ];
        assert_eq!(findings(&audited), ["both", "cu13.whl:\none"]);
    }

    #[test]
    fn a_wheel_above_the_limit_is_an_error() {
        let built = [wheel(12, 50), wheel(13, DEFAULT_MAX_SIZE + 1)];
        let error = check_sizes(&built, None).unwrap_err().to_string();
        assert!(
            error.contains("saxpy_cu13-0.1.0.whl has 104.9 MB\n  saxpy/a.so: 104.9 MB\n  device code: SASS 8.0 "),
            "{error}"
        );
        assert!(
            !error.contains("cu12") && error.contains("max-size"),
            "{error}"
        );
        check_sizes(&built, Some(200 << 20)).unwrap();
        assert!(
            check_sizes(&built, Some(40))
                .unwrap_err()
                .message
                .contains("cu12")
        );
    }
}
