// Asks a gateway as its clients do: `node clients.mjs URL` prints, as one JSON object, what each client understood.
import Anthropic from "@anthropic-ai/sdk";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";

const url = process.argv[2];
const question = "Weather in Zürich?";
const weather = { type: "object", properties: { city: { type: "string" } } };

function plain(text, reasoning, calls, finish, usage) {
	return {
		text,
		reasoning,
		calls: calls.map((c) => ({ name: c.toolName, input: c.input })),
		finish,
		input: usage.inputTokens,
		output: usage.outputTokens,
	};
}

async function vercel(model) {
	const ask = {
		model,
		prompt: question,
		maxOutputTokens: 500,
		maxRetries: 0,
		tools: {
			get_weather: tool({ inputSchema: jsonSchema(weather) }),
			ping: tool({ inputSchema: jsonSchema({ type: "object", properties: {} }) }),
		},
	};
	const kinds = new Set();
	const errors = [];
	const streaming = streamText({ ...ask, onError: ({ error }) => errors.push(String(error)) });
	for await (const part of streaming.fullStream) {
		kinds.add(part.type);
	}
	const streamed = plain(
		await streaming.text,
		await streaming.reasoningText,
		await streaming.toolCalls,
		await streaming.finishReason,
		await streaming.usage,
	);
	const whole = await generateText(ask);
	return {
		kinds: [...kinds].sort(),
		errors,
		streamed,
		whole: plain(whole.text, whole.reasoningText, whole.toolCalls, whole.finishReason, whole.usage),
	};
}

async function anthropic() {
	const client = new Anthropic({ baseURL: url, apiKey: "any", maxRetries: 0 });
	const ask = {
		model: "m",
		max_tokens: 500,
		messages: [{ role: "user", content: question }],
		tools: [
			{ name: "get_weather", input_schema: weather },
			{ name: "ping", input_schema: { type: "object" } },
		],
	};
	const streamed = await client.messages.stream(ask).finalMessage();
	const whole = await client.messages.create(ask);
	const error = await client.messages.create({ ...ask, model: "nobody" }).catch((e) => ({
		name: e.constructor.name,
		status: e.status,
		type: e.error?.error?.type,
		id: e.requestID,
	}));
	return { streamed, whole, error, counted: await client.messages.countTokens({ model: ask.model, messages: ask.messages, tools: ask.tools }) };
}

const openai = createOpenAICompatible({ name: "kelpie", baseURL: `${url}/v1`, apiKey: "any", includeUsage: true });
const messages = createAnthropic({ baseURL: `${url}/v1`, apiKey: "any" });
console.log(
	JSON.stringify({
		chat: await vercel(openai("m")),
		messages: await vercel(messages("m")),
		sdk: await anthropic(),
	}),
);
