/**
 * New connections all the time out of a namespace, and an open one, with when each was answered.
 */
import { createInterface } from 'node:readline';
import type { Namespace } from '../../test/netns/namespace.ts';

interface NewConnections {
  /** Milliseconds, as `now`: when each of those that were answered began, in order. */
  begun(): readonly number[];
  /** When the open connection of TCP was reset; null: it is open. */
  reset(): number | null;
  stop(): void;
}

/** The clock of all processes of the machine. */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Over UDP, each from a port of its own, every 5 ms. */
const CLIENT = `
const [host, port] = JSON.parse(process.argv[1]);
const { createSocket } = require('node:dgram');
const now = () => Number(process.hrtime.bigint()) / 1e6;
setInterval(() => {
  const socket = createSocket('udp4');
  const begun = now();
  const close = setTimeout(() => socket.close(), 300);
  socket.on('error', () => {}).on('message', () => {
    clearTimeout(close);
    socket.close();
    console.log('begun ' + begun);
  });
  socket.send('x', port, host);
}, 5);
const open = require('node:net').connect(port, host);
const writing = setInterval(() => open.write('x'), 10);
open.on('data', () => {}).on('error', () => { clearInterval(writing); console.log('reset ' + now()); });
`;

export function newConnections(namespace: Namespace, host: string, port: number): NewConnections {
  const child = namespace.spawn([process.execPath, '-e', CLIENT, JSON.stringify([host, port])]);
  const begun: number[] = [];
  let reset: number | null = null;
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [what, at] = line.split(' ');
    if (what === 'begun') begun.push(Number(at));
    else reset = Number(at);
  });
  return {
    begun: () => begun.toSorted((a, b) => a - b),
    reset: () => reset,
    stop: () => void child.kill(),
  };
}
