import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Running } from '../dataplane/dataplane.ts';
import type { EgressPodsOptions } from '../egress/pods/egress-pods.ts';
import { releasePlugin } from '../egress/pods/release-plugin.ts';
import type { RunningPods } from '../egress/pods/start-pods.ts';
import type { LocalPods } from '../interfaces/local-pods.ts';
import { localPodsOverlay } from './local-pods-overlay.ts';

interface OverlayOptions {
  readonly options: { readonly stateDir: string; readonly once: boolean };
  readonly config: Config;
  readonly log: Log;
  readonly clock: Clock;
  readonly interfaces: { readonly localPods: LocalPods };
  readonly running: Pick<Running, 'enforcer' | 'egressHealth'>;
}

/**
 * Stands before the enforcer: adds to states what this node knows of its pods besides, routes to
 * them and, with egress gateways, the addresses of those that start.
 */
export async function podOverlays({ interfaces, running, ...parts }: OverlayOptions): Promise<RunningPods> {
  const local = localPodsOverlay(interfaces.localPods, (state) => running.enforcer.submit(state));
  const starting = await startingPods({
    ...parts,
    unreachable: () => running.egressHealth?.().unreachable ?? [],
    submit: (state) => local.submit(state),
  });
  return {
    submit: (state) => starting.submit(state),
    over: (state) => local.withLocalPods(starting.over(state)),
    without: (state) => starting.without(local.withoutLocalPods(state)),
    enforced: (state) => starting.enforced(state),
    async close() {
      local.close();
      await starting.close();
    },
  };
}

type StartingOptions = Pick<OverlayOptions, 'options' | 'config' | 'log' | 'clock'> &
  Pick<EgressPodsOptions, 'unreachable' | 'submit'>;

/** With the feature gate off states pass unchanged, and nothing of it is loaded. */
async function startingPods({
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
  const unchanged = (state: NodeState): NodeState => state;
  return { submit: parts.submit, over: unchanged, without: unchanged, enforced() {}, async close() {} };
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
