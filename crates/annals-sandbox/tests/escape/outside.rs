//! What an escape would reach: files, a process, sockets and System V objects of the host, made for one run.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Everything an escape would reach; gone when dropped.
pub(crate) struct Outside {
    directory: tempfile::TempDir,
    victim: Child,
    shm: libc::c_int,
    queue: String,
    posix_shm: PathBuf,
    facts: BTreeMap<String, String>,
    _listeners: (TcpListener, TcpListener, UnixListener, UnixListener),
}

impl Outside {
    pub(crate) fn build() -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut facts = BTreeMap::new();
        let mut fact = |name: &str, value: String| facts.insert(name.to_owned(), value);
        let base = directory.path();
        fs::set_permissions(base, Permissions::from_mode(0o755))?;
        make_files(base, &mut fact)?;
        let victim = start_victim(&base.join("outside/canary"))?;
        fact("VICTIM", victim.id().to_string());

        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let tag = format!(
            "annals-escape-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let shm = make_shm();
        fact("SHM", shm.to_string());
        let queue = format!("/{tag}\0");
        make_queue(&queue);
        fact("QUEUE", format!("/{tag}"));
        let posix_shm = Path::new("/dev/shm").join(&tag);
        fs::write(&posix_shm, "secret")?;
        fact("POSIX_SHM", tag.clone());

        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let tcp6 = TcpListener::bind("[::1]:0")?;
        fact("TCP", tcp.local_addr()?.port().to_string());
        fact("TCP6", tcp6.local_addr()?.port().to_string());
        fact("UDP", echo_udp()?.to_string());
        let abstracted = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&tag)?)?;
        fact("ABSTRACT", tag);
        let by_path = UnixListener::bind(base.join("outside/socket"))?;
        fs::set_permissions(base.join("outside/socket"), Permissions::from_mode(0o777))?;
        fact("SOCKET", base.join("outside/socket").display().to_string());
        Ok(Self {
            directory,
            victim,
            shm,
            queue,
            posix_shm,
            facts,
            _listeners: (tcp, tcp6, abstracted, by_path),
        })
    }

    /// The workspace that attempts run in.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace")
    }

    /// A directory that appears read-only inside.
    pub(crate) fn read_only(&self) -> PathBuf {
        self.directory.path().join("read-only")
    }

    /// What attempts know about the outside.
    pub(crate) fn facts(&self) -> &BTreeMap<String, String> {
        &self.facts
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let _ = fs::remove_file(&self.posix_shm);
        // SAFETY: removes objects made by this value; one that an attempt removed gives an error that is ignored.
        unsafe {
            libc::shmctl(self.shm, libc::IPC_RMID, std::ptr::null_mut());
            libc::mq_unlink(self.queue.as_ptr().cast());
        }
    }
}

fn make_files(base: &Path, fact: &mut impl FnMut(&str, String) -> Option<String>) -> io::Result<()> {
    for name in ["workspace", "outside", "outside/open", "read-only"] {
        fs::create_dir(base.join(name))?;
    }
    fs::set_permissions(base.join("outside/open"), Permissions::from_mode(0o777))?;
    for (name, mode) in [
        ("outside/canary", 0o644),
        ("outside/copy", 0o666),
        ("read-only/file", 0o666),
    ] {
        fs::write(base.join(name), "secret")?;
        fs::set_permissions(base.join(name), Permissions::from_mode(mode))?;
    }
    fs::copy("/usr/bin/id", base.join("read-only/suid-id"))?;
    fs::set_permissions(base.join("read-only/suid-id"), Permissions::from_mode(0o4755))?;
    for (name, path) in [
        ("CANARY", "outside/canary"),
        ("CANARY_COPY", "outside/copy"),
        ("OPEN_DIRECTORY", "outside/open"),
        ("OUTSIDE_WORKSPACE", "workspace"),
        ("READ_ONLY", "read-only"),
    ] {
        fact(name, base.join(path).display().to_string());
    }
    fact("HANDLE", file_handle(&base.join("outside/canary")));
    let groups = fs::read_to_string("/proc/self/mounts")?;
    let memory = groups
        .lines()
        .find(|line| line.contains("cgroup"))
        .and_then(|line| {
            let mut points = groups
                .lines()
                .filter(|line| line.contains(" cgroup"))
                .filter_map(|line| line.split(' ').nth(1));
            points
                .find(|point| Path::new(point).join("cgroup.procs").exists())
                .or(line.split(' ').nth(1))
        });
    fact(
        "CGROUP_PROCS",
        format!("{}/cgroup.procs", memory.unwrap_or("/sys/fs/cgroup")),
    );
    Ok(())
}

/// A process of the host with a secret in its environment and one in its descriptors.
fn start_victim(canary: &Path) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;
    // One process under a name of its own, so that killing it leaves nothing.
    let line = "exec 9<\"$0\"; echo ready; exec -a annals-victim sleep 600";
    let child = Command::new("/bin/bash")
        .args(["-c", line])
        .arg(canary)
        .env("SECRET", "hidden-in-environment")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = child?;
    let mut line = String::new();
    io::BufRead::read_line(
        &mut io::BufReader::new(child.stdout.take().expect("piped")),
        &mut line,
    )?;
    Ok(child)
}

fn make_shm() -> libc::c_int {
    // SAFETY: makes a segment of one page, writes into it, and lets go of it again.
    unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o666);
        let address = libc::shmat(id, std::ptr::null(), 0);
        std::ptr::copy_nonoverlapping(c"secret".as_ptr(), address.cast(), 7);
        libc::shmdt(address);
        id
    }
}

fn make_queue(name: &str) {
    // SAFETY: the name ends with a zero byte; default attributes.
    unsafe {
        let queue = libc::mq_open(
            name.as_ptr().cast(),
            libc::O_CREAT | libc::O_RDWR,
            0o666 as libc::c_uint,
            std::ptr::null::<libc::mq_attr>(),
        );
        libc::close(queue);
    }
}

fn echo_udp() -> io::Result<u16> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let port = socket.local_addr()?.port();
    // Lives as long as the test process; nothing waits for it.
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((read, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..read], from);
        }
    });
    Ok(port)
}

/// The file's handle as the kernel's `struct file_handle`, in hex.
fn file_handle(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    let mut handle = [0u8; 136];
    handle[..4].copy_from_slice(&128u32.to_ne_bytes());
    let mut mount = 0;
    // SAFETY: the buffer begins with the number of bytes that follow its header of eight.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            handle.as_mut_ptr(),
            &raw mut mount,
            0,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    handle.iter().map(|byte| format!("{byte:02x}")).collect()
}
