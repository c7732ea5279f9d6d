import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { LineSplitter } from '../../lib/process/body.ts';
import type { Log } from '../../lib/process/log.ts';
import type { EndSummary, ResetConnection } from '../connections/end-connections.ts';
import type { Guard } from '../guard/guard.ts';
import type { ConnectionRecord } from '../record/record.ts';
import { fromQuery, matches, toFilter } from '../record/record-filter.ts';
import type { Established, PassOptions } from './established.ts';

/** A question of a command on this machine to the agent: one line of JSON. */
export interface FlushRequest {
  readonly isDryRun: boolean;
  /** The user. */
  readonly by: string;
  /** The Node that the agent must be of; null: any. */
  readonly node: string | null;
  /** Only connections whose records match (`toQuery`); null: all. */
  readonly only: string | null;
  /** The connections of this egress policy are meant (EgressHistory.policies); null: flush. */
  readonly egressPolicy: string | null;
  /** Guarded apply is meant; absent: it is not. */
  readonly guard?: GuardCommand;
}

/** `nodewall confirm`, and `nodewall retry` of one policy by its name, or of all. */
export type GuardCommand =
  | { readonly kind: 'confirm' }
  | { readonly kind: 'retry'; readonly policy: string | null };

/** The policies (API group/name) that were confirmed, or are tried again. */
export interface GuardAnswer {
  readonly kind: 'guard';
  readonly policies: readonly string[];
}

/** Lines of the answer: connections and progress, then one `done` or `error`. */
export type FlushAnswer =
  | { readonly kind: 'connection'; readonly record: ConnectionRecord }
  | { readonly kind: 'reset'; readonly connection: ResetConnection }
  | GuardAnswer
  | { readonly kind: 'progress'; readonly examined: number; readonly ended: number }
  | ({ readonly kind: 'done'; readonly node: string } & Omit<EndSummary, 'error'> & {
        readonly error: string | null;
      })
  | { readonly kind: 'error'; readonly message: string };

/** The socket in the state directory; that directory, and so the socket, is root's. */
export function flushSocket(stateDir: string): string {
  return join(stateDir, 'agent.sock');
}

const LONGEST_REQUEST = 4096;
/** Milliseconds in which a caller must send its request. */
const REQUEST_WITHIN = 5_000;
/** Callers at a time; their passes run one after another. */
const MOST_CALLERS = 8;

interface FlushServerOptions {
  readonly node: string;
  readonly stateDir: string;
  readonly log: Log;
  readonly established: Pick<Established, 'flush' | 'resetEgress'>;
  /** Null: guarded apply is off. */
  readonly guard: Pick<Guard, 'confirm' | 'retry'> | null;
}

/**
 * Serves `nodewall flush`, `egress reset`, `confirm` and `retry` on this machine while rules are in
 * force: the agent alone knows the whole state in force, with names, failsafe and interfaces. A
 * caller that goes away ends its pass.
 */
export class FlushServer {
  readonly #options: FlushServerOptions;
  readonly #server: Server;
  readonly #callers = new Set<Socket>();

  constructor(options: FlushServerOptions) {
    this.#options = options;
    this.#server = createServer((socket) => void this.#serve(socket));
    this.#server.maxConnections = MOST_CALLERS;
  }

  /** A failure is logged: then there is no `nodewall flush`. */
  async listen(): Promise<void> {
    const { node, stateDir, log } = this.#options;
    const path = flushSocket(stateDir);
    try {
      // An agent that was killed left it; the lock holds that there is no other agent.
      rmSync(path, { force: true });
      this.#server.listen(path);
      await once(this.#server, 'listening');
      chmodSync(path, 0o600);
    } catch (error) {
      log.warn('nodewall flush is not available: cannot open its socket in the state directory', {
        node,
        error: (error as Error).message,
      });
    }
    this.#server.on('error', (error) => log.warn('nodewall flush failed', { node, error: error.message }));
  }

  async close(): Promise<void> {
    for (const caller of this.#callers) caller.destroy();
    if (this.#server.listening) await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(socket: Socket): Promise<void> {
    const gone = new AbortController();
    this.#callers.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => {
      this.#callers.delete(socket);
      gone.abort();
    });
    try {
      await this.#answer(socket, gone.signal);
    } catch (error) {
      if (!gone.signal.aborted) await send(socket, { kind: 'error', message: (error as Error).message });
    }
    socket.end();
  }

  async #guard(command: GuardCommand, by: string): Promise<readonly string[]> {
    const { node, guard, log } = this.#options;
    if (guard === null) {
      throw new Error('guarded apply is off on this node (guard.enabled in the configuration)');
    }
    log.info(`nodewall ${command.kind}`, { node, by });
    return command.kind === 'confirm' ? await guard.confirm() : guard.retry(command.policy);
  }

