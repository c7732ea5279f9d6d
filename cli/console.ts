import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { KubeConfig } from '@kubernetes/client-node';
import { LONGEST_PREVIEW } from '../apis/console-documents.ts';
import { CONTROL_PLANE } from '../apis/stream.ts';
import { IMMUTABLE } from '../controller/console/static-files.ts';
import { type ApiConnection, apiConnection, messageOf } from '../controller/kubeapi/connection.ts';
import { kubeApi } from '../controller/kubeapi/kube-api.ts';
import { failure, writeAnswer } from '../controller/publish/answer.ts';
import { readBody } from '../lib/process/body.ts';
import { CommandError, EXIT, type ExitStatus, untilStopped } from '../lib/process/exit.ts';
import { clusterConfig, hasKubeconfig } from './cluster-api.ts';
import { Door, type LetIn } from './console-door.ts';
import { json, print } from './output.ts';
import { isUnregistered } from './relayed-api.ts';

const CONSOLE_API = `/apis/${CONTROL_PLANE.group}/${CONTROL_PLANE.version}`;

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
  const kubeConfig = await clusterConfig(options.kubeconfig);
  await refuseUnregistered(kubeConfig);
  const cluster = new ClusterConsole(kubeConfig);
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

/** Throws a CommandError where the API server knows no aggregated API; the pages show the rest. */
async function refuseUnregistered(kubeConfig: KubeConfig): Promise<void> {
  const api = kubeApi(kubeConfig);
  try {
    await api.request({ method: 'GET', path: CONSOLE_API });
  } catch (cause) {
    if (!isUnregistered(cause)) return;
    const message =
      "the console is served by the aggregated API, which is not registered: aggregatedAPI is false, or no controller serves; status, rules, log and the other commands ask a controller's pod";
    throw new CommandError(EXIT.refused, message, { cause });
  } finally {
    api.close();
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

/** Headers that pass; above all no credentials, no cookie, and nothing that names a user. */
const REQUEST_HEADERS = ['accept', 'accept-encoding', 'content-type'] as const;
const RESPONSE_HEADERS = [
  ...(['content-type', 'content-encoding', 'content-length', 'vary', 'retry-after', 'allow'] as const),
  ...(['content-security-policy', 'referrer-policy', 'x-content-type-options'] as const),
  ...(['cross-origin-opener-policy', 'cross-origin-resource-policy'] as const),
] as const;
const MOST_BODY = 2 * LONGEST_PREVIEW;

/**
 * Passes requests on to the API server with the credentials of a kubeconfig, and streams the
 * answers.
 */
class ClusterConsole {
  readonly #connection: ApiConnection;

  constructor(kubeConfig: KubeConfig) {
    this.#connection = apiConnection(kubeConfig);
  }

  /** The API server's origin. */
  get server(): string {
    return this.#connection.server;
  }

  async serve({ request, response, path, query }: LetIn): Promise<void> {
    const body = request.method === 'POST' ? await readBody(request, MOST_BODY) : undefined;
    if (body === null) {
      const message = `the preview has more than ${MOST_BODY} bytes`;
      return writeAnswer(request, response, { failure: failure('RequestEntityTooLarge', message) });
    }
    const over = new AbortController();
    response.once('close', () => over.abort());
    let answer: IncomingMessage;
    try {
      answer = await this.#connection.send({
        method: request.method ?? 'GET',
        path: query === '' ? path : `${path}?${query}`,
        headers: {
          ...some(request.headers, REQUEST_HEADERS),
          ...(body === undefined ? {} : { 'content-length': body.length }),
        },
        ...(body === undefined ? {} : { body: body.toString() }),
        signal: over.signal,
      });
    } catch (error) {
      if (over.signal.aborted) return;
      throw new Error(`cannot reach the API server: ${messageOf(error)}`, { cause: error });
    }
    response.writeHead(answer.statusCode ?? 502, {
      'x-content-type-options': 'nosniff',
      // The API server adds `no-cache` to what the controller says.
      'cache-control': answer.headers['cache-control']?.includes('immutable') ? IMMUTABLE : 'no-store',
      ...some(answer.headers, RESPONSE_HEADERS),
    });
    // A watch that has nothing to say yet.
    response.flushHeaders();
    // Either end may go away at any time.
    await pipeline(answer, response).catch(() => response.destroy());
  }

  close(): void {
    this.#connection.close();
  }
}

function some(headers: IncomingHttpHeaders, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = headers[name];
      return typeof value === 'string' ? [[name, value]] : [];
    }),
  );
}
