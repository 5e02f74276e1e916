"""The official SDK of E2B against the double: what it does with a real server, checked. Its addresses and its key are in
the environment."""
from e2b import (
    AuthenticationException,
    CommandExitException,
    FileNotFoundException,
    Sandbox,
    SandboxQuery,
    TimeoutException,
)


def check(name, seen, wanted):
    assert seen == wanted, f"{name}: {seen!r} is not {wanted!r}"
    print(name)


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


sandbox = Sandbox.create("base", timeout=120, metadata={"made-by": "sdk"}, envs={"GIVEN": "from outside"})
try:
    ran = sandbox.commands.run("printf 'one\\n\\ngröße'; echo wrong >&2", envs={"MINE": "x"})
    check("output keeps its bytes", ran.stdout, "one\n\ngröße")
    check("errors", ran.stderr, "wrong\n")
    check("a good exit code", ran.exit_code, 0)
    check("variables", sandbox.commands.run("echo $GIVEN $MINE", envs={"MINE": "x"}).stdout, "from outside x\n")
    failed = refused(CommandExitException, lambda: sandbox.commands.run("echo before; exit 7"))
    check("a bad exit code", (failed.exit_code, failed.stdout), (7, "before\n"))
    refused(TimeoutException, lambda: sandbox.commands.run("sleep 30", timeout=1))
    print("a timeout")

    background = sandbox.commands.run("sleep 300", background=True)
    check("a list of processes", background.pid in [process.pid for process in sandbox.commands.list()], True)
    check("a kill", sandbox.commands.kill(background.pid), True)
    check("a kill of nothing", sandbox.commands.kill(4_000_000), False)

    sandbox.files.write("/tmp/sdk/a.txt", "grüße")
    check("a file", sandbox.files.read("/tmp/sdk/a.txt"), "grüße")
    sandbox.files.rename("/tmp/sdk/a.txt", "/tmp/sdk/b.md")
    check("a folder", [entry.name for entry in sandbox.files.list("/tmp/sdk")], ["b.md"])
    check("what exists", (sandbox.files.exists("/tmp/sdk/b.md"), sandbox.files.exists("/tmp/sdk/a.txt")), (True, False))
    refused(FileNotFoundException, lambda: sandbox.files.read("/tmp/sdk/none"))
    print("a missing file")

    sandbox.set_timeout(300)
    found = Sandbox.list(query=SandboxQuery(metadata={"made-by": "sdk"})).next_items()
    check("a list by metadata", [info.sandbox_id for info in found], [sandbox.sandbox_id])
    again = Sandbox.connect(sandbox.sandbox_id)
    check("another connection", again.commands.run("echo here").stdout, "here\n")
finally:
    sandbox.kill()
check("a sandbox that is gone", sandbox.is_running(), False)
refused(AuthenticationException, lambda: Sandbox.create("base", api_key="wrong"))
print("a wrong key")