  async #answer(socket: Socket, signal: AbortSignal): Promise<void> {
    const request = await readRequest(socket, signal);
    const { node, established } = this.#options;
    if (request.node !== null && request.node !== node) {
      throw new Error(`the agent here is that of Node ${node}, not of ${request.node}`);
    }
    const { by, isDryRun, egressPolicy: policy } = request;
    if (request.guard !== undefined) {
      await send(socket, { kind: 'guard', policies: await this.#guard(request.guard, by) });
      return;
    }
    if (policy !== null) {
      const ended = (connection: ResetConnection) => send(socket, { kind: 'reset', connection });
      const { error, ...summary } = await established.resetEgress({ policy, by, isDryRun, signal, ended });
      await send(socket, { kind: 'done', node, ...summary, error: error?.message ?? null });
      return;
    }
    const { error, ...summary } = await established.flush({
      cause: { reason: 'flush', by },
      isDryRun,
      ...(request.only === null ? {} : { only: toTest(request.only) }),
      signal,
      ended: (record) => send(socket, { kind: 'connection', record }),
      reset: (connection) => send(socket, { kind: 'reset', connection }),
      progress: ({ examined, ended }) => send(socket, { kind: 'progress', examined, ended }),
    });
    await send(socket, { kind: 'done', node, ...summary, error: error?.message ?? null });
  }
}

function toTest(query: string): NonNullable<PassOptions['only']> {
  // Connections that are open now have no time by which to choose.
  const filter = toFilter(fromQuery(new URLSearchParams(query)), 0);
  return (record) => matches(record, filter);
}

async function readRequest(socket: Socket, signal: AbortSignal): Promise<FlushRequest> {
  const lines = new LineSplitter(LONGEST_REQUEST);
  const late = setTimeout(() => socket.destroy(), REQUEST_WITHIN);
  try {
    for (;;) {
      const [chunk] = (await once(socket, 'data', { signal })) as [Buffer];
      const [line] = lines.push(chunk);
      if (line !== undefined) return toRequest(JSON.parse(line));
    }
  } finally {
    clearTimeout(late);
  }
}

/**
 * A request as one line. An agent that does not know `only` would end more than is meant, so
 * `isDryRun`, without which it refuses a request, is elsewhere then.
 */
export function requestLine({ only, isDryRun, ...request }: FlushRequest): string {
  const of = only === null ? { isDryRun } : { filtered: { isDryRun, only } };
  return `${JSON.stringify({ ...of, ...request })}\n`;
}

function toRequest(raw: unknown): FlushRequest {
  const { filtered, ...request } = (raw ?? {}) as Record<string, unknown>;
  const { isDryRun, by, node, egressPolicy, guard, only } = { ...request, ...Object(filtered) };
  if (typeof isDryRun !== 'boolean' || typeof by !== 'string') throw new Error('not a valid request');
  const textOr = (value: unknown): string | null => (typeof value === 'string' ? value : null);
  const command = toGuardCommand(guard);
  return {
    isDryRun,
    by,
    node: textOr(node),
    only: textOr(only),
    egressPolicy: textOr(egressPolicy),
    ...(command === null ? {} : { guard: command }),
  };
}

function toGuardCommand(raw: unknown): GuardCommand | null {
  if (raw === undefined) return null;
  const { kind, policy } = (raw ?? {}) as Record<string, unknown>;
  if (kind === 'confirm') return { kind };
  if (kind !== 'retry') throw new Error('not a valid request');
  return { kind, policy: typeof policy === 'string' ? policy : null };
}

/** Waits for a slow reader, so that nothing piles up. */
async function send(socket: Socket, answer: FlushAnswer): Promise<void> {
  if (socket.destroyed || socket.write(`${JSON.stringify(answer)}\n`)) return;
  await new Promise<void>((resolve) => {
    const go = (): void => {
      socket.off('drain', go).off('close', go);
      resolve();
    };
    socket.once('drain', go).once('close', go);
  });
}
