#% anyone: add a key to the user's keyring
won(call(248, b'user', b'annals-test', b'x', 1, -4) > 0)

#% anyone: look up the user's keyring
won(call(250, 0, -4, 1) > 0)

#% anyone: attach shared memory of the host
libc.shmat.restype = ctypes.c_void_p
address = libc.shmat(int(E['SHM']), None, 0o10000)
won(address != ctypes.c_void_p(-1).value and ctypes.string_at(address) == b'secret')

#% anyone: remove shared memory of the host
info = ctypes.create_string_buffer(256); won(libc.shmctl(int(E['SHM']), 2, info) == 0)

#% anyone: open a message queue of the host
won(libc.mq_open(E['QUEUE'].encode(), 0) >= 0)

#% anyone: find POSIX shared memory of the host
won('secret' in open('/dev/shm/' + E['POSIX_SHM']).read())

#% anyone: ask for another key
reached(249, b'user', b'annals-none', None, 0)

#% anyone: join a keyring
won(call(250, 1, 0) > 0)

#% anyone: find the keyring that outlives sessions
won(call(250, 22, -1, -2) > 0)

#% anyone: write into shared memory of the host
libc.shmat.restype = ctypes.c_void_p
address = libc.shmat(int(E['SHM']), None, 0)
won(address != ctypes.c_void_p(-1).value and ctypes.memset(address + 100, 1, 1) is not None)

#% anyone: count the host's shared memory
info = ctypes.create_string_buffer(256); libc.shmctl(0, 14, info)
won(struct.unpack_from('i', info)[0] > 0)

#% anyone: list the host's shared memory
won(E['SHM'] in open('/proc/sysvipc/shm').read().split())

#% anyone: read a semaphore of the host
won(libc.semctl(int(E['SEM']), 0, 12, 0) == 7)

#% anyone: raise a semaphore of the host
won(libc.semop(int(E['SEM']), struct.pack('Hhh', 0, 1, 0), 1) == 0)

#% anyone: set a semaphore of the host
won(libc.semctl(int(E['SEM']), 1, 16, 3) == 0)

#% anyone: read a message of the host
buffer = ctypes.create_string_buffer(64)
won(libc.msgrcv(int(E['MSG']), buffer, 56, ctypes.c_long(0), 0o4000 | 0o40000) >= 0)

#% anyone: send a message to the host
won(libc.msgsnd(int(E['MSG']), ctypes.create_string_buffer(struct.pack('l', 9) + b'x'), 1, 0o4000) == 0)

#% anyone: ask about a queue of the host
won(libc.msgctl(int(E['MSG']), 2, ctypes.create_string_buffer(256)) == 0)

#% anyone: send to a named queue of the host
queue = libc.mq_open(E['QUEUE'].encode(), os.O_WRONLY | os.O_NONBLOCK)
won(queue >= 0 and libc.mq_send(queue, b'x', 1, 0) == 0)

#% anyone: be told of a named queue of the host
queue = libc.mq_open(E['QUEUE'].encode(), os.O_RDONLY | os.O_NONBLOCK)
won(queue >= 0 and libc.mq_notify(queue, ctypes.create_string_buffer(struct.pack('QiI', 0, 0, 1) + bytes(56))) == 0)

#% anyone: change POSIX shared memory of the host
open('/dev/shm/' + E['POSIX_SHM'], 'r+').write('s'); won()

#% anyone: remove POSIX shared memory of the host
os.unlink('/dev/shm/' + E['POSIX_SHM'] + '-2'); won()
