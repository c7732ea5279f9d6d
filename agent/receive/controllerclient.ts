import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import type { Clock } from '../apply/enforcer.ts';

/** Where the controller is, and by what it and this node are known to each other. */
export interface ControllerAddress {
  /** https://HOST:PORT. */
  readonly url: URL;
  /** Holds this node's service account token; kubelet writes another before it expires. */
  readonly tokenFile: string;
  /** Holds the certificates (PEM) of the authorities that the controller's may be signed by. */
  readonly caFile: string;
}

/** The controller can't be reached, isn't who it should be, or refused. */
export class ControllerError extends Error {
  override readonly name = 'ControllerError';
  /** Of HTTP; null where there was no answer. */
  readonly status: number | null;
  /** How long the controller asks to wait (milliseconds); null: it doesn't say. */
  readonly retryAfter: number | null;
  /** Whether the file holds another token by now: then it may be tried at once. */
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
  readonly method: 'GET' | 'PUT';
  /** Below the address, with the query. */
  readonly path: string;
  readonly body?: object;
  /** Ends it, whatever it is at. */
  readonly signal: AbortSignal;
  /** A connection of its own, which is kept for long. */
  readonly isStream?: boolean;
}

export interface ControllerClient {
  /** Settles with the head of a good answer (2xx); its body is the caller's to read. Throws ControllerError. */
  request(request: ControllerRequest): Promise<IncomingMessage>;
  close(): void;
}

/** Milliseconds to the head of an answer: name, connection, certificate, and what the controller does before it answers. */
const ANSWER_TIMEOUT = 15_000;
/** After so many milliseconds without a packet TCP asks whether the other side is still there. */
const KEEP_ALIVE_DELAY = 15_000;
/** Reports that come so soon after each other (milliseconds) have one connection. */
const IDLE_CONNECTION = 5_000;
const LONGEST_REFUSAL = 64 * 1024;

/** The token and the authorities are read for each request: both are replaced while the agent runs. */
export function controllerClient(
  address: ControllerAddress,
  userAgent: string,
  clock: Clock,
): ControllerClient {
  const shared = new Agent({ keepAlive: true, maxSockets: 1, timeout: IDLE_CONNECTION });

  async function send(wanted: ControllerRequest, token: string, ca: string): Promise<IncomingMessage> {
    const { method, path, body, signal, isStream = false } = wanted;
    const text = body === undefined ? null : JSON.stringify(body);
    const sent = httpsRequest(new URL(path, address.url), {
      method,
      ca,
      signal,
      agent: isStream ? false : shared,
      // Also where NODE_TLS_REJECT_UNAUTHORIZED says otherwise.
      rejectUnauthorized: true,
      headers: {
        authorization: `Bearer ${token}`,
        accept: 'application/json',
        'user-agent': userAgent,
        ...(text === null
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
      },
    });
    return await new Promise((resolve, reject) => {
      const cancel = clock.after(ANSWER_TIMEOUT, () =>
        sent.destroy(new Error(`no answer within ${ANSWER_TIMEOUT / 1000} s`)),
      );
      sent.on('socket', (socket) => socket.setKeepAlive(true, KEEP_ALIVE_DELAY));
      sent.once('response', (response) => {
        cancel();
        resolve(response);
      });
      // Stays: what happens to the connection later is an error of the answer too.
      sent.on('error', (error) => {
        cancel();
        reject(error);
      });
      sent.end(text ?? undefined);
    });
  }

  async function refused(response: IncomingMessage, token: string): Promise<ControllerError> {
    const { statusCode: status = 0, headers } = response;
    const seconds = Number(headers['retry-after']);
    const retryAfter = headers['retry-after'] !== undefined && seconds >= 0 ? 1000 * seconds : null;
    const reason = `${status}: ${await refusalText(response)}`;
    const hasNewToken = status === 401 && (await readToken(address.tokenFile).catch(() => token)) !== token;
    return new ControllerError(`the controller refused (${reason})${advice(status, address)}`, {
      status,
      retryAfter,
      hasNewToken,
    });
  }

  return {
    async request(wanted) {
      const [token, ca] = await Promise.all([readToken(address.tokenFile), readAuthorities(address.caFile)]);
      let response: IncomingMessage;
      try {
        response = await send(wanted, token, ca);
      } catch (error) {
        throw new ControllerError(connectionText(error as Error, address), { cause: error });
      }
      const { statusCode = 0 } = response;
      if (statusCode >= 200 && statusCode < 300) return response;
      throw await refused(response, token);
    },
    close: () => shared.destroy(),
  };
}

async function readToken(path: string): Promise<string> {
  const token = (await read(path, '--token-file')).trim();
  // What HTTP can't carry in a header would be an error of another kind.
  if (!/^[\x21-\x7e]+$/.test(token)) throw new ControllerError(`--token-file: ${path} holds no token`);
  return token;
}

async function readAuthorities(path: string): Promise<string> {
  const text = await read(path, '--ca-file');
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
  throw new ControllerError(`--ca-file: ${path} holds no certificate (PEM)`);
}

async function read(path: string, option: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new ControllerError(`${option}: ${(error as Error).message}`, { cause: error });
  }
}

/** The message of a metav1.Status, or the beginning of whatever it is. */
async function refusalText(response: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  let length = 0;
  try {
    for await (const piece of response) {
      pieces.push(piece);
      length += piece.length;
      if (length > LONGEST_REFUSAL) break;
    }
  } catch {
    // The status alone says enough.
  }
  const text = Buffer.concat(pieces).toString('utf8');
  try {
    const { message } = JSON.parse(text) as { message?: unknown };
    if (typeof message === 'string') return message;
  } catch {
    // No JSON, so not of a controller: a proxy, or another server.
  }
  return text.trim().slice(0, 200) || (response.statusMessage ?? 'no reason');
}

function advice(status: number, { tokenFile, url }: ControllerAddress): string {
  if (status === 401) {
    return `; the token in ${tokenFile} is expired, revoked or not for this controller: look at the agent's service account and the audience of the token`;
  }
  if (status === 403) {
    return `; a node may only see its own view: the token in ${tokenFile} must be of the agent's service account and bound to a pod on the Node that --node names`;
  }
  if (status === 404) return `; is the Node registered, and ${url.host} a nodewall controller?`;
  return '';
}

/** Error codes of node:tls and OpenSSL's X509_V_ERR_*. */
const UNKNOWN_AUTHORITY: ReadonlySet<string | undefined> = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_SIGNATURE_FAILURE',
]);

function connectionText(error: Error, { url, caFile }: ControllerAddress): string {
  const { code } = error as NodeJS.ErrnoException;
  if (UNKNOWN_AUTHORITY.has(code)) {
    return `${url.host}: its certificate is not signed by an authority in ${caFile}; is that file up to date, and this the controller?`;
  }
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    const what = code === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet';
    return `${url.host}: its certificate ${what}; look at the controller's certificate, and at the clock of this machine`;
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return `${url.host}: its certificate is for another name: ${error.message}; give --controller the name that the certificate has`;
  }
  if (error.name === 'AbortError') return 'ended';
  return `${url.host}: ${error.message}`;
}
