//! What an escape would reach: files, a process, sockets and System V objects of the host, made for one run.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Everything an escape would reach; gone when dropped.
pub(crate) struct Outside {
    directory: tempfile::TempDir,
    victims: Vec<Child>,
    objects: Objects,
    queue: String,
    posix_shm: [PathBuf; 2],
    facts: BTreeMap<String, String>,
    _listeners: (TcpListener, Option<TcpListener>, UnixListener, UnixListener),
    _receivers: [UnixDatagram; 2],
}

/// System V objects: a segment with a secret, two semaphores, a queue with a secret.
struct Objects {
    shm: libc::c_int,
    sem: libc::c_int,
    msg: libc::c_int,
}

impl Outside {
    pub(crate) fn build() -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut facts = BTreeMap::new();
        let mut fact = |name: &str, value: String| facts.insert(name.to_owned(), value);
        let base = directory.path();
        fs::set_permissions(base, Permissions::from_mode(0o755))?;
        make_files(base, &mut fact)?;
        // A process has one tracer at a time, so each way to trace has a process of its own.
        let mut victims = Vec::new();
        for name in ["VICTIM", "TRACED", "ATTACHED"] {
            let victim = start_victim(base)?;
            fact(name, victim.id().to_string());
            victims.push(victim);
        }

        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let tag = format!(
            "annals-escape-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let objects = Objects::make();
        fact("SHM", objects.shm.to_string());
        fact("SEM", objects.sem.to_string());
        fact("MSG", objects.msg.to_string());
        let queue = format!("/{tag}\0");
        make_queue(&queue);
        fact("QUEUE", format!("/{tag}"));
        let posix_shm = [tag.clone(), format!("{tag}-2")].map(|name| Path::new("/dev/shm").join(name));
        for path in &posix_shm {
            fs::write(path, "secret")?;
        }
        fact("POSIX_SHM", tag.clone());
        host_facts(&mut fact)?;

        let tcp = TcpListener::bind("127.0.0.1:0")?;
        // A machine may have no IPv6.
        let tcp6 = TcpListener::bind("[::1]:0").ok();
        fact("TCP", tcp.local_addr()?.port().to_string());
        fact("UDP", echo_udp("127.0.0.1:0")?.to_string());
        let port6 = tcp6.as_ref().map(TcpListener::local_addr).transpose()?;
        fact("TCP6", port6.map_or_else(String::new, |at| at.port().to_string()));
        let udp6 = port6.map(|_| echo_udp("[::1]:0")).transpose()?;
        fact("UDP6", udp6.map_or_else(String::new, |port| port.to_string()));
        let abstracted = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&tag)?)?;
        let receivers = [
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("{tag}-d"))?)?,
            UnixDatagram::bind(base.join("outside/socket-d"))?,
        ];
        fact("ABSTRACT", tag);
        let by_path = UnixListener::bind(base.join("outside/socket"))?;
        fs::set_permissions(base.join("outside/socket"), Permissions::from_mode(0o777))?;
        fact("SOCKET", base.join("outside/socket").display().to_string());
        Ok(Self {
            directory,
            victims,
            objects,
            queue,
            posix_shm,
            facts,
            _listeners: (tcp, tcp6, abstracted, by_path),
            _receivers: receivers,
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
        for victim in &mut self.victims {
            let _ = victim.kill();
            let _ = victim.wait();
        }
        for path in &self.posix_shm {
            let _ = fs::remove_file(path);
        }
        // SAFETY: removes objects made by this value; one that an attempt removed gives an error that is ignored.
        unsafe {
            libc::shmctl(self.objects.shm, libc::IPC_RMID, std::ptr::null_mut());
            libc::semctl(self.objects.sem, 0, libc::IPC_RMID);
            libc::msgctl(self.objects.msg, libc::IPC_RMID, std::ptr::null_mut());
            libc::mq_unlink(self.queue.as_ptr().cast());
        }
    }
}

