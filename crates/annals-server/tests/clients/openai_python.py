"""The official Python SDK: models, chat, responses, files, errors. The model behind answers by a script, step by step."""

import base64
import json
import os
import sys

import openai

URL, TOKEN = os.environ["ANNALS_URL"], os.environ["ANNALS_TOKEN"]
client = openai.OpenAI(base_url=f"{URL}/v1", api_key=TOKEN)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def raises(kind, status, call):
    try:
        call()
    except kind as error:
        assert error.status_code == status, error
        assert error.message and error.code, error
        return error
    raise AssertionError(f"no {kind.__name__}")


models = client.models.list().data
assert [model.id for model in models] == ["annals"], models
assert client.models.retrieve("annals").owned_by == "annals"

# Chat, whole: notes, activity as reasoning, the answer, a link to the file that the turn made.
answer = client.chat.completions.with_raw_response.create(
    model="annals", messages=[{"role": "user", "content": "Write a report"}]
)
conversation = answer.headers["x-annals-conversation"]
assert conversation and answer.headers["x-annals-turn"].startswith("turn_")
answer = answer.parse()
message = answer.choices[0].message
assert message.content.startswith("Drafting\n\nDone\n\n[report.md](http"), message.content
assert "› react.write report.md" in message.reasoning_content, message
assert answer.choices[0].finish_reason == "stop"
assert answer.usage.prompt_tokens == 30 and answer.usage.completion_tokens == 7, answer.usage
assert answer.usage.prompt_tokens_details.cached_tokens == 4
link = message.content.split("](")[1].rstrip(")")
opened = openai.DefaultHttpxClient().get(link)
assert opened.text == "# Report", f"a link opens its file without a token: {link} {opened.text}"

# Chat, streamed; the history continues the same conversation.
stream = client.chat.completions.create(
    model="annals",
    messages=[
        {"role": "user", "content": "Write a report"},
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": "Thanks"},
    ],
    stream=True,
    stream_options={"include_usage": True},
)
chunks = list(stream)
assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "You are welcome"
assert chunks[0].choices[0].delta.role == "assistant"
assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == 12, chunks[-1]
assert stream.response.headers["x-annals-conversation"] == conversation

# The streaming helper.
with client.chat.completions.stream(model="annals", messages=[{"role": "user", "content": "Hi"}]) as helper:
    for _ in helper:
        pass
    assert helper.get_final_completion().choices[0].message.content == "Hello"

# An error in mid-stream raises; sent whole it has its status and is not sent again.
try:
    list(client.chat.completions.create(model="annals", messages=[{"role": "user", "content": "Fail"}], stream=True))
    raise AssertionError("no error")
except openai.APIError as error:
    assert "model_error" in error.message, error
raises(
    openai.InternalServerError,
    502,
    lambda: client.chat.completions.create(model="annals", messages=[{"role": "user", "content": "Fail"}]),
)

# Errors by class.
one = [{"role": "user", "content": "x"}]
raises(openai.BadRequestError, 400, lambda: client.chat.completions.create(model="annals", messages=one, n=2))
raises(openai.BadRequestError, 400, lambda: client.chat.completions.create(model="annals", messages=[]))
raises(openai.NotFoundError, 404, lambda: client.responses.retrieve("resp_nothing.turn_1"))
raises(openai.NotFoundError, 404, lambda: client.models.retrieve("gpt-4"))
raises(
    openai.AuthenticationError,
    401,
    lambda: openai.OpenAI(base_url=f"{URL}/v1", api_key="wrong", max_retries=0).models.list(),
)

# Responses: whole, streamed by the helper, continued and forked by `previous_response_id`.
first = client.responses.create(model="annals", input="My name is Ada", instructions="Be brief")
assert first.status == "completed" and first.output_text == "Noted", first
assert first.instructions == "Be brief" and first.usage.input_tokens == 5
with client.responses.stream(model="annals", input="What is my name?", previous_response_id=first.id) as stream:
    kinds = [event.type for event in stream]
    second = stream.get_final_response()
assert second.output_text == "Ada", second
assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed", kinds
assert second.metadata["conversation"] == first.metadata["conversation"]
forked = client.responses.create(model="annals", input="And now?", previous_response_id=first.id)
assert forked.output_text == "A fork"
assert forked.metadata["conversation"] != first.metadata["conversation"], "an old turn forks"

