//! What `cargo cuda wheel` prints about the wheels that it has built.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cuda_find_core::command::Invocation;

use super::rewrite::BuiltWheel;
use crate::audit::check::Severity;
use crate::audit::report::Device;
use crate::output::{file_name, human_size};
use crate::package::INDEX_LIMIT;

/// The report about finished wheels.
pub fn report(built: &[BuiltWheel], sdists: &[PathBuf]) -> String {
    let mut text = String::new();
    for wheel in built {
        let size = human_size(wheel.size);
        text.push_str(&format!("{} ({size})\n", wheel.path.display()));
        text.push_str(&device_code(wheel));
        let mut line = |line: &str| text.push_str(&format!("  {line}\n"));
        for requirement in wheel.cuda_requirements() {
            line(&format!("requires {requirement}"));
        }
        for library in &wheel.expected_on_system {
            line(&format!("expects {library} on the system"));
        }
        if is_local(wheel) {
            line("has no manylinux tag, so package indexes refuse it");
            // auditwheel refuses the name of a variant.
            if wheel.properties.is_none() && !wheel.expected_on_system.is_empty() {
                line(&format!(
                    "hint: to copy the libraries into it: {}",
                    repair(wheel)
                ));
            }
        }
        if wheel.size > INDEX_LIMIT {
            line(
                "is larger than the 100 MiB that the Python Package Index accepts: drop capabilities, or ask for more",
            );
        }
        if let Some(properties) = &wheel.properties {
            line(&format!("is chosen for: {}", properties.text()));
            properties
                .notes
                .iter()
                .for_each(|note| line(&format!("note: {note}")));
        }
        if wheel.seconds > 0 {
            line(&format!("built in {} s", wheel.seconds));
        }
    }
    for path in sdists {
        text += &format!("{}\n", path.display());
    }
    text
}

/// The commands that publish.
pub fn publish(built: &[BuiltWheel], sdists: &[PathBuf]) -> String {
    let public = built.iter().filter(|wheel| !is_local(wheel));
    let files = Vec::from_iter(public.map(|wheel| &wheel.path).chain(sdists));
    if files.is_empty() {
        return String::new();
    }
    let uv = Invocation::new("uv").args(["publish"]).args(&files);
    let twine = Invocation::new("twine").args(["upload"]).args(&files);
    format!("to publish:\n  {uv}\nor:\n  {twine}\n")
}

/// The command that copies the libraries of others into a wheel, and gives it a manylinux tag.
fn repair(wheel: &BuiltWheel) -> Invocation {
    let left_out = wheel.not_to_copy.iter();
    let options = left_out.flat_map(|library| ["--exclude", library]);
    let call = Invocation::new("auditwheel").args(["repair"]);
    call.args(options).args([&wheel.path])
}

/// Whether the tag of a wheel is that of this machine, which no index accepts.
fn is_local(wheel: &BuiltWheel) -> bool {
    file_name(&wheel.path).contains("-linux_")
}

/// The device code, in the size that it has inside the files.
fn device_code(wheel: &BuiltWheel) -> String {
    let devices = wheel.audited.device_code.iter();
    let line = |device: &Device| format!("  device code: {}\n", device.images_as_text());
    devices.map(line).collect()
}

