//! Random edits of a small source tree. After each, an incremental build and a fresh one have to
//! give the same bytes, or both have to fail.
//!
//! Two ways: through Cargo, which decides whether the script runs, and by the script alone, which
//! decides what is compiled. What Cargo cannot see is left out of the first: a file written in
//! place whose date is then set back, and an output damaged in the target directory.
//!
//! `CUDA_BUILD_ATTACK_EDITS=300 CUDA_BUILD_ATTACK_SEED=7 cargo test -p cargo-cuda --test attack --
//! differential` runs longer; the same seed makes the same edits.

mod edit;
pub mod random;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::package::{Compiler, Outputs, difference, script_outputs, succeeded};
use edit::Reach;
use random::Random;
use tree::Tree;

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{variable}={value} is not a number")),
    )
}

/// What the builds after one edit came to.
type Compared = Result<Option<Outputs>, String>;

/// Makes `edits` edits, and compares after each. All differences are reported at the end.
fn run(
    name: &str,
    compiler: Compiler,
    reach: Reach,
    edits: u64,
    compare: impl Fn(&Tree) -> Compared,
) {
    let edits = number("CUDA_BUILD_ATTACK_EDITS").unwrap_or(edits);
    let seed = number("CUDA_BUILD_ATTACK_SEED").unwrap_or(1);
    let Some(mut tree) = Tree::new(name, compiler) else {
        return;
    };
    let _ = fs::remove_dir_all(kept_trees(&tree.package.place));
    // Through Cargo, because the script has to be compiled.
    if let Err(error) = tree.package.build() {
        panic!("the first build fails: {error}");
    }
    fs::create_dir(tree.package.place.join("incremental")).unwrap();
    let mut random = Random::new(seed);
    let (mut wrong, mut failing, mut changed) = (Vec::new(), 0, 0);
    let mut last = compare(&tree).unwrap();
    for step in 1..=edits {
        if step % 25 == 0 {
            eprintln!(
                "{name}, seed {seed}: edit {step}, {} differences",
                wrong.len()
            );
        }
        let mut edit = if last.is_none() && random.below(4) > 0 {
            tree.repair();
            "repaired".to_owned()
        } else {
            tree.edit(&mut random, reach)
        };
        while random.below(5) == 0 {
            edit = format!("{edit}; {}", tree.edit(&mut random, reach));
        }
        match compare(&tree) {
            Ok(outputs) => {
                failing += u64::from(outputs.is_none());
                changed += u64::from(outputs != last);
                last = outputs;
            }
            Err(error) => {
                let kept = keep(&tree.package.place, step);
                wrong.push(format!("step {step}, {edit}: {error}\n  tree: {kept}"));
                if wrong.len() == 20 {
                    break;
                }
                tree.package.forget();
                let _ = fs::remove_dir_all(tree.package.place.join("incremental"));
                fs::create_dir(tree.package.place.join("incremental")).unwrap();
                last = compare(&tree).unwrap_or_else(|error| panic!("from nothing: {error}"));
            }
        }
    }
    eprintln!(
        "{name}, seed {seed}: {edits} edits, {changed} changed the outcome, {failing} left what does \
         not compile, {} differences",
        wrong.len()
    );
    assert!(
        wrong.is_empty(),
        "seed {seed}: {} differences in {edits} edits\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(changed * 4 >= edits, "most edits change nothing");
    assert!(
        failing * 2 <= edits,
        "most edits leave what does not compile"
    );
}

/// A copy of the tree and its outputs, beside it; the next run of the test removes it.
fn keep(place: &Path, step: u64) -> String {
    let kept = kept_trees(place).join(step.to_string());
    fs::create_dir_all(kept.parent().unwrap()).unwrap();
    succeeded(
        Command::new("cp")
            .arg("-a")
            .args([place, &kept])
            .output()
            .unwrap(),
    )
    .unwrap();
    kept.display().to_string()
}

fn kept_trees(place: &Path) -> PathBuf {
    place.with_extension("wrong-after-step")
}

fn through_cargo(compiler: Compiler, edits: u64) {
    let name = format!("edits-cargo-{}", compiler.id());
    run(&name, compiler, Reach::Cargo, edits, |tree| {
        tree.package.compare()
    });
}

fn through_script(compiler: Compiler, edits: u64) {
    let name = format!("edits-script-{}", compiler.id());
    run(&name, compiler, Reach::Script, edits, |tree| {
        let build = |directory: &str| {
            let out = tree.package.place.join(directory);
            fs::create_dir_all(&out).unwrap();
            succeeded(tree.script(&out).output().unwrap()).map(|_| script_outputs(&out))
        };
        let _ = fs::remove_dir_all(tree.package.place.join("fresh"));
        match (build("incremental"), build("fresh")) {
            (Err(_), Err(_)) => Ok(None),
            (Ok(_), Err(error)) => Err(format!("only the fresh build fails: {error}")),
            (Err(error), Ok(_)) => Err(format!("only the incremental build fails: {error}")),
            (Ok(made), Ok(expected)) => match difference(&made, &expected) {
                Some(difference) => Err(difference),
                None => Ok(Some(expected)),
            },
        }
    });
}

#[test]
fn nvrtc_12_edits_through_cargo() {
    through_cargo(Compiler::Nvrtc12, 15);
}

#[test]
fn nvrtc_13_edits_through_cargo() {
    through_cargo(Compiler::Nvrtc13, 15);
}

#[test]
fn nvcc_edits_through_cargo() {
    through_cargo(Compiler::Nvcc13, 10);
}

#[test]
fn nvrtc_12_edits_through_the_script() {
    through_script(Compiler::Nvrtc12, 100);
}

#[test]
fn nvrtc_13_edits_through_the_script() {
    through_script(Compiler::Nvrtc13, 100);
}

#[test]
fn nvcc_edits_through_the_script() {
    through_script(Compiler::Nvcc13, 15);
}
