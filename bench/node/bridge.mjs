// A bridge as people write it today: the official SDK for Node on one side, JSON lines on the other. It speaks the
// same dialect as `watari stdio`, as far as the bench needs it, and does nothing that would slow it down.
import { createInterface } from "node:readline";
import { query } from "@anthropic-ai/claude-agent-sdk";

const send = (message) => process.stdout.write(JSON.stringify(message) + "\n");

// Prompts that were not sent yet, and the callback that wakes the sender.
const prompts = [];
let promptCame = () => {};
let inputEnded = false;
const answers = new Map();

async function* userMessages() {
  for (;;) {
    while (prompts.length > 0) {
      yield { type: "user", message: { role: "user", content: prompts.shift() }, parent_tool_use_id: null };
    }
    if (inputEnded) return;
    await new Promise((resolve) => (promptCame = resolve));
  }
}

let lastRequest = 0;
const canUseTool = (toolName, toolInput, { toolUseID }) => {
  const requestId = `req_${++lastRequest}`;
  const answered = new Promise((resolve) => answers.set(requestId, resolve));
  send({ type: "permission_request", requestId, toolName, toolInput, toolUseId: toolUseID });
  return answered;
};

const DELTA_TEXTS = { text_delta: "text", thinking_delta: "thinking", input_json_delta: "partial_json" };

function sendStreamEvent(sessionId, event) {
  switch (event.type) {
    case "message_start":
      return send({ type: "stream_message_start", sessionId });
    case "content_block_start": {
      const { type: blockType, id: blockId, name: toolName } = event.content_block;
      return send({ type: "stream_content_start", sessionId, index: event.index, blockType, blockId, toolName });
    }
    case "content_block_delta": {
      const deltaType = event.delta.type;
      const text = event.delta[DELTA_TEXTS[deltaType]];
      if (text === undefined) return;
      return send({ type: "stream_content_delta", sessionId, index: event.index, deltaType, text });
    }
    case "content_block_stop":
      return send({ type: "stream_content_stop", sessionId, index: event.index });
    case "message_stop":
      return send({ type: "stream_message_stop", sessionId });
  }
}

function sendMessage(message) {
  const sessionId = message.session_id;
  switch (message.type) {
    case "stream_event":
      return sendStreamEvent(sessionId, message.event);
    case "assistant": {
      const { parent_tool_use_id: parentToolUseId } = message;
      return send({ type: "assistant_message", sessionId, parentToolUseId, content: message.message.content });
    }
    case "result": {
      const { subtype, total_cost_usd: totalCostUsd, usage, num_turns: numTurns, is_error: isError } = message;
      const { result, errors } = message;
      return send({ type: "turn_result", sessionId, subtype, totalCostUsd, usage, numTurns, isError, result, errors });
    }
    case "system": {
      if (message.subtype !== "init") return;
      const { model, tools, mcp_servers: mcpServers, claude_code_version: claudeCodeVersion } = message;
      return send({ type: "session_init", sessionId, model, tools, mcpServers, claudeCodeVersion });
    }
  }
}

async function run({ prompt, options }) {
  prompts.push(prompt);
  const session = query({
    prompt: userMessages(),
    options: {
      ...options,
      canUseTool,
      includePartialMessages: true,
      pathToClaudeCodeExecutable: process.env.BENCH_CLAUDE,
    },
  });
  for await (const message of session) sendMessage(message);
}

const input = createInterface({ input: process.stdin });
input.on("line", (line) => {
  const message = JSON.parse(line);
  switch (message.type) {
    case "start":
      run(message).catch((error) => send({ type: "error", message: error.message, fatal: true }));
      break;
    case "user_message":
      prompts.push(message.text);
      promptCame();
      break;
    case "permission_response":
      answers.get(message.requestId)?.(message.result);
      answers.delete(message.requestId);
      break;
  }
});
input.on("close", () => {
  inputEnded = true;
  promptCame();
});
send({ type: "ready" });
