//! `cargo cuda toolkit list`, `remove` and `gc`.

use cargo_cuda::exit_code;

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
