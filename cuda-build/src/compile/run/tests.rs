//! The runner, with small programs as steps.

use super::*;
use crate::compile::identity::Variables;
use crate::compile::step::Form;
use crate::compile::workers::jobserver_for_tests::TestJobserver;
use cuda_find_core::command::Invocation;
use cuda_find_core::env::Env;

fn run(steps: &[Step], out: &Path) -> Result<Compiled, Error> {
    let workers = Workers::of_cargo(&Env::default());
    Runner::new(out).run(steps, &workers, &Tools::default())
}

fn invocation(step: &mut Step) -> &mut Invocation {
    match &mut step.command {
        StepCommand::Program(invocation) => invocation,
        _ => unreachable!("these steps run programs"),
    }
}

/// A step that copies its one input.
fn copy(from: &Path, to: &Path) -> Step {
    Step {
        tool: "cp".to_owned(),
        command: StepCommand::Program(Invocation::new("cp").args([from, to])),
        identity: String::new(),
        directory: PathBuf::new(),
        source: from.to_owned(),
        options: Vec::new(),
        images: Vec::new(),
        form: Form::Object,
        inputs: vec![from.to_owned()],
        output: to.to_owned(),
        variables: Variables::default(),
        reading: ReadFiles::Inputs,
        limit: None,
    }
}

/// The number of outputs that a run makes: 1, or 0 if the output is up to date.
fn outputs_made(step: &Step, out: &Path) -> usize {
    run(std::slice::from_ref(step), out).unwrap().made.len()
}

#[test]
fn a_changed_input_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let (object, archive) = (out.join("a.o"), out.join("liba.a"));
    let step = copy(&object, &archive);
    output::write(&object, b"1").unwrap();
    assert_eq!([outputs_made(&step, out), outputs_made(&step, out)], [1, 0]);
    output::write(&object, b"2").unwrap();
    assert_eq!([outputs_made(&step, out), outputs_made(&step, out)], [1, 0]);
    assert_eq!(output::read(&archive).unwrap(), b"2");
}

#[test]
fn every_file_is_compiled_and_every_error_reported() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let source = out.join("source");
    output::write(&source, b"1").unwrap();
    let program = |script: &str, to: &str| {
        let mut step = copy(&source, &out.join(to));
        let shell = Invocation::new("sh").args(["-c", script, "sh"]);
        *invocation(&mut step) = shell.args([&source, &out.join(to)]);
        step
    };
    let steps = [
        program("echo the reason >&2; exit 1", "failed.o"),
        program("sleep 0.3; cp $1 $2", "slow.o"),
        copy(&out.join("failed.o"), &out.join("liba.a")),
        program("echo another reason >&2; exit 1", "last.o"),
        program("cp $1 $2", "good.o"),
    ];
    let jobserver = TestJobserver::new(2);
    let workers = Workers::of_cargo(&jobserver.env());
    let error = Runner::new(out).run(&steps, &workers, &Tools::default());
    let error = error.unwrap_err().to_string();
    let reasons: Vec<_> = error
        .lines()
        .filter(|line| line.ends_with("reason"))
        .collect();
    assert_eq!(reasons, ["the reason", "another reason"], "{error}");
    assert!(output::is_file(&out.join("good.o")) && !output::is_file(&out.join("liba.a")));
}

#[test]
fn a_damaged_output_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let (from, to) = (out.join("a"), out.join("b"));
    output::write(&from, b"1").unwrap();
    let step = copy(&from, &to);
    assert_eq!(outputs_made(&step, out), 1);
    output::write(&to, b"").unwrap();
    assert_eq!([outputs_made(&step, out), outputs_made(&step, out)], [1, 0]);
    assert_eq!(output::read(&to).unwrap(), b"1");
}

