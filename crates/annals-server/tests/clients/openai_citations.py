"""The official Python SDK reads the sources of an answer as annotations: whole and streamed, chat and responses."""

import os

import openai

client = openai.OpenAI(base_url=f"{os.environ['ANNALS_URL']}/v1", api_key=os.environ["ANNALS_TOKEN"])
MOON = "https://moon.example/tides?of=the+sea"
ASK = [{"role": "user", "content": "What makes the tides?"}]


def checked(text, start, end, url, title):
    assert (url, title) == (MOON, "Moon – tides"), (url, title)
    assert text[start:end] == f"[1]({MOON})", (text, start, end)


def chat(message):
    assert len(message.annotations) == 2, message
    for annotation in message.annotations:
        cited = annotation.url_citation
        checked(message.content, cited.start_index, cited.end_index, cited.url, cited.title)


def responses(answer):
    parts = [part for item in answer.output if item.type == "message" for part in item.content]
    annotations = [(part.text, annotation) for part in parts for annotation in part.annotations]
    assert len(annotations) == 2, parts
    for text, cited in annotations:
        assert cited.type == "url_citation", cited
        checked(text, cited.start_index, cited.end_index, cited.url, cited.title)


chat(client.chat.completions.create(model="annals", messages=ASK).choices[0].message)

with client.chat.completions.stream(model="annals", messages=ASK) as stream:
    text, annotations = "", []
    for event in stream:
        if event.type == "chunk" and event.chunk.choices:
            delta = event.chunk.choices[0].delta
            text += delta.content or ""
            annotations += getattr(delta, "annotations", None) or []
assert len(annotations) == 2, annotations
for annotation in annotations:
    cited = annotation["url_citation"]
    checked(text, cited["start_index"], cited["end_index"], cited["url"], cited["title"])

responses(client.responses.create(model="annals", input=ASK))

with client.responses.stream(model="annals", input=ASK) as stream:
    added = [event.annotation for event in stream if event.type == "response.output_text.annotation.added"]
    responses(stream.get_final_response())
assert len(added) == 2, added
