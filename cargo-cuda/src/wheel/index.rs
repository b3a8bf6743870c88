//! What lies beside variants: the file with the properties of all wheels of a version, and the page of a static index
//! (PEP 503). Both follow from the wheels in the directory, so wheels from several machines only have to be copied
//! together.

use std::path::Path;

use cuda_find_core::command::Invocation;

use super::rewrite::BuiltWheel;
use crate::failure::Result;
use crate::output::{self, file_name};
use crate::package::archive;
use crate::package::metadata::FileName;
use crate::package::variant::{Siblings, index_file};

/// Writes the file of each version that was built into the directory of the wheels. `index` is the directory above it,
/// if it is to be an index. Returns the command that installs.
pub fn write(directory: &Path, index: Option<&Path>, built: &[BuiltWheel]) -> Result<String> {
    let names = built
        .iter()
        .map(|wheel| FileName::parse(&file_name(&wheel.path)));
    let built = Vec::from_iter(names.flatten());
    let mut names = built.clone();
    names.dedup_by_key(|name| index_file(name));
    let mut name = String::new();
    for of in &names {
        let siblings = Siblings::read(directory, of)?;
        if !siblings.has_plain {
            output::message(&format!(
                "note: {} has no wheel without a label of this version, so pip and `uv lock` find none: \
                 build it too, with the oldest major or that of `wheel.plain`",
                directory.display()
            ));
        }
        if let Some(metadata) = &siblings.metadata {
            let others = metadata.labels_without(&built);
            if !others.is_empty() {
                output::message(&format!(
                    "note: {} has wheels of this version that were built before, which installers may choose: {}",
                    directory.display(),
                    output::joined(others, ", ")
                ));
            }
            output::write(
                &directory.join(index_file(of)),
                metadata.to_json().as_bytes(),
            )?;
        }
        name.clone_from(&of.distribution);
    }
    let uv = Invocation::new("uv").args("pip install --preview-features wheel-variants".split(' '));
    let Some(index) = index else {
        let install = uv.args(["--find-links".as_ref(), directory, name.as_ref()]);
        return Ok(format!(
            "to install, from these files or from a page that lists them:\n  {install}\n"
        ));
    };
    let is_listed = |name: &String| {
        [".whl", ".tar.gz", "-variants.json"]
            .iter()
            .any(|end| name.ends_with(end))
    };
    let mut links = String::new();
    for path in output::files(directory)? {
        let name = file_name(&path);
        if is_listed(&name) {
            let hash = archive::digest(&path)?.hex();
            let address = name.replace('+', "%2B");
            links += &format!("<a href=\"{address}#sha256={hash}\">{name}</a><br>\n");
        }
    }
    let text = format!("<!DOCTYPE html>\n<html>\n<body>\n{links}</body>\n</html>\n");
    output::write(&directory.join("index.html"), text.as_bytes())?;
    let install = uv.args(["--index", "https://…/", &name]);
    Ok(format!(
        "to publish, put {} on a web server; to install:\n  {install}\n",
        index.display()
    ))
}
