//! Files that history speaks of are there again: in a fork, on another machine, in a sandbox that is elsewhere.

use std::sync::Arc;

use annals_sandbox::{Backend, Local, OpenError, Opening, Sandbox};
use async_trait::async_trait;
use serde_json::json;

use crate::exec::{python, report, stage, stage_with};
use crate::stage::{Stage, codes, error_code, json as answer};

/// A backend that does not work in the caller's directory, as one on another machine does not.
struct Apart;

#[async_trait]
impl Backend for Apart {
    fn name(&self) -> &str {
        "apart"
    }

    fn isolates(&self) -> bool {
        Local::new().isolates()
    }

    async fn open(&self, mut opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        opening.local = None;
        Local::new().open(opening).await
    }
}

async fn shell(stage: &mut Stage, command: &str) -> String {
    let outcome = stage.call("run_shell_command", json!({"command": command})).await;
    let answer = answer(&outcome);
    format!(
        "{}{}",
        answer["stdout"].as_str().unwrap_or_default(),
        answer["stderr"].as_str().unwrap_or_default()
    )
}

/// A turn that wrote files in every way there is.
async fn told(mut stage: Stage) -> Stage {
    stage
        .call(
            "write_workspace_file",
            json!({"path": "notes/a.txt", "content": "from a tool"}),
        )
        .await;
    shell(
        &mut stage,
        "echo first > kept; echo x > gone; printf '#!/bin/sh\\necho ran\\n' > run.sh; chmod +x run.sh",
    )
    .await;
    shell(&mut stage, "echo second > kept; rm gone").await;
    python(
        &mut stage,
        "open('turn_1/files/b.bin', 'wb').write(bytes(range(256)) * 4)",
        &["b.bin"],
    )
    .await;
    stage
        .call(
            "react.write",
            json!({"path": "c.md", "channel": "canvas", "content": "# Written for the user", "kind": "file"}),
        )
        .await;
    stage.begin("turn_2");
    stage
}

const LOOK: &str =
    "cat notes/a.txt; echo; cat kept; ./run.sh; ls; wc -c < turn_1/files/b.bin; cat turn_1/files/c.md";
const SEEN: &str = "from a tool\nsecond\nran\nkept\nnotes\nrun.sh\nturn_1\n1024\n# Written for the user";

#[tokio::test]
async fn a_fork_starts_with_the_files_that_history_speaks_of() {
    let parent = told(stage()).await;
    let mut fork = parent.elsewhere(Arc::new(Local::new()));
    assert_eq!(shell(&mut fork, LOOK).await, SEEN);
    // Only once: what the fork does to them is its own.
    shell(&mut fork, "echo third > kept; rm run.sh").await;
    assert_eq!(
        shell(&mut fork, "cat kept; ls").await,
        "third\nkept\nnotes\nturn_1\n"
    );
    let mut again = fork.elsewhere(Arc::new(Local::new()));
    assert_eq!(
        shell(&mut again, "cat kept; ls").await,
        "third\nkept\nnotes\nturn_1\n"
    );
}

#[tokio::test]
async fn code_finds_them_too_though_it_does_not_mention_them() {
    let parent = told(stage()).await;
    let mut fork = parent.elsewhere(Arc::new(Local::new()));
    let code = "import os\nprint(sorted(os.listdir('.')), sorted(os.listdir('turn_' + '1/files')))";
    let outcome = python(&mut fork, code, &[]).await;
    let told = report(&outcome);
    assert!(
        told.contains("['kept', 'notes', 'run.sh', 'turn_1', 'turn_2'] ['b.bin', 'c.md']"),
        "{told}"
    );
}

#[tokio::test]
async fn every_tool_works_on_a_backend_that_is_elsewhere() {
    let mut stage = told(stage_with(Arc::new(Apart))).await;
    assert_eq!(shell(&mut stage, LOOK).await, SEEN);
    // What it wrote is here, where every other tool looks for it.
    assert_eq!(
        stage.whole("fi:turn_1.files/c.md").await,
        "# Written for the user"
    );
    let code = "from context_tools import fetch_ctx\nopen('turn_2/files/d.txt', 'w').write(fetch_ctx('fi:turn_1.files/c.md') + '!')";
    let outcome = python(&mut stage, code, &["d.txt"]).await;
    assert_eq!(error_code(&outcome), None, "{}", report(&outcome));
    assert_eq!(
        stage.disk("turn_2/files/d.txt").as_deref(),
        Some("# Written for the user!")
    );
    assert_eq!(
        shell(&mut stage, "cat turn_2/files/d.txt").await,
        "# Written for the user!"
    );
}

#[tokio::test]
async fn files_beyond_the_bound_are_told_and_not_kept() {
    let mut stage = stage();
    let outcome = stage
        .call(
            "run_shell_command",
            json!({"command": "truncate -s 900M sparse; echo small > small"}),
        )
        .await;
    assert_eq!(codes(&outcome), ["workspace_not_kept"]);
    assert!(
        outcome.notices[0].message.ends_with("`sparse`"),
        "{}",
        outcome.notices[0].message
    );
    let kept: Vec<_> = outcome
        .workspace
        .iter()
        .map(|change| change.path.as_str())
        .collect();
    assert_eq!(kept, ["small"]);
}

#[tokio::test]
async fn files_whose_bytes_are_lost_are_told() {
    let parent = told(stage()).await;
    let mut fork = parent.elsewhere(Arc::new(Local::new()));
    std::fs::remove_dir_all(parent.dir.path().join("artifacts")).unwrap();
    let outcome = fork.call("run_shell_command", json!({"command": "ls"})).await;
    assert!(
        codes(&outcome).contains(&"workspace_incomplete"),
        "{:?}",
        codes(&outcome)
    );
}
