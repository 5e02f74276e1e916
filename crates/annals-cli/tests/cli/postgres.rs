//! A log on PostgreSQL: made by `annals store`, shared by processes that have nothing else in common.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use annals_testbed::{Durability, Edition, PostgresServer};
use serde_json::json;

use super::annals::Annals;

fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(work)
}

fn execute(server: &PostgresServer, statement: &str) {
    wait(server.execute("a", statement));
}

#[test]
fn a_turn_whose_machine_died_goes_on_from_another_one() {
    let Some(server) = PostgresServer::start(Edition::Debian, Durability::Synced, &[]) else {
        return;
    };
    let (here, elsewhere) = (Annals::new(), Annals::new());
    let url = wait(server.database("a", None));
    let store = ["--store", &url];
    let with = |args: &[&'static str]| -> Vec<String> {
        store.iter().chain(args).map(|arg| (*arg).to_owned()).collect()
    };
    fn words(args: &[String]) -> Vec<&str> {
        args.iter().map(String::as_str).collect()
    }
    let early = here.run(&words(&with(&["conversations"])));
    assert_eq!(early.code, 3, "{}", early.shown());
    assert!(early.stderr.contains("annals store init"), "{}", early.shown());
    let made = here
        .run(&words(&with(&["store", "init", "--partitions", "16"])))
        .good();
    assert!(made.stdout.contains("made, schema"), "{}", made.shown());
    let again = here.run(&words(&with(&["store", "migrate"]))).good();
    assert!(again.stdout.contains("up to date"), "{}", again.shown());

    let model = here.script(&json!({"steps": [{"delay_ms": 60_000, "text": "too late"}]}));
    let mut args = with(&[
        "run",
        "Count to three",
        "--conversation",
        "c1",
        "--json",
        "--model",
    ]);
    args.push(model);
    let mut child = here
        .command(&words(&args))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("agent.log.header") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the turn did not begin");
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let status = elsewhere
        .run(&words(&with(&["store", "status", "--json"])))
        .good()
        .json();
    assert_eq!(
        (&status["known_schema"], &status["partitions"]),
        (&status["schema"], &json!(16))
    );
    assert_eq!(status["dangers"], json!([]));
    let model =
        elsewhere.script(&json!({"steps": [{"expect": ["Count to three"], "text": "One, two, three"}]}));
    let mut args = with(&["resume", "c1", "--model"]);
    args.push(model);
    let held = elsewhere.run(&words(&args));
    assert!(held.stderr.contains("is being written by"), "{}", held.shown());
    // A minute passes on the database's clock.
    execute(&server, "UPDATE annals.head SET until = until - 60000000");
    execute(&server, "UPDATE annals.member SET until = until - 60000000");
    let resumed = elsewhere.run(&words(&args)).good();
    assert!(resumed.stdout.contains("One, two, three"), "{}", resumed.shown());
    let shown = here.run(&words(&with(&["timeline", "show", "c1"]))).good();
    assert!(shown.stdout.contains("One, two, three"), "{}", shown.shown());
    let doctor = here.run(&words(&with(&["doctor"]))).good();
    assert!(doctor.stdout.contains("postgres://"), "{}", doctor.shown());
}

#[test]
fn what_was_said_is_found_from_another_machine_and_what_nobody_names_is_removed() {
    let Some(server) = PostgresServer::start(Edition::Debian, Durability::Volatile, &[]) else {
        return;
    };
    let (here, elsewhere) = (Annals::new(), Annals::new());
    let url = wait(server.database("a", None));
    let run = |annals: &Annals, args: &[&str]| annals.run(&[&["--store", url.as_str()][..], args].concat());
    let told = |annals: &Annals, args: &[&str]| run(annals, args).good().json();
    run(&here, &["store", "init"]).good();
    let model = here.script(&json!({"steps": [{"text": "One, two, three"}]}));
    let asked = ["run", "Count to three", "--conversation", "c1", "--model", &model];
    run(&here, &asked).good();

    let behind = || told(&here, &["store", "status", "--json"])["memory_search"]["blocks_behind"].as_u64();
    assert!(behind() > Some(0));
    let shown = run(&here, &["store", "status"]).good();
    assert!(
        shown.stdout.contains("of 1 conversations behind"),
        "{}",
        shown.shown()
    );
    let found = told(&elsewhere, &["memory", "search", "one two three", "--json"]);
    assert_eq!(found[0]["text"], "One, two, three", "{found}");
    assert_eq!(behind(), Some(0));
    let made = run(&elsewhere, &["memory", "reindex"]).good();
    assert!(made.stdout.contains("blocks indexed"), "{}", made.shown());

    // A week passes, and what the conversation named is named no more.
    let kept = told(&here, &["store", "gc", "--dry-run", "--json"]);
    assert_eq!(kept["removed"], 0, "{kept}");
    run(&here, &["conversations", "delete", "c1"]).good();
    execute(
        &server,
        "UPDATE annals.artifact SET touched = touched - 604800000000",
    );
    let young = run(&here, &["store", "gc", "--older-than", "5m"]);
    assert_eq!(young.code, 2, "{}", young.shown());
    let counted = told(&here, &["store", "gc", "--dry-run", "--json"]);
    assert!(counted["removed"].as_u64() > Some(0), "{counted}");
    let again = run(&here, &["store", "gc", "--older-than", "2d"]).good();
    let removed = format!("{} of {} artifacts", counted["removed"], counted["seen"]);
    assert!(again.stdout.starts_with(&removed), "{}", again.shown());
    let none = told(&here, &["store", "gc", "--json"]);
    assert_eq!(
        (&none["seen"], &none["removed"]),
        (&json!(0), &json!(0)),
        "{none}"
    );
}

#[test]
fn a_file_of_one_machine_is_not_archived_and_what_was_just_used_stays() {
    let annals = Annals::new();
    let refused = annals.run(&["store", "archive"]);
    assert_eq!(refused.code, 2, "{}", refused.shown());
    for said in ["postgres://", "annals timeline export"] {
        assert!(refused.stderr.contains(said), "{}", refused.shown());
    }
    let young = annals.run(&["store", "archive", "--idle", "5m"]);
    assert!(young.stderr.contains("come back at once"), "{}", young.shown());
}
