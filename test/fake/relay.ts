import { once } from 'node:events';
import type { Namespace } from '../netns/namespace.ts';

/** Hands each TCP connection on to a Unix socket; says so once it listens. */
const PROGRAM = `
const { connect, createServer } = require('node:net');
const [host, port, path] = process.argv.slice(1);
const server = createServer((here) => {
  const there = connect(path);
  for (const [a, b] of [[here, there], [there, here]]) a.pipe(b).on('error', () => a.destroy());
  for (const [a, b] of [[here, there], [there, here]]) a.on('close', () => b.destroy());
});
server.listen({ host, port: Number(port) }, () => console.log('listening'));
`;

/**
 * A TCP address in a namespace behind which a Unix socket of this machine is. Ends with the
 * namespace.
 */
export async function relay(into: Namespace, host: string, port: number, socket: string): Promise<void> {
  const child = into.spawn([process.execPath, '-e', PROGRAM, host, String(port), socket]);
  const failed = once(child, 'exit').then(() => {
    throw new Error('the relay ended');
  });
  await Promise.race([once(child.stdout, 'data'), failed]);
  failed.catch(() => {});
}
