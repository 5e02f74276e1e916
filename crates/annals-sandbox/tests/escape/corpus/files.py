#% anyone: read a file outside
won('secret' in open(E['CANARY']).read())

#% anyone: read it through /proc/self/root
won('secret' in open('/proc/self/root' + E['CANARY']).read())

#% anyone: read it through /proc/self/cwd
won('secret' in open('/proc/self/cwd/' + os.path.relpath(E['CANARY'], E['OUTSIDE_WORKSPACE'])).read())

#% anyone: read it by climbing up
won('secret' in open(os.path.relpath(E['CANARY'], E['OUTSIDE_WORKSPACE'])).read())

#% anyone: read it through a symbolic link
os.symlink(E['CANARY'], 'link-%d' % os.getpid()); won('secret' in open('link-%d' % os.getpid()).read())

#% anyone: take it in by a hard link
os.link(E['CANARY'], 'hard-%d' % os.getpid()); won('secret' in open('hard-%d' % os.getpid()).read())

#% anyone: read it through another process' descriptor
won('secret' in open('/proc/%d/fd/9' % victim).read())

#% anyone: list the directory it is in
won('canary' in os.listdir(os.path.dirname(E['CANARY'])))

#% anyone: list what lies beside the workspace
won('outside' in os.listdir(os.path.dirname(E['OUTSIDE_WORKSPACE'])))

#% anyone: read the host's users
won('daemon' in open('/etc/passwd').read())

#% anyone: read the host's name servers
won(fact('NAME_SERVER', 'name server') in open('/etc/resolv.conf').read())

#% anyone: list the host's run directory
won(fact('RUN', 'entry in /run') in os.listdir('/run'))

#% anyone: list the host's network devices in /sys
won(len(os.listdir('/sys/class/net')) > 0)

#% anyone: list the host's home directories
won(os.path.isdir('/home') or os.path.isdir('/var/lib'))

#% root: open it by file handle
handle = bytes.fromhex(fact('HANDLE', 'file handles in this file system'))
fd = call(304, os.open('.', os.O_RDONLY), ctypes.create_string_buffer(handle), os.O_RDONLY)
won('secret' in os.read(fd, 100).decode())

#% anyone: ask for a file handle
buffer = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128)); mount = ctypes.c_int()
won(call(303, -100, b'.', buffer, ctypes.byref(mount), 0) == 0)

#% root: read the kernel's log device
os.open('/dev/kmsg', os.O_RDONLY | os.O_NONBLOCK); won()

#% anyone: read it through another process' root
won('secret' in open('/proc/%d/root' % victim + E['CANARY']).read())

