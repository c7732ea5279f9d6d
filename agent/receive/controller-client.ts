import type { IncomingMessage } from 'node:http';
import { Agent } from 'node:https';
import type { LookupFunction } from 'node:net';
import { type AgentCall, pathOf } from '../../apis/calls.ts';
import { type Clock, pause } from '../../lib/process/clock.ts';
import { present } from '../../lib/sharing/present.ts';
import { type Destination, Destinations, destinationOf, toText } from './destinations.ts';
import {
  type Authorities,
  bodyText,
  type HttpsCall,
  httpsCall,
  isOfUnknownAuthority,
  readToken,
  refusalText,
} from './https-call.ts';

/** The address of the controller, and the credentials of both sides. */
interface ControllerAddress {
  /** https://HOST:PORT. */
  readonly url: URL;
  /** File with this node's service account token; kubelet replaces it before it expires. */
  readonly tokenFile: string;
  readonly authorities: Authorities;
  /** Default: the system's resolver. */
  readonly lookup?: LookupFunction;
  /**
   * The controllers themselves, as an authenticated controller gave them: tried where the host of
   * `url` does not answer. Default: none.
   */
  readonly replicas?: () => readonly Destination[];
  /** Offered to the controller (ALPN); default: those of HTTP. */
  readonly protocols?: readonly string[];
}

/** The controller can't be reached, fails authentication, or refused the request. */
export class ControllerError extends Error {
  override readonly name = 'ControllerError';
  /** The HTTP status; null if there was no answer. */
  readonly status: number | null;
  /** The wait that the controller asks for with Retry-After (milliseconds); null: none. */
  readonly retryAfter: number | null;
  /** Whether the file holds a different token by now: then a retry may follow at once. */
  readonly hasNewToken: boolean;

  constructor(
    message: string,
    { status = null, retryAfter = null, hasNewToken = false, cause }: Refusal = {},
  ) {
    super(message, { cause });
    this.status = status;
    this.retryAfter = retryAfter;
    this.hasNewToken = hasNewToken;
  }
}

interface Refusal {
  readonly status?: number | null;
  readonly retryAfter?: number | null;
  readonly hasNewToken?: boolean;
  readonly cause?: unknown;
}

export interface ControllerRequest {
  readonly method: 'GET' | 'POST' | 'PUT';
  /** Relative to the controller's address, with the query. */
  readonly path: string;
  readonly body?: object;
  /** Aborts the request in any phase. */
  readonly signal: AbortSignal;
  /** Uses a separate long-lived connection. */
  readonly isStream?: boolean;
}

export interface ControllerClient {
  /**
   * Resolves with the head of a successful response (2xx); the caller reads the body. Throws
   * ControllerError.
   */
  request(request: ControllerRequest): Promise<IncomingMessage>;
  close(): void;
}

/** Reports that follow each other within this time share a connection (milliseconds). */
const IDLE_CONNECTION = 5_000;
/**
 * HTTP status 421 (RFC 9110, section 15.5.20): this replica doesn't lead, and another connection
 * may reach the one that does.
 */
const MISDIRECTED = 421;
/**
 * Wait before each such further connection (milliseconds); after the last one the request fails,
 * and the caller backs off as after any failure.
 */
const ELSEWHERE = [0, 100, 200, 400, 800] as const;

/**
 * Tries one destination after the other until one takes the connection. Reads the token and the
 * authorities for each request, because both are replaced while the agent runs.
 * @param random returns numbers from 0 to 1
 */
export function controllerClient(
  address: ControllerAddress,
  userAgent: string,
  clock: Clock,
  random: () => number,
): ControllerClient {
  const { replicas = () => [], lookup, protocols } = address;
  const alpn = protocols === undefined ? {} : { ALPNProtocols: [...protocols] };
  const shared = new Agent({ keepAlive: true, maxSockets: 1, timeout: IDLE_CONNECTION, ...alpn });
  const destinations = new Destinations({
    service: destinationOf(address.url),
    replicas,
    clock,
    random,
  });

  async function refused(response: IncomingMessage, token: string): Promise<ControllerError> {
    const { statusCode: status = 0, headers } = response;
    const seconds = Number(headers['retry-after']);
    const retryAfter = headers['retry-after'] !== undefined && seconds >= 0 ? 1000 * seconds : null;
    const reason = `${status}: ${await refusalText(response)}`;
    const hasNewToken =
      status === 401 && (await readToken(address.tokenFile, '--token-file').catch(() => token)) !== token;
    return new ControllerError(`the controller refused (${reason})${advice(status, address)}`, {
      status,
      retryAfter,
      hasNewToken,
    });
  }

  async function requestOnce(wanted: ControllerRequest): Promise<IncomingMessage> {
    const { method, path, body, signal, isStream = false } = wanted;
    const [token, authorities] = await credentials(address);
    const how = present({ body, lookup });
    const call = { method, url: new URL(path, address.url), token, authorities, userAgent, signal, ...how };
    const agent = isStream ? false : shared;
    const ask = (attempt: RequestAttempt) => httpsCall({ ...call, ...attempt, agent }, clock);
    let response: IncomingMessage;
    try {
      response = await firstToConnect(destinations, ask, signal);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      if (error.failures.some((one) => isOfUnknownAuthority(one.error))) address.authorities.refused();
      throw new ControllerError(failuresText(error.failures, address), { cause: error });
    }
    const { statusCode = 0 } = response;
    if (statusCode >= 200 && statusCode < 300) return response;
    throw await refused(response, token);
  }

  return {
    async request(wanted) {
      for (const wait of ELSEWHERE) {
        try {
          return await requestOnce(wanted);
        } catch (error) {
          if (!(error instanceof ControllerError) || error.status !== MISDIRECTED) throw error;
          await pause(clock, wait * (0.5 + random() / 2), wanted.signal);
        }
      }
      return await requestOnce(wanted);
    },
    close: () => shared.destroy(),
  };
}

