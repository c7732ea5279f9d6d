import { type Failure, failure } from './failure.ts';

/** Agents that come back in one second at the most, when nobody leads. */
const AGENTS_A_SECOND = 1_000;

/**
 * To agents of so many nodes that reach a replica that doesn't lead. Each of their connections is
 * balanced anew, so it may reach another.
 */
export function standbyAnswer(isAnotherLeading: boolean, nodes: number): Failure {
  const headers = { connection: 'close' };
  if (isAnotherLeading)
    return failure('MisdirectedRequest', 'this replica does not lead; another one does', headers);
  const wait = Math.max(1, Math.ceil(nodes / AGENTS_A_SECOND));
  return failure('ServiceUnavailable', 'no replica leads now', { ...headers, 'retry-after': `${wait}` });
}