fn make_files(base: &Path, fact: &mut impl FnMut(&str, String) -> Option<String>) -> io::Result<()> {
    for name in [
        "workspace",
        "outside",
        "outside/open",
        "read-only",
        "read-only/d00",
    ] {
        fs::create_dir(base.join(name))?;
    }
    fs::set_permissions(base.join("outside/open"), Permissions::from_mode(0o777))?;
    let spare = (0..20).map(|n| (format!("read-only/f{n:02}"), 0o666));
    let files = [
        ("outside/canary", 0o644),
        ("outside/copy", 0o666),
        ("outside/open/to-remove", 0o666),
        ("read-only/file", 0o666),
    ];
    for (name, mode) in files
        .map(|(name, mode)| (name.to_owned(), mode))
        .into_iter()
        .chain(spare)
    {
        fs::write(base.join(&name), "secret")?;
        fs::set_permissions(base.join(name), Permissions::from_mode(mode))?;
    }
    make_programs(base)?;
    for (name, path) in [
        ("CANARY", "outside/canary"),
        ("CANARY_COPY", "outside/copy"),
        ("OPEN_DIRECTORY", "outside/open"),
        ("OUTSIDE_WORKSPACE", "workspace"),
        ("READ_ONLY", "read-only"),
        ("FIFO", "outside/fifo"),
    ] {
        fact(name, base.join(path).display().to_string());
    }
    fact("HANDLE", file_handle(&base.join("outside/canary")));
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let procs = mounts
        .lines()
        .filter(|line| line.contains(" cgroup"))
        .filter_map(|line| Some(Path::new(line.split(' ').nth(1)?).join("cgroup.procs")))
        .find(|procs| procs.exists());
    fact(
        "CGROUP_PROCS",
        procs.map_or_else(String::new, |procs| procs.display().to_string()),
    );
    let has_rights = !rustix::fs::statvfs(base)?
        .f_flag
        .contains(rustix::fs::StatVfsMountFlags::NOSUID);
    fact("SET_ID", if has_rights { "honoured" } else { "" }.to_owned());
    Ok(())
}

/// Programs with rights of their own, as far as this user can make them, and one that only lies outside.
fn make_programs(base: &Path) -> io::Result<()> {
    const GROUP: u32 = 4242;
    /// Version 2, effective, `CAP_SETUID`, as the kernel stores it.
    const CAPABILITIES: [u32; 5] = [0x0200_0001, 1 << 7, 0, 0, 0];
    for (program, name, mode) in [
        ("/usr/bin/true", "outside/open/program", 0o755),
        ("/usr/bin/id", "read-only/suid-id", 0o4755),
        ("/usr/bin/id", "read-only/sgid-id", 0o2755),
        ("/usr/bin/cat", "read-only/capable", 0o755),
    ] {
        fs::copy(program, base.join(name))?;
        if mode == 0o2755 && rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(base.join(name), None, Some(GROUP))?;
        }
        fs::set_permissions(base.join(name), Permissions::from_mode(mode))?;
    }
    if rustix::process::geteuid().is_root() {
        let bytes: Vec<u8> = CAPABILITIES.iter().flat_map(|word| word.to_le_bytes()).collect();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(
            base.join("read-only/capable"),
            "security.capability",
            &bytes,
            flags,
        )?;
    }
    // Any library will do; this process has mapped one.
    let maps = fs::read_to_string("/proc/self/maps")?;
    let library = maps.split_whitespace().find(|word| word.contains("/libc.so"));
    fs::copy(library.unwrap_or_default(), base.join("outside/open/library.so"))?;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        base.join("outside/fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from(0o666),
        0,
    )?;
    Ok(())
}

/// What this machine has of its own: empty where it has none.
fn host_facts(fact: &mut impl FnMut(&str, String) -> Option<String>) -> io::Result<()> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    fact("HOSTNAME", text("/etc/hostname").trim().to_owned());
    let resolver = text("/etc/resolv.conf");
    let name_server = resolver.lines().find(|line| line.starts_with("nameserver"));
    fact("NAME_SERVER", name_server.unwrap_or_default().to_owned());
    let run = fs::read_dir("/run").into_iter().flatten().flatten().next();
    fact(
        "RUN",
        run.map_or_else(String::new, |entry| entry.file_name().display().to_string()),
    );
    // Root may lack the right to see them, or be refused it as everybody is.
    let is_hidden = rustix::process::geteuid().is_root() && first_kernel_pointer()? == 0;
    fact("KERNEL_POINTERS", if is_hidden { "" } else { "shown" }.to_owned());

    let devices = text("/proc/net/dev");
    let device = devices
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim()))
        .find(|name| *name != "lo");
    fact("DEVICE", device.unwrap_or_default().to_owned());
    let routes = text("/proc/net/route");
    let route = routes.lines().nth(1).and_then(|line| line.split('\t').next());
    fact("ROUTE", route.unwrap_or_default().to_owned());
    let (device, address) = own_address()?.unwrap_or_default();
    fact("ADDRESSED_DEVICE", device);
    fact("ADDRESS", address);
    Ok(())
}

