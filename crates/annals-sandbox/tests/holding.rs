//! What only a backend on this machine can show: nothing is left behind, whatever ends it, and the spec is kept.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use annals_sandbox::facts::Facts;
use annals_sandbox::{
    Backend, CommandResult, CommandRun, FailureKind, FilesRead, FilesWrite, Isolation, Language, Layer,
    Local, LocalTree, Op, OpResult, OpenError, Opening, Sandbox, SandboxName, SandboxSpec,
};
use tokio_util::sync::CancellationToken;

annals_sandbox::helpers_in_tests!(annals_sandbox::launcher::init);

/// Set in a process that a test starts from its own executable.
const ROLE: &str = "ANNALS_TEST_ROLE";

/// A sandbox that works in this directory.
fn at(directory: impl AsRef<Path>) -> Opening {
    let directory = directory.as_ref();
    let name = SandboxName::new(directory.display().to_string(), 1);
    Opening::new(SandboxSpec::new(name)).local(LocalTree::at(directory))
}

async fn open(opening: Opening) -> Arc<dyn Sandbox> {
    Local::new().open(opening).await.expect("the sandbox opens")
}

async fn run(sandbox: &Arc<dyn Sandbox>, op: CommandRun) -> CommandResult {
    match sandbox
        .dispatch(Op::CommandRun(op), &CancellationToken::new())
        .await
    {
        Ok(OpResult::Command(result)) => result,
        other => panic!("{other:?}"),
    }
}

async fn shell(sandbox: &Arc<dyn Sandbox>, line: &str) -> CommandResult {
    run(sandbox, CommandRun::shell(line)).await
}

/// Living children of this process' launcher: one for each sandbox that is open.
fn supervisors() -> Vec<String> {
    let children =
        |pid: u32| fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let own = fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        .map(|task| task.file_name().into_string().unwrap());
    let own =
        own.map(|task| fs::read_to_string(format!("/proc/self/task/{task}/children")).unwrap_or_default());
    let own: Vec<u32> = own
        .collect::<String>()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    let is_launcher = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .unwrap_or_default()
            .starts_with("annals-helper\0__annals-helper\0sandbox\0")
    };
    let launchers = own.into_iter().filter(is_launcher);
    launchers
        .flat_map(|pid| {
            children(pid)
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Alone in its process under nextest; under `cargo test` it shares it, so it runs in a process of its own.
fn in_own_process(test: &str, role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::null());
    command
}

fn has_role(role: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|found| found == role)
}

#[test]
fn two_hundred_sandboxes_at_once_finish_and_leave_no_process_and_no_cgroup() {
    let name = "two_hundred_sandboxes_at_once_finish_and_leave_no_process_and_no_cgroup";
    if !has_role("many") {
        let output = in_own_process(name, "many").output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let one = |n: usize| {
            let workspace = directory.path().join(n.to_string());
            async move {
                fs::create_dir(&workspace).unwrap();
                let sandbox = open(at(&workspace)).await;
                let result = run(
                    &sandbox,
                    CommandRun::argv(["touch".to_owned(), format!("made-{n}")]),
                )
                .await;
                assert_eq!(result.exit_code, 0, "{}", result.stderr);
                assert!(workspace.join(format!("made-{n}")).exists());
                sandbox
            }
        };
        let sandboxes = futures::future::join_all((0..200).map(one)).await;
        assert_eq!(supervisors().len(), 200);
        // Half are closed, half are dropped.
        for (n, sandbox) in sandboxes.iter().enumerate() {
            if n % 2 == 0 {
                sandbox.close().await;
            }
        }
        drop(sandboxes);
        tokio::task::spawn_blocking(|| wait_until("all supervisors are gone", || supervisors().is_empty()))
            .await
            .unwrap();
        tokio::task::spawn_blocking(|| wait_until("all cgroups are gone", || own_cgroups() == 0))
            .await
            .unwrap();
    });
}

/// Cgroup directories named after this process, anywhere.
fn own_cgroups() -> usize {
    fn count(directory: &Path, prefix: &str, depth: usize) -> usize {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        directories
            .map(|entry| {
                let own = usize::from(entry.file_name().to_string_lossy().starts_with(prefix));
                own + if depth > 0 {
                    count(&entry.path(), prefix, depth - 1)
                } else {
                    0
                }
            })
            .sum()
    }
    count(
        Path::new("/sys/fs/cgroup"),
        &format!("annals-{}-", std::process::id()),
        5,
    )
}

