"""The official SDK against the double: what it does with a real server, checked. Usage: client.py HOST:PORT KEY"""
import sys
from datetime import timedelta

from code_interpreter import CodeInterpreterSync
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.filesystem import MoveEntry, SearchEntry, WriteEntry

domain, key = sys.argv[1:]
config = ConnectionConfigSync(domain=domain, api_key=key, protocol="http")


def check(name, seen, wanted):
    assert seen == wanted, f"{name}: {seen!r} is not {wanted!r}"
    print(name)


def text(messages):
    return [message.text for message in messages]


sandbox = SandboxSync.create(
    "python:3.12", connection_config=config, timeout=timedelta(minutes=5), metadata={"made-by": "sdk"}
)
try:
    ran = sandbox.commands.run("echo one; echo; echo größe; echo wrong >&2")
    check("lines of output", text(ran.logs.stdout), ["one", "\n", "größe"])
    check("lines of errors", text(ran.logs.stderr), ["wrong"])
    check("a good exit code", ran.exit_code, 0)
    failed = sandbox.commands.run("exit 7")
    check("a bad exit code", (failed.exit_code, failed.error.name, failed.error.value), (7, "CommandExecError", "7"))
    late = sandbox.commands.run("sleep 30", opts=RunCommandOpts(timeout=timedelta(milliseconds=300)))
    check("a timeout", late.error.value, "-1")

    background = sandbox.commands.run("echo begun; sleep 0.3; echo ended", opts=RunCommandOpts(background=True))
    import time
    for _ in range(100):
        status = sandbox.commands.get_command_status(background.id)
        if not status.running:
            break
        time.sleep(0.05)
    check("a background command", (status.running, status.exit_code), (False, 0))
    logs = sandbox.commands.get_background_command_logs(background.id)
    check("its log and cursor", (logs.content, logs.cursor), ("begun\nended\n", 12))

    sandbox.files.write_files([WriteEntry(path="/tmp/sdk/a.txt", data="grüße", mode=640)])
    check("a file", sandbox.files.read_file("/tmp/sdk/a.txt"), "grüße")
    check("a range of it", sandbox.files.read_bytes("/tmp/sdk/a.txt", range_header="bytes=0-1"), b"gr")
    check("its mode", sandbox.files.get_file_info(["/tmp/sdk/a.txt"])["/tmp/sdk/a.txt"].mode, 640)
    sandbox.files.move_files([MoveEntry(src="/tmp/sdk/a.txt", dest="/tmp/sdk/b.md")])
    found = sandbox.files.search(SearchEntry(path="/tmp/sdk", pattern="*.md"))
    check("a search", [entry.path for entry in found], ["/tmp/sdk/b.md"])
    try:
        sandbox.files.read_file("/tmp/sdk/none")
        raise AssertionError("a missing file was read")
    except SandboxApiException as error:
        check("a missing file", error.status_code, 404)

    renewed = sandbox.renew(timedelta(minutes=9))
    assert renewed is not None
    print("renewal")
    check("its state", sandbox.get_info().status.state, "Running")

    # The check looks for the port of a Jupyter server, which the double does not have.
    interpreter = CodeInterpreterSync.create(sandbox, skip_health_check=True)
    context = interpreter.codes.create_context("python")
    first = interpreter.codes.run("x = 20\nprint('printed')\nx + 1", context=context)
    check("a result of code", [result.text for result in first.result], ["21"])
    check("output of code", "".join(text(first.logs.stdout)), "printed\n")
    second = interpreter.codes.run("x + 2", context=context)
    check("a context keeps its names", [result.text for result in second.result], ["22"])
    wrong = interpreter.codes.run("1 / 0", context=context)
    check("an error of code", wrong.error.name, "ZeroDivisionError")
finally:
    sandbox.kill()
    sandbox.close()

try:
    SandboxSync.create(
        "python:3.12", connection_config=ConnectionConfigSync(domain=domain, api_key="wrong", protocol="http")
    )
    raise AssertionError("a wrong key was taken")
except SandboxApiException as error:
    check("a wrong key", error.status_code, 401)
