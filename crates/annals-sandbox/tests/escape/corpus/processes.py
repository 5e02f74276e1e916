#% anyone: see another process
won('annals-victim' in open('/proc/%d/cmdline' % victim).read())

#% anyone: read another process' environment
won('hidden-in-environment' in open('/proc/%d/environ' % victim).read())

#% anyone: find a secret in any environment
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        won('hidden-in-environment' in open('/proc/%s/environ' % pid).read())
    except OSError:
        pass

#% anyone: signal another process
os.kill(victim, 0); won()

#% anyone: stop another process' group
os.killpg(os.getpgid(victim), signal.SIGCONT); won()

#% anyone: hold another process
won(call(434, victim, 0) >= 0)

#% anyone: change another process' priority
os.setpriority(os.PRIO_PROCESS, victim, 5); won()

#% anyone: take another process' descriptor
won('secret' in os.pread(call(438, call(434, victim, 0), 9, 0), 100, 0).decode())

#% anyone: trace another process
call(101, 0x4206, int(E['TRACED']), 0, 0); won()

#% anyone: be traced
pid = os.fork()
if pid == 0:
    os._exit(0 if libc.ptrace(0, 0, 0, 0) == 0 else 1)
won(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0)

#% anyone: read memory of another process
address = int(open('/proc/%d/maps' % victim).readline().split('-')[0], 16)
buffer = ctypes.create_string_buffer(16)
vector = struct.pack('QQ', ctypes.addressof(buffer), 16); remote = struct.pack('QQ', address, 16)
won(call(310, victim, vector, 1, remote, 1, 0) == 16)

#% anyone: read memory by process_vm_readv at all
a, b = ctypes.create_string_buffer(b'x' * 16), ctypes.create_string_buffer(16)
won(call(310, os.getpid(), struct.pack('QQ', ctypes.addressof(b), 16), 1, struct.pack('QQ', ctypes.addressof(a), 16), 1, 0) == 16)

#% anyone alone: look into the parent's memory map
won(len(open('/proc/%d/maps' % os.getppid()).read()) > 0)

#% anyone alone: look into the parent's memory
line = next(l for l in open('/proc/%d/maps' % os.getppid()) if ' rw' in l)
m = os.open('/proc/%d/mem' % os.getppid(), os.O_RDONLY)
won(len(os.pread(m, 8, int(line.split('-')[0], 16))) == 8)

#% anyone alone: look at the parent's descriptors
won(len(os.listdir('/proc/%d/fd' % os.getppid())) > 0)

#% anyone: compare kernel objects
won(call(312, os.getpid(), os.getpid(), 0, 1, 1) >= 0)

#% anyone: move memory between nodes
page = mmap.mmap(-1, 4096); page[0] = 1
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
status = ctypes.c_int()
won(call(279, 0, ctypes.c_ulong(1), struct.pack('Q', address), None, ctypes.byref(status), 0) >= 0)

#% anyone: signal another process' thread
won(call(200, victim, 0) == 0)

#% anyone: signal a thread of another group
won(call(234, victim, victim, 0) == 0)

#% anyone: queue a signal with a value
info = ctypes.create_string_buffer(struct.pack('iii', 0, 0, -1) + bytes(116))
won(call(129, victim, 0, info) == 0)

#% anyone: queue a signal for a thread
info = ctypes.create_string_buffer(struct.pack('iii', 0, 0, -1) + bytes(116))
won(call(297, victim, victim, 0, info) == 0)

#% anyone: signal another process by its directory
won(call(424, os.open('/proc/%d' % victim, os.O_RDONLY | os.O_DIRECTORY), 0, None, 0) == 0)

#% anyone: have another process signalled when data comes
import fcntl
fcntl.fcntl(socket.socketpair()[0], fcntl.F_SETOWN, victim); won()

#% anyone: learn another process' group
won(os.getpgid(victim) == victim)

#% anyone: learn another process' session
won(os.getsid(victim) == victim)

#% anyone: read another process' priority
os.getpriority(os.PRIO_PROCESS, victim); won()

#% anyone: read how another process uses the disk
won(call(252, 1, victim) >= 0)

#% anyone: slow another process' disk
won(call(251, 1, victim, 2 << 13 | 7) == 0)

#% anyone: see where another process may run
os.sched_getaffinity(victim); won()

#% anyone: change where another process may run
os.sched_setaffinity(victim, range(os.cpu_count())); won()

#% anyone: see how another process is scheduled
os.sched_getscheduler(victim); won()

#% anyone: change how another process is scheduled
os.sched_setscheduler(victim, os.SCHED_BATCH, os.sched_param(0)); won()

#% anyone: read another process' scheduling attributes
won(call(315, victim, ctypes.create_string_buffer(64), 56, 0) == 0)

