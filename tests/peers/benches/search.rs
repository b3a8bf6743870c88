//! A search on a warm disk: what a build script pays each time it runs.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cuda_build::internal::probe::{Attempt, Prober};
use cuda_build::internal::select::{self, Need, Part, Request, Strength};
use cuda_build::internal::sources::{Candidate, Label, Layout, SearchStep};
use cuda_build::internal::{Env, Root, Search, Target};
use cuda_build::{Component, Error};
use peers::fixture;

struct Places {
    _directory: tempfile::TempDir,
    packages: PathBuf,
    root: PathBuf,
}

static PLACES: LazyLock<Places> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let (packages, root) = (
        directory.path().join("site-packages"),
        directory.path().join("cuda"),
    );
    fixture::site_packages(&packages, 12).unwrap();
    fixture::site_packages(&packages, 13).unwrap();
    fixture::plain_root(&root, 13).unwrap();
    Places {
        _directory: directory,
        packages,
        root,
    }
});

fn main() {
    divan::main();
}

fn target() -> Target {
    Target::from_triple("x86_64-unknown-linux-gnu").unwrap()
}

fn probe(path: &Path, layout: Layout) -> Attempt {
    let candidate = Candidate {
        step: SearchStep::Roots,
        label: Label::from("benchmark"),
        path: path.to_owned(),
        layout,
    };
    let query_nvcc = |nvcc: &Path| {
        let command = nvcc.display().to_string();
        let reason = "not in this benchmark".to_owned();
        Err(Error::Program { command, reason })
    };
    let attempt = Prober::new(&Root::system(), &target(), &query_nvcc).probe(&candidate);
    assert!(!attempt.sets.is_empty());
    attempt
}

fn plain_root() -> Layout {
    Layout::Roots {
        more: Vec::new(),
        nvcc: None,
    }
}

fn request() -> Request {
    let need = |component, part| Need::new(component, part, "to measure");
    let module = vec![need(Component::Nvrtc, Part::Shared)];
    Request {
        needs: vec![
            need(Component::Cudart, Part::Shared),
            need(Component::Cublas, Part::Shared),
            need(Component::Cccl, Part::Headers).with(Strength::Optional),
        ],
        alternatives: vec![module, vec![need(Component::Nvcc, Part::Tools)]],
        ..Request::default()
    }
}

/// Wheels of CUDA 12 and 13 side by side, all components, 150 other packages.
#[divan::bench]
fn probe_site_packages(bencher: divan::Bencher<'_, '_>) {
    bencher.bench(|| probe(&PLACES.packages, Layout::SitePackages));
}

/// A directory like `/usr/local/cuda`, nvcc not asked.
#[divan::bench]
fn probe_plain_root(bencher: divan::Bencher<'_, '_>) {
    bencher.bench(|| probe(&PLACES.root, plain_root()));
}

/// From the environment to the toolkit: one place is named.
#[divan::bench]
fn search_site_packages(bencher: divan::Bencher<'_, '_>) {
    let env = Env::from_pairs([("HOME", "/nonexistent")]);
    let (root, target, request) = (Root::below(&PLACES.root), target(), request());
    let search = Search {
        root: &root,
        env: &env,
        target: &target,
        places: vec![PLACES.packages.clone()],
    };
    bencher.bench_local(|| search.find(&request).unwrap());
}

/// The choice alone, from both attempts.
#[divan::bench]
fn select(bencher: divan::Bencher<'_, '_>) {
    let (attempts, request) = (
        [
            probe(&PLACES.packages, Layout::SitePackages),
            probe(&PLACES.root, plain_root()),
        ],
        request(),
    );
    bencher.bench(|| select::select(&request, &[&attempts[0], &attempts[1]]).unwrap());
}
