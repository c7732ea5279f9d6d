import { linkSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeStateDirectory } from '../agent/receive/statefile.ts';
import { CommandError, EXIT } from './exit.ts';

/**
 * One agent for each network namespace and state directory: two would undo each other's rules. The file names the process with its start time
 * (proc(5), /proc/pid/stat field 22), so that one left behind by kill -9 is told from a living agent.
 */
export interface AgentLock {
  /** Process id of the living agent that holds it, else null. */
  holder(): Promise<number | null>;
  /** Throws where another agent holds it. Returns what gives it back. */
  take(): Promise<() => void>;
}

export function agentLock(stateDir: string): AgentLock {
  const path = join(stateDir, 'agent.json');
  const holder = async (): Promise<number | null> => {
    try {
      const { pid, started, namespace } = JSON.parse(await readFile(path, 'utf8'));
      const same = pid !== process.pid && startTime(pid) === started && namespace === networkNamespace();
      return same ? pid : null;
    } catch {
      // No file, a damaged one, or a process that is gone: nobody holds it.
      return null;
    }
  };
  return {
    holder,
    async take() {
      const own = { pid: process.pid, started: startTime(process.pid), namespace: networkNamespace() };
      const draft = `${path}.${process.pid}`;
      try {
        await makeStateDirectory(stateDir);
        if ((await holder()) === null) rmSync(path, { force: true });
        // link(2) is all or nothing, and what it makes is complete: nobody reads half a lock.
        writeFileSync(draft, JSON.stringify(own), { mode: 0o600 });
        try {
          linkSync(draft, path);
        } finally {
          rmSync(draft);
        }
      } catch (error) {
        const pid = await holder();
        const reason =
          pid === null
            ? (error as Error).message
            : `another agent (process ${pid}) uses ${stateDir}; stop it, or give another`;
        throw new CommandError(EXIT.refused, `--state-dir: ${reason}`, { cause: error });
      }
      return () => rmSync(path, { force: true });
    },
  };
}

function networkNamespace(): string {
  return readlinkSync('/proc/self/ns/net');
}

/** In clock ticks since boot. The command name before it is in parentheses and may hold anything. */
function startTime(pid: number): string | undefined {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
}
