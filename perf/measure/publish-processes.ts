import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { ServerAnswer, ServerOrder } from './publish.ts';

export type Ready = Extract<ServerAnswer, { is: 'ready' }>;
export type Changed = Extract<ServerAnswer, { is: 'changed' }>;
export type Views = Extract<ServerAnswer, { is: 'views' }>;

export async function ordered<T extends ServerAnswer>(server: ChildProcess, order: ServerOrder): Promise<T> {
  const answer = heard<T>(server);
  server.send(order);
  return await answer;
}

/** Throws where the process ends first. */
export async function heard<T>(child: ChildProcess): Promise<T> {
  const gone = new AbortController();
  try {
    const [answer] = await Promise.race([
      once(child, 'message', { signal: gone.signal }),
      once(child, 'exit', { signal: gone.signal }).then(([status, signal]) => {
        throw new Error(`a process of the benchmark ended: ${status ?? signal}`);
      }),
    ]);
    return answer as T;
  } finally {
    gone.abort();
  }
}
