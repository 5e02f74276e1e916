//! Code: runs as written, in its language, and says why it failed.

use std::time::Duration;

use super::{Fixture, cases, expect_kind};
use crate::failure::{Failure, FailureKind};
use crate::language::Language;
use crate::ops::{CodeResult, CodeRun, Op, OpResult};
use crate::sandbox::Backend;

cases![
    every_language_offered_runs,
    python_runs_byte_for_byte_with_its_own_line_numbers,
    code_imports_what_lies_in_the_workspace,
    code_works_in_the_workspace_and_leaves_nothing_else,
    failing_code_says_why,
    code_past_its_time_is_ended,
    code_reads_its_input,
    code_of_a_megabyte_runs,
];

async fn try_code(fixture: &Fixture, op: CodeRun) -> Result<CodeResult, Failure> {
    fixture
        .dispatch(Op::CodeRun(op))
        .await
        .map(|result| match result {
            OpResult::Code(result) => result,
            other => panic!("code returned {other:?}"),
        })
}

async fn python(fixture: &Fixture, code: &str) -> CodeResult {
    try_code(fixture, CodeRun::new(Language::Python, code))
        .await
        .expect("the code runs")
}

fn has_python(fixture: &Fixture) -> bool {
    fixture
        .sandbox
        .capabilities()
        .languages
        .contains(&Language::Python)
}

async fn every_language_offered_runs(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    for language in fixture.sandbox.capabilities().languages {
        let code = match language {
            Language::Python => "print(6 * 7)",
            Language::Bash => "echo $((6 * 7))",
            Language::JavaScript => "console.log(6 * 7)",
        };
        let result = try_code(&fixture, CodeRun::new(language, code))
            .await
            .expect("the code runs");
        assert_eq!(
            (result.exit_code, &*result.stdout.text(), result.error.as_deref()),
            (0, "42\n", None),
            "{language}: {}",
            result.stderr
        );
    }
}

async fn python_runs_byte_for_byte_with_its_own_line_numbers(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    if !has_python(&fixture) {
        return;
    }
    let code = "# -*- coding: utf-8 -*-\nx = '''a\n  b\t\\n'''\nprint(repr(x), 'ü')\nif True:\n\tprint(1)\nraise ValueError('on line seven')";
    let result = python(&fixture, code).await;
    assert_eq!(result.stdout.text(), "'a\\n  b\\t\\n' ü\n1\n");
    let stderr = result.stderr.text();
    assert!(
        stderr.contains("line 7") && stderr.contains("raise ValueError('on line seven')"),
        "{stderr}"
    );
}

async fn code_imports_what_lies_in_the_workspace(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.write("helper.py", b"value = 'from the workspace'").await;
    fixture
        .write(
            "node_modules/helper/index.js",
            b"module.exports = 'from the workspace'",
        )
        .await;
    if has_python(&fixture) {
        assert_eq!(
            python(&fixture, "import helper; print(helper.value)")
                .await
                .stdout
                .text(),
            "from the workspace\n"
        );
    }
}

async fn code_works_in_the_workspace_and_leaves_nothing_else(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    try_code(&fixture, CodeRun::new(Language::Bash, "echo made > made.txt"))
        .await
        .expect("the code runs");
    assert_eq!(
        fixture.shell("ls -A; cat made.txt").await.stdout.text(),
        "made.txt\nmade\n"
    );
}

async fn failing_code_says_why(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let result = try_code(&fixture, CodeRun::new(Language::Bash, "echo why >&2; exit 3"))
        .await
        .expect("the code runs");
    assert_eq!((result.exit_code, result.error.as_deref()), (3, Some("why")));
    if has_python(&fixture) {
        let result = python(&fixture, "1 / 0").await;
        assert_eq!(
            result.error.as_deref(),
            Some("ZeroDivisionError: division by zero")
        );
    }
}

async fn code_past_its_time_is_ended(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let op = CodeRun::new(Language::Bash, "echo begun; sleep 300").timeout(Duration::from_millis(1500));
    let failure = expect_kind(try_code(&fixture, op).await, FailureKind::Timeout);
    assert_eq!(
        failure.partial.expect("what was written").stdout.text(),
        "begun\n"
    );
}

async fn code_reads_its_input(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let mut op = CodeRun::new(Language::Bash, "read -r line; echo got $line");
    op.stdin = Some(b"input\n".to_vec());
    assert_eq!(
        try_code(&fixture, op).await.expect("the code runs").stdout.text(),
        "got input\n"
    );
}

async fn code_of_a_megabyte_runs(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let code = format!("{}\necho end", "# a line of comment\n".repeat(1 << 16));
    let result = try_code(&fixture, CodeRun::new(Language::Bash, code))
        .await
        .expect("the code runs");
    assert_eq!(result.stdout.text(), "end\n");
}
