//! The documents agree with the repository.

use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(repository().join("docs")).unwrap();
    let pages = docs.map(|page| page.unwrap().path());
    pages
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect()
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
    let mut documents = pages();
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ] {
        documents.push(root.join(name));
    }
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
    let contents = fs::read_to_string(repository().join("docs/SUMMARY.md")).unwrap();
    let listed = links(&contents);
    for page in pages() {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(name == "SUMMARY.md" || listed.contains(&name), "no {name}");
    }
}

#[test]
fn ports_are_shown_as_they_are() {
    let text = fs::read_to_string(repository().join("docs/coming-from.md")).unwrap();
    for port in ["candle-kernels", "candle-flash-attn", "mistralrs-quant"] {
        let file = repository().join(format!("tests/projects/ports/{port}.rs"));
        let block = format!("```rust,no_run\n{}```\n", fs::read_to_string(file).unwrap());
        assert!(text.contains(&block), "{block}");
    }
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
