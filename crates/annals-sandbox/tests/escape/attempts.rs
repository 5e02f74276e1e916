//! The corpus: ways out that somebody has used before, each a few lines of Python.
//!
//! An attempt calls `won()` when it got what it should not get. Facts about the outside come as environment
//! variables, the same ones in the sandbox and in the control run without them.

/// Who can do this at all, without isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Real {
    /// For any user.
    Anyone,
    /// Only for root; in the sandbox it must fail for everybody.
    Root,
}
use Real::{Anyone, Root};

/// One way out.
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) real: Real,
    pub(crate) code: &'static str,
}

/// Before every attempt.
pub(crate) const PRELUDE: &str = "
import ctypes, mmap, os, resource, signal, socket, struct, sys, threading, time
E = os.environ
libc = ctypes.CDLL(None, use_errno=True)
def won(condition=True):
    if condition:
        print('ESCAPED', flush=True)
def call(number, *arguments):
    # Whole words: the upper half of a plain int is whatever was on the stack.
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(number, *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
victim = int(E['VICTIM'])
";

const fn attempt(name: &'static str, real: Real, code: &'static str) -> Attempt {
    Attempt { name, real, code }
}

/// System-call numbers are those of x86-64.
pub(crate) const ATTEMPTS: &[Attempt] = &[
    // Reading files outside
    attempt("read a file outside", Anyone, "won('secret' in open(E['CANARY']).read())"),
    attempt("read it through /proc/self/root", Anyone, "won('secret' in open('/proc/self/root' + E['CANARY']).read())"),
    attempt(
        "read it through /proc/self/cwd",
        Anyone,
        "won('secret' in open('/proc/self/cwd/' + os.path.relpath(E['CANARY'], E['OUTSIDE_WORKSPACE'])).read())",
    ),
    attempt(
        "read it by climbing up",
        Anyone,
        "won('secret' in open(os.path.relpath(E['CANARY'], E['OUTSIDE_WORKSPACE'])).read())",
    ),
    attempt(
        "read it through a symbolic link",
        Anyone,
        "os.symlink(E['CANARY'], 'link-%d' % os.getpid()); won('secret' in open('link-%d' % os.getpid()).read())",
    ),
    attempt(
        "take it in by a hard link",
        Anyone,
        "os.link(E['CANARY'], 'hard-%d' % os.getpid()); won('secret' in open('hard-%d' % os.getpid()).read())",
    ),
    attempt("read it through another process' descriptor", Anyone, "won('secret' in open('/proc/%d/fd/9' % victim).read())"),
    attempt("list the directory it is in", Anyone, "won('canary' in os.listdir(os.path.dirname(E['CANARY'])))"),
    attempt("list what lies beside the workspace", Anyone, "won('outside' in os.listdir(os.path.dirname(E['OUTSIDE_WORKSPACE'])))"),
    attempt("read the host's users", Anyone, "won('daemon' in open('/etc/passwd').read())"),
    attempt("read the host's name servers", Anyone, "won('nameserver' in open('/etc/resolv.conf').read())"),
    attempt("list the host's run directory", Anyone, "won(len(os.listdir('/run')) > 0)"),
    attempt("list the host's network devices in /sys", Anyone, "won(len(os.listdir('/sys/class/net')) > 0)"),
    attempt("list the host's home directories", Anyone, "won(os.path.isdir('/home') or os.path.isdir('/var/lib'))"),
    attempt(
        "open it by file handle",
        Root,
        "
handle = bytes.fromhex(E['HANDLE'])
fd = call(304, os.open('.', os.O_RDONLY), ctypes.create_string_buffer(handle), os.O_RDONLY)
won('secret' in os.read(fd, 100).decode())",
    ),
    attempt("ask for a file handle", Anyone, "
buffer = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128)); mount = ctypes.c_int()
won(call(303, -100, b'.', buffer, ctypes.byref(mount), 0) == 0)"),
    attempt("read the kernel's log device", Root, "os.open('/dev/kmsg', os.O_RDONLY | os.O_NONBLOCK); won()"),
    attempt(
        "read it through another process' root",
        Anyone,
        "won('secret' in open('/proc/%d/root' % victim + E['CANARY']).read())",
    ),
    attempt(
        "make a device node",
        Root,
        "
import stat
name = 'node-%d' % os.getpid()
os.mknod(name, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
won(os.read(os.open(name, os.O_RDONLY), 1) == b'\\0')",
    ),
    // Changing files outside
    attempt("overwrite a file outside", Anyone, "open(E['CANARY_COPY'], 'w').write('changed'); won()"),
    attempt("create a file outside", Anyone, "open(os.path.join(E['OPEN_DIRECTORY'], 'f%d' % os.getpid()), 'w').close(); won()"),
    attempt("append through /proc/self/root", Anyone, "open('/proc/self/root' + E['CANARY_COPY'], 'a').write('x'); won()"),
    attempt("move a file out", Anyone, "
open('mine-%d' % os.getpid(), 'w').close()
os.rename('mine-%d' % os.getpid(), os.path.join(E['OPEN_DIRECTORY'], 'm%d' % os.getpid())); won()"),
    attempt("change permissions outside", Anyone, "os.chmod(E['CANARY_COPY'], 0o666); won()"),
    attempt("change times outside", Anyone, "os.utime(E['CANARY_COPY']); won()"),
    attempt("write into a read-only view", Anyone, "open(os.path.join(E['READ_ONLY'], 'f%d' % os.getpid()), 'w').close(); won()"),
    attempt("change permissions in a read-only view", Anyone, "os.chmod(os.path.join(E['READ_ONLY'], 'file'), 0o644); won()"),
    attempt("link out of a read-only view and write", Anyone, "
name = 'ro-%d' % os.getpid()
os.link(os.path.join(E['READ_ONLY'], 'file'), name); open(name, 'a').write('x'); won()"),
    attempt("write a kernel setting", Root, "
with open('/proc/sys/kernel/domainname', 'r+') as f:
    value = f.read(); f.seek(0); f.write(value)
won()"),
    attempt("become harder to kill", Anyone, "open('/proc/self/oom_score_adj', 'w').write('0'); won()"),
    attempt("leave the cgroup", Root, "open(E['CGROUP_PROCS'], 'w').write('0'); won()"),
    // Other processes
    attempt("see another process", Anyone, "won('annals-victim' in open('/proc/%d/cmdline' % victim).read())"),
    attempt("read another process' environment", Anyone, "won('hidden-in-environment' in open('/proc/%d/environ' % victim).read())"),
    attempt("find a secret in any environment", Anyone, "
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        won('hidden-in-environment' in open('/proc/%s/environ' % pid).read())
    except OSError:
        pass"),
    attempt("signal another process", Anyone, "os.kill(victim, 0); won()"),
    attempt("stop another process' group", Anyone, "os.killpg(os.getpgid(victim), signal.SIGCONT); won()"),
    attempt("hold another process", Anyone, "won(call(434, victim, 0) >= 0)"),
    attempt("change another process' priority", Anyone, "os.setpriority(os.PRIO_PROCESS, victim, 5); won()"),
    attempt("take another process' descriptor", Anyone, "won('secret' in os.pread(call(438, call(434, victim, 0), 9, 0), 100, 0).decode())"),
    attempt("trace another process", Anyone, "
call(101, 0x4206, victim, 0, 0); won()"),
    attempt("be traced", Anyone, "
pid = os.fork()
if pid == 0:
    os._exit(0 if libc.ptrace(0, 0, 0, 0) == 0 else 1)
won(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0)"),
    attempt("read memory of another process", Anyone, "
address = int(open('/proc/%d/maps' % victim).readline().split('-')[0], 16)
buffer = ctypes.create_string_buffer(16)
vector = struct.pack('QQ', ctypes.addressof(buffer), 16); remote = struct.pack('QQ', address, 16)
won(call(310, victim, vector, 1, remote, 1, 0) == 16)"),
    attempt("read memory by process_vm_readv at all", Anyone, "
a, b = ctypes.create_string_buffer(b'x' * 16), ctypes.create_string_buffer(16)
won(call(310, os.getpid(), struct.pack('QQ', ctypes.addressof(b), 16), 1, struct.pack('QQ', ctypes.addressof(a), 16), 1, 0) == 16)"),
    attempt("look into the parent's memory map", Anyone, "won(len(open('/proc/%d/maps' % os.getppid()).read()) > 0)"),
    attempt("look into the parent's memory", Anyone, "
line = next(l for l in open('/proc/%d/maps' % os.getppid()) if ' rw' in l)
m = os.open('/proc/%d/mem' % os.getppid(), os.O_RDONLY)
won(len(os.pread(m, 8, int(line.split('-')[0], 16))) == 8)"),
    attempt("look at the parent's descriptors", Anyone, "won(len(os.listdir('/proc/%d/fd' % os.getppid())) > 0)"),
    attempt("compare kernel objects", Anyone, "won(call(312, os.getpid(), os.getpid(), 0, 1, 1) >= 0)"),
    attempt("move memory between nodes", Anyone, "
page = mmap.mmap(-1, 4096); page[0] = 1
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
status = ctypes.c_int()
won(call(279, 0, ctypes.c_ulong(1), struct.pack('Q', address), None, ctypes.byref(status), 0) >= 0)"),
    // Namespaces and mounts
    attempt("make a user namespace", Anyone, "call(272, 0x10000000); won()"),
    attempt("make user and mount namespaces", Anyone, "call(272, 0x10000000 | 0x20000); won()"),
    attempt("make a user namespace by clone", Anyone, "
pid = call(56, 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0); won()"),
    attempt("make a user namespace by clone3", Anyone, "
arguments = ctypes.create_string_buffer(struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0))
pid = call(435, arguments, 64)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0); won()"),
    attempt("enter another process' network", Root, "call(308, os.open('/proc/%d/ns/net' % victim, os.O_RDONLY), 0); won()"),
    attempt("mount a file system", Root, "
os.makedirs('mnt', exist_ok=True)
call(165, b'none', b'mnt', b'tmpfs', 0, 0); won(); call(166, b'mnt', 2)"),
    attempt("mount by the new calls", Root, "won(call(430, b'tmpfs', 0) >= 0)"),
    attempt("copy the mount tree", Root, "won(call(428, -100, b'/', 1 | 0x8000) >= 0)"),
    attempt("change the root", Root, "os.chroot('.'); won()"),
    attempt("set the host name", Root, "socket.sethostname(socket.gethostname()); won()"),
    // Privileges
    attempt("become root", Root, "os.setuid(0); won(os.geteuid() == 0)"),
    attempt("become root by a set-user-id program", Root, "
won(os.popen(os.path.join(E['READ_ONLY'], 'suid-id') + ' -u').read().strip() == '0')"),
    attempt("hold a capability", Root, "
won(any(int(l.split()[1], 16) for l in open('/proc/self/status') if l.startswith('CapEff')))"),
    attempt("gain privileges at exec", Anyone, "won(libc.prctl(39, 0, 0, 0, 0) == 0)"),
    attempt("load a kernel module", Root, "
if libc.syscall(175, b'x', 1, b'') < 0:
    won(ctypes.get_errno() != 1)"),
    attempt("load a BPF map", Root, "won(call(321, 0, struct.pack('IIII', 2, 4, 4, 1) + bytes(64), 80) >= 0)"),
    attempt("count hardware events", Root, "
won(call(298, ctypes.create_string_buffer(struct.pack('IIQ', 1, 112, 0) + bytes(96)), 0, -1, -1, 0) >= 0)"),
    attempt("handle page faults", Root, "won(call(323, 0) >= 0)"),
    attempt("set up an io_uring", Anyone, "won(call(425, 4, ctypes.create_string_buffer(256)) >= 0)"),
    attempt("watch the file system", Anyone, "won(call(300, 0x200, 0) >= 0)"),
    attempt("read the kernel's log", Root, "won(call(103, 3, ctypes.create_string_buffer(100), 100) >= 0)"),
    attempt("switch process accounting off", Root, "call(163, 0); won()"),
    attempt("read the local descriptor table", Anyone, "won(call(154, 0, ctypes.create_string_buffer(64), 64) >= 0)"),
    attempt("make all readable memory executable", Anyone, "won(call(135, 0x0400000) >= 0)"),
    // Keys and System V objects
    attempt("add a key to the user's keyring", Anyone, "won(call(248, b'user', b'annals-test', b'x', 1, -4) > 0)"),
    attempt("look up the user's keyring", Anyone, "won(call(250, 0, -4, 1) > 0)"),
    attempt("attach shared memory of the host", Anyone, "
libc.shmat.restype = ctypes.c_void_p
address = libc.shmat(int(E['SHM']), None, 0o10000)
won(address != ctypes.c_void_p(-1).value and ctypes.string_at(address) == b'secret')"),
    attempt("remove shared memory of the host", Anyone, "
info = ctypes.create_string_buffer(256); won(libc.shmctl(int(E['SHM']), 2, info) == 0)"),
    attempt("open a message queue of the host", Anyone, "won(libc.mq_open(E['QUEUE'].encode(), 0) >= 0)"),
    attempt("find POSIX shared memory of the host", Anyone, "won('secret' in open('/dev/shm/' + E['POSIX_SHM']).read())"),
    // Sockets
    attempt("connect to an abstract socket", Anyone, "socket.socket(socket.AF_UNIX).connect('\\0' + E['ABSTRACT']); won()"),
    attempt("connect to a socket by path", Anyone, "socket.socket(socket.AF_UNIX).connect(E['SOCKET']); won()"),
    attempt("connect over TCP", Anyone, "socket.create_connection(('127.0.0.1', int(E['TCP'])), 2); won()"),
    attempt("connect over TCP and IPv6", Anyone, "socket.create_connection(('::1', int(E['TCP6'])), 2); won()"),
    attempt("exchange UDP", Anyone, "
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
s.sendto(b'ping', ('127.0.0.1', int(E['UDP']))); won(s.recv(10) == b'ping')"),
    attempt("reach the world", Anyone, "
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('198.51.100.1', 53)); won()"),
    attempt("see a network device", Anyone, "won(any(name != 'lo' for _, name in socket.if_nameindex()))"),
    attempt("send ICMP", Root, "
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.sendto(b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0', ('127.0.0.1', 0)); won()"),
    attempt("listen to all packets", Root, "socket.socket(17, socket.SOCK_RAW, 0x300); won()"),
    attempt("talk to the hypervisor", Anyone, "socket.socket(40, socket.SOCK_STREAM); won()"),
    // Using everything up
    attempt("have more processes than allowed", Anyone, "
children = []
try:
    for _ in range(400):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
    won()
finally:
    for pid in children:
        os.kill(pid, 9); os.waitpid(pid, 0)"),
    attempt("have more threads than allowed", Anyone, "
threading.stack_size(64 << 10); done = threading.Event()
try:
    for _ in range(400):
        threading.Thread(target=done.wait, daemon=True).start()
    won()
finally:
    done.set()"),
    attempt("use more memory than allowed", Anyone, "
m = mmap.mmap(-1, 400 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, 400 << 20, 4096):
    m[at] = 1
won()"),
    attempt("share more memory than allowed", Anyone, "
m = mmap.mmap(-1, 600 << 20)
for at in range(0, 600 << 20, 4096):
    m[at] = 1
won()"),
    attempt("fill /dev/shm", Anyone, "
name = '/dev/shm/annals-fill-%d' % os.getpid()
try:
    with open(name, 'wb') as f:
        for _ in range(100):
            f.write(bytes(1 << 20))
    won()
finally:
    os.unlink(name)"),
    attempt("make a huge file", Anyone, "
name = 'huge-%d' % os.getpid()
try:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    os.truncate(os.open(name, os.O_CREAT | os.O_WRONLY), 1 << 32); won()
finally:
    os.unlink(name)"),
];
