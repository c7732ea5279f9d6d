import { once } from 'node:events';
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Clock } from '../../../lib/process/clock.ts';
import { Lane } from '../../../lib/process/lane.ts';
import type { Log } from '../../../lib/process/log.ts';
import { makeStateDirectory } from '../../../lib/process/state-file.ts';
import { CniFormatError, readPluginCall } from './attachment.ts';
import type { EgressPods } from './egress-pods.ts';
import { pluginFolder, releasePlugin, requiredFile } from './plugin.ts';

/** Bytes: a runtime's configuration of a network has a few kB. */
const LONGEST = 1 << 20;
/** Milliseconds in which a caller must send its request. */
const REQUEST_WITHIN = 5_000;
/** Milliseconds until a pod must be steered; the plugin waits a little longer. */
const READY_WITHIN = 8_000;
/** Callers at a time: pods that start at the same time. */
const MOST_CALLERS = 256;
/**
 * Milliseconds after the first call for a pod that the controller does not name: the pods of the
 * controllers, and of the cluster's DNS, must start while no controller runs.
 */
const NAMED_WITHIN = 20_000;
const MOST_UNNAMED = 1_000;

/** Error codes of the CNI specification. */
const CNI = { invalid: 7, tryAgain: 11 } as const;

/** A request of nodewall-egress (bin/nodewall-egress.c): the lengths of four texts, then these. */
const HEADER = /^nodewall-egress\/1 (ADD|DEL|CHECK) (\d{1,5}) (\d{1,5}) (\d{1,5}) (\d{1,7})$/;

class Refused extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

interface PluginServerOptions {
  readonly stateDir: string;
  readonly log: Log;
  readonly clock: Pick<Clock, 'now'>;
  readonly pods: Pick<EgressPods, 'add' | 'remove' | 'isKnown' | 'isReady'>;
}

/**
 * Answers the CNI plugin nodewall-egress, by a socket of root's. While the file `required` is
 * beside it, the plugin lets no pod start without an answer, after a reboot too.
 */
export class PluginServer {
  readonly #options: PluginServerOptions;
  readonly #server: Server;
  readonly #callers = new Set<Socket>();
  /** Pods that the controller had not named, with the time of the first call. */
  readonly #unnamed = new Map<string, number>();
  #isRequired = true;
  /** Writes the file `required`, one write after another. */
  readonly #lane = new Lane();

  constructor(options: PluginServerOptions) {
    this.#options = options;
    this.#server = createServer((socket) => void this.#serve(socket));
    this.#server.maxConnections = MOST_CALLERS;
  }

  /** A failure is logged: then the plugin lets no pod start. */
  async listen(): Promise<void> {
    const { stateDir, log } = this.#options;
    const path = join(pluginFolder(stateDir), 'agent.sock');
    try {
      await makeStateDirectory(stateDir);
      await mkdir(pluginFolder(stateDir), { recursive: true, mode: 0o700 });
      await this.#writeRequired();
      // An agent that was killed left it.
      await rm(path, { force: true });
      this.#server.listen(path);
      await once(this.#server, 'listening');
      await chmod(path, 0o600);
    } catch (error) {
      log.error('cannot open the socket of the CNI plugin nodewall-egress', {
        path,
        error: (error as Error).message,
      });
    }
    this.#server.on('error', (error) => log.warn('the CNI plugin failed', { error: error.message }));
  }

  /** Whether pods may start only with an answer: false, from the moment the gate is off. */
  setRequired(isRequired: boolean): void {
    if (isRequired === this.#isRequired) return;
    this.#isRequired = isRequired;
    this.#writeRequired().catch((error: Error) => {
      const { log, stateDir } = this.#options;
      log.error('cannot tell the CNI plugin nodewall-egress whether pods need the agent', {
        path: requiredFile(stateDir),
        error: error.message,
      });
    });
  }

