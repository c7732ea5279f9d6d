import { once } from 'node:events';
import type { Namespace } from './namespace.ts';

/** A TCP address in a namespace, or a Unix socket, which no network namespace confines. */
export type Endpoint = { readonly host: string; readonly port: number } | { readonly path: string };

/** Hands each connection on; says so once it listens. */
const PROGRAM = `
const { connect, createServer } = require('node:net');
const [from, to] = process.argv.slice(1).map(JSON.parse);
const server = createServer((here) => {
  const there = connect(to);
  for (const [a, b] of [[here, there], [there, here]]) a.pipe(b).on('error', () => a.destroy());
  for (const [a, b] of [[here, there], [there, here]]) a.on('close', () => b.destroy());
});
server.listen(from, () => console.log('listening'));
`;

/** Hands each connection to `from` on to `to`, in a namespace. Ends with the namespace. */
export async function relay(inside: Namespace, from: Endpoint, to: Endpoint): Promise<void> {
  const child = inside.spawn([process.execPath, '-e', PROGRAM, JSON.stringify(from), JSON.stringify(to)]);
  const failed = once(child, 'exit').then(() => {
    throw new Error('the relay ended');
  });
  await Promise.race([once(child.stdout, 'data'), failed]);
  failed.catch(() => {});
}
