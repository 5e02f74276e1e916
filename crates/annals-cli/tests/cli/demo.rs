//! `demo`: it works on any machine, and what it shows is there.

use super::annals::Annals;

#[test]
fn the_demo_runs_without_a_key_and_what_it_made_is_found_by_path() {
    let annals = Annals::new();
    let into = annals.path().join("demo");
    let into = into.to_str().unwrap();
    let ran = annals.run(&["demo", "--fast", "--into", into]).good();
    for text in [
        "annals demo",
        "── files ──",
        "report.pdf",
        "── timeline ──",
        "turn_demo_2",
        "react.memsearch",
        "cache reads",
    ] {
        assert!(ran.stdout.contains(text), "`{text}` is not in:\n{}", ran.stdout);
    }
    let rows = annals
        .run(&["conversations", "--json", "--home", into])
        .good()
        .json();
    let id = rows[0]["id"].as_str().unwrap();
    let pdf = annals
        .run(&["read", id, "fi:turn_demo_1.files/report.pdf", "--home", into])
        .good();
    assert!(pdf.bytes.starts_with(b"%PDF-"));
    let report = annals
        .run(&["read", id, "fi:turn_demo_1.files/report.md", "--home", into])
        .good();
    assert!(
        report.stdout.contains("The best month was December"),
        "{}",
        report.stdout
    );
}
