//! Limits of a sandbox on a server: what the server is asked for, and what holds inside.

mod support;

use annals_opensandbox_double::Wire;
use annals_sandbox::{Backend as _, Bound, FailureKind, Limits, Sandbox};
use support::{backend_on, double_of, opening, printed, shell};

on_both_wires!(limits_of_the_spec_hold_inside);

async fn limits_of_the_spec_hold_inside(wire: Wire) {
    let double = double_of(wire).await;
    let backend = backend_on(&double);
    let mut opening = opening("limited", 1);
    for (name, value) in [
        ("memory_mib", 256),
        ("file_mib", 1),
        ("open_files", 64),
        ("cpu_seconds", 1),
        ("timeout_seconds", 20),
        ("output_total_mib", 1),
    ] {
        opening.spec.limits.set(name, value).expect("a limit");
    }
    let limits: Limits = opening.spec.limits.clone();
    let sandbox = backend.open(opening).await.expect("it opens");
    holds(&*sandbox).await;
    let bounds = backend.bounds(&limits);
    for bound in [
        Bound::new("one file", "1 MiB"),
        Bound::new("open files of a process", "64"),
        Bound::new("processor time of a process", "1 s"),
        Bound::new("time of a command", "20 s"),
    ] {
        assert!(bounds.contains(&bound), "{bound:?} in {bounds:?}");
    }
    let memory = bounds.iter().find(|bound| bound.what == "memory");
    match wire {
        // The server is asked, so it is named.
        Wire::OpenSandbox => {
            assert_eq!(memory, Some(&Bound::new("memory", "256Mi")));
            let asked = double.asked(&double.live()[0]).expect("it lives");
            assert_eq!(asked["resourceLimits"]["memory"], "256Mi");
        }
        // The template decides.
        Wire::E2b => assert_eq!(memory, None),
    }
}

async fn holds(sandbox: &dyn Sandbox) {
    let large = shell(sandbox, "head -c 3000000 /dev/zero > large; wc -c < large").await;
    assert_eq!(large.expect("it runs").stdout.text(), "1048576\n");
    assert_eq!(printed(sandbox, "ulimit -n").await, "64\n");
    let endless = shell(sandbox, "while :; do :; done")
        .await
        .expect("it is ended by its system");
    assert!(endless.exit_code > 128, "{}", endless.exit_code);
    let loud = shell(sandbox, "head -c 3000000 /dev/zero")
        .await
        .expect_err("it is too loud");
    assert_eq!(loud.kind, FailureKind::OutputTooLarge);
}
