//! Bounds on a sandbox as a whole, kept where no cgroup keeps them: as root and as an ordinary user.

mod cgroups;

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use annals_requirements::{Requirement, met};
use annals_sandbox::{
    Backend, CodeRun, CommandRun, FailureKind, Isolation, Language, Layer, Local, Op, OpResult, Opening,
    Sandbox, SandboxName, SandboxSpec, TrustedHost,
};
use tokio_util::sync::CancellationToken;

annals_sandbox::helpers_in_tests!(annals_sandbox::launcher::init);

/// An identity that is nobody's.
const ORDINARY: u32 = 65533;

const MIB: u64 = 1 << 20;

async fn open(backend: &dyn Backend, change: impl FnOnce(&mut SandboxSpec)) -> Arc<dyn Sandbox> {
    let mut spec = SandboxSpec::new(SandboxName::new(format!("bounds-{}", std::process::id()), 1));
    spec.limits.timeout = Duration::from_secs(60);
    change(&mut spec);
    backend.open(Opening::new(spec)).await.expect("the sandbox opens")
}

/// What a program printed, or the kind and message of the failure that ended it.
async fn run(sandbox: &Arc<dyn Sandbox>, op: Op) -> String {
    match sandbox.dispatch(op, &CancellationToken::new()).await {
        Ok(OpResult::Command(result)) => format!("{}{}", result.stdout, result.stderr),
        Ok(OpResult::Code(result)) => format!("{}{}", result.stdout, result.stderr),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => format!("{}: {}", failure.kind, failure.message),
    }
}

async fn shell(sandbox: &Arc<dyn Sandbox>, line: &str) -> String {
    run(sandbox, Op::CommandRun(CommandRun::shell(line))).await
}

/// Ways to hold 400 MiB that are in no single process' own bound. Each prints HELD once it does.
const MEMORY: &[(&str, &str)] = &[
    (
        "a file without a name",
        "fd = os.memfd_create('x')\nfor _ in range(400): os.write(fd, MIB)\n",
    ),
    (
        "System V shared memory",
        "libc = ctypes.CDLL(None, use_errno=True)\nlibc.shmat.restype = ctypes.c_void_p\n\
         for _ in range(4):\n\
         \x20   shm = libc.shmget(0, 100 << 20, 0o1600)\n\
         \x20   if shm < 0: raise OSError(ctypes.get_errno(), 'shmget')\n\
         \x20   at = libc.shmat(shm, None, 0); ctypes.memset(at, 1, 100 << 20); libc.shmdt(ctypes.c_void_p(at))\n",
    ),
    (
        "buffers of sockets",
        "held = []\n\
         def fill():\n\
         \x20   for _ in range(400):\n\
         \x20       a, b = socket.socketpair(); held.append((a, b))\n\
         \x20       for one in (a, b):\n\
         \x20           one.setblocking(False)\n\
         \x20           try:\n\
         \x20               while True: one.send(MIB[:4096])\n\
         \x20           except BlockingIOError: pass\n\
         def hold():\n\
         \x20   fill(); done(); time.sleep(60)\n\
         children(4, hold)\n",
    ),
    (
        "many processes with a little each",
        "def hold():\n\
         \x20   held = bytearray(os.urandom(1 << 20)) * 50; done(); time.sleep(60)\n\
         children(8, hold)\n",
    ),
    (
        "memory that processes share",
        "held = [mmap.mmap(-1, 50 << 20) for _ in range(4)]\n\
         for one in held: one.write(b'1' * (50 << 20))\n\
         def hold():\n\
         \x20   more = mmap.mmap(-1, 50 << 20); more.write(b'1' * (50 << 20)); done(); time.sleep(60)\n\
         children(4, hold)\n",
    ),
    (
        "shared memory of which one page is mapped",
        "held = [leave_one_page(maps(100 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, -1)) for _ in range(4)]\n",
    ),
    (
        "the same, by a device",
        "fd = os.open('/dev/zero', os.O_RDWR)\n\
         held = [leave_one_page(maps(100 << 20, mmap.MAP_SHARED, fd)) for _ in range(4)]\n",
    ),
    (
        "records of mappings",
        "SIZE = 180 << 20\n\
         def hold():\n\
         \x20   at = maps(SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, mmap.PROT_READ)\n\
         \x20   for page in range(0, SIZE, 8192): libc.mprotect(ctypes.c_void_p(at + page), 4096, mmap.PROT_EXEC)\n\
         \x20   done(); time.sleep(60)\n\
         children(40, hold)\n",
    ),
];

