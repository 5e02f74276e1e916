#% root: become root
os.setuid(0); won(os.geteuid() == 0)

#% root: become root by a set-user-id program
won(os.popen(with_rights('suid-id') + ' -u').read().strip() == '0')

#% root: hold a capability
won(any(int(l.split()[1], 16) for l in open('/proc/self/status') if l.startswith('CapEff')))

#% anyone: gain privileges at exec
won(libc.prctl(39, 0, 0, 0, 0) == 0)

#% root: load a kernel module
reached(175, b'x', 1, b'')

#% root: load a BPF map
won(call(321, 0, struct.pack('IIII', 2, 4, 4, 1) + bytes(64), 80) >= 0)

#% root: count hardware events
won(call(298, ctypes.create_string_buffer(struct.pack('IIQ', 1, 112, 0) + bytes(96)), 0, -1, -1, 0) >= 0)

#% root: handle page faults
won(call(323, 0) >= 0)

#% anyone: set up an io_uring
won(call(425, 4, ctypes.create_string_buffer(256)) >= 0)

#% anyone: watch the file system
won(call(300, 0x200, 0) >= 0)

#% root: read the kernel's log
won(call(103, 3, ctypes.create_string_buffer(100), 100) >= 0)

#% root: switch process accounting off
call(163, 0); won()

#% anyone: read the local descriptor table
won(call(154, 0, ctypes.create_string_buffer(64), 64) >= 0)

#% anyone: make all readable memory executable
won(call(135, 0x0400000) >= 0)

#% root: become somebody else
os.setresuid(12345, 12345, 12345); won()

#% root: become a member of another group
os.setgid(12345); won()

#% root: join groups
os.setgroups([0, 12345]); won()

#% root: reach files as somebody else
libc.setfsuid(12345); won(libc.setfsuid(-1) == 12345)

#% root: become a group by a set-group-id program
won(os.popen(with_rights('sgid-id') + ' -g').read().strip() == '4242')

#% root: gain capabilities of a program
won(any(int(l.split()[1], 16) for l in os.popen(with_rights('capable') + ' /proc/self/status') if l.startswith('CapPrm')))

#% root: keep capabilities for programs it starts
header = struct.pack('Ii', 0x20080522, 0); data = ctypes.create_string_buffer(24)
call(125, header, data); words = list(struct.unpack('6I', data.raw)); words[2] = 1
call(126, header, struct.pack('6I', *words)); won()

#% root: hand capabilities on without a program's asking
header = struct.pack('Ii', 0x20080522, 0); data = ctypes.create_string_buffer(24)
call(125, header, data); words = list(struct.unpack('6I', data.raw)); words[2] = 1
call(126, header, struct.pack('6I', *words)); won(libc.prctl(47, 2, 0, 0, 0) == 0)

#% root: change how capabilities are computed
won(libc.prctl(28, 1 << 4, 0, 0, 0) == 0)

#% root: give up a capability of the bounding set
won(libc.prctl(24, 30, 0, 0, 0) == 0)

#% root: run before all others
os.setpriority(os.PRIO_PROCESS, 0, -5); won()

#% root: run in real time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)); won()

#% root: run by deadline
won(call(314, 0, ctypes.create_string_buffer(struct.pack('IIQiIQQQ', 48, 6, 0, 0, 0, 10**6, 10**7, 10**7)), 0) == 0)

#% root: use the disk before all others
won(call(251, 1, 0, 1 << 13) == 0)

#% root: keep memory from being swapped
m = mmap.mmap(-1, 100 << 20)
won(call(149, ctypes.addressof(ctypes.c_char.from_buffer(m)), 100 << 20) == 0)

#% root: restart the machine
reached(169, 0, 0, 0, 0)

#% root: load another kernel from a file
reached(320, -1, -1, 0, None, ctypes.c_ulong(0x8000))

#% root: load a kernel module from a file
reached(313, -1, b'', 0)

#% anyone: ask about a file system by its device
reached(136, ctypes.c_ulong(os.stat('/').st_dev), ctypes.create_string_buffer(64))

#% root: set the clock
won(call(164, None, None) == 0)

#% anyone: read how the clock is steered
won(call(159, ctypes.create_string_buffer(256)) >= 0)

#% root: steer the clock
clock = ctypes.create_string_buffer(256); call(159, clock); clock[:4] = struct.pack('I', 0x4000)
won(call(159, clock) >= 0)

#% anyone: read how any clock is steered
won(call(305, 0, ctypes.create_string_buffer(256)) >= 0)

#% root: hang up the terminal
won(call(153) == 0)

#% root: set the domain name
won(call(171, b'(none)', 6) == 0)

#% root: handle page faults of others through the device
import fcntl
won(fcntl.ioctl(os.open(device('/dev/userfaultfd'), os.O_RDWR), 0xAA00, 0) >= 0)

#% root: load a program into the kernel
code = ctypes.create_string_buffer(struct.pack('QQ', 0xb7, 0x95)); name = ctypes.create_string_buffer(b'GPL')
attribute = struct.pack('IIQQIIQ', 1, 2, ctypes.addressof(code), ctypes.addressof(name), 0, 0, 0) + bytes(80)
won(call(321, 5, ctypes.create_string_buffer(attribute), len(attribute)) >= 0)

#% root: watch every file of a file system
won(call(300, 0, 0) >= 0)

#% root: count events of another process
won(call(298, ctypes.create_string_buffer(struct.pack('IIQ', 1, 112, 0) + bytes(96)), victim, -1, -1, 0) >= 0)

#% anyone: make a namespace by a call of 32 bits
won(narrow(310, 0x10000000) == 0)

#% anyone: be traced by a call of 32 bits
pid = os.fork()
if pid == 0:
    os._exit(0 if narrow(26, 0) == 0 else 1)
won(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0)

#% anyone: talk to the hypervisor by a call of 32 bits
won(narrow(102, 1, low(struct.pack('III', 40, 1, 0))) >= 0)

#% anyone: add a key by a call of 32 bits
won(narrow(286, low(b'user\0'), low(b'annals-test\0'), low(b'x')) != -38)