#% anyone: read another process' limits
resource.prlimit(victim, resource.RLIMIT_NOFILE); won()

#% anyone: set another process' limits
resource.prlimit(victim, resource.RLIMIT_CORE, (0, resource.prlimit(victim, resource.RLIMIT_CORE)[1])); won()

#% anyone: read another process' clock
time.clock_gettime(~victim << 3 | 2); won()

#% anyone: find another process' locks
head, length = ctypes.c_void_p(), ctypes.c_size_t()
won(call(274, victim, ctypes.byref(head), ctypes.byref(length)) == 0)

#% anyone: write memory of another process
line = next(l for l in open('/proc/%d/maps' % victim) if ' rw' in l)
at = int(line.split('-')[0], 16); buffer = ctypes.create_string_buffer(8)
local, remote = struct.pack('QQ', ctypes.addressof(buffer), 8), struct.pack('QQ', at, 8)
call(310, victim, local, 1, remote, 1, 0); won(call(311, victim, local, 1, remote, 1, 0) == 8)

#% anyone: write memory by process_vm_writev at all
a, b = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16)
won(call(311, os.getpid(), struct.pack('QQ', ctypes.addressof(b), 16), 1, struct.pack('QQ', ctypes.addressof(a), 16), 1, 0) == 16)

#% anyone: write another process' memory as a file
line = next(l for l in open('/proc/%d/maps' % victim) if ' rw' in l)
fd = os.open('/proc/%d/mem' % victim, os.O_RDWR); at = int(line.split('-')[0], 16)
won(os.pwrite(fd, os.pread(fd, 8, at), at) == 8)

#% anyone: advise the kernel about another process' memory
page = mmap.mmap(-1, 4096); page[0] = 1
vector = struct.pack('QQ', ctypes.addressof(ctypes.c_char.from_buffer(page)), 4096)
won(call(440, call(434, os.getpid(), 0), vector, 1, 20, 0) == 4096)

#% anyone: move another process' pages
node = struct.pack('Q', 1)
won(call(256, victim, 2, node, node) >= 0)

#% anyone: read another process' program
won(len(open('/proc/%d/exe' % victim, 'rb').read(4)) == 4)

#% anyone: learn another process' working directory
won(len(os.readlink('/proc/%d/cwd' % victim)) > 0)

#% anyone: read another process' state
won('State' in open('/proc/%d/status' % victim).read())

#% anyone: read what another process has read and written
won('rchar' in open('/proc/%d/io' % victim).read())

#% anyone: read where another process was loaded
won(len(open('/proc/%d/auxv' % victim, 'rb').read()) > 0)

#% anyone: list another process' descriptors
won('9' in os.listdir('/proc/%d/fd' % victim))

#% anyone: read the state of another process' descriptor
won('pos' in open('/proc/%d/fdinfo/9' % victim).read())

#% root: read another process' kernel stack
won(len(open('/proc/%d/stack' % victim).read()) > 0)

#% anyone: offer another process to the out-of-memory killer
open('/proc/%d/oom_score_adj' % victim, 'w').write('1000'); won()

#% anyone: change what another process dumps
open('/proc/%d/coredump_filter' % victim, 'w').write('0x33'); won()

#% anyone: reset what another process has touched
open('/proc/%d/clear_refs' % victim, 'w').write('1'); won()

#% root: change how exactly another process is woken
open('/proc/%d/timerslack_ns' % victim, 'w').write('50000'); won()

#% anyone: attach to another process the old way
call(101, 16, int(E['ATTACHED']), 0, 0); won()

#% anyone alone: read the parent's memory by one call
line = next(l for l in open('/proc/%d/maps' % os.getppid()) if ' rw' in l)
buffer = ctypes.create_string_buffer(8)
won(call(310, os.getppid(), struct.pack('QQ', ctypes.addressof(buffer), 8), 1, struct.pack('QQ', int(line.split('-')[0], 16), 8), 1, 0) == 8)

#% anyone alone: write the parent's memory
line = next(l for l in open('/proc/%d/maps' % os.getppid()) if ' rw' in l)
fd = os.open('/proc/%d/mem' % os.getppid(), os.O_RDWR); at = int(line.split('-')[0], 16)
won(os.pwrite(fd, os.pread(fd, 8, at), at) == 8)

#% anyone alone: trace the parent
call(101, 0x4206, os.getppid(), 0, 0); won()

#% anyone alone: take the parent's descriptor
won(call(438, call(434, os.getppid(), 0), 0, 0) >= 0)

#% anyone alone: look into the parent's root
won(len(os.listdir('/proc/%d/root' % os.getppid())) > 0)

#% anyone alone: read the parent's environment
open('/proc/%d/environ' % os.getppid()).read(); won()
