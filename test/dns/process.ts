import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Namespace, stop } from '../netns/namespace.ts';
import type { Zone } from './zone.ts';

/** A fake DNS server on port 53 in a network namespace. */
export interface DnsProcess {
  /** Queries so far. */
  queries(): Promise<number>;
  serve(zone: Zone): Promise<void>;
  /** From now on nobody listens. */
  stop(): Promise<void>;
}

export async function dnsProcess(namespace: Namespace, address: string, zone: Zone): Promise<DnsProcess> {
  const program = join(import.meta.dirname, 'main.ts');
  const child = namespace.spawn([process.execPath, program, address, '53', JSON.stringify(zone)]);
  const errors: string[] = [];
  child.stderr.on('data', (part) => errors.push(String(part)));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ready = await Promise.race([lines.next(), once(child, 'exit').then(() => null)]);
  if (ready === null || ready.done) throw new Error(`the DNS server ended:\n${errors.join('')}`);

  async function say(line: string): Promise<number> {
    child.stdin.write(`${line}\n`);
    return Number((await lines.next()).value);
  }
  return {
    queries: () => say(''),
    serve: async (next) => void (await say(JSON.stringify(next))),
    stop: () => stop(child),
  };
}
