//! Code of a language that the image has no program for: it runs in a kernel of execd, once, whatever the network does.

mod support;

use std::time::Duration;

use annals_opensandbox_double::Double;
use annals_opensandbox_double::faults::{Fault, Rule, Service};
use annals_remote::RemoteBackend;
use annals_sandbox::{CodeResult, CodeRun, Failure, FailureKind, Language, Op, OpResult, Sandbox};
use support::{backend, double, open, printed};
use tokio_util::sync::CancellationToken;

fn without_python(double: &Double) -> RemoteBackend {
    backend(double, |options| {
        options
            .env
            .insert("DOUBLE_HIDES".to_owned(), "python3".to_owned());
    })
}

async fn code(sandbox: &dyn Sandbox, op: CodeRun) -> Result<CodeResult, Failure> {
    match sandbox
        .dispatch(Op::CodeRun(op), &CancellationToken::new())
        .await?
    {
        OpResult::Code(result) => Ok(result),
        other => panic!("code returned {other:?}"),
    }
}

fn python(code: &str) -> CodeRun {
    CodeRun::new(Language::Python, code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_without_a_program_runs_in_a_kernel_and_says_the_same() {
    let double = double().await;
    let backend = without_python(&double);
    let sandbox = open(&backend, "kernel").await;
    assert!(!sandbox.capabilities().languages.contains(&Language::Python));
    let mut op =
        python("import os\nprint(os.environ['GIVEN'])\nleft = open('made', 'w').write('by a kernel')\n6 * 7");
    op.env.insert("GIVEN".to_owned(), "it's \"here\"".to_owned());
    let result = code(&*sandbox, op).await.expect("it runs");
    assert_eq!(result.stdout.text(), "it's \"here\"\n");
    assert_eq!((result.exit_code, result.text.as_deref()), (0, Some("42")));
    assert_eq!(printed(&*sandbox, "cat made").await, "by a kernel");

    let failed = code(
        &*sandbox,
        python("print('before')\nraise ValueError('on purpose')"),
    )
    .await;
    let failed = failed.expect("it runs");
    assert_eq!(failed.stdout.text(), "before\n");
    assert_eq!(
        (failed.exit_code, failed.error.as_deref()),
        (1, Some("ValueError: on purpose"))
    );
    let fresh = code(&*sandbox, python("print('left' in globals())")).await;
    assert_eq!(
        fresh.expect("it runs").stdout.text(),
        "False\n",
        "each run has a kernel of its own"
    );

    let late = python("print('early', flush=True)\nwhile True: pass").timeout(Duration::from_secs(1));
    let late = code(&*sandbox, late).await.expect_err("it has no end");
    assert_eq!(late.kind, FailureKind::Timeout);
    let mut asks = python("input()");
    asks.stdin = Some(b"words".to_vec());
    let refused = code(&*sandbox, asks).await.expect_err("a kernel has no input");
    assert_eq!(refused.kind, FailureKind::Unsupported);
    let after = code(&*sandbox, python("1")).await;
    assert!(after.is_ok(), "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_a_kernel_s_requests_repeat_nothing() {
    let double = double().await;
    let backend = without_python(&double);
    let sandbox = open(&backend, "kernel").await;
    // Broken in the middle, the code may have run, and does not run again; broken before, it has not.
    let rows = [
        (Fault::LoseAnswer, 1),
        (Fault::CutBody(30), 1),
        (Fault::Reset, 1),
        (Fault::BadText, 1),
        (Fault::LoseRequest, 0),
        (Fault::Gateway(502), 0),
    ];
    for (row, (fault, most)) in rows.into_iter().enumerate() {
        // The first two requests of a run make its context and set its variables; the third is the code.
        let rule = Rule::new(Service::Daemon, "POST", "/code", fault).skip(2);
        double.faults().add(rule);
        let line = format!("open('rows', 'a').write('row {row}\\n')");
        let failed = code(&*sandbox, python(&line))
            .await
            .expect_err("its stream broke");
        assert_eq!(failed.kind, FailureKind::SandboxClosed, "{fault:?}: {failed:?}");
        assert!(failed.message.contains("has not been repeated"), "{failed:?}");
        assert_eq!(double.faults().clear(), 1, "{fault:?} was not met");
        let count = format!("touch rows; grep -c '^row {row}$' rows || true");
        let count: u32 = printed(&*sandbox, &count).await.trim().parse().expect("a number");
        assert!(count <= most, "{fault:?}: it ran {count} times");
    }
    for fault in [
        Fault::SplitBody(1),
        Fault::DataFrames,
        Fault::ReturnFrames,
        Fault::NoisyFrames,
        Fault::StrangeFrames,
        Fault::DripBody(16, Duration::from_millis(1)),
    ] {
        double
            .faults()
            .add(Rule::new(Service::Daemon, "POST", "/code", fault).skip(2));
        let result = code(&*sandbox, python("print('gr\u{fc}\u{df}e')\n'whole'")).await;
        let result = result.unwrap_or_else(|failure| panic!("{fault:?}: {failure:?}"));
        assert_eq!(result.stdout.text(), "gr\u{fc}\u{df}e\n", "{fault:?}");
        assert_eq!(result.text.as_deref(), Some("'whole'"), "{fault:?}");
        assert_eq!(double.faults().clear(), 1, "{fault:?} was not met");
    }
}
