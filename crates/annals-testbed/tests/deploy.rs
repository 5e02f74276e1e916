//! The manifests of `deploy/` are what Kubernetes accepts.

use std::path::Path;
use std::process::Command;

#[test]
fn the_manifests_have_the_form_that_kubernetes_documents() {
    let Some(set) = annals_requirements::installed("kubernetes-validate") else {
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes");
    let files = std::fs::read_dir(folder)
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
