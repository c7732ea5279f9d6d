import type { IncomingMessage } from 'node:http';
import type { Destination, Destinations } from './destinations.ts';
import type { HttpsCall } from './https-call.ts';

/** The part of a request that differs between its attempts. */
export type RequestAttempt = Required<Pick<HttpsCall, 'destination' | 'connectTimeout' | 'connected'>>;

export interface DestinationFailure {
  readonly destination: Destination;
  readonly error: Error;
}

/** No destination answered. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
  /** In the order of the attempts. */
  readonly failures: readonly DestinationFailure[];

  constructor(failures: readonly DestinationFailure[]) {
    super('no destination answered', { cause: failures.at(-1)?.error });
    this.failures = failures;
  }
}

/**
 * Time limit of a TCP connection (milliseconds) while there is another destination to try, and of
 * the last one, which has the time to send a lost SYN again.
 */
const CONNECT_TIMEOUT = 1_000;
const LAST_CONNECT_TIMEOUT = 5_000;
/**
 * HTTP statuses of a controller that can't serve the request while another one may: it is behind
 * others (503), or of an earlier version and does not lead (421).
 */
const ELSEWHERE: ReadonlySet<number | undefined> = new Set([421, 503]);

/**
 * The response of the first destination that takes the connection, whatever its status. An attempt
 * that fails later is the last one: the server may have received the request.
 */
export async function firstToConnect(
  destinations: Destinations,
  call: (attempt: RequestAttempt) => Promise<IncomingMessage>,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const failures: DestinationFailure[] = [];
  const tried = destinations.inOrder();
  for (const [i, destination] of tried.entries()) {
    const connectTimeout = i === tried.length - 1 ? LAST_CONNECT_TIMEOUT : CONNECT_TIMEOUT;
    let isConnected = false;
    const connected = (): void => {
      isConnected = true;
    };
    try {
      const response = await call({ destination, connectTimeout, connected });
      if (ELSEWHERE.has(response.statusCode)) destinations.failed(destination);
      else destinations.answered(destination);
      return response;
    } catch (error) {
      destinations.failed(destination);
      failures.push({ destination, error: error as Error });
      if (isConnected || signal.aborted) break;
    }
  }
  throw new NoAnswer(failures);
}
