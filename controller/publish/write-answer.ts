import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Answer } from './answer.ts';
import { toStatus } from './failure.ts';

/** Writes an answer that is no stream. */
export function writeAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  answer: Exclude<Answer, { readonly streaming: true }>,
): void {
  if ('text' in answer) write(response, answer);
  else if ('body' in answer) writeJson(response, answer.code, answer.body);
  else {
    const { code, headers = {} } = answer.failure;
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    // Doesn't wait for the rest of a body that is not needed.
    // A client without credentials has to pay for a handshake with each request.
    if (!request.complete || code === 401) response.setHeader('connection', 'close');
    writeJson(response, code, toStatus(answer.failure));
  }
}

function writeJson(response: ServerResponse, code: number, body: object | null): void {
  if (body === null) response.writeHead(code).end();
  else write(response, { code, text: `${JSON.stringify(body)}\n`, type: 'application/json' });
}

function write(
  response: ServerResponse,
  { code, text, type, headers }: Extract<Answer, { readonly text: unknown }>,
): void {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  // No browser takes an answer for something else than it says.
  const fixed = { 'x-content-type-options': 'nosniff', 'content-length': bytes.length };
  response.writeHead(code, { ...headers, 'content-type': type, ...fixed }).end(bytes);
}
