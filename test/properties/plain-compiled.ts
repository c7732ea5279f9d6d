import type { Compiled, NodeState } from '../../apis/compiled.ts';

/**
 * With Maps in the place of whatever else behaves like one: `assert.deepEqual` compares the entries
 * of no others.
 */
export function plainCompiled(compiled: Compiled): Compiled {
  return withPlainSets(compiled);
}

/** The same of one node's state. */
export function plainState(state: NodeState): NodeState {
  return withPlainSets(state);
}

function withPlainSets<T extends Pick<Compiled, 'addressSets' | 'serviceSets'>>(value: T): T {
  const { addressSets, serviceSets } = value;
  return { ...value, addressSets: new Map(addressSets), serviceSets: new Map(serviceSets) };
}
