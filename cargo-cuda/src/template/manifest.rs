//! Adding the tables of a template to a `Cargo.toml`, whose comments and format stay.

use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, TomlError, Value};

/// Where a package gets `cuda-build` from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CudaBuild {
    Git(String),
    Path(String),
}

/// A changed manifest.
#[derive(Debug)]
pub struct Changed {
    pub text: String,
    /// Dotted keys that were added.
    pub added: Vec<String>,
    /// Dotted keys that have another value than in the template.
    pub kept: Vec<String>,
    /// The template's `lib.crate-type`, which was not added.
    pub left_out: Option<String>,
}

/// The name of the package; `None` for the manifest of a workspace without a package.
pub fn package_name(manifest: &str) -> Result<Option<String>, TomlError> {
    let manifest: DocumentMut = manifest.parse()?;
    let name = manifest
        .get("package")
        .and_then(|package| package.get("name"));
    Ok(name.and_then(Item::as_str).map(str::to_owned))
}

/// The value of `package.build` if it is not the usual script: another path, or `false`.
pub fn other_build_script(manifest: &str) -> Option<String> {
    let manifest: DocumentMut = manifest.parse().ok()?;
    let build = manifest.get("package")?.get("build")?;
    match (build.as_str(), build.as_bool()) {
        (Some("build.rs"), _) | (_, Some(true)) => None,
        (Some(path), _) => Some(format!("\"{path}\"")),
        (_, is_built) => is_built.map(|is_built| is_built.to_string()),
    }
}

/// Adds to `manifest` what the template has and `manifest` has not. If the package has sources, `[lib]` is not added: with
/// it, a package without `src/lib.rs` cannot be built, and other packages and tests cannot use the library.
pub fn add(
    manifest: &str,
    template: &str,
    cuda_build: &CudaBuild,
    has_sources: bool,
) -> Result<Changed, TomlError> {
    let mut manifest: DocumentMut = manifest.parse()?;
    let mut template: DocumentMut = template.parse()?;
    prepare(&mut template, cuda_build);
    let library = manifest.get("lib");
    let has_type = library.is_some_and(|library| library.get("crate-type").is_some());
    let removed = match !has_type && (has_sources || library.is_some()) {
        true => template.remove("lib"),
        false => None,
    };
    let crate_type = removed.as_ref().and_then(|table| table.get("crate-type"));
    let mut changed = Changed {
        text: String::new(),
        added: Vec::new(),
        kept: Vec::new(),
        left_out: crate_type.map(|item| item.to_string().trim().to_owned()),
    };
    merge(
        manifest.as_table_mut(),
        template.as_table(),
        "",
        &mut changed,
    );
    changed.text = manifest.to_string();
    Ok(changed)
}

/// Removes what belongs to the template as a crate of its own, and names the origin of cuda-build.
fn prepare(template: &mut DocumentMut, cuda_build: &CudaBuild) {
    template.remove("workspace");
    if let Some(package) = template.get_mut("package").and_then(Item::as_table_mut) {
        package.retain(|key, _| ["links", "metadata"].contains(&key));
    }
    let dependency = template
        .get_mut("build-dependencies")
        .and_then(|dependencies| dependencies.get_mut("cuda-build"))
        .and_then(Item::as_inline_table_mut);
    if let Some(dependency) = dependency {
        let (key, value) = match cuda_build {
            CudaBuild::Git(url) => ("git", url),
            CudaBuild::Path(path) => ("path", path),
        };
        let mut origin = InlineTable::new();
        origin.insert(key, Value::from(value.as_str()));
        for (key, value) in dependency.iter() {
            if !["path", "version"].contains(&key) {
                origin.insert(key, value.clone());
            }
        }
        origin.fmt();
        *dependency = origin;
    }
}

fn merge(to: &mut dyn TableLike, from: &Table, prefix: &str, changed: &mut Changed) {
    for (key, item) in from {
        let name = format!("{prefix}{key}");
        match (to.get_mut(key), item) {
            (Some(existing), Item::Table(table)) if existing.is_table_like() => {
                if let Some(existing) = existing.as_table_like_mut() {
                    merge(existing, table, &format!("{name}."), changed);
                }
            }
            (Some(existing), item) => {
                if existing.to_string().trim() != item.to_string().trim() {
                    changed.kept.push(name);
                }
            }
            (None, item) => {
                let mut item = item.clone();
                unposition(&mut item);
                let entry_key = from.key(key).cloned();
                match to.entry_format(&entry_key.unwrap_or_else(|| key.into())) {
                    toml_edit::Entry::Vacant(entry) => {
                        entry.insert(item);
                    }
                    toml_edit::Entry::Occupied(_) => {}
                }
                changed.added.push(name);
            }
        }
    }
}

