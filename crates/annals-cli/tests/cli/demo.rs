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
    moves_to_another_machine(&annals, id, into);
}

/// With code, documents and notes in it, the conversation is exported and imported, and says nothing of the machine that it
/// was made on.
fn moves_to_another_machine(annals: &Annals, id: &str, into: &str) {
    let file = annals.path().join("demo.annals");
    let file = file.to_str().unwrap();
    annals
        .run(&["timeline", "export", id, "-o", file, "--home", into])
        .good();
    let database = std::path::Path::new(into).join("annals.db");
    for path in [std::path::Path::new(file), &database] {
        let bytes = std::fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let place = annals.path().to_str().unwrap();
        assert!(!text.contains(place), "`{place}` is in {}", path.display());
    }
    let elsewhere = annals.path().join("elsewhere");
    let elsewhere = elsewhere.to_str().unwrap();
    annals
        .run(&["timeline", "import", file, "--home", elsewhere])
        .good();
    let blocks = |home: &str| {
        annals
            .run(&["timeline", "blocks", id, "--home", home])
            .good()
            .stdout
    };
    assert_eq!(blocks(elsewhere), blocks(into));
}
