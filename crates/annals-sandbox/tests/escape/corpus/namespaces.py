#% anyone: make a user namespace
call(272, 0x10000000); won()

#% anyone: make user and mount namespaces
call(272, 0x10000000 | 0x20000); won()

#% anyone: make a user namespace by clone
pid = call(56, 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0); won()

#% anyone: make a user namespace by clone3
arguments = ctypes.create_string_buffer(struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0))
pid = call(435, arguments, 64)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0); won()

#% root: enter another process' network
call(308, os.open('/proc/%d/ns/net' % victim, os.O_RDONLY), 0); won()

#% root: mount a file system
os.makedirs('mnt', exist_ok=True)
call(165, b'none', b'mnt', b'tmpfs', 0, 0); won(); call(166, b'mnt', 2)

#% root: mount by the new calls
won(call(430, b'tmpfs', 0) >= 0)

#% root: copy the mount tree
won(call(428, -100, b'/', 1 | 0x8000) >= 0)

#% root: change the root
os.chroot('.'); won()

#% root: set the host name
socket.sethostname(socket.gethostname()); won()

#% root: make a mount namespace
call(272, 0x20000); won()

#% root: make a process namespace
call(272, 0x20000000); won()

#% root: make a network namespace
call(272, 0x40000000); won()

#% root: make an object namespace
call(272, 0x08000000); won()

#% root: make a name namespace
call(272, 0x04000000); won()

#% root: make a cgroup namespace
call(272, 0x02000000); won()

#% root: make a time namespace
call(272, 0x80); won()

#% root: make a mount namespace by clone
cloned(0x20000)

#% root: make a process namespace by clone
cloned(0x20000000)

#% root: make a network namespace by clone
cloned(0x40000000)

#% root: make an object namespace by clone
cloned(0x08000000)

#% root: make a name namespace by clone
cloned(0x04000000)

#% root: make a cgroup namespace by clone
cloned(0x02000000)

#% root: enter another process' mounts
call(308, os.open('/proc/%d/ns/mnt' % victim, os.O_RDONLY), 0); won()

#% root: enter another process' process namespace
call(308, os.open('/proc/%d/ns/pid' % victim, os.O_RDONLY), 0); won()

#% root: enter another process' names
call(308, os.open('/proc/%d/ns/uts' % victim, os.O_RDONLY), 0); won()

#% root: enter another process' objects
call(308, os.open('/proc/%d/ns/ipc' % victim, os.O_RDONLY), 0); won()

#% root: enter another process' cgroup namespace
call(308, os.open('/proc/%d/ns/cgroup' % victim, os.O_RDONLY), 0); won()

#% root: enter several namespaces by a process handle
call(308, call(434, victim, 0), 0x40000000 | 0x04000000); won()

#% root: enter the namespace it is in again
call(308, os.open('/proc/self/ns/uts', os.O_RDONLY), 0); won()

#% root: show a directory at a second place
with mount_point() as at: call(165, E['OPEN_DIRECTORY'].encode(), at, 0, 4096, 0); won()

#% root: make a read-only view writable
with mount_point() as at:
    call(165, E['READ_ONLY'].encode(), at, 0, 4096, 0); call(165, 0, at, 0, 4096 | 32, 0); won()

#% root: change how mounts spread
with mount_point() as at:
    call(165, b'none', at, b'tmpfs', 0, 0); call(165, 0, at, 0, 1 << 20, 0); won()

#% root: mount the kernel's settings
with mount_point() as at: call(165, b'none', at, b'sysfs', 0, 0); won()

#% root: mount a /proc of another namespace
with mount_point() as at: call(165, b'none', at, b'proc', 0, 0); won()

#% root: unmount
reached(166, b'.', 0)

#% root: configure a file system
won(call(431, call(430, b'tmpfs', 0), 6, None, None, 0) == 0)

#% root: have a file system without a place
fs = call(430, b'tmpfs', 0); call(431, fs, 6, None, None, 0); won(call(432, fs, 0, 0) >= 0)

#% root: move a mount
with mount_point() as at:
    tree = call(428, -100, b'.', 1 | 0x8000)
    call(429, tree, b'', -100, at, 4); won()

#% root: change attributes of a mount
tree = call(428, -100, b'.', 1 | 0x8000)
won(call(442, tree, b'', 0x1000, struct.pack('4Q', 1, 0, 0, 0), 32) == 0)

#% root: reconfigure a mounted file system
won(call(433, -100, b'/proc', 0) >= 0)

#% root: change the root by pivoting
reached(155, b'.', b'.')

#% root: use a file as swap
reached(167, b'none-%d' % os.getpid(), 0)

#% root: stop using swap
reached(168, b'none-%d' % os.getpid())
