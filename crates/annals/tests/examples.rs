//! The examples run, and say what they should.

use std::path::PathBuf;
use std::process::Command;

/// Cargo builds examples beside the folder of this test's own executable before it runs the tests.
fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let profile = this.parent().and_then(|deps| deps.parent()).unwrap();
    profile.join("examples").join(name)
}

#[test]
fn every_example_says_what_it_should() {
    for (name, text) in [
        ("custom_tool", "41 + 1 is 42."),
        ("stateful_tool", "{\"balance_cents\":-3500} (Complete)"),
        (
            "own_stage",
            "stage.suggested_followups: [\"What is left to do?\"]",
        ),
        ("streaming", "the turn ended: complete"),
        ("lineage", "the fork comes from the trip by `Fork`"),
        ("resume", "Under the mat."),
        ("replay", "replayed the same"),
        ("openai_endpoint", "Hello from this machine."),
        ("sandboxed", "It ran as `sandbox`."),
    ] {
        let output = Command::new(example(name))
            .env_remove("OPENAI_API_KEY")
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(stdout.contains(text), "{name}: {stdout}");
    }
}

/// This test binary does not begin with `launcher::init()`, as a `cdylib` would not.
#[test]
fn a_program_without_a_main_of_its_own_names_a_helper() {
    let said = || annals::sandbox::facts::Facts::gather().map_err(|error| error.to_string());
    let error = said().unwrap_err();
    assert!(
        error.contains("annals::launcher::init()") && error.contains("ANNALS_HELPER"),
        "{error}"
    );
    for (program, expected) in [
        ("/nonexistent", "could not be started"),
        ("/bin/true", "has no role `sandbox`"),
    ] {
        annals::launcher::use_helper(program);
        let error = said().unwrap_err();
        assert!(error.contains(expected) && error.contains(program), "{error}");
    }
    annals::launcher::use_helper(example("sandboxed"));
    assert_eq!(said().unwrap().layers.len(), annals::sandbox::Layer::ALL.len());
}
