import contextlib, ctypes, errno, mmap, os, resource, signal, socket, struct, sys, threading, time
E = os.environ
libc = ctypes.CDLL(None, use_errno=True)
victim = int(E['VICTIM'])

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

class Absent(Exception):
    # This machine has not got what the attempt is about, so its control shows nothing.
    pass

def fact(name, what):
    # What the host said about itself; the same inside and outside.
    if not E[name]:
        raise Absent('no ' + what)
    return E[name]

def reached(number, *arguments):
    # The call came past the question who asks, to what it was asked: its arguments make no sense on purpose.
    try:
        call(number, *arguments)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS):
            raise
    won()

def own(name):
    return '%s-%d' % (name, os.getpid())

def outside(name):
    return os.path.join(E['OPEN_DIRECTORY'], own(name))

def read_only(name):
    return os.path.join(E['READ_ONLY'], name)

def with_rights(name):
    fact('SET_ID', 'file system that gives programs rights')
    return read_only(name)

def device(path):
    # /sys is there on a host and not in a sandbox: only a host can say that it lacks a device.
    if os.path.exists('/sys') and not os.path.exists(path):
        raise Absent('no ' + path)
    return path

def if_supported(act):
    try:
        return act()
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOTTY):
            raise Absent(error.strerror) from error
        raise

def made(family, kind, protocol):
    try:
        return socket.socket(family, kind, protocol)
    except OSError as error:
        if error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT):
            raise Absent(error.strerror) from error
        raise

def cloned(flags):
    pid = call(56, flags | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    won()

@contextlib.contextmanager
def mount_point():
    name = own('mnt')
    os.makedirs(name)
    try:
        yield name.encode()
    finally:
        libc.syscall(166, name.encode(), 2)

def low(content):
    # Calls of 32 bits take addresses of 32 bits.
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x62, -1, ctypes.c_long(0))
    ctypes.memmove(at, content, len(content))
    return at

def narrow(number, *arguments):
    child = os.fork()
    if child == 0:
        narrow_here(20)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV:
        raise Absent('no calls of 32 bits')
    return narrow_here(number, *arguments)

def narrow_here(number, *arguments):
    # push rbx; mov eax, edi; mov ebx, esi; xchg ecx, edx; int 0x80; pop rbx; ret
    code = bytes.fromhex('53 89f8 89f3 87ca cd80 5b c3')
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
    page.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint] * 4)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    return function(number, *(list(arguments) + [0, 0, 0])[:3])
