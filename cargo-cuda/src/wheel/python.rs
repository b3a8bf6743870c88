//! The import package, which is renamed per CUDA major.

use std::collections::{BTreeMap, BTreeSet};

use super::WheelError;
use super::archive::Entry;
use super::rewrite::invalid;

/// The only top-level package.
pub(super) fn import_package(
    entries: &BTreeMap<String, Entry>,
    dist_info: &str,
) -> Result<String, WheelError> {
    let mut tops = BTreeSet::new();
    for path in entries.keys() {
        match path.split_once('/') {
            Some((top, _)) if top == dist_info || top.ends_with(".data") => {}
            Some((top, _)) => {
                tops.insert(top);
            }
            None => {
                let reason = format!(
                    "`{path}` lies beside the packages, where the wheels of two majors would collide"
                );
                return Err(invalid(&reason));
            }
        }
    }
    let tops: Vec<&str> = tops.into_iter().collect();
    match tops[..] {
        [one] => Ok(one.to_owned()),
        [] => Err(invalid("holds no import package")),
        _ => Err(invalid(&format!(
            "holds several top-level directories ({}), of which one import package can't be told",
            tops.join(", ")
        ))),
    }
}

/// Refuses sources that import `package` by its absolute name.
pub(super) fn refuse_absolute_imports(
    entries: &BTreeMap<String, Entry>,
    package: &str,
) -> Result<(), WheelError> {
    let mut places = Vec::new();
    for (path, entry) in entries
        .iter()
        .filter(|(path, _)| path.ends_with(".py") || path.ends_with(".pyi"))
    {
        let source = String::from_utf8_lossy(&entry.content);
        places.extend(
            absolute_imports(&source, package)
                .into_iter()
                .map(|place| format!("{path}:{place}")),
        );
    }
    if places.is_empty() {
        return Ok(());
    }
    Err(WheelError::AbsoluteSelfImport {
        package: package.to_owned(),
        places,
    })
}

/// The lines with which Python code imports `package` by its absolute name, as `line: text`.
/// Relative imports (`from . import x`) work under any name.
pub fn absolute_imports(source: &str, package: &str) -> Vec<String> {
    let names_package = |module: &str| {
        let name = module.split_whitespace().next().unwrap_or_default();
        name.split('.').next() == Some(package)
    };
    let imports = |line: &str| {
        if let Some(rest) = line.strip_prefix("from ") {
            names_package(rest)
        } else if let Some(rest) = line.strip_prefix("import ") {
            rest.split('#')
                .next()
                .unwrap_or_default()
                .split(',')
                .any(names_package)
        } else {
            false
        }
    };
    source
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| imports(line))
        .map(|(number, line)| format!("{number}: {line}"))
        .collect()
}

/// `entry_points.txt` with the module of each entry in the renamed package.
pub fn rename_entry_points(text: &str, package: &str, renamed: &str) -> String {
    let rename = |line: &str| match line.split_once('=') {
        Some((name, object)) if !line.trim_start().starts_with(['#', ';', '[']) => {
            match rename_module(object.trim_start(), package, renamed) {
                Some(object) => format!("{name}= {object}"),
                None => line.to_owned(),
            }
        }
        _ => line.to_owned(),
    };
    lines(text, rename)
}

/// `top_level.txt`, which has one import package in each line.
pub fn rename_top_level(text: &str, package: &str, renamed: &str) -> String {
    lines(text, |line| {
        if line.trim() == package {
            renamed.to_owned()
        } else {
            line.to_owned()
        }
    })
}

/// A dotted module, with or without `:object`, in the renamed package; `None` if it is in another
/// package.
pub fn rename_module(module: &str, package: &str, renamed: &str) -> Option<String> {
    let rest = module.strip_prefix(package)?;
    (rest.is_empty() || rest.starts_with(['.', ':', ' ', ';'])).then(|| format!("{renamed}{rest}"))
}

fn lines(text: &str, change: impl Fn(&str) -> String) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => change(line) + "\n",
            None => change(line),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_imports_of_the_package_itself_count() {
        let source = "import os, saxpy._native as n\nfrom saxpy.sub import x\n  import saxpy\nfrom .saxpy import *\n\
                      from . import saxpy\nimport saxpyx\n# import saxpy\nimport os  # , saxpy\nfrom saxpy_cu12 import y\n";
        assert_eq!(
            absolute_imports(source, "saxpy"),
            [
                "1: import os, saxpy._native as n",
                "2: from saxpy.sub import x",
                "3: import saxpy"
            ]
        );
    }

    #[test]
    fn entry_points_follow_the_package() {
        let text = "[console_scripts]\nsaxpy = saxpy.cli:main\nother=saxpyx:main\n\n[saxpy.plugins]\np = saxpy:plug [fast]";
        assert_eq!(
            rename_entry_points(text, "saxpy", "saxpy_cu12"),
            "[console_scripts]\nsaxpy = saxpy_cu12.cli:main\nother=saxpyx:main\n\n[saxpy.plugins]\np = saxpy_cu12:plug [fast]"
        );
        assert_eq!(
            rename_top_level("saxpy\nother\n", "saxpy", "saxpy_cu13"),
            "saxpy_cu13\nother\n"
        );
    }
}
