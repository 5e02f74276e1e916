"""litellm: Chat Completions and Responses through its OpenAI provider."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # offline
import litellm  # noqa: E402

options = {
    "model": "openai/annals",
    "api_base": f"{os.environ['ANNALS_URL']}/v1",
    "api_key": os.environ["ANNALS_TOKEN"],
}
messages = [{"role": "user", "content": "Hi"}]
whole = litellm.completion(messages=messages, **options)
assert whole.choices[0].message.content == "Hello", whole
assert whole.usage.total_tokens == 8, whole.usage
chunks = list(litellm.completion(messages=messages, stream=True, stream_options={"include_usage": True}, **options))
assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "In pieces", chunks
answer = litellm.responses(input="Hi", **options)
assert answer.output[-1].content[0].text == "By responses", answer
try:
    litellm.completion(messages=messages, n=2, max_retries=0, **options)
    raise AssertionError("no error")
except litellm.BadRequestError:
    pass
