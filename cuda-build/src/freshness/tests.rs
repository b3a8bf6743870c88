#![allow(
    clippy::disallowed_methods,
    reason = "tests write the files that are read"
)]

use std::fs;
use std::thread::sleep;

use super::*;

/// Two headers, and an output made from them.
struct Made {
    directory: tempfile::TempDir,
}

impl Made {
    fn new() -> Self {
        let made = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        made.write("a.cuh", "1");
        made.write("b\n\\.cuh", "1");
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn reads(&self) -> Reads {
        Reads {
            own: [self.path("a.cuh"), self.path("b\n\\.cuh")].into(),
            absent: [self.path("c.cuh")].into(),
            ..Reads::default()
        }
    }

    /// Makes the output; `meanwhile` happens while the tool runs.
    fn make(&self, reads: &Reads, meanwhile: impl Fn()) -> Option<String> {
        let mut freshness = Freshness::load(self.directory.path());
        let started = freshness.start([self.path("a.cuh").as_path(), &self.path("b\n\\.cuh")]);
        meanwhile();
        self.write("out", "made");
        freshness.check(&self.path("out"), 1);
        let evidence = freshness.observe(&started, reads).map(|one| [one]);
        let evidence = evidence.as_ref().map(<[_; 1]>::as_slice);
        let reason = freshness
            .record(&self.path("out"), 1, evidence.map_err(Clone::clone))
            .unwrap();
        freshness.finish().unwrap();
        reason
    }

    fn is_fresh(&self) -> bool {
        let mut freshness = Freshness::load(self.directory.path());
        let stale = freshness.check(&self.path("out"), 1);
        freshness.finish().unwrap();
        stale.is_none()
    }
}

#[test]
fn fresh_until_an_input_the_key_or_the_output_changes() {
    let made = Made::new();
    assert!(!made.is_fresh());
    assert_eq!(made.make(&made.reads(), || ()), None);
    assert!(made.is_fresh() && made.is_fresh());
    assert!(
        Freshness::load(made.directory.path())
            .check(&made.path("out"), 2)
            .is_some()
    );
    made.write("a.cuh", "2");
    assert!(!made.is_fresh());
    made.write("a.cuh", "1");
    assert!(made.is_fresh());
    made.write("c.cuh", "a new file hides another");
    assert!(!made.is_fresh());
    fs::remove_file(made.path("c.cuh")).unwrap();
    made.write("out", "");
    assert!(!made.is_fresh());
}

#[test]
fn what_changes_while_the_tool_runs_is_not_recorded() {
    let made = Made::new();
    let edit = || {
        sleep(Duration::from_millis(40));
        made.write("a.cuh", "2");
    };
    let reason = made.make(&made.reads(), edit).unwrap();
    assert!(reason.contains("changed while"), "{reason}");
    assert!(!made.is_fresh());
    assert_eq!(made.make(&made.reads(), || ()), None);
    assert!(made.is_fresh());
}

#[test]
fn an_incomplete_list_is_never_fresh() {
    let made = Made::new();
    let mut reads = made.reads();
    reads.incomplete = Some("a macro".to_owned());
    assert!(made.make(&reads, || ()).is_some() && !made.is_fresh());
    let mut reads = made.reads();
    reads.own.insert(made.path("read and not there"));
    assert!(made.make(&reads, || ()).is_some() && !made.is_fresh());
}

#[test]
fn records_that_are_damaged_count_for_nothing() {
    let made = Made::new();
    made.make(&made.reads(), || ());
    let path = made.path("cuda-build.stamps");
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(
            Freshness::load(made.directory.path())
                .check(&made.path("out"), 1)
                .is_some(),
            "{length}"
        );
    }
    fs::write(&path, &whole).unwrap();
    assert!(made.is_fresh());
}

#[test]
fn contents_are_read_again_only_if_the_stat_differs() {
    let made = Made::new();
    made.make(&made.reads(), || ());
    sleep(Duration::from_millis(40));
    assert!(made.is_fresh());
    // Recorded again with the times of now, so that nothing but the records is read from here on.
    let mut freshness = Freshness::load(made.directory.path());
    assert!(freshness.check(&made.path("out"), 1).is_none());
    assert!(!freshness.unsaved);
}
