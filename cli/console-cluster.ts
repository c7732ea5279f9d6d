import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { KubeConfig } from '@kubernetes/client-node';
import { LONGEST_PREVIEW } from '../apis/console-documents.ts';
import { IMMUTABLE } from '../controller/console/static-files.ts';
import { type ApiConnection, apiConnection, messageOf } from '../controller/kubeapi/connection.ts';
import { failure, writeAnswer } from '../controller/publish/answer.ts';
import { readBody } from '../lib/process/body.ts';
import type { LetIn } from './console-door.ts';

/** Headers that pass; above all no credentials, no cookie, and nothing that names a user. */
const REQUEST_HEADERS = ['accept', 'accept-encoding', 'content-type'] as const;
const RESPONSE_HEADERS = [
  ...(['content-type', 'content-encoding', 'content-length', 'vary', 'retry-after', 'allow'] as const),
  ...(['content-security-policy', 'referrer-policy', 'x-content-type-options'] as const),
  ...(['cross-origin-opener-policy', 'cross-origin-resource-policy'] as const),
] as const;
const MOST_BODY = 2 * LONGEST_PREVIEW;

/**
 * Passes requests on to the API server with the credentials of a kubeconfig, and streams the
 * answers.
 */
export class ClusterConsole {
  readonly #connection: ApiConnection;

  constructor(kubeConfig: KubeConfig) {
    this.#connection = apiConnection(kubeConfig);
  }

  /** The API server's origin. */
  get server(): string {
    return this.#connection.server;
  }

  async serve({ request, response, path, query }: LetIn): Promise<void> {
    const body = request.method === 'POST' ? await readBody(request, MOST_BODY) : undefined;
    if (body === null) {
      const message = `the preview has more than ${MOST_BODY} bytes`;
      return writeAnswer(request, response, { failure: failure('RequestEntityTooLarge', message) });
    }
    const over = new AbortController();
    response.once('close', () => over.abort());
    let answer: IncomingMessage;
    try {
      answer = await this.#connection.send({
        method: request.method ?? 'GET',
        path: query === '' ? path : `${path}?${query}`,
        headers: {
          ...some(request.headers, REQUEST_HEADERS),
          ...(body === undefined ? {} : { 'content-length': body.length }),
        },
        ...(body === undefined ? {} : { body: body.toString() }),
        signal: over.signal,
      });
    } catch (error) {
      if (over.signal.aborted) return;
      throw new Error(`cannot reach the API server: ${messageOf(error)}`, { cause: error });
    }
    response.writeHead(answer.statusCode ?? 502, {
      'x-content-type-options': 'nosniff',
      // The API server adds `no-cache` to what the controller says.
      'cache-control': answer.headers['cache-control']?.includes('immutable') ? IMMUTABLE : 'no-store',
      ...some(answer.headers, RESPONSE_HEADERS),
    });
    // A watch that has nothing to say yet.
    response.flushHeaders();
    // Either end may go away at any time.
    await pipeline(answer, response).catch(() => response.destroy());
  }

  close(): void {
    this.#connection.close();
  }
}

function some(headers: IncomingHttpHeaders, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = headers[name];
      return typeof value === 'string' ? [[name, value]] : [];
    }),
  );
}
