import type { NodeState } from '../../apis/compiled.ts';
import { policyKey, substitute } from '../apply/plan/substitute.ts';
import type { PolicyId } from '../receive/api-server.ts';

/** The policies that the state has rules of. */
export function policiesOf(state: NodeState | null): readonly PolicyId[] {
  const found = new Map<string, PolicyId>();
  for (const { source } of state?.rules ?? []) {
    const { apiGroup, policy, uid } = source;
    if (uid !== '') found.set(uid, { apiGroup, policy, uid });
  }
  return [...found.values()];
}

/** The state without the rules of policies that exist no more; the same object if it has none. */
export function withoutDeleted(state: NodeState, deleted: readonly PolicyId[]): NodeState {
  const uids = new Set(deleted.map(({ uid }) => uid));
  const keys = new Set(state.rules.filter(({ source }) => uids.has(source.uid)).map(policyKey));
  return [...keys].reduce((rest, key) => substitute(rest, key, null), state);
}
