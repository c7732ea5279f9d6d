import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { CONTROLLER_ACCOUNT } from '../apis/control-plane.ts';
import { CONTROL_PLANE } from '../apis/stream.ts';
import type { KubeApi, KubeRequest } from '../controller/kubeapi/kube-api.ts';
import { isKubeError, KubeError } from '../controller/kubeapi/kube-error.ts';

/** Paths that go by a pod of the controllers where the aggregated API is off. */
export const RELAYED = `/apis/${CONTROL_PLANE.group}/`;

/** A request, as a line of JSON. */
export interface RelayLine extends Pick<KubeRequest, 'path' | 'query' | 'timeout'> {
  readonly id: number;
}

/** `status` and `reason` as KubeError has them. */
interface RelayedError {
  readonly message: string;
  readonly status: number;
  readonly reason: string;
}

/** Its answer. */
export interface RelayAnswer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: RelayedError;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: KubeError): void;
}

/** Milliseconds that a command in a pod takes to start. */
const START = 20_000;

/**
 * The API server's requests, of which those for the aggregated API go by `nodewall relay` where
 * that is not registered: by `kubectl exec` in a controller's pod, with the caller's own right to
 * it; and of a command that runs in a pod itself, there.
 */
export class RelayedApi {
  readonly #request: KubeApi;
  readonly #kubeconfig: string | undefined;
  readonly #waiting = new Map<number, Waiting>();
  #child: ChildProcess | null = null;
  #isOff = false;
  #last = 0;

  /** @param kubeconfig undefined: the caller's account is that of its pod */
  constructor(request: KubeApi, kubeconfig: string | undefined) {
    this.#request = request;
    this.#kubeconfig = kubeconfig;
  }

  /** Throws KubeError. */
  readonly request: KubeApi = async <T>(wanted: KubeRequest): Promise<T> => {
    if (wanted.method !== 'GET' || !wanted.path.startsWith(RELAYED)) return await this.#request<T>(wanted);
    if (!this.#isOff) {
      try {
        return await this.#request<T>(wanted);
      } catch (error) {
        if (!isUnregistered(error)) throw error;
        this.#isOff = true;
      }
    }
    return (await this.#relayed(wanted)) as T;
  };

  close(): void {
    this.#child?.stdin?.end();
  }

  async #relayed({ path, query, timeout, signal }: KubeRequest): Promise<unknown> {
    const id = ++this.#last;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#waiting.set(id, { resolve, reject });
    const late = AbortSignal.timeout((timeout ?? 0) + START);
    const over = signal === undefined ? late : AbortSignal.any([late, signal]);
    const fail = (): void => reject(this.#failed(`no answer to GET ${path} in time`, 'Timeout'));
    if (over.aborted) fail();
    over.addEventListener('abort', fail);
    this.#child ??= this.#start();
    this.#child.stdin?.write(`${JSON.stringify({ id, path, query, timeout })}\n`);
    try {
      return await promise;
    } finally {
      over.removeEventListener('abort', fail);
      this.#waiting.delete(id);
    }
  }

  #start(): ChildProcess {
    const child = this.#spawn();
    let said = '';
    child.stderr.on('data', (text) => {
      said = `${said}${text}`.slice(-1000);
    });
    // Its end says more than a write that fails.
    child.stdin.on('error', () => {});
    const end = (why: string): void => {
      this.#child = null;
      for (const { reject } of this.#waiting.values()) reject(this.#failed(why, 'Unreachable'));
    };
    once(child, 'close').then(
      () => end(said.trim().replaceAll('\n', '; ')),
      (error: Error) => end(error.message),
    );
    createInterface({ input: child.stdout }).on('line', (line) => this.#receive(line));
    return child;
  }

  #spawn(): ChildProcessWithoutNullStreams {
    const [, program = ''] = process.argv;
    if (this.#kubeconfig === undefined) return spawn(process.execPath, [program, 'relay']);
    const { namespace, name } = CONTROLLER_ACCOUNT;
    return spawn('kubectl', [
      ...['--kubeconfig', this.#kubeconfig, '--namespace', namespace, 'exec', '-i', `deployment/${name}`],
      ...['-c', 'controller', '--', 'nodewall', 'relay'],
    ]);
  }

  #failed(why: string, reason: string): KubeError {
    const inPlace =
      this.#kubeconfig === undefined
        ? 'the controllers do not answer in its place'
        : `a controller's pod does not answer in its place by kubectl exec, which needs the right to create pods/exec in ${CONTROLLER_ACCOUNT.namespace}`;
    return new KubeError(
      `the aggregated API is not registered (aggregatedAPI is false, or no controller serves), and ${inPlace}: ${why}`,
      { reason },
    );
  }

  /** A line that is no answer, as a wrapper of kubectl may print, is passed over. */
  #receive(line: string): void {
    const answer = parsed(line);
    if (answer === null) return;
    const { id, value, error } = answer;
    const waiting = this.#waiting.get(id);
    if (error === undefined) waiting?.resolve(value);
    else waiting?.reject(new KubeError(error.message, error));
  }
}

/**
 * Whether the API server knows no such API: its 404 then is no Status, and that of a controller is
 * one.
 */
export function isUnregistered(error: unknown): boolean {
  return isKubeError(error, 'NotFound') && error.message.startsWith('404 page not found');
}

/** Null where it is not JSON of an answer's form. */
function parsed(line: string): RelayAnswer | null {
  try {
    const answer = JSON.parse(line);
    return typeof answer?.id === 'number' ? answer : null;
  } catch {
    return null;
  }
}
