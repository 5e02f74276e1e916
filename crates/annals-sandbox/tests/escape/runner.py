import select

ATTEMPT_SECONDS = 30

def run_each(sources):
    for part in ('\n' + sources).split('\n#% ')[1:]:
        head, _, code = part.partition('\n')
        name = head.partition(': ')[2]
        print(outcome(name, code), flush=True)

def run_here(name, source):
    global won
    wins = []
    won = lambda condition=True: condition and wins.append(name)
    failure = came_of(name, source)
    print('ESCAPED ' + name if wins else failure, flush=True)

def came_of(name, code):
    # Why it got nothing, if it got nothing.
    try:
        exec(compile(code, name, 'exec'), globals())
    except Absent as error:
        return 'ABSENT %s: %s' % (name, error)
    except OSError as error:
        return 'REFUSED %s: %s' % (name, error)
    except BaseException as error:
        return 'FAILED %s: %s %s' % (name, type(error).__name__, error)
    return 'FAILED %s: it got nothing' % name

def outcome(name, code):
    # In a process of its own.
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.dup2(write, 1)
        os.setsid()
        print(came_of(name, code), flush=True)
        os._exit(0)
    os.close(write)
    said, deadline = b'', time.monotonic() + ATTEMPT_SECONDS
    is_over = False
    while not is_over and time.monotonic() < deadline:
        if select.select([read], [], [], max(0, deadline - time.monotonic()))[0]:
            piece = os.read(read, 4096)
            is_over, said = not piece, said + piece
    os.close(read)
    try:
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        pass
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    lines = said.decode(errors='replace').splitlines()
    if 'ESCAPED' in lines:
        return 'ESCAPED ' + name
    if not is_over:
        return 'FAILED %s: nothing after %d s' % (name, ATTEMPT_SECONDS)
    return next((line for line in lines if line.startswith(('ABSENT', 'REFUSED', 'FAILED'))), 'FAILED %s: ended with %d' % (name, code))