#[test]
fn a_path_that_a_shell_would_run_is_refused() {
    for name in [
        "$(touch x)",
        "`touch x`",
        "a\"; touch x; \"",
        "$HOME",
        "a\\b",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        output::write(&out.join("a"), b"1").unwrap();
        let error = run(&[copy(&out.join("a"), &out.join(name))], out);
        let message = error.unwrap_err().to_string();
        assert!(message.contains("that a shell interprets"), "{message}");
    }
}

#[test]
fn an_option_of_nvcc_that_a_shell_would_run_is_refused() {
    for (option, is_refused) in [
        ("-Ia`x`", true),
        (r"-Ia\$(x)", true),
        ("-DX=$(x)", true),
        ("-Ia$x", false),
        (r#"-DX=\"x\""#, false),
        ("-Xcompiler='`'", false),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        output::write(&out.join("a"), b"1").unwrap();
        let mut step = copy(&out.join("a"), &out.join("b"));
        *invocation(&mut step) = Invocation::new("true").args([option]);
        step.tool = "nvcc 13.4.92".to_owned();
        let message = run(&[step], out).unwrap_err().to_string();
        assert_eq!(message.contains("that a shell"), is_refused, "{message}");
    }
}

#[test]
fn a_program_that_writes_nothing_failed() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let from = out.join("a");
    output::write(&from, b"1").unwrap();
    let mut step = copy(&from, &out.join("b"));
    *invocation(&mut step) = Invocation::new("true");
    let error = run(&[step], out).unwrap_err();
    assert!(error.to_string().contains("reported success"), "{error}");
}

/// A compiler still runs after Cargo was killed.
#[test]
fn a_program_of_an_earlier_run_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let file = |name: &str| out.join(name);
    let (source, to) = (file("source"), file("output"));
    output::write(&source, b"old").unwrap();
    let slow = "cp \"$1\" \"$3\"; : > \"$2/started\"; \
                for i in $(seq 1000); do [ -e \"$2/go\" ] || sleep 0.01; done; cat \"$1\" >> \"$3\"";
    let mut step = copy(&source, &to);
    let shell = Invocation::new("sh").args(["-c", slow, "sh"]);
    *invocation(&mut step) = shell.args([&source, out, &to]);
    thread::scope(|scope| {
        let earlier = scope.spawn(|| run(std::slice::from_ref(&step), out));
        while !file("started").exists() {
            thread::sleep(JOBSERVER_INTERVAL);
        }
        output::write(&source, b"new").unwrap();
        let later = copy(&source, &to);
        assert_eq!(outputs_made(&later, out), 1);
        output::write(&file("go"), b"").unwrap();
        earlier.join().unwrap().unwrap_err();
        assert_eq!(output::read(&to).unwrap(), b"new");
        // The earlier run has written its records by now.
        outputs_made(&later, out);
        assert_eq!(output::read(&to).unwrap(), b"new");
        assert_eq!(outputs_made(&later, out), 0);
    });
    let mut files = Files::default();
    let names = files.names(out);
    let runs = names.iter().map(|name| name.to_string_lossy());
    let runs: Vec<_> = runs.filter(|name| name.contains("run-")).collect();
    assert_eq!(runs, [""; 0]);
}

/// Two programs of a part with one job never run at the same time.
#[test]
fn a_part_has_a_limit_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let source = out.join("source");
    output::write(&source, b"1").unwrap();
    let steps: Vec<Step> = (0..4)
        .map(|number| {
            let mut step = copy(&source, &out.join(format!("{number}.o")));
            let script = "mkdir $3/busy && sleep 0.05 && rmdir $3/busy && cp $1 $2";
            let shell = Invocation::new("sh").args(["-c", script, "sh"]);
            *invocation(&mut step) = shell.args([&source, &step.output, &out.to_owned()]);
            step.limit = Some(("part".to_owned(), 1));
            step
        })
        .collect();
    let jobserver = TestJobserver::new(4);
    let workers = Workers::of_cargo(&jobserver.env());
    let compiled = Runner::new(out).run(&steps, &workers, &Tools::default());
    assert_eq!(compiled.unwrap().made.len(), 4);
}