#% root: make a device node
import stat
name = 'node-%d' % os.getpid()
os.mknod(name, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
won(os.read(os.open(name, os.O_RDONLY), 1) == b'\0')

#% anyone: overwrite a file outside
open(E['CANARY_COPY'], 'w').write('changed'); won()

#% anyone: create a file outside
open(os.path.join(E['OPEN_DIRECTORY'], 'f%d' % os.getpid()), 'w').close(); won()

#% anyone: append through /proc/self/root
open('/proc/self/root' + E['CANARY_COPY'], 'a').write('x'); won()

#% anyone: move a file out
open('mine-%d' % os.getpid(), 'w').close()
os.rename('mine-%d' % os.getpid(), os.path.join(E['OPEN_DIRECTORY'], 'm%d' % os.getpid())); won()

#% anyone: change permissions outside
os.chmod(E['CANARY_COPY'], 0o666); won()

#% anyone: change times outside
os.utime(E['CANARY_COPY']); won()

#% anyone: write into a read-only view
open(os.path.join(E['READ_ONLY'], 'f%d' % os.getpid()), 'w').close(); won()

#% anyone: change permissions in a read-only view
os.chmod(os.path.join(E['READ_ONLY'], 'file'), 0o644); won()

#% anyone: link out of a read-only view and write
name = 'ro-%d' % os.getpid()
os.link(os.path.join(E['READ_ONLY'], 'file'), name); open(name, 'a').write('x'); won()

#% root: write a kernel setting
with open('/proc/sys/kernel/domainname', 'r+') as f:
    value = f.read(); f.seek(0); f.write(value)
won()

#% anyone: become harder to kill
open('/proc/self/oom_score_adj', 'w').write('0'); won()

#% root: leave the cgroup
open(fact('CGROUP_PROCS', 'cgroup'), 'w').write('0'); won()

#% anyone: climb out of a directory that was moved
os.makedirs(own('a') + '/b/c'); fd = os.open(own('a') + '/b/c', os.O_PATH)
os.rename(own('a') + '/b/c', own('moved'))
won('secret' in open(os.open('../' * 12 + E['CANARY'].lstrip('/'), os.O_RDONLY, dir_fd=fd)).read())

#% anyone: climb out through a descriptor in /proc
fd = os.open('.', os.O_PATH)
won('secret' in open('/proc/self/fd/%d/../outside/canary' % fd).read())

#% anyone: climb out through a chain of links
os.symlink('..', own('up')); os.symlink(own('up') + '/outside', own('over'))
won('secret' in open(own('over') + '/canary').read())

#% anyone: read it by openat2 without any rule about links
how = struct.pack('QQQ', os.O_RDONLY, 0, 0)
won('secret' in os.read(call(437, -100, E['CANARY'].encode(), how, 24), 100).decode())

#% anyone: read it through the root of a thread
won('secret' in open('/proc/self/task/%d/root' % threading.get_native_id() + E['CANARY']).read())

#% anyone: read it from another process' working directory
won('secret' in open('/proc/%d/cwd/outside/canary' % victim).read())

#% root: read it from another process' mapped files
folder = '/proc/%d/map_files' % victim
won(len(os.readlink(os.path.join(folder, os.listdir(folder)[0]))) > 0)

#% anyone: learn that it exists
won(os.stat(E['CANARY']).st_size == 6)

#% anyone: hold it without reading it
won(os.fstat(os.open(E['CANARY'], os.O_PATH)).st_size == 6)

#% anyone: wait for changes of it
won(libc.inotify_add_watch(libc.inotify_init(), E['CANARY'].encode(), 2) >= 0)

#% anyone: lock it against its owner
import fcntl
fcntl.flock(os.open(E['CANARY'], os.O_RDONLY), fcntl.LOCK_SH); won()

#% anyone: work in a directory outside
os.chdir(E['OPEN_DIRECTORY']); won()

#% anyone: run a program outside
won(os.system("'%s/program'" % E['OPEN_DIRECTORY']) == 0)

#% anyone: load a library outside
ctypes.CDLL(E['OPEN_DIRECTORY'] + '/library.so'); won()

#% anyone: remove a file outside
os.unlink(E['OPEN_DIRECTORY'] + '/to-remove'); won()

#% anyone: make a directory outside
os.mkdir(outside('made')); won()

#% anyone: plant a link outside
os.symlink('/', outside('planted')); won()

#% anyone: write into a pipe outside
fd = os.open(E['FIFO'], os.O_RDWR | os.O_NONBLOCK); won(os.write(fd, b'x') == 1)

#% anyone: put attributes on a file outside
if_supported(lambda: os.setxattr(E['CANARY_COPY'], 'user.annals', b'x')); won()

#% anyone: give a socket a name outside
socket.socket(socket.AF_UNIX).bind(outside('socket')); won()

#% root: read the host's passwords
won(':' in open('/etc/shadow').read())

#% anyone: read the host's name
won(open('/etc/hostname').read().strip() == fact('HOSTNAME', '/etc/hostname'))

#% anyone: list the host's logs
won(len(os.listdir('/var')) > 0)

#% anyone: list the host's kernels
os.listdir(device('/boot')); won()

#% root: open the machine's screen
os.open(device('/dev/vcs'), os.O_RDONLY); won()

#% root: open a file system in user space
os.open(device('/dev/fuse'), os.O_RDWR); won()

#% root: open the control of loop devices
os.open(device('/dev/loop-control'), os.O_RDWR); won()

#% root: open the hypervisor
os.open(device('/dev/kvm'), os.O_RDWR); won()

#% root: open tunnels of the network
os.open(device('/dev/net/tun'), os.O_RDWR); won()

#% root: make a block device node
import stat
os.mknod(own('disk'), 0o600 | stat.S_IFBLK, os.makedev(7, 0)); won()

#% root: make a device node where temporary files are
import stat
name = '/tmp/annals-node-%d' % os.getpid()
os.mknod(name, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
try: won(os.read(os.open(name, os.O_RDONLY), 1) == b'\0')
finally: os.unlink(name)

#% root: read the kernel's memory as a file
os.open(device('/proc/kcore'), os.O_RDONLY); won()

#% root: read where the kernel's functions are
fact('KERNEL_POINTERS', 'addresses of the kernel to see')
won(any(int(line.split()[0], 16) for line in open('/proc/kallsyms')))

#% root: read where the machine's memory is
won(any(int(line.split('-')[0], 16) for line in open('/proc/iomem')))

#% root: read the kernel's messages
os.open('/proc/kmsg', os.O_RDONLY | os.O_NONBLOCK); won()

#% root: read what the kernel's memory is used for
open('/proc/slabinfo').read(10); won()

#% root: read who uses each page of the machine
won(len(os.read(os.open('/proc/kpagecount', os.O_RDONLY), 8)) == 8)

#% root: read physical addresses of own memory
page = mmap.mmap(-1, 4096); page[0] = 1
at = ctypes.addressof(ctypes.c_char.from_buffer(page)) // 4096 * 8
entry = struct.unpack('Q', os.pread(os.open('/proc/self/pagemap', os.O_RDONLY), 8, at))[0]
won(entry & ((1 << 55) - 1) != 0)

#% root: reach the emergency keys
os.open(device('/proc/sysrq-trigger'), os.O_WRONLY); won()

#% root: choose who handles crashes
os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY); won()

#% root: steer an interrupt
name = next(n for n in sorted(os.listdir('/proc/irq')) if n.isdigit())
os.open('/proc/irq/%s/smp_affinity' % name, os.O_WRONLY); won()

#% root: make a cgroup
folder = os.path.join(os.path.dirname(fact('CGROUP_PROCS', 'cgroup')), 'annals-escape-%d' % os.getpid())
os.mkdir(folder); os.rmdir(folder); won()

#% root: change a module's parameter
os.open('/sys/module/kernel/parameters/panic', os.O_WRONLY); won()

#% anyone: empty a file of a read-only view
os.truncate(read_only('f00'), 0); won()

#% anyone: empty a file of a read-only view while opening it
os.open(read_only('f01'), os.O_RDONLY | os.O_TRUNC); won()

#% anyone: remove from a read-only view
os.unlink(read_only('f02')); won()

#% anyone: rename within a read-only view
os.rename(read_only('f03'), read_only('renamed')); won()

#% anyone: move a file out of a read-only view
os.rename(read_only('f04'), own('taken')); won()

#% anyone: exchange a file with one of a read-only view
open(own('mine'), 'w').close()
call(316, -100, own('mine').encode(), -100, read_only('f05').encode(), 2); won()

#% anyone: make a directory in a read-only view
os.mkdir(read_only('made')); won()

#% anyone: remove a directory of a read-only view
os.rmdir(read_only('d00')); won()

#% anyone: make a link in a read-only view
os.symlink('/', read_only('link')); won()

#% anyone: make a pipe in a read-only view
os.mkfifo(read_only('pipe')); won()

#% anyone: make a socket in a read-only view
os.chdir(E['READ_ONLY']); socket.socket(socket.AF_UNIX).bind('socket'); won()

#% anyone: make a file without a name in a read-only view
os.open(E['READ_ONLY'], os.O_TMPFILE | os.O_RDWR, 0o600); won()

#% anyone: give a file a second name in a read-only view
open(own('mine'), 'w').close(); os.link(own('mine'), read_only('linked')); won()

#% anyone: make a plain file node in a read-only view
os.mknod(read_only('node')); won()

#% anyone: change the owner in a read-only view
os.chown(read_only('f06'), os.getuid(), os.getgid()); won()

#% anyone: change times in a read-only view
os.utime(read_only('f07')); won()

#% anyone: put attributes into a read-only view
if_supported(lambda: os.setxattr(read_only('f08'), 'user.annals', b'x')); won()

#% anyone: change permissions through a descriptor for reading
os.fchmod(os.open(read_only('f10'), os.O_RDONLY), 0o600); won()

#% anyone: change times through a descriptor for reading
os.utime(os.open(read_only('f11'), os.O_RDONLY)); won()

#% anyone: put attributes through a descriptor for reading
fd = os.open(read_only('f12'), os.O_RDONLY); if_supported(lambda: os.setxattr(fd, 'user.annals', b'x')); won()

#% anyone: change the owner through a descriptor for reading
os.fchown(os.open(read_only('f13'), os.O_RDONLY), os.getuid(), os.getgid()); won()

#% anyone: open a descriptor for reading again for writing
os.open('/proc/self/fd/%d' % os.open(read_only('f14'), os.O_RDONLY), os.O_WRONLY); won()

#% anyone: change flags of a file in a read-only view
import fcntl
fd = os.open(read_only('f15'), os.O_RDONLY); flags = ctypes.c_long()
if_supported(lambda: fcntl.ioctl(fd, 0x80086601, flags)); flags.value |= 0x40
fcntl.ioctl(fd, 0x40086602, flags); won()

#% anyone: change permissions by a handle without rights
fd = os.open(read_only('f16'), os.O_PATH)
os.chmod('/proc/self/fd/%d' % fd, 0o600); won()

#% anyone: change permissions by a handle, by the newest call
fd = os.open(read_only('f17'), os.O_PATH)
call(452, fd, b'', 0o600, 0x1000); won()

#% anyone: create in a read-only view through its handle
fd = os.open(E['READ_ONLY'], os.O_PATH)
os.open('created', os.O_CREAT | os.O_WRONLY, dir_fd=fd); won()

#% anyone: link a read-only file by its descriptor and write
fd = os.open(read_only('f18'), os.O_RDONLY)
call(265, -100, ('/proc/self/fd/%d' % fd).encode(), -100, own('by-fd').encode(), 0x400)
open(own('by-fd'), 'a').write('x'); won()
