/** The tests' end of a process (passed-by-peer.ts) in a namespace. */
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Namespace } from '../netns/namespace.ts';
import type { Answer, Call, Request } from './passed-by-peer.ts';

/** Somebody who calls and is called. */
export interface Party {
  /** Answers on TCP and UDP with the address and port that it sees. */
  listen(address: string, ports: readonly number[]): Promise<void>;
  call(call: Call): Promise<Answer>;
  /** Says something more on the connection of a call that was left open. */
  again(call: Answer, patience: number): Promise<Answer>;
}

type Wanted = Request extends infer One ? (One extends Request ? Omit<One, 'id'> : never) : never;

/** Ends with its namespace. */
export function createParty(namespace: Namespace): Party {
  const child = namespace.spawn([process.execPath, join(import.meta.dirname, 'passed-by-peer.ts')]);
  const waiting = new Map<number, { resolve(answer: Answer): void; reject(error: Error): void }>();
  const errors: string[] = [];
  let last = 0;
  createInterface({ input: child.stdout }).on('line', (line) => {
    const answer: Answer = JSON.parse(line);
    waiting.get(answer.id)?.resolve(answer);
    waiting.delete(answer.id);
  });
  child.stderr.on('data', (part) => errors.push(String(part)));
  child.on('close', () => {
    const error = new Error(`the party in ${namespace.name} ended: ${errors.join('').slice(0, 1000)}`);
    for (const { reject } of waiting.values()) reject(error);
  });
  const ask = (wanted: Wanted): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const id = ++last;
      waiting.set(id, { resolve, reject });
      child.stdin.write(`${JSON.stringify({ id, ...wanted })}\n`);
    });
  return {
    listen: async (address, ports) => void (await ask({ do: 'listen', address, ports })),
    call: (call) => ask({ do: 'call', ...call }),
    again: ({ id }, patience) => ask({ do: 'again', call: id, patience }),
  };
}