/// Makes the added tables follow the tables of the manifest. A table would otherwise keep its place of the template.
fn unposition(item: &mut Item) {
    if let Item::Table(table) = item {
        table.set_position(None);
        table.iter_mut().for_each(|(_, item)| unposition(item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;

    fn git() -> CudaBuild {
        CudaBuild::Git("https://example.org/cuda-build".to_owned())
    }

    #[test]
    fn comments_and_format_stay() {
        let manifest = "# Ours.\n[package]\nname    = 'own' # as published\nedition = \"2024\"\n\n[dependencies]\n\
             # Fast.\nlibm = '0.2'\n\n[build-dependencies]\ncc = \"1\"\n\n[profile.release]\nlto = true\n";
        let template = Template::ModuleCust.manifest("own");
        let changed = add(manifest, &template, &git(), true).unwrap();
        let capabilities = template
            .lines()
            .find(|line| line.starts_with("capabilities"))
            .unwrap();
        assert_eq!(
            changed.text.replace(capabilities, "capabilities = []"),
            "# Ours.\n[package]\nname    = 'own' # as published\nedition = \"2024\"\n\n[package.metadata.cuda]\n\
             capabilities = []\n\n[dependencies]\n# Fast.\nlibm = '0.2'\ncust = \"0.3\"\n\n\
             [build-dependencies]\ncc = \"1\"\ncuda-build = { git = \"https://example.org/cuda-build\" }\n\n\
             [profile.release]\nlto = true\n"
        );
        assert_eq!(
            changed.added,
            [
                "package.metadata",
                "dependencies.cust",
                "build-dependencies.cuda-build"
            ]
        );
        let again = add(&changed.text, &template, &git(), true).unwrap();
        assert_eq!(again.text, changed.text);
        assert!(again.added.is_empty() && again.kept.is_empty(), "{again:?}");
    }

    #[test]
    fn values_of_the_manifest_are_kept_and_named() {
        let manifest = "[package]\nname = \"own\"\nmetadata.cuda.capabilities = [\"9.0\"]\n\
             [lib]\ncrate-type = [\"rlib\"]\n[build-dependencies]\ncuda-build = \"0.1\"\n";
        let changed = add(manifest, &Template::Python.manifest("own"), &git(), true).unwrap();
        assert!(
            changed
                .text
                .starts_with("[package]\nname = \"own\"\nmetadata.cuda.capabilities = [\"9.0\"]\n")
        );
        for key in [
            "package.metadata.cuda.capabilities",
            "lib.crate-type",
            "build-dependencies.cuda-build",
        ] {
            assert!(changed.kept.iter().any(|kept| kept == key), "{changed:?}");
        }
    }

    #[test]
    fn a_crate_type_is_only_added_to_a_package_without_sources() {
        let package = "[package]\nname = \"own\"\n";
        let named = format!("{package}[lib]\npath = \"own.rs\"\n");
        let template = Template::Python.manifest("own");
        for (manifest, has_sources, expected) in [
            (package, false, None),
            (package, true, Some("[\"cdylib\"]")),
            (&named, false, Some("[\"cdylib\"]")),
        ] {
            let changed = add(manifest, &template, &git(), has_sources).unwrap();
            assert_eq!(changed.left_out.as_deref(), expected);
            assert_eq!(changed.text.contains("cdylib"), expected.is_none());
        }
    }

    #[test]
    fn another_build_script_is_noticed() {
        for (line, expected) in [
            ("", None),
            ("build = true", None),
            ("build = \"build.rs\"", None),
            ("build = false", Some("false")),
            ("build = \"x.rs\" # ours", Some("\"x.rs\"")),
        ] {
            let manifest = format!("[package]\nname = \"own\"\n{line}\n");
            assert_eq!(other_build_script(&manifest).as_deref(), expected);
        }
    }

    #[test]
    fn features_of_the_dependency_stay() {
        let template = Template::Sys.manifest("own");
        let path = CudaBuild::Path("/src/cuda-build".to_owned());
        let changed = add("[package]\nname = \"own\"\n", &template, &path, true).unwrap();
        let expected = "cuda-build = { path = \"/src/cuda-build\", default-features = false, features = [\"view\"] }";
        assert!(changed.text.contains(expected), "{}", changed.text);
        assert!(changed.text.contains("links = \"own\""), "{}", changed.text);
    }
}
