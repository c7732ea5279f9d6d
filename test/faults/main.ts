/**
 * A proxy in a process of its own, for process.ts: its options in the first argument, one command a
 * line on standard input, one answer a line.
 */
import { createInterface } from 'node:readline';
import type { FaultyProxy } from './faults.ts';
import { lineProxy } from './line-proxy.ts';
import type { Command, Start } from './process.ts';
import { tcpProxy } from './tcp-proxy.ts';

const start: Start = JSON.parse(process.argv[2] ?? '');
const proxy: FaultyProxy<object> = await (start.kind === 'tcp'
  ? tcpProxy(start.options)
  : lineProxy(start.options));
say({ port: proxy.port });
for await (const line of createInterface({ input: process.stdin })) say(await obey(JSON.parse(line)));
await proxy.close();

async function obey(command: Command): Promise<object> {
  if ('set' in command) await proxy.set(command.set);
  if ('cut' in command) await proxy.cutAll(command.cut);
  return proxy.counts();
}

function say(answer: object): void {
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
