//! `cargo cuda toolkit list`, `remove` and `gc`, and `add --target`.

use std::path::Path;

use cargo_cuda::exit_code;
use cuda_build::internal::Root;

use crate::support::{Sandbox, Tool, online};

#[test]
fn list_and_remove() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Pip);
    assert_eq!(
        sandbox.run(&["list", "--json"]).json()["toolkits"],
        serde_json::json!([])
    );
    let old = sandbox
        .run(&["add", "13.3.1", "--only", "cudart", "--json"])
        .json();
    let new = sandbox
        .run(&["add", "13.4.3", "--only", "cudart", "--json"])
        .json();
    let listed = sandbox.run(&["list", "--json"]).json();
    assert_eq!(listed["format_version"], 1);
    assert_eq!(listed["toolkits"][1]["name"], new["name"]);
    assert_eq!(
        listed["toolkits"][1]["requests"],
        serde_json::json!(["13.4.3"])
    );
    let list = sandbox.run(&["list"]).stdout;
    assert!(
        list.starts_with("toolkit ") && list.contains("cudart\nall "),
        "{list}"
    );

    let both = [old["name"].as_str().unwrap(), new["name"].as_str().unwrap()];
    sandbox.run(&["remove", "13"]).failed(
        exit_code::USAGE,
        &["2 toolkits match `13`", both[0], both[1], "`--all`"],
    );
    sandbox
        .run(&["remove", "12"])
        .failed(exit_code::USAGE, &["no toolkit `12`", both[0], both[1]]);
    assert_eq!(sandbox.stored(), both);
    sandbox.run(&["remove", "13.3"]).succeeded();
    assert_eq!(sandbox.stored(), [both[1]]);
    // The index of the store has forgotten it too, so that it is fetched again.
    let again = sandbox
        .run(&["add", "13.3.1", "--only", "cudart", "--json"])
        .json();
    assert!(again["bytes_added"].as_u64().unwrap() > 0);
}

#[test]
fn gc_removes_what_another_toolkit_has() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    let added = sandbox.run(&["add", "12.8", "v13", "--only", "cudart", "--json"]);
    let added = added.json();
    let name = |index: usize| {
        added["toolkits"][index]["name"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let run = sandbox.run(&["gc"]);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "nothing to remove\n"),
        "{run:?}"
    );
    sandbox
        .run(&["add", "13", "--only", "profiler-api"])
        .succeeded();
    assert_eq!(sandbox.stored().len(), 3);
    let list = sandbox.run(&["list"]).stdout;
    assert!(list.contains("counted once"), "{list}");
    let run = sandbox.run(&["gc"]);
    assert_eq!(run.stdout, format!("removed {} (cudart)\n", name(1)));
    assert_eq!(sandbox.stored().len(), 2);
    assert!(sandbox.stored().contains(&name(0)));
    sandbox.run(&["remove", "13", "--all"]).succeeded();
    assert_eq!(sandbox.stored(), [name(0)]);
}

/// Headers and libraries for cross compilation. nvcc of that platform would not run here.
#[test]
fn libraries_of_another_platform_are_fetched_by_uv() {
    const TARGET: [&str; 2] = ["--target", "aarch64-unknown-linux-gnu"];
    if !online() {
        return;
    }
    let only = ["add", "13.4.3", "--only", "cudart", "--json"];
    let sandbox = Sandbox::new(Tool::Uv);
    let own = sandbox.run(&only).json();
    let add = || sandbox.run(&[&only[..], &TARGET].concat()).json();
    let other = add();
    assert_ne!(own["name"], other["name"]);
    assert_eq!(other["components"], serde_json::json!(["cudart"]));
    let library =
        Path::new(other["path"].as_str().unwrap()).join("nvidia/cu13/lib/libcudart.so.13");
    let aarch64 = 183;
    assert_eq!(Root::system().elf_machine(&library), Some(aarch64));
    assert_eq!(add()["new"], false);
    assert_eq!(sandbox.stored().len(), 2);
    let windows = ["add", "13.4.3", "--target", "x86_64-pc-windows-gnu"];
    let words = ["is not supported: cuda-build knows the files of CUDA for Linux only"];
    sandbox.run(&windows).failed(exit_code::USAGE, &words);
    let archives = [&["add", "12.4", "--from", "redist"][..], &TARGET].concat();
    let words = ["NVIDIA's archives are fetched for this machine only"];
    sandbox.run(&archives).failed(exit_code::USAGE, &words);

    let words = ["only uv fetches for another platform", "hint: install uv"];
    Sandbox::new(Tool::Pip)
        .run(&[&only[..], &TARGET].concat())
        .failed(exit_code::NO_INSTALLER, &words);
}
