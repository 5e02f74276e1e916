#% anyone alone: have more processes than allowed
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
        os.kill(pid, 9); os.waitpid(pid, 0)

#% anyone alone: have more threads than allowed
threading.stack_size(64 << 10); done = threading.Event()
try:
    for _ in range(400):
        threading.Thread(target=done.wait, daemon=True).start()
    won()
finally:
    done.set()

#% anyone alone: use more memory than allowed
m = mmap.mmap(-1, 200 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, 200 << 20, 4096):
    m[at] = 1
won()

#% anyone alone: share more memory than allowed
m = mmap.mmap(-1, 300 << 20)
for at in range(0, 300 << 20, 4096):
    m[at] = 1
won()

#% anyone alone: fill /dev/shm
name = '/dev/shm/annals-fill-%d' % os.getpid()
try:
    with open(name, 'wb') as f:
        for _ in range(40):
            f.write(bytes(1 << 20))
    won()
finally:
    os.unlink(name)

#% anyone alone: make a huge file
name = 'huge-%d' % os.getpid()
try:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    os.truncate(os.open(name, os.O_CREAT | os.O_WRONLY), 1 << 32); won()
finally:
    os.unlink(name)

#% anyone alone: leave dead processes behind
children = []
try:
    for _ in range(400):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        children.append(pid)
    won()
finally:
    for pid in children:
        os.waitpid(pid, 0)

#% anyone alone: grow the heap beyond what is allowed
libc.sbrk.restype = ctypes.c_void_p; libc.sbrk.argtypes = [ctypes.c_long]
at = libc.sbrk(200 << 20)
if at != ctypes.c_void_p(-1).value:
    ctypes.memset(at, 1, 200 << 20); won()

#% anyone alone: grow a mapping beyond what is allowed
m = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.resize(200 << 20)
for at in range(0, 200 << 20, 4096):
    m[at] = 1
won()

#% anyone alone: hold memory in a file without a name
fd = os.memfd_create('x'); piece = b'1' * (1 << 20)
for _ in range(200): os.write(fd, piece)
won()

#% anyone alone: hold memory in System V objects
libc.shmat.restype = ctypes.c_void_p
for _ in range(4):
    shm = libc.shmget(0, 50 << 20, 0o1600)
    if shm < 0: raise OSError(ctypes.get_errno(), 'shmget')
    at = libc.shmat(shm, None, 0); libc.shmctl(shm, 0, None)
    ctypes.memset(at, 1, 50 << 20)
won()

#% anyone alone: reserve the stack of a thread beyond what is allowed
threading.stack_size(300 << 20)
t = threading.Thread(target=won); t.start(); t.join()

#% anyone alone: fill /tmp
name = '/tmp/annals-fill-%d' % os.getpid()
try:
    with open(name, 'wb') as f:
        for _ in range(40):
            f.write(bytes(1 << 20))
    won()
finally:
    os.unlink(name)

#% anyone alone: fill /tmp with empty files
folder = '/tmp/annals-many-%d' % os.getpid(); os.mkdir(folder)
try:
    for n in range(6000): os.mknod('%s/%d' % (folder, n))
    won()
finally:
    import shutil; shutil.rmtree(folder)

#% anyone alone: open more files than allowed
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard)); held = []
for _ in range(400): held.append(os.open('/dev/null', os.O_RDONLY))
won()
