/** The demo's end of a caller (caller.ts) in a namespace. */
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Namespace } from '../../test/netns/namespace.ts';
import type { CallAnswer, CallRequest } from './caller.ts';

export interface Client {
  /** Never rejects: where the caller is gone, the outcome says so. */
  call(request: Omit<CallRequest, 'id'>): Promise<CallAnswer>;
}

export function createClient(namespace: Namespace): Client {
  const child = namespace.spawn([process.execPath, join(import.meta.dirname, 'caller.ts')]);
  const waiting = new Map<number, (answer: CallAnswer) => void>();
  const errors: string[] = [];
  let last = 0;
  let ended = false;
  const gone = (id: number): CallAnswer => ({
    id,
    outcome: `failed: the caller ended. ${errors.join('').slice(0, 300)}`,
    at: 0,
    tries: 0,
  });

  createInterface({ input: child.stdout }).on('line', (line) => {
    const answer: CallAnswer = JSON.parse(line);
    waiting.get(answer.id)?.(answer);
    waiting.delete(answer.id);
  });
  child.stderr.on('data', (part) => errors.push(String(part)));
  child.on('close', () => {
    ended = true;
    for (const [id, resolve] of waiting) resolve(gone(id));
  });

  return {
    call(request) {
      const id = ++last;
      if (ended) return Promise.resolve(gone(id));
      return new Promise((resolve) => {
        waiting.set(id, resolve);
        child.stdin.write(`${JSON.stringify({ id, ...request })}\n`);
      });
    },
  };
}
