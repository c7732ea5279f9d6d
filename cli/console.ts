import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { untilStopped } from '../lib/process/stopped.ts';
import { Door } from './console-door.ts';
import { clusterConfig, hasKubeconfig } from './kube-config.ts';
import { json, print } from './output.ts';

interface ConsoleOptions {
  readonly kubeconfig?: string;
  readonly port: string;
  readonly open: boolean;
  readonly output: 'text' | 'json';
}

/** Commands that answer on a machine without a cluster. */
export const MACHINE_QUESTIONS: readonly (readonly [command: string, question: string])[] = [
  ['check', 'Is everything set up right?'],
  ['rules', 'What is in force, and what did each rule match?'],
  ['top', 'What is dropped right now, by which rule?'],
  ['log', 'Who was denied? With --audit: whom would Audit policies deny?'],
  ['flows', 'Who connects to whom?'],
  ['explain', 'Is it the firewall? Which rule of which policy?'],
  ['impact', 'Would a change deny anything that was seen?'],
  ['lint', 'Which rules are for nothing?'],
  ['undo', 'Which ways back are there?'],
];

/** `nodewall console`: serves the console to a browser on this machine, until it is stopped. */
export async function consoleCommand(options: ConsoleOptions): Promise<ExitStatus> {
  const port = toPort(options.port);
  if (!hasKubeconfig(options.kubeconfig)) throw new CommandError(EXIT.usage, noCluster());
  const { ClusterConsole } = await import('./console-cluster.ts');
  const cluster = new ClusterConsole(await clusterConfig(options.kubeconfig));
  const door = new Door({ port, serve: (letIn) => cluster.serve(letIn) });
  try {
    const url = await opened(door, options.port);
    const of = `the cluster at ${cluster.server}`;
    if (options.output === 'json') await print(json({ url, of }));
    else
      await print(
        `The console of ${of}, until Ctrl-C; whoever has this URL reads with your rights:\n${url}\n`,
      );
    const page = options.open ? await openBrowser(url) : null;
    await untilStopped();
    if (page !== null) await rm(page, { recursive: true, force: true });
    return EXIT.done;
  } finally {
    await door.close();
    cluster.close();
  }
}

function noCluster(): string {
  const lines = MACHINE_QUESTIONS.map(
    ([command, question]) => `  ${`nodewall ${command}`.padEnd(20)}${question}`,
  );
  return `there is no kubeconfig, and the console is that of a cluster: give --kubeconfig FILE, or set KUBECONFIG.
On a machine without a cluster these commands answer, as root:
${lines.join('\n')}`;
}

async function opened(door: Door, port: string): Promise<string> {
  try {
    return await door.open();
  } catch (cause) {
    throw new CommandError(
      EXIT.refused,
      `--port: cannot listen on 127.0.0.1:${port}: ${(cause as Error).message}`,
      {
        cause,
      },
    );
  }
}

function toPort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new CommandError(
    EXIT.usage,
    `--port: ${JSON.stringify(text)}: must be a port, or 0 for any free one`,
  );
}

const OPENERS: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  darwin: ['open'],
  win32: ['cmd', '/c', 'start', ''],
};

/**
 * Opens a file that leads to the URL: arguments of programs are seen by all users of a machine.
 * Returns its folder, which only this user may read.
 */
async function openBrowser(url: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-console-'));
  const file = join(folder, 'console.html');
  const page = `<!doctype html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url=${url}"><a href="${url}">nodewall</a>\n`;
  await writeFile(file, page, { mode: 0o600 });
  const [program = 'xdg-open', ...args] = OPENERS[process.platform] ?? ['xdg-open'];
  const child = spawn(program, [...args, file], { stdio: 'ignore', detached: true });
  const failed = once(child, 'error').then(([error]) => error as Error);
  const started = once(child, 'spawn').then(() => null);
  const error = await Promise.race([failed, started]).catch((cause: unknown) => cause as Error);
  if (error !== null)
    process.stderr.write(`--open: cannot start ${program}: ${error.message}; open the URL yourself\n`);
  child.unref();
  return folder;
}
