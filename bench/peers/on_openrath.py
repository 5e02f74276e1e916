"""The workloads on OpenRath, through its public API, as it ships: a chat client registered by kind, tools as
`FlowToolCall`, `run_session_loop`, the local backend (which does not isolate), JSONL persistence (which does not sync).
"""

import os
import sys
import threading
import time
from pathlib import Path
from uuid import uuid4

from protocol import RESULT, Measured, disk_bytes, main, rss_bytes

from rath.backend import (
    BackendSandboxSpec,
    BackendToolCommandRun,
    BackendToolFilesExists,
    BackendToolFilesRead,
    BackendToolFilesWrite,
    get,
)
from rath.flow.tool import FlowToolCall
from rath.llm import (
    Provider,
    RathLLMAssistantMessage,
    RathLLMChatChoice,
    RathLLMChatResponse,
    RathLLMToolCallFunction,
    RathLLMToolCallPart,
    register_chat_client,
)
from rath.session import Session, run_session_loop
from rath.session.chunk import tool_feedback_chunk
from rath.session.persistence import SessionWriter, load_session


class Scripted:
    """A model that answers at once. It knows how far it is from the id of the last call, in constant time."""

    def __init__(self, rounds, call, delay_s=0.0):
        self.rounds, self.call, self.delay_s = rounds, call, delay_s
        self.provider = Provider(model="scripted", provider_kind="scripted")
        self.lock, self.waiting, self.most_waiting = threading.Lock(), 0, 0

    def complete(self, request):
        last = request.messages[-1]
        done = int(last.tool_call_id.split("_")[0][1:]) if last.tool_call_id else 0
        if self.delay_s:
            self._wait()
        if done >= self.rounds:
            return answer(RathLLMAssistantMessage(content="done"), "stop")
        return answer(RathLLMAssistantMessage(tool_calls=self.call(done + 1)), "tool_calls")

    def _wait(self):
        with self.lock:
            self.waiting += 1
            self.most_waiting = max(self.most_waiting, self.waiting)
        time.sleep(self.delay_s)
        with self.lock:
            self.waiting -= 1


def answer(message, finish):
    choice = RathLLMChatChoice(index=0, finish_reason=finish, message=message)
    return RathLLMChatResponse(id="x", choices=(choice,), created=0, model="scripted")


def part(identity, tool, arguments, parsed):
    function = RathLLMToolCallFunction(
        name=tool, arguments=arguments, arguments_parsed=parsed, arguments_parse_error=False
    )
    return RathLLMToolCallPart(id=identity, type="function", function=function)


def add_one_call(number):
    return (part(f"c{number}", "add_one", '{"x":1}', {"x": 1}),)


class AddOne(FlowToolCall):
    name = "add_one"
    description = "Add 1 to x"
    parameters = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}

    def __call__(self, session, arguments):
        return arguments["x"] + 1


class Report(AddOne):
    name = "report"
    description = "A kilobyte of words"

    def __call__(self, session, arguments):
        return RESULT


AGENT = Session.from_agent_prompt("Use tools.")


def use(model):
    register_chat_client("scripted", lambda provider: model)
    return model


def run(user, rounds, tools, **more):
    provider = Provider(model="scripted", provider_kind="scripted")
    return run_session_loop(
        user, AGENT, agent_provider=provider, tools=tools, max_tool_rounds=rounds + 2, **more
    )


def one_conversation(rounds, tools, **more):
    run(Session.from_user_message("go"), rounds, tools, **more).synchronize()


def warm_up():
    use(Scripted(3, add_one_call))
    one_conversation(3, [AddOne()])


def rounds(n, directory):
    warm_up()
    use(Scripted(n, add_one_call))
    with Measured() as measured:
        one_conversation(n, [AddOne()])
    return measured.figures


def rounds_persisted(n, directory):
    warm_up()
    use(Scripted(n, add_one_call))
    with Measured() as measured:
        one_conversation(n, [AddOne()], persist_path=Path(directory) / "session.jsonl")
    return measured.figures


def storage(n, directory):
    warm_up()
    use(Scripted(n, lambda number: (part(f"c{number}", "report", '{"x":1}', {"x": 1}),)))
    with Measured() as measured:
        one_conversation(n, [Report()], persist_path=Path(directory) / "session.jsonl")
    measured.figures["disk_bytes"] = disk_bytes(directory)
    measured.figures["payload_bytes"] = n * (len(RESULT) + len('{"x":1}'))
    return measured.figures


def in_sandbox(rounds_wanted, call, directory):
    use(Scripted(rounds_wanted, call))
    user = Session.from_user_message("go").to("trusted-host", spec=directory)
    with user:
        run(user, rounds_wanted, []).synchronize()


