/** Connections that stay open between namespaces, and whether they still carry data. */
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Namespace } from '../netns/namespace.ts';
import { probeProgram } from '../probe/probe.ts';

export interface Call {
  readonly name: string;
  readonly host: string;
  readonly port: number;
  readonly protocol?: 'tcp' | 'udp';
}

/** Sends by itself on each TCP port, every 20 ms. */
const CHATTY = `
const { createServer } = require('node:net');
const ports = JSON.parse(process.argv[1]);
let left = ports.length;
for (const port of ports) {
  const server = createServer((socket) => {
    const timer = setInterval(() => socket.write('tick'), 20);
    socket.on('error', () => {}).on('close', () => clearInterval(timer)).resume();
  });
  server.listen(port, '::', () => --left || console.log('up'));
}`;

/**
 * Opens the connections; then, for each line of input, prints which ones answer: all, or those that
 * do until 400 ms after the first answer. One process answers them all, so that a slow one is not
 * taken for silence.
 */
const CALLER = `
const calls = JSON.parse(process.argv[1]);
const { connect } = require('node:net');
const heard = new Set();
const up = new Set();
let first = () => {};
const hear = (name) => { heard.add(name); first(); };
const senders = new Map();
let left = calls.length;
const opened = () => --left || console.log(JSON.stringify([]));
for (const { name, host, port, protocol } of calls) {
  if (protocol === 'udp') {
    const socket = require('node:dgram').createSocket(host.includes(':') ? 'udp6' : 'udp4');
    socket.on('error', () => {}).on('message', (bytes) => {
      if (!up.has(name)) { up.add(name); opened(); }
      if (bytes.toString() !== 'hello') hear(name);
    });
    // A datagram may be lost.
    const greet = () => { if (up.has(name)) return; socket.send('hello'); setTimeout(greet, 500); };
    socket.connect(port, host, greet);
    senders.set(name, () => socket.send('x'));
  } else {
    const call = () => {
      const socket = connect(port, host, () => { up.add(name); opened(); });
      socket.on('data', () => hear(name)).on('error', (error) => {
        if (up.has(name)) return;
        console.error('tries again:', name, error.code);
        setTimeout(call, 500);
      });
      senders.set(name, () => socket.write('x', () => {}));
    };
    call();
  }
}
require('node:readline').createInterface({ input: process.stdin }).on('line', () => {
  heard.clear();
  let isSaid = false;
  const say = () => { if (isSaid) return; isSaid = true; first = () => {}; console.log(JSON.stringify(calls.map((one) => one.name).filter((name) => heard.has(name)))); };
  // What came while this process was not scheduled came in time: it is read before an immediate.
  const after = (milliseconds) => setTimeout(() => setImmediate(say), milliseconds);
  let timer = after(1_500);
  let isFirst = true;
  first = () => {
    if (heard.size === calls.length) { clearTimeout(timer); return say(); }
    if (!isFirst) return;
    isFirst = false;
    clearTimeout(timer);
    timer = after(400);
  };
  for (const send of senders.values()) send();
});`;

/**
 * Echoes on each TCP port and, with the same number, each UDP port. A TCP port in `chatty` sends by
 * itself. Resolves once all ports listen.
 */
export async function listen(
  namespace: Namespace,
  ports: readonly number[],
  chatty: readonly number[] = [],
): Promise<void> {
  const echoed = ports.filter((port) => !chatty.includes(port)).map((port) => `tcp:${port}`);
  const echoing = [await probeProgram(), 'listen', ...echoed, ...ports.map((port) => `udp:${port}`)];
  const sending = [process.execPath, '-e', CHATTY, JSON.stringify(chatty)];
  await Promise.all(
    (chatty.length === 0 ? [echoing] : [echoing, sending]).map((argv) => serve(namespace, argv)),
  );
}

/** Resolves once the server says that it listens. */
async function serve(namespace: Namespace, argv: readonly string[]): Promise<void> {
  const server = namespace.spawn(argv);
  // Not piped: each pipe adds listeners to the one stream of this process.
  server.stderr.on('data', (part: Buffer) => process.stderr.write(part));
  await once(server.stdout, 'data');
}

/** Open connections; returns a function that asks which of them still carry data, by name. */
export async function talk(namespace: Namespace, calls: readonly Call[]): Promise<() => Promise<string[]>> {
  const child = namespace.spawn([process.execPath, '-e', CALLER, JSON.stringify(calls)]);
  child.stderr.pipe(process.stderr);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string[]> => JSON.parse((await lines.next()).value ?? '');
  const late = setTimeout(() => child.kill(), 20_000);
  try {
    await next();
  } catch (error) {
    throw new Error('not all connections could be opened', { cause: error });
  } finally {
    clearTimeout(late);
  }
  return async () => {
    child.stdin.write('\n');
    return await next();
  };
}

/**
 * Whether a fresh connection is possible, as a program that was started just now makes it, within
 * `wait` milliseconds.
 */
export async function connects(
  namespace: Namespace,
  host: string,
  port: number,
  wait = 1500,
): Promise<boolean> {
  const options = ['--dst', host, '--port', String(port), '--wait', String(wait)];
  const argv = [await probeProgram(), 'connect', ...options];
  const { status, stderr } = await namespace.run(argv, { anyStatus: true });
  if (status !== 0 && status !== 1) throw new Error(`${argv.join(' ')}: ${stderr}`);
  return status === 0;
}
