import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import type { OverviewLine } from '../../apis/console.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';
import { type Namespace, relay } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';

export const CONSOLE_API = `/apis/${CONTROL_PLANE.group}/${CONTROL_PLANE.version}`;

interface DoorAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

interface Asking {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly body?: string;
  /** The whole path; else it is behind the secret. */
  readonly whole?: string;
}

/** A running `nodewall console`, and a client that reaches it as a browser of its machine does. */
export interface RunningDoor {
  /** As it was printed. */
  readonly url: string;
  /** The secret part of the path: `/…`. */
  readonly prefix: string;
  readonly host: string;
  /** By which it is reached from outside of its namespace. */
  readonly socketPath: string;
  ask(path: string, asking?: Asking): Promise<DoorAnswer>;
  /** The lines of a watch, as they come. */
  watch(path: string): Promise<DoorWatch>;
  /** By SIGINT; returns the exit status. */
  end(): Promise<number | null>;
}

export interface DoorWatch {
  readonly lines: AsyncIterableIterator<OverviewLine>;
  close(): void;
}

/** @param folder for the socket by which it is reached from outside of the namespace */
export async function startDoor(
  inside: Namespace,
  folder: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<RunningDoor> {
  const child = inside.spawn([NODEWALL, 'console', '-o', 'json', ...args], { env });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    said += piece;
  });
  const ended = once(child, 'close') as Promise<[number | null]>;
  let printed = '';
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      printed += piece;
      if (printed.endsWith('}\n')) resolve(JSON.parse(printed).url);
    });
    void ended.then(([code]) => reject(new Error(`nodewall console ended with ${code}: ${said}`)));
  });
  const { host, port, pathname } = new URL(url);
  const prefix = `/${pathname.split('/')[1]}`;
  const socketPath = join(folder, `door-${port}.socket`);
  await relay(inside, { path: socketPath }, { host: '127.0.0.1', port: Number(port) });
  const answerTo = async (path: string, { method = 'GET', headers, body, whole }: Asking) => {
    const outgoing = request({
      socketPath,
      agent: false,
      method,
      path: whole ?? `${prefix}${path}`,
      setHost: false,
      headers: { host, ...headers },
    });
    // After an answer the rest of a long body may not be read.
    outgoing.on('error', () => {});
    outgoing.end(body);
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
    return answer;
  };
  return {
    url,
    prefix,
    host,
    socketPath,
    async ask(path, asking = {}) {
      const answer = await answerTo(path, asking);
      return { status: answer.statusCode ?? 0, headers: answer.headers, text: await text(answer) };
    },
    async watch(path) {
      const answer = await answerTo(path, {});
      if (answer.statusCode !== 200) throw new Error(`${answer.statusCode}: ${await text(answer)}`);
      return { lines: linesOf(answer), close: () => void answer.destroy() };
    },
    async end() {
      child.kill('SIGINT');
      return (await ended)[0];
    },
  };
}

async function* linesOf(answer: IncomingMessage): AsyncIterableIterator<OverviewLine> {
  for await (const line of createInterface({ input: answer })) if (line !== '') yield JSON.parse(line);
}
