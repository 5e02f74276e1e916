"""The workloads on LangGraph, through its public API, as it ships: a graph of a model node and a `ToolNode`, with no
saver or with the SQLite saver (which syncs, but in the background while the next step runs: durability `async`).

It has no sandbox, no file operations and no streams of operations; those workloads do not exist here.
"""

import os
import sqlite3
import threading
import time

from protocol import RESULT, Measured, disk_bytes, main, rss_bytes

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode


@tool
def add_one(x: int) -> int:
    """Add 1 to x"""
    return x + 1


@tool
def report(x: int) -> str:
    """A kilobyte of words"""
    return RESULT


class Scripted:
    """A model that answers at once. It knows how far it is from the id of the last call, in constant time."""

    def __init__(self, rounds, name, delay_s=0.0):
        self.rounds, self.name, self.delay_s = rounds, name, delay_s
        self.lock, self.waiting, self.most_waiting = threading.Lock(), 0, 0

    def __call__(self, state):
        last = state["messages"][-1]
        done = int(last.tool_call_id[1:]) if isinstance(last, ToolMessage) else 0
        if self.delay_s:
            self._wait()
        if done >= self.rounds:
            return {"messages": [AIMessage("done")]}
        call = {"name": self.name, "args": {"x": 1}, "id": f"c{done + 1}"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    def _wait(self):
        with self.lock:
            self.waiting += 1
            self.most_waiting = max(self.most_waiting, self.waiting)
        time.sleep(self.delay_s)
        with self.lock:
            self.waiting -= 1


def graph(model, saver=None):
    made = StateGraph(MessagesState)
    made.add_node("model", model)
    made.add_node("tools", ToolNode([add_one, report]))
    made.add_edge(START, "model")
    made.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else END, ["tools", END]
    )
    made.add_edge("tools", "model")
    return made.compile(checkpointer=saver)


def config(rounds, thread="1"):
    return {"recursion_limit": 2 * rounds + 10, "configurable": {"thread_id": thread}}


PROMPT = {"messages": [HumanMessage("go")]}


def saver(directory):
    made = SqliteSaver(sqlite3.connect(os.path.join(directory, "saver.db"), check_same_thread=False))
    made.setup()
    return made


def warm_up():
    graph(Scripted(3, "add_one")).invoke(PROMPT, config(3))


def rounds(n, directory):
    warm_up()
    made = graph(Scripted(n, "add_one"))
    with Measured() as measured:
        made.invoke(PROMPT, config(n))
    return measured.figures


def persisted(n, directory, name):
    warm_up()
    kept = saver(directory)
    made = graph(Scripted(n, name), kept)
    with Measured() as measured:
        made.invoke(PROMPT, config(n))
    kept.conn.close()
    return measured.figures


def rounds_persisted(n, directory):
    return persisted(n, directory, "add_one")


def storage(n, directory):
    figures = persisted(n, directory, "report")
    figures["disk_bytes"] = disk_bytes(directory)
    figures["payload_bytes"] = n * (len(RESULT) + len('{"x":1}'))
    return figures


def sessions(n, directory, kept=None):
    warm_up()
    made = graph(Scripted(10, "add_one"), kept)
    # Before the measured ones, so that what a process needs once is not charged to them.
    warm = [made.invoke(PROMPT, config(10, f"w{number}")) for number in range(5)]
    before = rss_bytes()
    with Measured() as measured:
        states = [made.invoke(PROMPT, config(10, str(number))) for number in range(n)]
    measured.figures["rss_bytes"] = max(0, rss_bytes() - before)
    assert len(warm) + len(states) == 5 + n
    return measured.figures


def in_flight(n, directory):
    warm_up()
    model = Scripted(0, "add_one", delay_s=0.1)
    made = graph(model)
    with Measured() as measured:
        made.batch([PROMPT] * n, [config(0, str(number)) for number in range(n)])
    measured.figures["in_flight"] = model.most_waiting
    return measured.figures


def write_records(n, directory):
    kept = saver(directory)
    made = graph(Scripted(0, "add_one"), kept)
    made.update_state(config(0), {"messages": [HumanMessage(RESULT) for _ in range(n)]})
    return kept


def records_write(n, directory):
    with Measured() as measured:
        write_records(n, directory).conn.close()
    return measured.figures


def records_load(n, directory):
    write_records(n, directory).conn.close()
    made = graph(Scripted(0, "add_one"), saver(directory))
    with Measured() as measured:
        state = made.get_state(config(0))
    assert len(state.values["messages"]) == n
    return measured.figures


def first_call(n, directory):
    with Measured() as measured:
        graph(Scripted(1, "add_one"), saver(directory)).invoke(PROMPT, config(1))
    return measured.figures


if __name__ == "__main__":
    main(
        {
            "rounds": rounds,
            "rounds-persisted": rounds_persisted,
            "storage": storage,
            "sessions": sessions,
            "sessions-persisted": lambda n, directory: sessions(n, directory, saver(directory)),
            "in-flight": in_flight,
            "records-write": records_write,
            "records-load": records_load,
            "first-call": first_call,
        }
    )