/// For what the kernel does in its own time; fails after 20 seconds.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed().as_secs() < 20, "not reached: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn everything_dies_when_annals_is_killed() {
    if has_role("killed") {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(async {
            let sandbox = open(at(std::env::var("WORKSPACE").unwrap())).await;
            shell(
                &sandbox,
                "setsid flock lock -c 'touch held; sleep 300' & flock other -c 'sleep 300'",
            )
            .await;
        });
    }
    let directory = tempfile::tempdir().unwrap();
    let mut annals = in_own_process("everything_dies_when_annals_is_killed", "killed")
        .env("WORKSPACE", directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the sandboxed process holds its lock", || {
        directory.path().join("held").exists()
    });
    annals.kill().unwrap();
    annals.wait().unwrap();
    let freed = Command::new("flock")
        .args(["-w", "20"])
        .arg(directory.path().join("lock"))
        .arg("true")
        .status()
        .unwrap();
    assert!(freed.success(), "a process outlived Annals");
}

#[tokio::test]
async fn a_command_gets_no_descriptor_but_the_three_streams() {
    // Both are left open for children by the program that embeds Annals.
    let leaked = fs::File::open("/etc/hostname").unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let sandbox = open(at(directory.path())).await;
    // The fourth is the listing's own.
    assert_eq!(
        shell(&sandbox, "ls /proc/self/fd | wc -l").await.stdout.text(),
        "4\n"
    );
    // Of processes there are its init and itself.
    let listed = run(&sandbox, CommandRun::argv(["ls", "/proc"]))
        .await
        .stdout
        .text()
        .into_owned();
    let processes: Vec<_> = listed
        .lines()
        .filter(|name| name.parse::<u32>().is_ok())
        .collect();
    assert_eq!(processes, ["1", "2"]);
}

#[tokio::test]
async fn a_hard_link_to_a_file_outside_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    fs::write(directory.path().join("outside"), "secret").unwrap();
    fs::hard_link(directory.path().join("outside"), workspace.join("link")).unwrap();
    let sandbox = open(at(&workspace)).await;
    let cancel = CancellationToken::new();
    let read = sandbox
        .dispatch(Op::FilesRead(FilesRead::text("link")), &cancel)
        .await;
    assert_eq!(read.unwrap_err().kind, FailureKind::PathViolation);
    // Writing replaces the name and leaves the file outside alone.
    sandbox
        .dispatch(Op::FilesWrite(FilesWrite::new("link", "new")), &cancel)
        .await
        .unwrap();
    assert_eq!(
        fs::read_to_string(directory.path().join("outside")).unwrap(),
        "secret"
    );
}

#[tokio::test]
async fn only_the_named_directories_are_writable() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["turn_1/files", "turn_2/files"] {
        fs::create_dir_all(directory.path().join(name)).unwrap();
    }
    fs::write(directory.path().join("turn_1/files/old"), "old").unwrap();
    let mut opening = at(directory.path());
    opening.spec.writable_subdirs = Some(vec!["turn_2/files".into()]);
    let sandbox = open(opening).await;
    let result = shell(
        &sandbox,
        "cat turn_1/files/old; echo new > turn_2/files/new && echo wrote; \
         echo x > turn_1/files/x; echo x > x; echo x > turn_1/files/old; mv turn_2 turn_3; ls",
    )
    .await;
    assert_eq!(
        result.stdout.text(),
        "oldwrote\nturn_1\nturn_2\n",
        "{}",
        result.stderr
    );
    let cancel = CancellationToken::new();
    for (path, allowed) in [
        ("turn_2/files/by-op", true),
        ("turn_1/files/by-op", false),
        ("by-op", false),
    ] {
        let written = sandbox
            .dispatch(Op::FilesWrite(FilesWrite::new(path, "x")), &cancel)
            .await;
        assert_eq!(written.is_ok(), allowed, "{path}: {written:?}");
    }
}

#[tokio::test]
async fn a_planted_link_does_not_become_a_writable_directory() {
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path().join("workspace");
    fs::create_dir_all(directory.path().join("outside")).unwrap();
    fs::create_dir(&workspace).unwrap();
    std::os::unix::fs::symlink("../outside", workspace.join("files")).unwrap();
    let mut opening = at(&workspace);
    opening.spec.writable_subdirs = Some(vec!["files".into()]);
    assert!(matches!(
        Local::new().open(opening).await,
        Err(OpenError::Workspace { .. })
    ));
}

#[tokio::test]
async fn a_directory_that_the_backend_shows_is_readable() {
    let directory = tempfile::tempdir().unwrap();
    let shared = directory.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("file"), "shared").unwrap();
    let backend = Local::new().read_only(&shared, "/given/shared");
    let sandbox = backend
        .open(at(directory.path().join("workspace")))
        .await
        .unwrap();
    let result = shell(
        &sandbox,
        "cat /given/shared/file; touch /given/shared/x || echo; ls /given",
    )
    .await;
    assert_eq!(result.stdout.text(), "shared\nshared\n", "{}", result.stderr);
}

