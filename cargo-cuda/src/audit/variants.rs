//! Whether a variant keeps what its properties state (W23), and whether what lies beside it agrees (W24).

use super::artifact::Variant;
use super::check::Severity::{Error, Warning};
use super::check::{Audit, W23, W24};
use crate::output::joined;
use crate::package::device::DeviceCode;

pub fn check(audit: &mut Audit<'_>) {
    let Some(Variant {
        label,
        metadata,
        siblings,
        index,
    }) = &audit.artifact.variant
    else {
        return;
    };
    let Some(properties) = metadata.as_ref().and_then(|it| it.properties(label)) else {
        let text = format!("its name has the label `{label}`, and its metadata does not");
        return audit.add(&W23, Error, text);
    };
    let files = audit.artifact.device_code(audit.majors);
    let code = DeviceCode::of_files(files.iter().map(|(_, code, _)| *code));
    let major = audit
        .majors
        .name
        .or(files.first().map(|(.., major)| *major));
    let faults = major.map_or(Vec::new(), |major| properties.untrue(&code, major));
    if !faults.is_empty() {
        audit.add(&W23, Error, format!("states {}", joined(faults, "; ")));
    }
    let Some(siblings) = siblings else {
        return;
    };
    if let Err(reason) = siblings {
        audit.add(&W24, Error, reason.clone());
    }
    if siblings.as_ref().is_ok_and(|siblings| !siblings.has_plain) {
        let text = "there is no wheel without a label beside it, which pip and `uv lock` need";
        audit.add(&W24, Warning, text.to_owned());
    }
    match index {
        Some(Some(index)) if index.properties(label).as_ref() == Some(&properties) => {}
        Some(_) => {
            let text =
                "the file with the properties of all wheels has others for it, or cannot be read";
            audit.add(&W24, Error, text.to_owned());
        }
        None => {
            let text = "no file with the properties of all wheels is beside it";
            audit.add(&W24, Warning, text.to_owned());
        }
    }
}
