//! Every error of the library and of the program, in one file to read: `tests/cli/errors.txt`.
//!
//! The program is run and the library is called as users do it. `CUDA_BUILD_TEST_BLESS=1` rewrites the file; read the
//! difference before committing.

mod arguments;
mod audit;
mod compilers;
mod coverage;
mod fetching;
mod library;
mod machine;
mod projects;
mod scan;
mod store;
mod toolkits;
mod wheels;

use std::fs;
use std::path::Path;

use cuda_build::Error;

use crate::project::checkout;

/// The text of `errors.txt`, and what is wrong with it.
#[derive(Default)]
struct Snapshot {
    text: String,
    problems: Vec<String>,
}

impl Snapshot {
    fn area(&mut self, title: &str) {
        self.text.push_str(&format!("== {title} ==\n\n"));
    }

    /// Adds one error: what was done, and what was printed. Command lines that clap refuses have no hint, because
    /// their message is the instruction.
    fn add(&mut self, what: &str, printed: &str) {
        let printed = printed.trim_end();
        if !printed.contains("\nhint: ") && !printed.ends_with("try '--help'.") {
            self.problems
                .push(format!("no hint after `{what}`:\n{printed}"));
        }
        self.text.push_str(&format!("# {what}\n{printed}\n\n"));
    }

    /// Adds an error of the library, as a build script prints it.
    fn error<T>(&mut self, what: &str, here: &Path, result: Result<T, Error>) {
        match result {
            Ok(_) => self.problems.push(format!("no error: {what}")),
            Err(error) => {
                let here = here
                    .to_str()
                    .filter(|here| here.len() > 1)
                    .unwrap_or("/here");
                self.add(what, &format!("{error:?}").replace(here, "/here"));
            }
        }
    }
}

const BLESS: &str = "CUDA_BUILD_TEST_BLESS=1 rewrites tests/cli/errors.txt";

fn expected() -> String {
    fs::read_to_string(checkout().join("tests/cli/errors.txt")).unwrap()
}

#[test]
fn every_error_has_a_next_step() {
    let mut snapshot = Snapshot::default();
    library::add(&mut snapshot);
    toolkits::add(&mut snapshot);
    compilers::add(&mut snapshot);
    arguments::add(&mut snapshot);
    projects::add(&mut snapshot);
    store::add(&mut snapshot);
    fetching::add(&mut snapshot);
    wheels::add(&mut snapshot);
    audit::add(&mut snapshot);
    let text = snapshot.text.trim_end().to_owned() + "\n";
    if std::env::var_os("CUDA_BUILD_TEST_BLESS").is_some() {
        fs::write(checkout().join("tests/cli/errors.txt"), &text).unwrap();
    }
    assert!(
        snapshot.problems.is_empty(),
        "{}",
        snapshot.problems.join("\n\n")
    );
    assert_eq!(text, expected(), "{BLESS}");
}
