//! What the client adds to a command beside the time that the double takes for the same request: one request, and three
//! milliseconds at most. The time is measured on demand, because other programs of a machine are in it:
//! `cargo test -p annals-opensandbox-double --test overhead -- --ignored --nocapture`.

mod support;

use std::time::{Duration, Instant};

use annals_opensandbox_double::Wire;
use annals_opensandbox_double::faults::Service;
use futures::StreamExt as _;
use serde_json::{Value, json};
use support::{KEY, WORKSPACE, backend, backend_on, double, double_of, open, shell};

const ROUNDS: usize = 200;

async fn endpoint(http: &reqwest::Client, url: &str, id: &str) -> (String, String) {
    let asked = http
        .get(format!("{url}/v1/sandboxes/{id}/endpoints/44772"))
        .header("OPEN-SANDBOX-API-KEY", KEY);
    let told: Value = asked.send().await.expect("an answer").json().await.expect("JSON");
    let header = |name: &str| told["headers"][name].as_str().unwrap_or_default().to_owned();
    let address = told["endpoint"].as_str().expect("an endpoint").to_owned();
    (
        format!("http://{address}/command"),
        header("X-EXECD-ACCESS-TOKEN"),
    )
}

/// The same request as the client sends, until the report is there.
async fn bare(http: &reqwest::Client, url: &str, token: &str, round: usize) -> Duration {
    let command = format!(
        "exec sh /tmp/annals/guest.sh run bare{round:028} 4294967297 '600 2097152 1024' {WORKSPACE} . - - bash -c true"
    );
    let started = Instant::now();
    let asked = http
        .post(url)
        .header("X-EXECD-ACCESS-TOKEN", token)
        .json(&json!({"command": command}));
    let mut body = asked.send().await.expect("an answer").bytes_stream();
    let mut seen = Vec::new();
    while let Some(piece) = body.next().await {
        seen.extend_from_slice(&piece.expect("a piece"));
        if String::from_utf8_lossy(&seen).contains("annals bare") {
            return started.elapsed();
        }
    }
    panic!("no report: {}", String::from_utf8_lossy(&seen));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_one_request() {
    for wire in [Wire::OpenSandbox, Wire::E2b] {
        let double = double_of(wire).await;
        let backend = backend_on(&double);
        let sandbox = open(&backend, "requests").await;
        let before = double.faults().seen(Service::Daemon);
        shell(&*sandbox, "true").await.expect("the command runs");
        assert_eq!(double.faults().seen(Service::Daemon) - before, 1, "{wire:?}");
    }
}

#[ignore = "measures"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_costs_at_most_three_milliseconds_beside_the_server_s_own_time() {
    let double = double().await;
    let backend = backend(&double, |_| {});
    let sandbox = open(&backend, "overhead").await;
    let http = reqwest::Client::new();
    let (url, token) = endpoint(&http, &double.url(), &double.live()[0]).await;
    let (mut through, mut alone, mut differences) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let started = Instant::now();
        shell(&*sandbox, "true").await.expect("the command runs");
        let (with, without) = (started.elapsed(), bare(&http, &url, &token, round).await);
        through.push(with);
        alone.push(without);
        differences.push(with.as_secs_f64() - without.as_secs_f64());
    }
    through.sort_unstable();
    alone.sort_unstable();
    differences.sort_unstable_by(f64::total_cmp);
    // In pairs, and the middle one: what other programs of the machine do is on both sides.
    let overhead = Duration::from_secs_f64(differences[ROUNDS / 2].max(0.0));
    let (through, alone) = (through[ROUNDS / 2], alone[ROUNDS / 2]);
    eprintln_figures(overhead, through, alone);
    assert!(
        overhead <= Duration::from_millis(3),
        "{overhead:?}: {through:?} against {alone:?}"
    );
}

#[allow(
    clippy::print_stderr,
    reason = "figures for people who run the test with --nocapture"
)]
fn eprintln_figures(overhead: Duration, through: Duration, alone: Duration) {
    eprintln!("overhead {overhead:?}: a command takes {through:?}, the same request alone {alone:?}");
}
