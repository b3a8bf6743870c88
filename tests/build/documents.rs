//! What the documents say of tests is true.

use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every Rust file below a directory, with the module it would be called by.
fn sources(directory: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let module = if ["tests", "mod"].contains(&stem) {
                path.parent()
                    .unwrap()
                    .file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
            } else {
                stem
            };
            found.push((module.to_owned(), fs::read_to_string(&path).unwrap()));
        }
    }
}

/// `module::test` in backquotes.
fn named(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    let path = quoted.filter_map(|word| word.split_once("::"));
    let lower = |word: &str| {
        word.chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    path.filter(|(module, test)| lower(module) && lower(test))
        .collect()
}

#[test]
fn every_test_that_is_named_exists() {
    let mut files = Vec::new();
    for directory in [
        "tests/build",
        "tests/cli",
        "cuda-build/src",
        "cargo-cuda/src",
    ] {
        sources(&repository().join(directory), &mut files);
    }
    let text = fs::read_to_string(repository().join("docs/layouts.md")).unwrap();
    let tests = named(&text);
    assert!(tests.len() > 50, "{tests:?}");
    for (module, test) in tests {
        // The listings' tests are made by a macro.
        let is_there = |(name, source): &(String, String)| {
            let function = source.contains(&format!("#[test]\n    fn {test}()"))
                || source.contains(&format!("#[test]\nfn {test}()"));
            name == module
                && (function || (name == "layouts" && source.contains(&format!("    {test}: \""))))
        };
        assert!(
            files.iter().any(is_there),
            "docs/layouts.md names `{module}::{test}`, which is no test"
        );
    }
}

#[test]
fn every_listing_is_in_the_table() {
    let text = fs::read_to_string(repository().join("docs/layouts.md")).unwrap();
    for entry in fs::read_dir(repository().join("tests/layouts")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name
            .strip_suffix(".txt")
            .filter(|name| !name.ends_with(".expected"))
        else {
            continue;
        };
        let test = format!("| `layouts::{}` |", name.replace(['-', '.'], "_"));
        assert!(
            text.contains(&test),
            "docs/layouts.md has no row for {name}"
        );
    }
}

/// The targets of the links in a document, without those to other sites.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.split('#').next().unwrap());
    targets
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let root = repository();
    let mut documents = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    documents.extend([root.join("CONTRIBUTING.md"), root.join("CHANGELOG.md")]);
    let pages = fs::read_dir(root.join("docs")).unwrap();
    documents.extend(pages.map(|page| page.unwrap().path()));
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut checked = 0;
    for document in &documents {
        for link in links(&fs::read_to_string(document).unwrap()) {
            let target = document.parent().unwrap().join(link);
            assert!(target.exists(), "{}: no {link}", document.display());
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked} links");
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let docs = repository().join("docs");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed = links(&contents);
    for page in fs::read_dir(docs).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let is_page = name.ends_with(".md") && name != "SUMMARY.md";
        assert!(!is_page || listed.contains(&name.as_str()), "no {name}");
    }
}

#[test]
fn documents_install_from_the_repository_of_the_manifest() {
    let mut pages = vec![repository().join("README.md")];
    let docs = fs::read_dir(repository().join("docs")).unwrap();
    pages.extend(docs.map(|page| page.unwrap().path()));
    let template = repository().join("templates/python");
    pages.push(template.join("cuda_backend.py"));
    pages.push(template.join(".github/workflows/wheels.yml"));
    let mut found = 0;
    for page in pages.iter().filter(|page| page.is_file()) {
        let text = String::from_utf8_lossy(&fs::read(page).unwrap()).into_owned();
        assert!(
            !text.contains("install --locked --path"),
            "{}",
            page.display()
        );
        assert!(
            !page.starts_with(&template) || text.contains("--git https"),
            "{}",
            page.display()
        );
        for rest in text.split("--git https").skip(1) {
            let address = rest.split_whitespace().next().unwrap();
            let expected = env!("CARGO_PKG_REPOSITORY");
            assert_eq!(format!("https{address}"), expected, "{}", page.display());
            found += 1;
        }
    }
    assert!(found > 2, "{found}");
}

#[test]
fn an_existing_crate_gets_what_is_documented() {
    let text = fs::read_to_string(repository().join("docs/getting-started.md")).unwrap();
    let template = repository().join("templates/module-cudarc");
    for (file, language) in [("build.rs", "rust"), ("kernels/saxpy.cu", "cuda")] {
        let content = fs::read_to_string(template.join(file)).unwrap();
        let block = format!("`{file}`:\n\n```{language}\n{content}```\n");
        assert!(text.contains(&block), "{block}");
    }
}