# Read again, whole and as a stream that goes on after an event.
again = client.responses.retrieve(second.id)
assert again.output_text == "Ada" and again.status == "completed"
events = list(client.responses.retrieve(second.id, stream=True))
deltas = [event for event in events if event.type == "response.output_text.delta"]
assert "".join(event.delta for event in deltas) == "Ada"
rest = list(client.responses.retrieve(second.id, stream=True, starting_after=deltas[0].sequence_number - 2))
assert "".join(e.delta for e in rest if e.type == "response.output_text.delta") == "da", rest

# In the background.
queued = client.responses.create(model="annals", input="Later", background=True)
assert queued.status in ("queued", "in_progress", "completed"), queued.status
while queued.status in ("queued", "in_progress"):
    queued = client.responses.retrieve(queued.id)
assert queued.output_text == "Done later", queued

# Files and pictures.
stored = client.files.create(file=("notes.txt", b"The secret word is plum"), purpose="user_data")
assert client.files.retrieve(stored.id).filename == "notes.txt"
assert client.files.content(stored.id).read() == b"The secret word is plum"
assert [f.id for f in client.files.list().data] == [stored.id]
picture = "data:image/png;base64," + base64.b64encode(PNG).decode()
seen = client.responses.create(
    model="annals",
    input=[
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look"},
                {"type": "input_file", "file_id": stored.id},
                {"type": "input_image", "image_url": picture, "detail": "auto"},
            ],
        }
    ],
)
assert seen.output_text == "Plum and a dot", seen
seen = client.chat.completions.create(
    model="annals",
    messages=[
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look again"},
                {"type": "image_url", "image_url": {"url": picture}},
                {"type": "file", "file": {"file_data": "data:text/plain;base64,cGVhcg==", "filename": "p.txt"}},
            ],
        }
    ],
)
assert seen.choices[0].message.content == "Pear"
assert client.files.delete(stored.id).deleted
raises(openai.NotFoundError, 404, lambda: client.files.retrieve(stored.id))

# Tools of the client's own: the answer asks for a call, the next request brings its result.
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
with_tools = client.with_options(default_headers={"X-Annals-Tools": "client"})
tools = [{"type": "function", "function": {"name": "add", "description": "Adds", "parameters": PARAMETERS}}]


def added(arguments):
    values = json.loads(arguments)
    return f"the sum is {values['a'] + values['b']}"


messages = [{"role": "user", "content": "What is 2 + 3?"}]
asked = with_tools.chat.completions.create(model="annals", messages=messages, tools=tools)
assert asked.choices[0].finish_reason == "tool_calls", asked
call = asked.choices[0].message.tool_calls[0]
assert call.function.name == "add", call
messages.append(asked.choices[0].message)
messages.append({"role": "tool", "tool_call_id": call.id, "content": added(call.function.arguments)})
answer = with_tools.chat.completions.create(model="annals", messages=messages, tools=tools)
assert answer.choices[0].message.content == "Five", answer

messages = [{"role": "user", "content": "Once more, in pieces: what is 2 + 3?"}]
with with_tools.chat.completions.stream(model="annals", messages=messages, tools=tools) as stream:
    asked = stream.get_final_completion()
call = asked.choices[0].message.tool_calls[0]
messages.append({"role": "assistant", "content": None, "tool_calls": [call.model_dump(include={"id", "type", "function"})]})
messages.append({"role": "tool", "tool_call_id": call.id, "content": added(call.function.arguments)})
with with_tools.chat.completions.stream(model="annals", messages=messages, tools=tools) as stream:
    answer = stream.get_final_completion()
assert answer.choices[0].message.content == "Five, streamed", answer

flat = [{"type": "function", "name": "add", "description": "Adds", "parameters": PARAMETERS, "strict": False}]
with with_tools.responses.stream(model="annals", input="What is 2 + 3?", tools=flat) as stream:
    asked = stream.get_final_response()
calls = [item for item in asked.output if item.type == "function_call"]
assert [call.name for call in calls] == ["add"], asked
outputs = [{"type": "function_call_output", "call_id": call.call_id, "output": added(call.arguments)} for call in calls]
answer = with_tools.responses.create(model="annals", input=outputs, previous_response_id=asked.id, tools=flat)
assert answer.output_text == "Five by responses", answer
print("passed", openai.__version__, file=sys.stderr)
