#![allow(clippy::disallowed_methods, reason = "starts programs")]

use super::*;

fn shell(script: &str) -> Invocation {
    Invocation::new("/bin/sh").args(["-c", script])
}

/// Runs a script with a small time limit.
fn limited(script: &str) -> Result<Finished, Error> {
    let command = Command::new("/bin/sh");
    shell(script).finish(command, Some(Duration::from_millis(300)))
}

#[test]
fn display_can_be_pasted() {
    let mut invocation = Invocation::new("/opt/my cuda/nvcc")
        .args(["-DX='1'", "a.cu", ""])
        .variable("A", "b c");
    assert_eq!(
        invocation.to_string(),
        r"A='b c' '/opt/my cuda/nvcc' '-DX='\''1'\''' a.cu ''"
    );
    invocation.directory = Some("/my crate".into());
    let text = invocation.to_string();
    assert!(text.starts_with("cd '/my crate' && A='b c' "), "{text}");
}

#[test]
fn an_absent_program_is_named() {
    let error = Invocation::new("/nonexistent/nvcc").run().unwrap_err();
    assert!(error.to_string().contains("/nonexistent/nvcc"), "{error}");
}

#[cfg(unix)]
#[test]
fn both_streams_and_the_status_are_returned() {
    let finished = shell("echo out; echo err >&2; exit 3")
        .query(&Env::default())
        .unwrap();
    assert_eq!(
        (finished.success, finished.output().as_str()),
        (false, "out\nerr\n")
    );
}

#[cfg(unix)]
#[test]
fn a_hanging_program_is_named_with_the_limit() {
    // The second closes its streams first; the third leaves a child that holds them.
    for script in [
        "sleep 600; true",
        "exec >&- 2>&-; sleep 600; true",
        "sleep 5 & exit 0; sleep 600",
    ] {
        let start = Instant::now();
        let error = limited(script).unwrap_err().to_string();
        assert!(error.contains("sleep 600"), "{error}");
        assert!(error.contains("did not end within 0.3 seconds"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(20), "{script}");
    }
}

#[cfg(unix)]
#[test]
fn words_are_those_of_a_shell() {
    for text in [
        "",
        "  -O2\t-lineinfo\n",
        "-Da='b c' ''",
        r#"-D"x y"='1"2' a\ b "\n\"\\" '\'"#,
    ] {
        let script = format!("for word in {text}; do printf '%s\\0' \"$word\"; done");
        let script = script.replace('\n', " ");
        let shell = Command::new("sh").args(["-c", &script]).output().unwrap();
        let expected = String::from_utf8(shell.stdout).unwrap();
        let words = split_words(text).into_iter();
        assert_eq!(
            words.map(|word| word + "\0").collect::<String>(),
            expected,
            "{text}"
        );
    }
}
