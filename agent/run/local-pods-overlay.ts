import type { NodeState } from '../../apis/compiled.ts';
import type { LocalPods } from '../interfaces/local-pods.ts';

export interface LocalPodsOverlay {
  submit(state: NodeState): void;
  withLocalPods(state: NodeState): NodeState;
  /** The state that a submitted state was made from. */
  withoutLocalPods(state: NodeState): NodeState;
  close(): void;
}

/**
 * Stands before the enforcer: adds the destinations routed to local pods to states, and submits
 * again when they change.
 */
export function localPodsOverlay(pods: LocalPods, submit: (state: NodeState) => void): LocalPodsOverlay {
  const bases = new WeakMap<NodeState, NodeState>();
  let latest: NodeState | null = null;
  function withLocalPods(state: NodeState): NodeState {
    const localPods = pods.now();
    if (localPods === null) return state;
    const made = { ...state, localPods };
    bases.set(made, state);
    return made;
  }
  function submitLatest(): void {
    if (latest !== null) submit(withLocalPods(latest));
  }
  const close = pods.listen(submitLatest);
  return {
    withLocalPods,
    withoutLocalPods: (state) => bases.get(state) ?? state,
    submit(state) {
      latest = state;
      submitLatest();
    },
    close,
  };
}