/// The same by queues of TCP, which a cgroup of version 1 keeps another account of.
const QUEUES: (&str, &str) = (
    "queues of TCP",
    "listener, held, sent = socket.create_server(('127.0.0.1', 0)), [], 0\n\
     for _ in range(60):\n\
     \x20   a = socket.create_connection(listener.getsockname()); b, _ = listener.accept(); held.append((a, b))\n\
     \x20   for one in (a, b):\n\
     \x20       one.setblocking(False)\n\
     \x20       try:\n\
     \x20           while True: sent += one.send(MIB)\n\
     \x20       except BlockingIOError: pass\n\
     if sent < 300 << 20: raise OSError(f'only {sent} bytes are queued')\n",
);

/// `children` starts some that each call `done` when they hold what they hold, and waits for that.
const PRELUDE: &str = "import ctypes, mmap, os, socket, time\nMIB = b'1' * (1 << 20)\n\
    told, tell = os.pipe()\n\
    def done(): os.write(tell, b'.')\n\
    def children(count, hold):\n\
    \x20   for _ in range(count):\n\
    \x20       if os.fork() == 0: hold(); os._exit(0)\n\
    \x20   for _ in range(count): os.read(told, 1)\n\
    libc = ctypes.CDLL(None, use_errno=True)\n\
    libc.mmap.restype = ctypes.c_void_p\n\
    def maps(size, flags, fd, protection=mmap.PROT_READ | mmap.PROT_WRITE):\n\
    \x20   at = libc.mmap(None, ctypes.c_size_t(size), protection, flags, fd, ctypes.c_long(0))\n\
    \x20   if at == 2 ** 64 - 1: raise OSError(ctypes.get_errno(), 'mmap')\n\
    \x20   return at\n\
    def leave_one_page(at):\n\
    \x20   ctypes.memset(at, 1, 100 << 20)\n\
    \x20   libc.munmap(ctypes.c_void_p(at + 4096), ctypes.c_size_t((100 << 20) - 4096))\n";

fn holding(code: &str) -> Op {
    let program = format!("{PRELUDE}{code}\ntime.sleep(1)\nprint('HELD')\n");
    Op::CodeRun(CodeRun::new(Language::Python, program))
}

fn without_cgroups(spec: &mut SandboxSpec) {
    spec.isolation = Isolation::WithoutLayers(vec![Layer::Cgroup]);
    spec.limits.memory_bytes = 128 * MIB;
    spec.limits.scratch_bytes = 16 * MIB;
}

/// Everything that holds memory is ended or refused where memory is counted.
async fn every_holder_is_ended(change: fn(&mut SandboxSpec)) {
    for (name, code) in MEMORY.iter().chain([&QUEUES]) {
        let sandbox = open(&Local::new(), change).await;
        let told = run(&sandbox, holding(code)).await;
        assert!(!told.contains("HELD"), "{name}: {told}");
        let is_counted =
            told.starts_with("resource_limit: the processes of the sandbox used more than 134217728");
        let is_refused = ["OSError", "PermissionError", "MemoryError"]
            .iter()
            .any(|error| told.contains(error));
        assert!(is_counted || is_refused, "{name}: {told}");
        // The sandbox is not spoilt by it.
        assert_eq!(shell(&sandbox, "echo still here").await, "still here\n", "{name}");
        sandbox.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_without_cgroups() {
    if met(Requirement::Python) {
        every_holder_is_ended(without_cgroups).await;
    }
}

/// Which surroundings a test was started again in.
const SURROUNDINGS: &str = "ANNALS_BOUNDS";

fn is_within(surroundings: &str) -> bool {
    std::env::var(SURROUNDINGS).is_ok_and(|within| within == surroundings)
}

/// The part of the test below that runs where no cgroup file system is mounted, with all isolation there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_within_a_container() {
    if is_within("container") {
        every_holder_is_ended(|spec| {
            without_cgroups(spec);
            spec.isolation = Isolation::Full;
        })
        .await;
    }
}

/// The part of the test below that runs as an ordinary user with a cgroup of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_within_a_delegated_cgroup() {
    if !is_within("delegated") {
        return;
    }
    let full = |spec: &mut SandboxSpec| {
        without_cgroups(spec);
        spec.isolation = Isolation::Full;
        // Where the kernel ends a child, its parent waits for it in vain.
        spec.limits.timeout = Duration::from_secs(8);
    };
    for (name, code) in MEMORY {
        let sandbox = open(&Local::new(), full).await;
        let told = run(&sandbox, holding(code)).await;
        assert!(!told.contains("HELD"), "{name}: {told}");
        // The kernel keeps the bound, so nothing is refused that the bound covers.
        assert!(
            !told.contains("Error:") && !told.contains("the processes of the sandbox used more"),
            "{name}: {told}"
        );
        sandbox.close().await;
    }
}

