import { linkSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { makeStateDirectory } from '../../lib/process/state-file.ts';
import { loadAddon } from './with-kernel.ts';

interface Warnings {
  warn(message: string, fields: object): void;
}

const UNWRITABLE: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO']);

/**
 * Allows one agent for each network namespace and state directory: two would undo each other's
 * rules. The directory's file agent.json names the process with its start time (proc(5),
 * /proc/pid/stat field 22), so that a file left behind by kill -9 is distinguished from that of a
 * living agent.
 */
export function agentLock(stateDir: string) {
  const path = join(stateDir, 'agent.json');
  /** Returns the process id of another living agent that holds the lock, else null. */
  const holder = async (): Promise<number | null> => {
    try {
      const { pid, started, namespace } = JSON.parse(await readFile(path, 'utf8'));
      const now = startTime(pid);
      const same = pid !== process.pid && now !== undefined && now === started;
      return same && namespace === networkNamespace() ? pid : null;
    } catch {
      // No file, a damaged one, or a process that has ended: the lock is free.
      return null;
    }
  };
  return {
    holder,
    /**
     * Takes the lock and returns the function that releases it. Throws CommandError if another
     * agent holds it. A disk that is full or can't be written is logged, and is no reason to
     * enforce nothing: then there is no lock.
     */
    async acquire(log: Warnings): Promise<() => void> {
      const own = { pid: process.pid, started: startTime(process.pid), namespace: networkNamespace() };
      const draft = `${path}.${process.pid}`;
      try {
        await makeStateDirectory(stateDir);
        if ((await holder()) === null) rmSync(path, { force: true });
        // link(2) is atomic and the linked file is complete: no reader sees half a lock.
        try {
          writeFileSync(draft, JSON.stringify(own), { mode: 0o600 });
          linkSync(draft, path);
        } finally {
          rmSync(draft, { force: true });
        }
      } catch (error) {
        const pid = await holder();
        if (pid === null && UNWRITABLE.has((error as NodeJS.ErrnoException).code)) {
          log.warn(
            'cannot write the state directory; enforcing without a lock: do not start a second agent',
            { stateDir, error: (error as Error).message },
          );
          return () => {};
        }
        const reason =
          pid === null
            ? (error as Error).message
            : `another agent (process ${pid}) uses ${stateDir}; stop it, or choose another directory`;
        throw new CommandError(EXIT.refused, `--state-dir: ${reason}`, { cause: error });
      }
      return () => rmSync(path, { force: true });
    },
  };
}

function networkNamespace(): string {
  return readlinkSync('/proc/self/ns/net');
}

/**
 * In clock ticks since boot; undefined for a process that has ended. The command name that precedes
 * it is in parentheses and may contain any character.
 */
function startTime(pid: number): string | undefined {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // Z, X: the process has ended, but its parent has not waited for it yet.
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
}

/**
 * The NFLOG group that an agent holds, and no rule logs to. The kernel gives a group to one socket
 * of a network namespace, only with CAP_NET_ADMIN there, and takes it back when the process ends.
 */
const LOCK_GROUP = 65_412;
/** An abstract socket, so of the network namespace too: who holds the lock says so. */
const TELLER = '\0nodewall-agent';
/** Milliseconds. */
const RETRY = 500;
const LONGEST_ANSWER = 1_000;
/** Characters. */
const MOST_TEXT = 2_000;

/** An agent's words about itself. Anybody on the machine could claim them: only for people. */
interface Holder {
  readonly pid: number;
  /** Its PID namespace: the number means something only there. */
  readonly pids: string;
  readonly host: string;
  readonly since: string;
  readonly command: string;
}

export interface NamespaceHold {
  close(): Promise<void>;
}

/**
 * Holds the network namespace: two agents in one, from whatever container and with whatever state
 * directory, would undo each other's rules. Null: another process has it. Without NFLOG, or without
 * the permission for it, there is no lock.
 */
export async function holdNamespace(): Promise<NamespaceHold | null> {
  const { Nflog, NftError } = await loadAddon();
  try {
    const group = new Nflog({ group: LOCK_GROUP, receiveBuffer: 4096 }, () => {});
    group.unref();
    const teller = tell();
    return {
      async close() {
        teller.close();
        await group.close();
      },
    };
  } catch (error) {
    if (!(error instanceof NftError)) throw error;
    return error.code === 'EBUSY' ? null : { close: async () => {} };
  }
}

/** Tries again until it is free, or the signal aborts; then null. */
export async function untilHeld(signal: AbortSignal): Promise<NamespaceHold | null> {
  while (!signal.aborted) {
    const hold = await holdNamespace();
    if (hold !== null) return hold;
    await sleep(RETRY, undefined, { signal }).catch(() => undefined);
  }
  return null;
}

/**
 * For people: the agent that holds this network namespace; null: none does, or it can't be known,
 * as without root.
 */
export async function namespaceHolder(): Promise<string | null> {
  const groups = await readFile('/proc/self/net/netfilter/nfnetlink_log', 'latin1').catch(() => '');
  const isHeld = groups.split('\n').some((line) => Number.parseInt(line, 10) === LOCK_GROUP);
  return isHeld ? toText(await ask()) : null;
}

function tell(): Server {
  const own: Holder = {
    pid: process.pid,
    pids: readlinkSync('/proc/self/ns/pid'),
    host: hostname(),
    since: new Date().toISOString(),
    command: ['nodewall', ...process.argv.slice(2)].join(' ').slice(0, MOST_TEXT / 2),
  };
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.setTimeout(LONGEST_ANSWER, () => socket.destroy());
    socket.end(JSON.stringify(own));
    socket.resume();
  });
  server.maxConnections = 8;
  // Somebody else has the name: then this agent says nothing of itself.
  server.on('error', () => {});
  server.listen(TELLER).unref();
  return server;
}

function ask(): Promise<Partial<Holder>> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(TELLER);
    const end = (): void => {
      socket.destroy();
      resolve(parsed(text));
    };
    socket.setTimeout(LONGEST_ANSWER, end).setEncoding('utf8');
    socket.on('data', (more: string) => {
      text += more;
      if (text.length > MOST_TEXT) end();
    });
    socket.on('end', end).on('error', end);
  });
}

function parsed(text: string): Partial<Holder> {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

function toText({ pid, pids, host, since, command }: Partial<Holder>): string {
  if (!Number.isInteger(pid)) return 'a process that does not say which';
  const where = pids === readlinkSync('/proc/self/ns/pid') ? '' : ' of another container or of the host';
  return `process ${pid}${where}, host ${plain(host)}, since ${plain(since)}, started as ${plain(command)}`;
}

function plain(value: unknown): string {
  return JSON.stringify(
    String(value)
      .slice(0, 300)
      .replace(/[^\x20-\x7e]/g, '?'),
  );
}
