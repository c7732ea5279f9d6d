import type { NodeState } from '../../apis/compiled.ts';
import { type Envelope, withResolved } from '../apply/envelope.ts';
import type { LocalPods } from '../interfaces/local-pods.ts';
import type { Layer, PassOn } from './layers.ts';

export interface LocalPodsOverlay extends Layer {
  over(state: NodeState): NodeState;
  close(): void;
}

/**
 * Adds the destinations routed to local pods to states, and passes the latest on again when they
 * change.
 */
export function localPodsOverlay(pods: LocalPods, next: PassOn): LocalPodsOverlay {
  let latest: Envelope | null = null;
  function over(state: NodeState): NodeState {
    const localPods = pods.now();
    return localPods === null ? state : { ...state, localPods };
  }
  function pass(): void {
    if (latest !== null) next(withResolved(latest, over(latest.resolved)));
  }
  const close = pods.listen(pass);
  return {
    over,
    submit(envelope) {
      latest = envelope;
      pass();
    },
    close,
  };
}
