import type { Config } from '../../apis/config.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { EgressPodsOptions } from '../egress/pods/egress-pods.ts';
import { releasePlugin } from '../egress/pods/release-plugin.ts';
import type { RunningPods } from '../egress/pods/start-pods.ts';

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
