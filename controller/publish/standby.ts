import { type Failure, failure } from './failure.ts';

/** The most agents that reconnect in one second while no replica leads. */
const AGENTS_A_SECOND = 1_000;

/**
 * The response to agents of this many nodes that reach a replica that doesn't lead. The Service
 * balances each new connection, so it may reach another replica.
 */
export function standbyAnswer(isAnotherLeading: boolean, nodes: number): Failure {
  const headers = { connection: 'close' };
  if (isAnotherLeading)
    return failure('MisdirectedRequest', 'this replica does not lead; connect again', headers);
  const wait = Math.max(1, Math.ceil(nodes / AGENTS_A_SECOND));
  return failure('ServiceUnavailable', 'no replica leads now', { ...headers, 'retry-after': `${wait}` });
}
