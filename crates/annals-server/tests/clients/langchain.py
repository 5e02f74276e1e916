"""LangChain: a chat model on Chat Completions and one on Responses, whole and streamed, with usage."""

import os

from langchain_openai import ChatOpenAI

options = {"model": "annals", "base_url": f"{os.environ['ANNALS_URL']}/v1", "api_key": os.environ["ANNALS_TOKEN"]}

chat = ChatOpenAI(**options)
first = chat.invoke("Hi")
assert first.content == "Hello", first
assert first.usage_metadata["input_tokens"] == 5 and first.usage_metadata["output_tokens"] == 3, first.usage_metadata
second = chat.invoke([("human", "Hi"), first, ("human", "More")])
assert second.content == "More of it", second

streamed = ChatOpenAI(**options, stream_usage=True)
whole = None
for chunk in streamed.stream("Stream"):
    whole = chunk if whole is None else whole + chunk
assert whole.content == "In pieces", whole
assert whole.usage_metadata["total_tokens"] == 8, whole.usage_metadata

responses = ChatOpenAI(**options, use_responses_api=True)
answer = responses.invoke("By responses")
assert answer.text == "By responses, too" if isinstance(answer.text, str) else answer.text() == "By responses, too", answer
text = "".join(part["text"] for chunk in responses.stream("Again") for part in chunk.content_blocks if part["type"] == "text")
assert text == "Streamed", text

# Tools of the client's own, as an agent loop binds and runs them.
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool


@tool
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return f"the sum is {a + b}"


for expected, more in (("Five", {}), ("Five by responses", {"use_responses_api": True})):
    model = ChatOpenAI(**options, **more, default_headers={"X-Annals-Tools": "client"}).bind_tools([add])
    messages = [HumanMessage(f"What is 2 + 3, {expected}?")]
    asked = model.invoke(messages)
    assert [call["name"] for call in asked.tool_calls] == ["add"], asked
    messages += [asked, *(add.invoke(call) for call in asked.tool_calls)]
    answer = model.invoke(messages)
    text = answer.text if isinstance(answer.text, str) else answer.text()
    assert text == expected, answer
