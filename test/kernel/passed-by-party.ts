/** The tests' end of a process (passed-by-peer.ts) in a namespace. */
import { join } from 'node:path';
import { AskedProcess } from '../netns/asked-process.ts';
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
  const program = join(import.meta.dirname, 'passed-by-peer.ts');
  const peer = new AskedProcess<Wanted, Answer>(namespace.spawn([process.execPath, program]));
  return {
    listen: async (address, ports) => void (await peer.ask({ do: 'listen', address, ports })),
    call: (call) => peer.ask({ do: 'call', ...call }),
    again: ({ id }, patience) => peer.ask({ do: 'again', call: id, patience }),
  };
}
