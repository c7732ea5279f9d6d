/**
 * Requests to the aggregated API, with addresses relative to the page: the browser has no
 * credentials of its own, whoever serves the page adds them.
 */

/** An answer that is none: `status` 0 where no server answered. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** Milliseconds; a document is of a second at most, a preview of a few. */
const PATIENCE = 30_000;

/** Reads a JSON document. Rejects with an ApiError. */
export async function getDocument<T>(path: string, signal: AbortSignal): Promise<T> {
  return await answer<T>(path, { signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE)]) });
}

/** Sends a JSON document, and reads one. Rejects with an ApiError. */
export async function postDocument<T>(path: string, body: object, signal: AbortSignal): Promise<T> {
  return await answer<T>(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE)]),
  });
}

/** Opens a stream. Rejects with an ApiError. */
export async function openStream(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const { body } = await send(path, { signal });
  if (body === null) throw new ApiError(0, 'the answer has no content');
  return body;
}

async function answer<T>(path: string, options: RequestInit): Promise<T> {
  const response = await send(path, options);
  try {
    return (await response.json()) as T;
  } catch (error) {
    throw new ApiError(response.status, 'the answer is not valid JSON', { cause: error });
  }
}

async function send(path: string, options: RequestInit): Promise<Response> {
  const response = await fetch(path, { cache: 'no-store', credentials: 'same-origin', ...options }).catch(
    (error: unknown) => {
      throw unanswered(error);
    },
  );
  if (!response.ok) throw new ApiError(response.status, await refusal(response));
  return response;
}

function unanswered(error: unknown): unknown {
  const { name } = error as Error;
  if (name === 'AbortError') return error;
  const message = name === 'TimeoutError' ? `no answer within ${PATIENCE / 1000} s` : 'no server answers';
  return new ApiError(0, message, { cause: error });
}

/** The message of a Kubernetes Status, or what there is in its place. */
async function refusal(response: Response): Promise<string> {
  const text = await response.text().catch(() => '');
  try {
    const { message } = JSON.parse(text) as { readonly message?: unknown };
    if (typeof message === 'string' && message !== '') return message;
  } catch {
    // A proxy's text, which says less than its status.
  }
  return `${response.status} ${response.statusText}`.trim();
}
