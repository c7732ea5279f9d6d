import type { IncomingMessage, ServerResponse } from 'node:http';
import { readBody } from '../../lib/process/body.ts';

/** An error as a meta/v1 Status of the Kubernetes API. */
export interface Failure {
  readonly code: number;
  readonly reason: FailureReason;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

type FailureReason =
  | 'BadRequest'
  | 'Unauthorized'
  | 'Forbidden'
  | 'NotFound'
  | 'MethodNotAllowed'
  | 'RequestEntityTooLarge'
  | 'UnsupportedMediaType'
  | 'Invalid'
  | 'TooManyRequests'
  | 'InternalError'
  | 'ServiceUnavailable';

const CODES: Readonly<Record<FailureReason, number>> = {
  BadRequest: 400,
  Unauthorized: 401,
  Forbidden: 403,
  NotFound: 404,
  MethodNotAllowed: 405,
  RequestEntityTooLarge: 413,
  UnsupportedMediaType: 415,
  Invalid: 422,
  TooManyRequests: 429,
  InternalError: 500,
  ServiceUnavailable: 503,
};

export function failure(
  reason: FailureReason,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Failure {
  return { code: CODES[reason], reason, message, headers };
}

export function toStatus({ code, reason, message }: Failure): object {
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code };
}

/** The result of a request; `streaming`: the stream now writes the response. */
export type Answer =
  | { readonly failure: Failure }
  | { readonly code: number; readonly body: object | null }
  /** Not JSON, or JSON as text. */
  | {
      readonly code: number;
      readonly text: string | Buffer;
      readonly type: string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  | { readonly code: number; readonly streaming: true };

export function refused(...args: Parameters<typeof failure>): { readonly failure: Failure } {
  return { failure: failure(...args) };
}

export function unavailable(message: string): { readonly failure: Failure } {
  return refused('ServiceUnavailable', message, { 'retry-after': '1' });
}

export function notYet(): Answer {
  return unavailable('this controller has not published any state yet; retry later');
}

export function tooMany(message: string): Answer {
  return refused('TooManyRequests', message, { 'retry-after': '1' });
}

export function noNode(name: string): Answer {
  return refused('NotFound', `there is no Node ${name}`);
}

/** The value of a JSON body of at most `most` bytes; else the answer that refuses it. */
export async function jsonBody(
  request: IncomingMessage,
  most: number,
  what: string,
): Promise<{ readonly json: unknown } | { readonly failure: Failure }> {
  const { 'content-type': type = '', 'content-length': length = 0 } = request.headers;
  if (!/^application\/json(?:\s*;|\s*$)/i.test(type))
    return refused('UnsupportedMediaType', `${what} must be application/json`);
  const body = Number(length) > most ? null : await readBody(request, most);
  if (body === null) return refused('RequestEntityTooLarge', `${what} has more than ${most} bytes`);
  try {
    return { json: JSON.parse(body.toString()) };
  } catch (error) {
    return refused('BadRequest', `${what} is not valid JSON: ${(error as Error).message}`);
  }
}

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