async function credentials({ tokenFile, authorities }: ControllerAddress): Promise<[string, string]> {
  try {
    return await Promise.all([readToken(tokenFile, '--token-file'), authorities.read()]);
  } catch (error) {
    throw new ControllerError((error as Error).message, { cause: error });
  }
}

function advice(status: number, { tokenFile, url }: ControllerAddress): string {
  if (status === 401) {
    return `; the token in ${tokenFile} is expired, revoked or not for this controller: was the ServiceAccount made again? Restart the pod; else check the token's audience`;
  }
  if (status === 403) {
    return `; an agent may read the view of its own node only: the token in ${tokenFile} must be of the agent's service account and bound to a pod on the Node of --node`;
  }
  if (status === 404) return `; check that the Node exists and that ${url.host} is a nodewall controller`;
  return '';
}

/** In an order that stays the same over attempts: the log says an error once. */
function failuresText(failures: readonly DestinationFailure[], address: ControllerAddress): string {
  const service = toText(destinationOf(address.url));
  return failures
    .map(({ destination, error }) => ({ host: toText(destination), error }))
    .sort((a, b) => Number(b.host === service) - Number(a.host === service) || (a.host < b.host ? -1 : 1))
    .map(({ host, error }) => failureText(error, host === service ? address.url.host : host, address))
    .join('; ');
}

function failureText(error: Error, host: string, { authorities }: ControllerAddress): string {
  const { code } = error as NodeJS.ErrnoException;
  if (isOfUnknownAuthority(error)) {
    return `${host}: its certificate is not signed by an authority in ${authorities.origin}; check that the authorities are up to date and that this is the controller`;
  }
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    const what = code === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet';
    return `${host}: its certificate ${what}; check the controller's certificate and the clock of this machine`;
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return `${host}: its certificate is for another name: ${error.message}; set --controller to a name in the certificate`;
  }
  if (error.name === 'AbortError') return 'ended';
  // An AggregateError of node:net, for a name with several addresses, has no message.
  return `${host}: ${error.message || code}`;
}

export interface Caller {
  readonly node: string;
  readonly client: ControllerClient;
  readonly clock: Clock;
}

interface CallOptions {
  /** Aborts the call in any phase; absent: nothing does but its patience. */
  readonly signal?: AbortSignal;
  /** On a connection of its own: reports do not wait for it. */
  readonly isStream?: boolean;
  /** Milliseconds; absent: the call's. */
  readonly patience?: number | null;
}

/**
 * Makes a call about this node. Throws ControllerError, and an Error if there is no valid answer in
 * time.
 */
export async function callController<Request extends object, Answer>(
  { node, client, clock }: Caller,
  call: AgentCall<Request, Answer>,
  body: Request,
  { signal, isStream = false, patience = call.patience }: CallOptions = {},
): Promise<Answer> {
  const late = new AbortController();
  const cancel = patience === null ? () => {} : clock.after(patience, () => late.abort());
  const signals = signal === undefined ? [late.signal] : [signal, late.signal];
  try {
    const response = await client.request({
      method: call.method,
      path: pathOf(call, node),
      body,
      signal: AbortSignal.any(signals),
      isStream,
    });
    if (call.mostAnswer > 0) return answerOf(call, await bodyText(response, call.mostAnswer), body);
    response.resume();
    return call.parseAnswer(undefined, body);
  } catch (error) {
    if (late.signal.aborted) throw new Error(`no answer in ${Number(patience) / 1000} s`, { cause: error });
    throw error;
  } finally {
    cancel();
  }
}

function answerOf<Request, Answer>(call: AgentCall<Request, Answer>, text: string, body: Request): Answer {
  try {
    return call.parseAnswer(JSON.parse(text), body);
  } catch (error) {
    throw new Error(`the controller's answer is not valid: ${(error as Error).message}`, { cause: error });
  }
}

/** The part of a request that differs between its attempts. */
export type RequestAttempt = Required<Pick<HttpsCall, 'destination' | 'connectTimeout' | 'connected'>>;

interface DestinationFailure {
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
const SERVED_ELSEWHERE: ReadonlySet<number | undefined> = new Set([421, 503]);

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
      if (SERVED_ELSEWHERE.has(response.statusCode)) destinations.failed(destination);
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
