"""A provider for LiteLLM's proxy that plays the steps of a script, one for each answer that the request already has."""

import json
import os

from litellm import CustomLLM

STEPS = json.load(open(os.environ["ANNALS_SCRIPT"], encoding="utf-8"))["steps"]


def chunk(**fields):
    empty = {"text": "", "is_finished": False, "finish_reason": None, "usage": None, "index": 0, "tool_use": None}
    return {**empty, **fields}


class Player(CustomLLM):
    async def astreaming(self, model, messages, **_):
        step = STEPS[sum(message["role"] == "assistant" for message in messages)]
        text, calls = step.get("text", ""), step.get("tool_calls", [])
        for piece in filter(None, (text[:5], text[5:])):
            yield chunk(text=piece)
        for index, call in enumerate(calls):
            function = {"name": call["tool"].replace(".", "__"), "arguments": json.dumps(call["params"])}
            yield chunk(tool_use={"id": call["id"], "type": "function", "index": index, "function": function})
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        yield chunk(is_finished=True, finish_reason="tool_calls" if calls else "stop", usage=usage)


player = Player()
