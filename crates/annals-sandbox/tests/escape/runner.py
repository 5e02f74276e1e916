import select

ATTEMPT_SECONDS = 30

def told(name, said):
    for word in ('ESCAPED', 'ABSENT'):
        if word in said:
            print(word, name, flush=True)

def run_each(sources):
    for part in ('\n' + sources).split('\n#% ')[1:]:
        head, _, code = part.partition('\n')
        name = head.partition(': ')[2]
        told(name, attempt(name, code))

def run_here(name, source):
    global won
    won = lambda condition=True: condition and print('ESCAPED', name, flush=True)
    exec(compile(source, name, 'exec'), globals())

def attempt(name, code):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.dup2(write, 1)
        os.setsid()
        try:
            exec(compile(code, name, 'exec'), globals())
        except BaseException:
            pass
        sys.stdout.flush()
        os._exit(0)
    os.close(write)
    said, deadline = b'', time.monotonic() + ATTEMPT_SECONDS
    # An attempt that hangs got nowhere.
    while time.monotonic() < deadline and select.select([read], [], [], deadline - time.monotonic())[0]:
        piece = os.read(read, 4096)
        if not piece:
            break
        said += piece
    os.close(read)
    try:
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        pass
    os.waitpid(pid, 0)
    return said.decode(errors='replace')
