// The AI SDK with its two providers: Chat Completions for compatible servers, Responses for OpenAI's own.
import assert from "node:assert/strict";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const baseURL = `${process.env.ANNALS_URL}/v1`;
const apiKey = process.env.ANNALS_TOKEN;
const compatible = createOpenAICompatible({ name: "annals", baseURL, apiKey, includeUsage: true });
const openai = createOpenAI({ baseURL, apiKey });

const whole = await generateText({ model: compatible("annals"), prompt: "Hi" });
assert.equal(whole.text, "Hello");
assert.equal(whole.usage.inputTokens, 5);

const chat = streamText({ model: compatible("annals"), prompt: "Stream" });
assert.equal(await chat.text, "In pieces");
assert.equal((await chat.usage).totalTokens, 8);
assert.equal(await chat.reasoningText, "Let me think");

const answer = await generateText({ model: openai("annals"), prompt: "By responses" });
assert.equal(answer.text, "By responses, too");
const streamed = streamText({ model: openai("annals"), prompt: "Stream" });
assert.equal(await streamed.text, "Streamed");
assert.equal((await streamed.usage).outputTokens, 3);

// Tools of the client's own, run by the SDK between two requests.
const inputSchema = jsonSchema({
  type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } }, required: ["a", "b"],
});
const add = tool({ description: "Adds", inputSchema, execute: async ({ a, b }) => `the sum is ${a + b}` });
const headers = { "X-Annals-Tools": "client" };
for (const [model, expected] of [[compatible("annals"), "Five"], [openai("annals"), "Five by responses"]]) {
  const answer = await generateText({
    model, headers, tools: { add }, stopWhen: stepCountIs(3), prompt: `What is 2 + 3, ${expected}?`,
  });
  assert.equal(answer.text, expected);
  assert.equal(answer.steps.length, 2);
}
