import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { untilStopped } from '../lib/process/stopped.ts';
import { Door, type LetIn } from './console-door.ts';
import { clusterConfig, hasKubeconfig } from './kube-config.ts';
import { json, print } from './output.ts';

interface ConsoleOptions {
  readonly kubeconfig?: string;
  readonly machine: boolean;
  readonly stateDir: string;
  readonly config?: string;
  readonly consoleFiles?: string;
  readonly port: string;
  readonly open: boolean;
  readonly output: 'text' | 'json';
}

/** Where the answers come from. */
interface Behind {
  /** For people: whose console it is. */
  readonly of: string;
  serve(letIn: LetIn): Promise<void>;
  close(): Promise<void> | void;
}

/** `nodewall console`: serves the console to a browser on this machine, until it is stopped. */
export async function consoleCommand(options: ConsoleOptions): Promise<ExitStatus> {
  const port = toPort(options.port);
  const isMachine = options.machine || !hasKubeconfig(options.kubeconfig);
  const behind = isMachine ? await machine(options) : await cluster(options);
  const door = new Door({ port, serve: (letIn) => behind.serve(letIn) });
  try {
    const url = await opened(door, options.port);
    const { of } = behind;
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
    await behind.close();
  }
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

async function cluster({ kubeconfig }: ConsoleOptions): Promise<Behind> {
  const { ClusterConsole } = await import('./console-cluster.ts');
  const console = new ClusterConsole(await clusterConfig(kubeconfig));
  return {
    of: `the cluster at ${console.server}`,
    serve: (letIn) => console.serve(letIn),
    close: () => console.close(),
  };
}

async function machine(options: ConsoleOptions): Promise<Behind> {
  const { machineConsole } = await import('./console-machine.ts');
  return await machineConsole(options);
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
