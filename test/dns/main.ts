/**
 * A fake DNS server in a process of its own, for network namespaces: `node main.ts ADDRESS PORT
 * ZONE`. Writes one line when it listens; every line it reads is a new zone, answered by a line
 * with the number of queries so far.
 */
import { createInterface } from 'node:readline';
import { fakeDns } from './server.ts';

const [address = '127.0.0.1', port = '53', zone = '{}'] = process.argv.slice(2);
const server = await fakeDns(JSON.parse(zone), { address, port: Number(port) });
process.stdout.write(`${server.server}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  if (line !== '') server.serve(JSON.parse(line));
  process.stdout.write(`${server.queries()}\n`);
}
await server.close();
