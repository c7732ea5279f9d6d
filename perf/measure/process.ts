import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import type { Namespace } from '../../test/netns/namespace.ts';

export { NODEWALL } from '../../test/program.ts';

const ROOT = join(import.meta.dirname, '..', '..');

export interface Run {
  /** From starting the process until it is gone. */
  readonly milliseconds: number;
  /** Peak resident memory, megabytes (10^6 bytes). */
  readonly peak: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command to its end; throws unless it ends with 0. */
export async function measuredRun(argv: readonly string[]): Promise<Run> {
  const [command = '', ...rest] = argv;
  const start = performance.now();
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'exit').then(() => performance.now());
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const peak = await watchPeak(child);
  const milliseconds = (await ended) - start;
  const [stdout, stderr] = await output;
  if (child.exitCode !== 0) throw new Error(`${argv.join(' ')}: status ${child.exitCode}\n${stderr}`);
  return { milliseconds, peak, stdout, stderr };
}

/** The kernel keeps the highest value; the last look before the end is at most 10 ms old. */
async function watchPeak(child: ChildProcess): Promise<number> {
  let peak = 0;
  while (child.exitCode === null && child.signalCode === null) {
    peak = Math.max(peak, (await memoryOf(child.pid ?? 0)).peak);
    await pause(10);
  }
  return peak;
}

interface Memory {
  /** Resident now and at most so far, megabytes. */
  readonly now: number;
  readonly peak: number;
}

/** proc(5): VmRSS and VmHWM; zeros where the process is gone. */
export async function memoryOf(pid: number): Promise<Memory> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const megabytes = (name: string) =>
    (Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1024) / 1e6;
  return { now: megabytes('VmRSS'), peak: megabytes('VmHWM') };
}

/**
 * proc(5), /proc/PID/stat: utime and stime, in ticks of 10 ms (USER_HZ). The command's name before
 * them may hold anything.
 */
export async function processorTimeOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** The programs perf/trials/NAME.ts. */
export const TRIALS = [
  'admission',
  'admission-egress',
  'advise',
  'all-nodes',
  'apply',
  'boot',
  'cluster',
  'compile',
  'contents',
  'control-plane',
  'difference',
  'egress',
  'egress-arrivals',
  'egress-leases',
  'egress-stream',
  'established',
  'flow-impact',
  'impact',
  'interfaces',
  'members',
  'publish-clients',
  'publish-server',
  'renewal',
  'routes',
  'save',
  'scale',
  'start',
] as const;
export type TrialName = (typeof TRIALS)[number];

/** The command that runs perf/trials/NAME.ts. */
export function trialCommand(name: TrialName, input: object, nodeOptions: readonly string[] = []): string[] {
  return [
    process.execPath,
    ...nodeOptions,
    join(ROOT, 'perf', 'trials', `${name}.ts`),
    JSON.stringify(input),
  ];
}

/**
 * One trial in a process of its own: perf/trials/NAME.ts. Inside the namespace where one is given.
 * `nodeOptions` go before the program.
 */
export async function runTrial(
  name: TrialName,
  input: object,
  namespace?: Pick<Namespace, 'command'>,
  nodeOptions: readonly string[] = [],
): Promise<Record<string, number>> {
  const argv = trialCommand(name, input, nodeOptions);
  const { stdout, peak } = await measuredRun(namespace === undefined ? argv : namespace.command(argv));
  return { ...(JSON.parse(stdout) as Record<string, number>), peak };
}

/** The values of one name over several trials. */
export function column(rows: readonly Readonly<Record<string, number>>[], name: string): number[] {
  return rows.map((row) => row[name] ?? Number.NaN);
}

/** Is there a program of that name? */
export async function hasCommand(name: string): Promise<boolean> {
  const child = spawn('sh', ['-c', 'command -v "$0"', name], { stdio: 'ignore' });
  const [status] = (await once(child, 'exit')) as [number | null];
  return status === 0;
}
