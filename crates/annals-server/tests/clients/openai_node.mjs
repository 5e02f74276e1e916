// The official SDK for Node: chat and responses, whole, streamed and by the helpers; errors by class.
import assert from "node:assert/strict";
import OpenAI from "openai";

const { ANNALS_URL, ANNALS_TOKEN } = process.env;
const client = new OpenAI({ baseURL: `${ANNALS_URL}/v1`, apiKey: ANNALS_TOKEN });

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.deepEqual(models, ["annals"]);

const ask = (content) => [{ role: "user", content }];
const whole = await client.chat.completions.create({ model: "annals", messages: ask("Hi") });
assert.equal(whole.choices[0].message.content, "Hello");
assert.equal(whole.usage.total_tokens, 8);

const stream = await client.chat.completions.create({
  model: "annals", messages: ask("Hi again"), stream: true, stream_options: { include_usage: true },
});
let text = "", usage;
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, "Hello again");
assert.equal(usage.prompt_tokens, 5);

const helped = client.chat.completions.stream({ model: "annals", messages: ask("Help") });
assert.equal(await helped.finalContent(), "Helped");

const failing = await client.chat.completions.create({ model: "annals", messages: ask("Fail"), stream: true });
await assert.rejects(async () => { for await (const _ of failing); }, OpenAI.APIError);

const first = await client.responses.create({ model: "annals", input: "My name is Ada" });
assert.equal(first.output_text, "Noted");
const second = client.responses.stream({ model: "annals", input: "Who am I?", previous_response_id: first.id });
const kinds = [];
for await (const event of second) kinds.push(event.type);
const final = await second.finalResponse();
assert.equal(final.output_text, "Ada");
assert.equal(final.metadata.conversation, first.metadata.conversation);
assert.ok(kinds.includes("response.output_text.delta") && kinds.at(-1) === "response.completed", kinds.join());

await assert.rejects(client.chat.completions.create({ model: "annals", messages: ask("x"), n: 2 }), OpenAI.BadRequestError);
await assert.rejects(client.responses.retrieve("resp_c.turn_1"), OpenAI.NotFoundError);
const stranger = new OpenAI({ baseURL: `${ANNALS_URL}/v1`, apiKey: "wrong", maxRetries: 0 });
await assert.rejects(stranger.models.list().then(() => {}), OpenAI.AuthenticationError);