/// The warnings of the audit. A warning about several wheels is printed once, and names them.
pub fn warnings(built: &[BuiltWheel]) -> Vec<String> {
    let mut wheels: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for wheel in built {
        let path = wheel.path.display();
        for warning in wheel.audited.of_severity(Severity::Warning) {
            let text = format!("{warning}\nhint: {}", warning.hint);
            wheels.entry(text).or_default().push(path.to_string());
        }
    }
    let text = |(warning, paths): (String, Vec<String>)| paths.join(", ") + ":\n" + &warning;
    wheels.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::audit::report::Audited;
    use crate::package::device::{DeviceImage, ImageKind};
    use crate::package::variant::Properties;

    fn device(images: &[(ImageKind, &str, u64)]) -> Device {
        let image = |&(kind, capability, bytes): &(ImageKind, &str, u64)| DeviceImage {
            kind,
            capability: capability.parse().unwrap(),
            isa: (0, 0),
            bytes,
        };
        Device {
            file: String::new(),
            images: images.iter().map(image).collect(),
            driver: None,
        }
    }

    fn wheel(major: u32, size: u64) -> BuiltWheel {
        BuiltWheel {
            path: PathBuf::from(format!("my dist/saxpy_cu{major}-0.1.0.whl")),
            requires: ["numpy>=2", "cuda-toolkit[cudart]>=13.0,<14"]
                .map(str::to_owned)
                .to_vec(),
            size,
            audited: Audited {
                device_code: vec![
                    device(&[(ImageKind::Sass, "8.0", 300), (ImageKind::Ptx, "12.0", 7)]),
                    device(&[(ImageKind::Sass, "8.0", 1000)]),
                ],
                ..Audited::default()
            },
            ..BuiltWheel::default()
        }
    }

    #[test]
    fn the_report_has_sizes_and_uploads() {
        let built = [wheel(12, 2_000), wheel(13, 200_000_000)];
        let text = report(&built, &[]) + &publish(&built, &[]);
        for line in [
            "my dist/saxpy_cu12-0.1.0.whl (2.0 kB)",
            "  device code: SASS 8.0 (300 B), PTX 12.0 (7 B)",
            "  requires cuda-toolkit[cudart]>=13.0,<14",
            "  is larger than the 100 MiB that the Python Package Index accepts: drop capabilities, or ask for more",
        ] {
            assert!(text.lines().any(|l| l == line), "`{line}`: {text}");
        }
        assert!(!text.contains("numpy"), "{text}");
        let expected = "to publish:\n  \
            uv publish 'my dist/saxpy_cu12-0.1.0.whl' 'my dist/saxpy_cu13-0.1.0.whl'\nor:\n  \
            twine upload 'my dist/saxpy_cu12-0.1.0.whl' 'my dist/saxpy_cu13-0.1.0.whl'\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn a_wheel_that_needs_libraries_has_the_command_that_copies_them() {
        let built = BuiltWheel {
            path: "a-1-py3-none-linux_x86_64.whl".into(),
            expected_on_system: vec!["libfoo.so.1".to_owned()],
            not_to_copy: vec!["libcudart.so.13".to_owned(), "libtorch*".to_owned()],
            ..BuiltWheel::default()
        };
        let command = "auditwheel repair --exclude libcudart.so.13 --exclude 'libtorch*' a-1-py3-none-linux_x86_64.whl";
        let text = report(std::slice::from_ref(&built), &[]);
        assert!(text.contains(&format!("into it: {command}\n")), "{text}");
        let variant = BuiltWheel {
            properties: Some(Properties::default()),
            ..built
        };
        assert!(!report(&[variant], &[]).contains("auditwheel"));
    }

    #[test]
    fn a_warning_about_two_wheels_appears_once() {
        let finding = |message: &str| {
            let (artifact, majors) = Default::default();
            let mut audit = crate::audit::check::Audit::new(&artifact, &majors);
            audit.add(
                &crate::audit::check::W08,
                Severity::Error,
                message.to_owned(),
            );
            audit.findings.remove(0)
        };
        let mut built = [wheel(12, 1), wheel(13, 1)];
        for wheel in &mut built {
            wheel.audited.findings = vec![finding("both")];
            wheel.audited.findings[0].severity = Severity::Warning;
        }
        let [text] = &warnings(&built)[..] else {
            panic!("{built:?}")
        };
        let start = "my dist/saxpy_cu12-0.1.0.whl, my dist/saxpy_cu13-0.1.0.whl:\nwarning[W08]: both\nhint: ";
        assert!(text.starts_with(start), "{text}");
    }
}