#[tokio::test]
async fn files_stay_in_the_callers_directory_and_others_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path().join("made/on/the/way");
    let sandbox = open(at(&workspace)).await;
    assert!(sandbox.capabilities().works_in_place);
    shell(&sandbox, "echo stays > file").await;
    sandbox.close().await;
    assert_eq!(fs::read_to_string(workspace.join("file")).unwrap(), "stays\n");

    let name = SandboxName::new("nobody-placed-it", 1);
    let sandbox = open(Opening::new(SandboxSpec::new(name))).await;
    assert!(!sandbox.capabilities().works_in_place);
    shell(&sandbox, "echo goes > file").await;
    drop(sandbox);
    let own = format!("annals-workspace-{}-", std::process::id());
    let left = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own));
    assert_eq!(left.count(), 0);
}

#[tokio::test]
async fn gigabytes_of_output_do_not_grow_memory() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = open(at(directory.path())).await;
    let before = peak_memory_kib();
    let result = shell(&sandbox, "head -c 2000000000 /dev/zero").await;
    assert_eq!(result.stdout.total_bytes(), 2_000_000_000);
    let grown = peak_memory_kib() - before;
    assert!(grown < 100 << 10, "grew by {grown} KiB");
}

fn peak_memory_kib() -> u64 {
    let mut status = String::new();
    fs::File::open("/proc/self/status")
        .unwrap()
        .read_to_string(&mut status)
        .unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn nothing_inside_names_the_host() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = open(at(directory.path())).await;
    let result = shell(
        &sandbox,
        "pwd; hostname; id -un; echo $HOME; env | cut -d= -f1 | sort | tr '\\n' ' '",
    )
    .await;
    assert_eq!(
        result.stdout.text(),
        "/workspace\nsandbox\nsandbox\n/tmp\nHOME LANG PATH PWD PYTHONDONTWRITEBYTECODE SHLVL _ "
    );
}

#[tokio::test]
async fn files_made_inside_belong_to_the_owner_of_the_workspace() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let sandbox = open(at(directory.path())).await;
    shell(&sandbox, "echo x > made; mkdir dir").await;
    let owner = fs::metadata(directory.path()).unwrap().uid();
    for name in ["made", "dir"] {
        assert_eq!(fs::metadata(directory.path().join(name)).unwrap().uid(), owner);
    }
}

#[tokio::test]
async fn weaker_isolation_is_given_when_asked_for_by_name_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    for gone in [
        Layer::Landlock,
        Layer::Seccomp,
        Layer::Net,
        Layer::Cgroup,
        Layer::Uts,
    ] {
        let mut opening = at(directory.path());
        opening.spec.isolation = Isolation::WithoutLayers(vec![gone]);
        let sandbox = open(opening).await;
        assert!(!sandbox.capabilities().layers.contains(&gone));
        assert_eq!(
            shell(&sandbox, "echo $((6*7))").await.stdout.text(),
            "42\n",
            "without {gone}"
        );
        sandbox.close().await;
    }
}

#[test]
fn a_missing_layer_is_named_and_refused() {
    if has_role("poor") {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(async {
            let directory = tempfile::tempdir().unwrap();
            match Local::new().open(at(directory.path())).await {
                Err(error @ OpenError::LayerMissing { .. }) => {
                    let text = error.to_string();
                    assert!(
                        text.contains("is not available") && text.contains("by name"),
                        "{text}"
                    );
                    fs::write("/dev/stdout", "refused\n").unwrap();
                }
                Err(other) => panic!("{other}"),
                Ok(_) => panic!("opened without user namespaces"),
            }
        });
    }
    // A user namespace whose own limit forbids any further one: like a machine where they are switched off.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let exe = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["-Ur", "sh", "-c", script])
        .arg(exe)
        .args(["--exact", "a_missing_layer_is_named_and_refused", "--nocapture"])
        .env(ROLE, "poor")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("refused"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn facts_name_every_layer_and_survive_as_data() {
    let facts = Facts::gather().unwrap();
    assert_eq!(
        facts.layers.iter().map(|fact| fact.layer).collect::<Vec<_>>(),
        Layer::ALL
    );
    assert_eq!(facts.missing_required().count(), 0, "{:?}", facts.layers);
    assert!(
        facts
            .interpreters
            .iter()
            .any(|interpreter| interpreter.language == Language::Bash)
    );
    let text = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
}

#[test]
fn only_the_hidden_argument_makes_a_helper() {
    // Same executable, the marker elsewhere than first: `main` runs and lists its tests.
    let output = Command::new("/proc/self/exe")
        .args(["--list", "__annals-helper"])
        .output()
        .unwrap();
    assert!(output.status.success());
    // The marker without a program behind it: neither a helper nor the program.
    let output = Command::new("/proc/self/exe")
        .args(["__annals-helper", "sandbox"])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(78), 0));
    let output = Command::new("/proc/self/exe")
        .args(["__annals-helper", "sandbox", env!("CARGO_PKG_VERSION")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(64), 0));
}
