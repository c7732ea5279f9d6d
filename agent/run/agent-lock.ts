import { linkSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { makeStateDirectory } from '../../lib/process/state-file.ts';

/**
 * Allows one agent for each network namespace and state directory: two would undo each other's
 * rules. The file names the process with its start time (proc(5), /proc/pid/stat field 22), so that
 * a file left behind by kill -9 is distinguished from that of a living agent.
 */
export interface AgentLock {
  /** Returns the process id of another living agent that holds the lock, else null. */
  holder(): Promise<number | null>;
  /**
   * Takes the lock and returns the function that releases it. Throws CommandError if another agent
   * holds it. A disk that is full or can't be written is logged, and is no reason to enforce
   * nothing: then there is no lock.
   */
  acquire(log: Warnings): Promise<() => void>;
}

interface Warnings {
  warn(message: string, fields: object): void;
}

const UNWRITABLE: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO']);

/** The lock of a state directory, in its file agent.json. */
export function agentLock(stateDir: string): AgentLock {
  const path = join(stateDir, 'agent.json');
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
    async acquire(log) {
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
