//! One view and many processes: some make it at once, some replace it, some are killed.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cuda_build::internal::ViewPlace;

use crate::view_faults::{Place, TEMPORARY, age, contents, target, temporaries};

#[test]
fn thirty_two_processes_make_one_view() {
    let place = Place::new();
    let children: Vec<Child> = (0..32)
        .map(|_| place.child("once").spawn().unwrap())
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(text.contains("made "), "{text}");
    }
    let names = place.names();
    assert_eq!(names.len(), 1, "{names:?}");
    let view = place.view().unwrap();
    assert!(!view.was_made());
    let other = place.0.path().join("other");
    let alone = place.view_at(&ViewPlace::below(&other, &target())).unwrap();
    assert_eq!(contents(view.root()), contents(alone.root()));
}

#[test]
fn a_killed_process_leaves_no_damaged_view() {
    let place = Place::new();
    let reference = {
        let view = place.view().unwrap();
        let contents = contents(view.root());
        fs::remove_dir_all(view.root()).unwrap();
        contents
    };
    let source = contents(&place.source());
    let seed = std::env::var("VIEW_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64;
    let mut state: u64 = seed.unwrap_or(clock);
    eprintln!("VIEW_TEST_SEED={state}");
    let rounds: usize = std::env::var("VIEW_TEST_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(20);
    let (mut inside, mut damaged) = (0, 0);
    for round in 0..rounds {
        let mut child = place.child("again and again").spawn().unwrap();
        // Until it has begun, then for a moment.
        let begun = Instant::now();
        while !place.views().exists() || place.names().is_empty() {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the other process does nothing"
            );
            std::thread::sleep(Duration::from_micros(200));
        }
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((state >> 33) % 20_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let names = place.names();
        let (temporary, complete): (Vec<_>, Vec<_>) =
            names.iter().partition(|name| name.starts_with(TEMPORARY));
        inside += usize::from(!temporary.is_empty());
        damaged += usize::from(
            complete
                .iter()
                .any(|name| contents(&place.views().join(name)) != reference),
        );
        let view = place
            .view()
            .unwrap_or_else(|error| panic!("round {round}: {error:?}"));
        assert_eq!(contents(view.root()), reference, "round {round}");
        // A day later, the next process that writes a view removes what was left.
        for name in temporary {
            age(&place.views().join(name));
        }
        fs::remove_dir_all(view.root()).unwrap();
        place.view().unwrap();
        assert_eq!(place.names().len(), 1, "round {round}: {:?}", place.names());
        assert_eq!(contents(&place.source()), source, "round {round}");
        fs::remove_dir_all(place.views()).unwrap();
    }
    eprintln!("{rounds} kills: {inside} while a view was written, {damaged} left a damaged one");
    assert!(
        inside * 10 >= rounds,
        "too few kills while a view was written: {inside}"
    );
}

#[test]
fn processes_replace_each_others_views() {
    let place = Place::new();
    let start = |number: usize| {
        place
            .child(["copies", "links"][number % 2])
            .spawn()
            .unwrap()
    };
    let children: Vec<Child> = (0..8).map(start).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let output = place.0.path().join("exact");
    place.view_at(&ViewPlace::at(&output, &target())).unwrap();
    let alone = place.view().unwrap();
    let mut expected = contents(alone.root());
    let mut replaced = contents(&output);
    // The same view but for its digest.
    for view in [&mut expected, &mut replaced] {
        view.remove(Path::new(".cuda-build-view")).unwrap();
    }
    assert_eq!(replaced, expected);
    assert_eq!(temporaries(place.0.path()), [""; 0]);
}