#[test]
fn a_container_without_cgroups_counts() {
    if !met(Requirement::Root) || !met(Requirement::UtilLinux) || !met(Requirement::Python) {
        return;
    }
    // A mount namespace of its own from which the cgroups are gone, as many containers have it.
    let without = "umount -R /sys/fs/cgroup && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--", "sh", "-c", without])
        .arg(own_program());
    run_again(command, "container", "memory_is_bounded_within_a_container");
}

#[test]
fn a_delegated_cgroup_bounds_an_ordinary_user() {
    if !met(Requirement::Root) || !met(Requirement::Python) {
        return;
    }
    let delegated = cgroups::Delegated::to(ORDINARY);
    let mut command = Command::new("sh");
    let enter = delegated.entrances().join(" ");
    let line = format!(
        "for procs in {enter}; do echo $$ > $procs || exit 9; done; \
         exec setpriv --reuid={ORDINARY} --regid={ORDINARY} --clear-groups \"$0\" \"$@\""
    );
    command.args(["-c", &line]).arg(own_program());
    run_again(
        command,
        "delegated",
        "memory_is_bounded_within_a_delegated_cgroup",
    );
}

fn own_program() -> std::path::PathBuf {
    std::env::current_exe().expect("this program")
}

#[track_caller]
fn run_again(mut command: Command, surroundings: &str, test: &str) {
    let output = command
        .args(["--exact", test])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env(SURROUNDINGS, surroundings)
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .expect("the test runs again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Nothing above fails for another reason: without limits each attempt holds what it says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_holds_memory_where_nothing_bounds_it() {
    if !met(Requirement::Python) {
        return;
    }
    for (name, code) in MEMORY.iter().chain([&QUEUES]) {
        let sandbox = open(&TrustedHost::new(), |_| {}).await;
        let told = run(&sandbox, holding(code)).await;
        assert!(told.contains("HELD"), "{name}: {told}");
        sandbox.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_share_memory_are_not_charged_twice() {
    if !met(Requirement::Python) {
        return;
    }
    let sandbox = open(&Local::new(), without_cgroups).await;
    let code = "held = bytearray(os.urandom(1 << 20)) * 40\nSIZE = 12 << 20\n\
                file = open('/dev/shm/shared', 'w+b'); file.truncate(SIZE); shared = mmap.mmap(file.fileno(), SIZE)\n\
                shared.write(b'1' * SIZE)\n\
                def hold():\n\
                \x20   for at in range(0, SIZE, 4096): shared[at]\n\
                \x20   done(); time.sleep(3)\n\
                children(3, hold)\n";
    let told = run(&sandbox, holding(code)).await;
    assert_eq!(told, "HELD\n");
}

/// Page tables of one process are a 512th of its addresses, so only many processes hold much by them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_tables_are_counted() {
    if !met(Requirement::Python) {
        return;
    }
    let code = "SIZE = 440 << 20\n\
                def hold():\n\
                \x20   at = maps(SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, mmap.PROT_READ)\n\
                \x20   for page in range(0, SIZE, 2 << 20): ctypes.c_byte.from_address(at + page).value\n\
                \x20   done(); time.sleep(60)\n\
                children(300, hold)\n";
    let sandbox = open(&Local::new(), |spec| {
        without_cgroups(spec);
        spec.limits.memory_bytes = 256 * MIB;
        spec.limits.processes = 512;
    })
    .await;
    let told = run(&sandbox, holding(code)).await;
    let says = "resource_limit: the processes of the sandbox used more than 268435456";
    assert!(told.starts_with(says), "{told}");
}

/// A connection that was closed leaves a record for a minute, and no buffers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_connections_are_not_charged_as_open_ones() {
    if !met(Requirement::Python) {
        return;
    }
    let code = "listener = socket.create_server(('127.0.0.1', 0))\n\
                for _ in range(1000):\n\
                \x20   a = socket.create_connection(listener.getsockname()); b, _ = listener.accept(); a.close(); b.close()\n";
    let sandbox = open(&Local::new(), without_cgroups).await;
    assert_eq!(run(&sandbox, holding(code)).await, "HELD\n");
}

/// Where memory is counted, a file stands in the place of the device.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_can_be_read_without_end() {
    for isolation in [Isolation::Full, Isolation::WithoutLayers(vec![Layer::Cgroup])] {
        let sandbox = open(&Local::new(), |spec| spec.isolation = isolation).await;
        let line = "head -c 300000000 /dev/zero | tr -d '\\0' | wc -c; dd if=/dev/zero of=z bs=1M count=3 2> err; wc -c < z";
        assert_eq!(shell(&sandbox, line).await, "0\n3145728\n");
        sandbox.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_and_files_of_the_workspace_are_bounded() {
    let small = |spec: &mut SandboxSpec| {
        spec.limits.workspace_bytes = 8 * MIB;
        spec.limits.workspace_files = 300;
    };
    for (line, says) in [
        (
            "head -c 64M /dev/urandom > large; sleep 30",
            "more than 8388608 bytes",
        ),
        (
            "for n in $(seq 40); do head -c 1M /dev/urandom > f$n; sleep 0.05; done",
            "more than 8388608 bytes",
        ),
        (
            "exec 3> gone; rm gone; head -c 64M /dev/urandom >&3; sleep 30",
            "more than 8388608 bytes",
        ),
        (
            "mkdir d; head -c 64M /dev/urandom > d/f; chmod 000 d; sleep 30",
            "more than 8388608 bytes",
        ),
        (
            "for n in $(seq 1000); do : > f$n; done; sleep 30",
            "more than 300 files",
        ),
        (
            "d=.; for n in $(seq 400); do d=$d/d; mkdir $d; done; sleep 30",
            "more than 300 files",
        ),
    ] {
        let sandbox = open(&Local::new(), small).await;
        let told = shell(&sandbox, line).await;
        assert!(
            told.starts_with(FailureKind::ResourceLimit.as_str()) && told.contains(says),
            "{line}: {told}"
        );
        sandbox.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_workspace_can_be_cleaned_up_and_used_again() {
    let sandbox = open(&Local::new(), |spec| spec.limits.workspace_bytes = 8 * MIB).await;
    // Sparse files take no room.
    assert_eq!(
        shell(&sandbox, "truncate -s 500M sparse; echo made").await,
        "made\n"
    );
    let told = shell(&sandbox, "head -c 64M /dev/urandom > large; sleep 30").await;
    assert!(told.starts_with("resource_limit"), "{told}");
    shell(&sandbox, "echo more > more").await;
    assert_eq!(
        shell(&sandbox, "wc -c < more; rm large; ls").await,
        "0\nmore\nsparse\n"
    );
    for _ in 0..100 {
        if shell(&sandbox, "echo again > again && cat again").await == "again\n" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the workspace stayed full");
}

/// Runs the bounds once more as somebody without rights, who has no cgroup to use.
#[test]
fn the_same_holds_for_an_ordinary_user() {
    if !met(Requirement::Root) || !met(Requirement::Python) {
        return;
    }
    let tests = [
        "memory_is_bounded_without_cgroups",
        "programs_that_share_memory_are_not_charged_twice",
        "page_tables_are_counted",
        "closed_connections_are_not_charged_as_open_ones",
        "zeros_can_be_read_without_end",
        "bytes_and_files_of_the_workspace_are_bounded",
        "a_full_workspace_can_be_cleaned_up_and_used_again",
    ];
    let output = Command::new("/proc/self/exe")
        .arg("--exact")
        .args(tests)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .uid(ORDINARY)
        .gid(ORDINARY)
        .stdin(Stdio::null())
        .output()
        .expect("the tests run again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("7 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
