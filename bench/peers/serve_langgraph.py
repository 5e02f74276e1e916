"""LangGraph's in-memory server under the load of `annals-workload serve-turns`: N turns of three model calls, by clients that
each wait for their turn before they start the next.

    python serve_langgraph.py N DIRECTORY
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request

import httpx

CLIENTS = 64
GRAPH = '''
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages


class State(TypedDict):
    messages: Annotated[list, add_messages]


def rounds(state):
    return sum(isinstance(message, ToolMessage) for message in state["messages"])


async def model(state):
    done = rounds(state)
    if done >= 2:
        return {"messages": [AIMessage("done")]}
    call = {"name": "add_one", "args": {"x": done + 1}, "id": f"c{done + 1}"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


async def tools(state):
    call = state["messages"][-1].tool_calls[0]
    return {"messages": [ToolMessage(str(call["args"]["x"] + 1), tool_call_id=call["id"])]}


builder = StateGraph(State)
builder.add_node("model", model)
builder.add_node("tools", tools)
builder.add_edge(START, "model")
builder.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].tool_calls else END)
builder.add_edge("tools", "model")
graph = builder.compile()
'''


def start(directory):
    with open(os.path.join(directory, "graph.py"), "w", encoding="utf-8") as file:
        file.write(GRAPH)
    config = {"dependencies": ["."], "graphs": {"agent": "./graph.py:graph"}}
    with open(os.path.join(directory, "langgraph.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    port = 21_000 + os.getpid() % 20_000
    environment = {**os.environ, "LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "BG_JOB_ISOLATED_LOOPS": "false",
        "N_JOBS_PER_WORKER": str(CLIENTS), "LOG_LEVEL": "ERROR", "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port),
        "--n-jobs-per-worker", str(CLIENTS)]
    log = open(os.path.join(directory, "server.log"), "wb")
    server = subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log)
    base = f"http://127.0.0.1:{port}"
    for _ in range(1_200):
        try:
            urllib.request.urlopen(f"{base}/ok", timeout=1).read()
            return server, base
        except OSError:
            if server.poll() is not None:
                sys.exit("the server ended: " + open(log.name, encoding="utf-8", errors="replace").read()[-2_000:])
            time.sleep(0.1)
    sys.exit("the server does not answer")


async def turn(client, base):
    thread = (await client.post(f"{base}/threads", json={})).raise_for_status().json()["thread_id"]
    body = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "go from 0"}]}}
    answer = (await client.post(f"{base}/threads/{thread}/runs/wait", json=body)).raise_for_status().json()
    assert answer["messages"][-1]["content"] == "done", answer


async def load(base, count):
    took = []
    async with httpx.AsyncClient(timeout=600, trust_env=False, limits=httpx.Limits(max_connections=CLIENTS)) as client:
        await turn(client, base)
        began = time.perf_counter_ns()

        async def one(share):
            for _ in range(share):
                start_ns = time.perf_counter_ns()
                await turn(client, base)
                took.append(time.perf_counter_ns() - start_ns)

        await asyncio.gather(*(one(count // CLIENTS + (at < count % CLIENTS)) for at in range(CLIENTS)))
        wall = time.perf_counter_ns() - began
    took.sort()
    return {"wall_ns": wall, "p50_ns": took[len(took) // 2], "p95_ns": took[len(took) * 95 // 100]}


def main():
    count, directory = int(sys.argv[1]), sys.argv[2]
    server, base = start(directory)
    try:
        figures = asyncio.run(load(base, count))
        fields = open(f"/proc/{server.pid}/stat", encoding="ascii").read().rsplit(") ", 1)[1].split()
        figures["cpu_ns"] = (int(fields[11]) + int(fields[12])) * 10_000_000
    finally:
        server.terminate()
        server.wait()
    print(json.dumps(figures))


main()
