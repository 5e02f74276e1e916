#% anyone: connect to an abstract socket
socket.socket(socket.AF_UNIX).connect('\0' + E['ABSTRACT']); won()

#% anyone: connect to a socket by path
socket.socket(socket.AF_UNIX).connect(E['SOCKET']); won()

#% anyone: connect over TCP
socket.create_connection(('127.0.0.1', int(E['TCP'])), 2); won()

#% anyone: connect over TCP and IPv6
socket.create_connection(('::1', int(fact('TCP6', 'IPv6'))), 2); won()

#% anyone: exchange UDP
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
s.sendto(b'ping', ('127.0.0.1', int(E['UDP']))); won(s.recv(10) == b'ping')

#% anyone: reach the world
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('198.51.100.1', 53)); won()

#% anyone: see a network device
won(fact('DEVICE', 'network device but lo') in (name for _, name in socket.if_nameindex()))

#% root: send ICMP
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.sendto(b'\x08\0\xf7\xff\0\0\0\0', ('127.0.0.1', 0)); won()

#% root: listen to all packets
socket.socket(17, socket.SOCK_RAW, 0x300); won()

#% anyone: talk to the hypervisor
made(40, socket.SOCK_STREAM, 0); won()

#% anyone: send to an abstract socket
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '\0' + E['ABSTRACT'] + '-d'); won()

#% anyone: send to a socket by path
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', E['SOCKET'] + '-d'); won()

#% anyone: connect through another process' root
os.chdir('/proc/%d/cwd/outside' % victim); socket.socket(socket.AF_UNIX).connect('socket'); won()

#% anyone: connect by the unspecified address
socket.create_connection(('0.0.0.0', int(E['TCP'])), 2); won()

#% anyone: connect over IPv6 to IPv4
s = socket.socket(socket.AF_INET6); s.connect(('::ffff:127.0.0.1', int(E['TCP']))); won()

#% anyone: connect with data in the first packet
s = socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', int(E['TCP']))); won()

#% anyone: connect over several paths
s = made(socket.AF_INET, socket.SOCK_STREAM, 262); s.connect(('127.0.0.1', int(E['TCP']))); won()

#% anyone: exchange UDP over IPv6
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(2)
s.sendto(b'ping', ('::1', int(fact('UDP6', 'IPv6')))); won(s.recv(10) == b'ping')

#% anyone: join a group of the network
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + bytes(4)); won()

#% root: forge packets
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW); won()

#% root: forge packets of IPv6
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58); won()

#% anyone: list devices by ioctl
import fcntl
names = bytearray(4096); buffer = (ctypes.c_char * 4096).from_buffer(names)
request = bytearray(struct.pack('iiQ', 4096, 0, ctypes.addressof(buffer)))
fcntl.ioctl(socket.socket(), 0x8912, request); size = struct.unpack('i', request[:4])[0]
won(fact('ADDRESSED_DEVICE', 'address of its own').encode() in (bytes(names[i:i + 16]).split(b'\0')[0] for i in range(0, size, 40)))

#% anyone: list addresses by netlink
s = socket.socket(16, socket.SOCK_RAW, 0); s.send(struct.pack('IHHIIBxxx', 20, 22, 0x301, 1, 0, 0))
won(socket.inet_aton(fact('ADDRESS', 'address of its own')) in s.recv(65536))

#% anyone: list the host's connections
won(any(l.split()[1].endswith(':%04X' % int(E['TCP'])) for l in list(open('/proc/net/tcp'))[1:]))

#% anyone: list the host's sockets
won(E['ABSTRACT'] in open('/proc/net/unix').read())

#% anyone: read the host's routes
won(fact('ROUTE', 'route') in open('/proc/net/route').read())

#% anyone: read the host's addresses
won(fact('ADDRESS', 'address of its own') in open('/proc/net/fib_trie').read())

#% anyone: hear of devices as they come
s = made(16, socket.SOCK_RAW, 15); s.bind((0, 1)); won()

#% anyone: ask the kernel for its sockets
made(16, socket.SOCK_RAW, 4); won()

#% anyone: talk to the kernel's subsystems
made(16, socket.SOCK_RAW, 16); won()

#% anyone: talk to the kernel's firewall
made(16, socket.SOCK_RAW, 12); won()

#% anyone: talk to the kernel's auditor
made(16, socket.SOCK_RAW, 9); won()

#% anyone: talk to the kernel's tunnels
made(16, socket.SOCK_RAW, 6); won()

#% root: hear of every process that starts
s = made(16, socket.SOCK_DGRAM, 11); s.bind((0, 1)); won()

#% root: mark packets
socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1); won()

#% root: answer for other machines
socket.socket().setsockopt(socket.IPPROTO_IP, 19, 1); won()

#% root: have larger buffers than allowed
socket.socket().setsockopt(socket.SOL_SOCKET, 33, 64 << 20); won()

#% root: take over a connection's state
socket.socket().setsockopt(socket.IPPROTO_TCP, 19, 1); won()

#% root: switch a device
import fcntl
flags = fcntl.ioctl(socket.socket(), 0x8913, struct.pack('16sH', b'lo', 0) + bytes(22))
fcntl.ioctl(socket.socket(), 0x8914, flags); won()

#% root: speak for another process
a, b = socket.socketpair()
a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack('iII', victim, 0, 0))]); won()

#% anyone: have a pair of sockets of a foreign family
try:
    call(53, 40, 1, 0, ctypes.create_string_buffer(8)); won()
except OSError as error:
    if error.errno == errno.EAFNOSUPPORT: raise Absent(error.strerror)
    if error.errno != errno.EOPNOTSUPP: raise
    won()
