import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { type Envelope, withResolved } from '../apply/envelope.ts';
import type { EgressPodsOptions } from '../egress/pods/egress-pods.ts';
import { releasePlugin } from '../egress/pods/release-plugin.ts';
import type { RunningPods } from '../egress/pods/start-pods.ts';
import type { LocalPods } from '../interfaces/local-pods.ts';
import type { Layer, PassOn } from './layers.ts';

interface StartingOptions extends Pick<EgressPodsOptions, 'unreachable' | 'next'> {
  readonly options: { readonly stateDir: string; readonly once: boolean };
  readonly config: Config;
  readonly log: Log;
  readonly clock: Clock;
}

/**
 * With egress gateways, adds the addresses of pods that start to states. With the feature gate off
 * states pass unchanged, and nothing of it is loaded.
 */
export async function startingPods({
  options: { stateDir, once },
  config: { featureGates, egress },
  ...parts
}: StartingOptions): Promise<RunningPods> {
  const hasEgress = featureGates.EgressGateway === true;
  if (hasEgress && !once) {
    const { startPods } = await import('../egress/pods/start-pods.ts');
    return await startPods({ stateDir, config: egress, ...parts });
  }
  if (!hasEgress) await released(stateDir, parts.log);
  return { submit: parts.next, over: (state) => state, enforced() {}, async close() {} };
}

async function released(stateDir: string, log: Log): Promise<void> {
  try {
    await releasePlugin(stateDir);
  } catch (error) {
    log.error('cannot let pods start without the agent; rules are enforced all the same', {
      error: (error as Error).message,
    });
  }
}

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