fn first_kernel_pointer() -> io::Result<u64> {
    let mut digits = [0; 16];
    io::Read::read_exact(&mut fs::File::open("/proc/kallsyms")?, &mut digits)?;
    let digits = String::from_utf8_lossy(&digits);
    u64::from_str_radix(&digits, 16).map_err(io::Error::other)
}

/// A network device that is not the loopback, with its IPv4 address.
fn own_address() -> io::Result<Option<(String, String)>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: fills in a list that is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = None;
    let mut at = first;
    // SAFETY: the list is walked once, before it is freed; names end with a zero byte, and an address of this family is a
    // `sockaddr_in`.
    unsafe {
        while let Some(entry) = at.as_ref() {
            at = entry.ifa_next;
            let is_inet = entry
                .ifa_addr
                .as_ref()
                .is_some_and(|address| libc::c_int::from(address.sa_family) == libc::AF_INET);
            if is_inet && entry.ifa_flags & libc::IFF_LOOPBACK as u32 == 0 {
                let address = std::ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in>());
                let address = std::net::Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
                let name = std::ffi::CStr::from_ptr(entry.ifa_name)
                    .to_string_lossy()
                    .into_owned();
                found = found.or(Some((name, address.to_string())));
            }
        }
        libc::freeifaddrs(first);
    }
    Ok(found)
}

/// No process inside a sandbox has a number as high as those of the victims: an attempt never means its own kind.
const LOWEST_VICTIM: u32 = 1000;

/// A process of the host with a secret in its environment and one in its descriptors, at the head of its own session.
fn start_victim(base: &Path) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;
    // One process under a name of its own, so that killing it leaves nothing.
    let line = "exec 9<\"$0\"; exec -a annals-victim sleep 600";
    loop {
        let mut command = Command::new("/bin/bash");
        command
            .args(["-c", line])
            .arg(base.join("outside/canary"))
            .current_dir(base)
            .env("SECRET", "hidden-in-environment")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: one system call, which is allowed between fork and exec.
        unsafe {
            command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from));
        }
        let mut child = command.spawn()?;
        if child.id() < LOWEST_VICTIM {
            child.kill()?;
            child.wait()?;
            continue;
        }
        await_name(&mut child)?;
        return Ok(child);
    }
}

/// Waits until the victim is the program that it becomes.
fn await_name(child: &mut Child) -> io::Result<()> {
    while !fs::read(format!("/proc/{}/cmdline", child.id()))?.starts_with(b"annals-victim\0") {
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("the victim ended: {status}")));
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Ok(())
}

impl Objects {
    fn make() -> Self {
        const MODE: libc::c_int = libc::IPC_CREAT | 0o666;
        // The kernel's `struct msgbuf`: a type, and the text.
        let mut message = [0u8; 14];
        message[..8].copy_from_slice(&1_i64.to_ne_bytes());
        message[8..].copy_from_slice(b"secret");
        // SAFETY: makes objects, writes a few bytes into the segment, which has a page, and lets go of it again; the
        // message is as long as its type and the six bytes that are sent.
        unsafe {
            let shm = libc::shmget(libc::IPC_PRIVATE, 4096, MODE);
            let address = libc::shmat(shm, std::ptr::null(), 0);
            std::ptr::copy_nonoverlapping(c"secret".as_ptr(), address.cast(), 7);
            libc::shmdt(address);
            let sem = libc::semget(libc::IPC_PRIVATE, 2, MODE);
            libc::semctl(sem, 0, libc::SETVAL, 7);
            let msg = libc::msgget(libc::IPC_PRIVATE, MODE);
            libc::msgsnd(msg, message.as_ptr().cast(), 6, libc::IPC_NOWAIT);
            Self { shm, sem, msg }
        }
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

fn echo_udp(address: &str) -> io::Result<u16> {
    let socket = UdpSocket::bind(address)?;
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

/// The file's handle as the kernel's `struct file_handle`, in hex; nothing where its file system has none.
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
    if result != 0 {
        return String::new();
    }
    handle.iter().map(|byte| format!("{byte:02x}")).collect()
}
