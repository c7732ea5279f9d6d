import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { present } from '../../lib/sharing/present.ts';
import { type Daemon, daemon } from '../../test/cluster/daemon.ts';
import { until } from '../../test/kernel/until.ts';
import { DIE_WITH_PARENT } from '../../test/netns/namespace.ts';
import { type Finished, run } from '../programs/command.ts';
import type { ClusterHost } from './network.ts';
import type { Programs } from './programs.ts';

interface MachineOptions {
  readonly host: ClusterHost;
  readonly programs: Programs;
  /** Folder of the node's files: what a real one has on its disk. */
  readonly data: string;
  /** Name of the cluster's cgroup. */
  readonly group: string;
}

/** A program of a node that a test may stop and start. */
export interface NodeDaemon {
  start(): Promise<void>;
  /** The signal goes to the program itself; resolves when it has ended. */
  stop(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  isRunning(): boolean;
  log(lines?: number): Promise<string>;
}

export interface Machine {
  /** Holds the id of the node's first process while the node is on. */
  readonly initFile: string;
  /** Makes the node's namespaces; no daemon runs then. */
  powerOn(): Promise<void>;
  /**
   * Ends everything on the node at once, pods included, and empties its kernel; its disk stays. No
   * packet tells others.
   */
  powerOff(): Promise<void>;
  /**
   * A program in all of the node's namespaces; nothing runs before its start(). It ends with the
   * node and with this process.
   */
  daemon(name: string, argv: readonly string[]): NodeDaemon;
  /** Runs a command in all of the node's namespaces to its end. */
  run(argv: readonly string[], options?: { stdin?: string }): Promise<Finished>;
  /** Starts a command there, which ends with the node and with this process. */
  spawn(argv: readonly string[]): ChildProcessWithoutNullStreams;
  /** The argument array that runs a command there. */
  command(argv: readonly string[]): string[];
}

const INIT = join(import.meta.dirname, 'node-init.sh');
/** So long the kernel may take to end the processes of a node (milliseconds). */
const ENDED = 30_000;

/** A machine without power, whose network namespace is still there. */
const SILENT = `
table inet off {
  chain input { type filter hook input priority -400; policy drop; }
  chain forward { type filter hook forward priority -400; policy drop; }
  chain output { type filter hook output priority -400; policy drop; }
}
`;

/**
 * One machine: namespaces for network, mounts, host name, IPC and processes. All hang on one
 * process (unshare --kill-child, and PR_SET_PDEATHSIG up to this one), so nothing of it survives
 * us, kill -9 included.
 */
export function machine({ host, programs, data, group }: MachineOptions): Machine {
  const { name, namespace } = host;
  const own = ['usr/bin', 'usr/sbin'].map((folder) => join(programs.debian, folder));
  const env = { ...process.env, PATH: [programs.containerd, ...own, process.env.PATH].join(':') };
  const initFile = join(data, 'init.pid');
  let holder: ChildProcess | null = null;
  let init = 0;

  const inside = (argv: readonly string[]): string[] => {
    if (init === 0) throw new Error(`node ${name} is off`);
    return ['nsenter', `--target=${init}`, '--mount', '--uts', '--ipc', '--net', '--pid', '--', ...argv];
  };

  async function powerOn(): Promise<void> {
    if (holder !== null) throw new Error(`node ${name} is on`);
    await namespace.run(['nft', '-f', '-'], { stdin: 'table inet off\ndelete table inet off\n' });
    await mkdir(data, { recursive: true });
    const unshare = ['unshare', '--mount', '--uts', '--ipc', '--pid', '--fork', '--mount-proc'];
    const first = [join(programs.debian, 'usr/bin/tini-static'), '--', 'bash', INIT, name, data, group];
    const argv = namespace.command([...unshare, '--kill-child', '--propagation', 'private', ...first]);
    const child = spawn('setpriv', [...DIE_WITH_PARENT, ...argv], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text) => {
      said += text;
    });
    const lines = createInterface({ input: child.stdout });
    const [line] = await Promise.race([once(lines, 'line'), once(child, 'exit').then(() => [])]);
    if (line !== 'ready') throw new Error(`node ${name}: its namespaces could not be made\n${said}`);
    holder = child;
    init = await onlyChild(child.pid ?? 0);
    await writeFile(initFile, String(init));
  }

  async function powerOff(): Promise<void> {
    if (holder === null) return;
    // No process that ends now says so to others.
    await namespace.run(['nft', '-f', '-'], { stdin: SILENT });
    const gone = holder.exitCode === null && holder.signalCode === null ? once(holder, 'exit') : null;
    holder.kill('SIGKILL');
    await gone;
    holder = null;
    init = 0;
    await rm(initFile, { force: true });
    await removeCgroups(`${group}/${name}`);
    await namespace.run(['nft', '-f', '-'], { stdin: `flush ruleset\n${SILENT}` });
    // A machine that is switched off does not have these.
    for (const device of ['cni0', 'flannel.1', 'flannel-v6.1', 'nodewall-egress'])
      await namespace.run(['ip', 'link', 'del', device], { anyStatus: true });
    await namespace.run(['ip', 'nexthop', 'flush']);
    for (const family of ['-4', '-6'])
      await namespace.run(['ip', family, '-batch', '-'], {
        stdin: 'rule flush\nrule add pref 32766 table main\n',
      });
  }

  return {
    initFile,
    powerOn,
    powerOff,
    command: inside,
    run: (argv, { stdin } = {}) =>
      run(inside(['setpriv', ...DIE_WITH_PARENT, ...argv]), {
        env,
        ...present({ stdin }),
      }),
    spawn(argv) {
      const [program = '', ...args] = inside(['setpriv', ...DIE_WITH_PARENT, ...argv]);
      return spawn(program, args, { env });
    },
    daemon(program, argv) {
      let current: Daemon | null = null;
      const logFile = join(data, `${program}.log`);
      const isRunning = (): boolean => current?.isRunning() === true;
      return {
        isRunning,
        async start() {
          // Made anew: the node may have other namespaces by now.
          current = daemon({
            name: `${program} on ${name}`,
            argv: inside(['setpriv', ...DIE_WITH_PARENT, ...argv]),
            logFile,
            env,
          });
          await current.start();
        },
        async stop(signal = 'SIGTERM') {
          const pid = current?.pid();
          if (pid === undefined) return;
          process.kill(await onlyChild(pid), signal);
          await until(`${program} on ${name} has ended`, async () => !isRunning(), { limit: ENDED });
        },
        log: async (lines = 40) => (await current?.log(lines)) ?? '',
      };
    },
  };
}

/** The process that one has forked, as soon as it has. */
async function onlyChild(pid: number): Promise<number> {
  let child = 0;
  await until(`process ${pid} has a child`, async () => {
    child = Number((await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ')[0]);
    return child > 0;
  });
  return child;
}

/** Removes the rest of a node or of the whole cluster, once its processes have ended. */
async function removeCgroups(group: string): Promise<void> {
  const root = '/sys/fs/cgroup';
  const hierarchies = await readdir(root);
  const roots = hierarchies.includes('cgroup.controllers')
    ? [root]
    : hierarchies.map((one) => join(root, one));
  await until(
    `cgroups ${group} are removed`,
    async () => (await Promise.all(roots.map((one) => removeTree(join(one, group))))).every(Boolean),
    { limit: ENDED },
  );
}

async function removeTree(folder: string): Promise<boolean> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    for (const entry of entries) if (entry.isDirectory()) await removeTree(join(folder, entry.name));
    await rmdir(folder);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return true;
    if (code === 'EBUSY') return false;
    throw error;
  }
}