  #writeRequired(): Promise<void> {
    const { stateDir } = this.#options;
    return this.#lane.run(() =>
      this.#isRequired ? writeFile(requiredFile(stateDir), '', { mode: 0o600 }) : releasePlugin(stateDir),
    );
  }

  async close(): Promise<void> {
    await this.#lane.run(async () => {});
    for (const caller of this.#callers) caller.destroy();
    if (this.#server.listening) await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(socket: Socket): Promise<void> {
    const ended = new AbortController();
    this.#callers.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => {
      this.#callers.delete(socket);
      ended.abort();
    });
    try {
      await this.#answer(await readRequest(socket, ended.signal), ended.signal);
      socket.end('ok\n');
    } catch (error) {
      const code = error instanceof Refused ? error.code : CNI.invalid;
      socket.end(`error ${code} ${printable((error as Error).message)}\n`);
    }
  }

  async #answer({ command, ...call }: Request, signal: AbortSignal): Promise<void> {
    const { pods, log } = this.#options;
    const attachment = readPluginCall(call);
    // A container that is no pod.
    if (attachment === null) return;
    if (command === 'DEL') return pods.remove(attachment);
    if (command === 'CHECK') {
      if (pods.isReady(attachment)) return;
      throw new Refused(CNI.tryAgain, `pod ${attachment.pod} is not in the rules of egress gateways`);
    }
    await pods.add(attachment, AbortSignal.any([signal, AbortSignal.timeout(READY_WITHIN)]));
    const { pod } = attachment;
    const isUnnamed = !pods.isReady(attachment) && !pods.isKnown(attachment);
    if (isUnnamed && this.#isToWaitFor(pod))
      throw new Refused(CNI.tryAgain, `the controller has not named pod ${pod} of this node yet`);
    this.#unnamed.delete(pod);
    if (pods.isReady(attachment)) return;
    // It is held, so nothing leaves the wrong way; a dead gateway must not keep pods from starting.
    const message = isUnnamed
      ? 'a pod starts that the controller has not named; it is held until then'
      : 'a pod starts before its egress gateways are ready for it; it is held until they are';
    log.warn(message, { pod });
  }

  #isToWaitFor(pod: string): boolean {
    const now = this.#options.clock.now();
    const since = this.#unnamed.get(pod) ?? now;
    this.#unnamed.set(pod, since);
    const [oldest] = this.#unnamed.keys();
    if (this.#unnamed.size > MOST_UNNAMED && oldest !== undefined) this.#unnamed.delete(oldest);
    return now < since + NAMED_WITHIN;
  }
}

interface Request {
  readonly command: string;
  readonly args: string;
  readonly container: string;
  readonly interface: string;
  readonly config: string;
}

async function readRequest(socket: Socket, signal: AbortSignal): Promise<Request> {
  const late = setTimeout(() => socket.destroy(), REQUEST_WITHIN);
  let bytes = Buffer.alloc(0);
  try {
    for (;;) {
      const [chunk] = (await once(socket, 'data', { signal })) as [Buffer];
      bytes = Buffer.concat([bytes, chunk]);
      const found = toRequest(bytes);
      if (found !== null) return found;
      if (bytes.length > LONGEST) throw new CniFormatError(`the request is larger than ${LONGEST} bytes`);
    }
  } finally {
    clearTimeout(late);
  }
}

/** Null: more follows. */
function toRequest(bytes: Buffer): Request | null {
  const end = bytes.indexOf(10);
  if (end < 0 && bytes.length < 100) return null;
  const [, command = '', ...sizes] = HEADER.exec(bytes.toString('latin1', 0, end)) ?? [];
  if (command === '') throw new CniFormatError('not a request of nodewall-egress');
  let at = end + 1;
  const texts: string[] = [];
  for (const size of sizes) {
    texts.push(bytes.toString('utf8', at, at + Number(size)));
    at += Number(size);
  }
  if (bytes.length < at) return null;
  const [args = '', container = '', name = '', config = ''] = texts;
  return { command, args, container, interface: name, config };
}

/** As it may stand in JSON. */
function printable(text: string): string {
  return text.replaceAll(/[^ -~]|["\\]/g, ' ').slice(0, 500);
}
