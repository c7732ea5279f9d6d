/** Clients of TCP that wait for an answer and send nothing, and when each is reset. */
import { createInterface } from 'node:readline';
import type { Namespace } from '../netns/namespace.ts';

/** Prints `open HOST`, and `reset HOST` on an error. */
const CLIENT = `
const [hosts, port] = JSON.parse(process.argv[1]);
for (const host of hosts) {
  const socket = require('node:net').connect(port, host, () => console.log('open ' + host));
  socket.on('error', ({ code }) => console.log((code === 'ECONNRESET' ? 'reset ' : code + ' ') + host)).resume();
}`;

interface IdleClients {
  /** The hosts whose connections are open; of each, once all were. */
  open(): readonly string[];
  /** The hosts whose connections were reset. */
  reset(): readonly string[];
  stop(): void;
}

export function idleClients(namespace: Namespace, hosts: readonly string[], port: number): IdleClients {
  const child = namespace.spawn([process.execPath, '-e', CLIENT, JSON.stringify([hosts, port])]);
  child.stderr.pipe(process.stderr);
  const said = { open: [] as string[], reset: [] as string[] };
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [what, host = ''] = line.split(' ');
    if (what === 'open') said.open.push(host);
    else if (what === 'reset') said.reset.push(host);
    else process.stderr.write(`${line}\n`);
  });
  return {
    open: () => said.open.filter((host) => !said.reset.includes(host)).toSorted(),
    reset: () => said.reset.toSorted(),
    stop: () => void child.kill(),
  };
}