def shell(n, directory):
    call = lambda number: (part(f"c{number}", "run_shell_command", '{"cmd":"true"}', {"cmd": "true"}),)
    in_sandbox(3, call, directory)
    with Measured() as measured:
        in_sandbox(n, call, directory)
    return measured.figures


def parallel_writes(n, directory):
    def call(_):
        parsed = [{"path": f"{at}.txt", "content": "x"} for at in range(n)]
        return tuple(
            part(f"c1_{at}", "write_workspace_file", '{"path":"…"}', parsed[at]) for at in range(n)
        )

    with Measured() as measured:
        in_sandbox(1, call, directory)
    return measured.figures


def opened(directory):
    return get("trusted-host").open(BackendSandboxSpec(working_dir=directory))


def operations(make):
    def workload(n, directory):
        sandbox = opened(directory)
        sandbox.dispatch(BackendToolFilesWrite(path="there", data=RESULT))
        sandbox.dispatch(make())
        with Measured() as measured:
            for _ in range(n):
                sandbox.dispatch(make())
        return measured.figures

    return workload


def streams(count):
    def workload(n, directory):
        sandbox = opened(directory)
        sandbox.dispatch(BackendToolFilesWrite(path="there", data="x"))
        made = [sandbox.stream() for _ in range(count)]
        for stream in made:
            stream.__enter__()
        with Measured() as measured:
            pending = [
                stream.submit(BackendToolFilesExists(path="there")) for stream in made for _ in range(n // count)
            ]
            for future in pending:
                future.result()
        return measured.figures

    return workload


# Before the measured ones, so that what a process needs once is not charged to them.
WARM_UP_SESSIONS = 50


def sessions(n, directory, persist=False):
    warm_up()
    use(Scripted(10, add_one_call))

    def all_of(numbers):
        kept = []
        for number in numbers:
            options = {"persist_path": Path(directory) / f"{number}.jsonl"} if persist else {}
            kept.append(run(Session.from_user_message("go"), 10, [AddOne()], **options))
        for session in kept:
            session.synchronize()
        return kept

    warm = all_of(range(WARM_UP_SESSIONS))
    before = rss_bytes()
    with Measured() as measured:
        kept = all_of(range(WARM_UP_SESSIONS, WARM_UP_SESSIONS + n))
    assert len(warm) + len(kept) == WARM_UP_SESSIONS + n
    measured.figures["rss_bytes"] = max(0, rss_bytes() - before)
    return measured.figures


def in_flight(n, directory):
    warm_up()
    model = use(Scripted(0, add_one_call, delay_s=0.1))
    with Measured() as measured:
        kept = [run(Session.from_user_message("go"), 0, []) for _ in range(n)]
        for session in kept:
            session.synchronize()
    measured.figures["in_flight"] = model.most_waiting
    return measured.figures


def write_records(n, path):
    writer = SessionWriter(Session.from_user_message("go"), path=path)
    for index in range(n):
        writer.write_chunk(index, tool_feedback_chunk(f"c{index}", "report", RESULT))
    writer.close()


def records_write(n, directory):
    with Measured() as measured:
        write_records(n, Path(directory) / "session.jsonl")
    return measured.figures


def records_load(n, directory):
    path = Path(directory) / "session.jsonl"
    write_records(n, path)
    with Measured() as measured:
        loaded = load_session(uuid4(), path=path)
    assert len(loaded.chunk_table) == n
    return measured.figures


def first_call(n, directory):
    with Measured() as measured:
        use(Scripted(1, add_one_call))
        one_conversation(1, [AddOne()], persist_path=Path(directory) / "session.jsonl")
    return measured.figures


if __name__ == "__main__":
    # Beside the measured folder, so that nothing of the user's is read or written.
    os.environ["OPENRATH_HOME"] = sys.argv[3] + ".home"
    main(
        {
            "rounds": rounds,
            "rounds-persisted": rounds_persisted,
            "storage": storage,
            "shell": shell,
            "parallel-writes": parallel_writes,
            "command": operations(lambda: BackendToolCommandRun(cmd="true")),
            "file-read": operations(lambda: BackendToolFilesRead(path="there")),
            "file-write": operations(lambda: BackendToolFilesWrite(path="there", data=RESULT)),
            "streams-1": streams(1),
            "streams-8": streams(8),
            "sessions": sessions,
            "sessions-persisted": lambda n, directory: sessions(n, directory, persist=True),
            "in-flight": in_flight,
            "records-write": records_write,
            "records-load": records_load,
            "first-call": first_call,
        }
    )
