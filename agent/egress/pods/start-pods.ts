import type { EgressConfig } from '../../../apis/egress/config.ts';
import { forgettingSources } from '../forget-connections.ts';
import { ClaimSocket } from './claim.ts';
import { EgressPods, type EgressPodsOptions } from './egress-pods.ts';
import { installPlugin } from './plugin.ts';
import { PluginServer } from './plugin-server.ts';

interface StartOptions extends Pick<EgressPodsOptions, 'log' | 'clock' | 'unreachable' | 'next'> {
  readonly stateDir: string;
  readonly config: EgressConfig;
}

/** The part of the agent that learns the addresses of pods that start. */
export interface RunningPods extends Pick<EgressPods, 'submit' | 'over' | 'enforced'> {
  close(): Promise<void>;
}

/** Starts what a node with egress gateways needs to steer pods from their first packet on. */
export async function startPods({ stateDir, config, ...parts }: StartOptions): Promise<RunningPods> {
  const { log } = parts;
  const ended = forgettingSources({ ...parts, which: 'all' });
  const taken = forgettingSources({ ...parts, which: 'taken' });
  const pods = new EgressPods({
    ...parts,
    results: config.cniResults,
    openClaims: ClaimSocket.open,
    forget: (addresses) => ended.add(new Set(addresses)),
    forgetTaken: (addresses) => taken.add(new Set(addresses)),
  });
  await pods.start();
  const server = new PluginServer({ stateDir, log, clock: parts.clock, pods });
  await server.listen();
  if (config.cniPlugins !== '') await installPlugin(config.cniPlugins, log);
  return {
    submit(envelope) {
      server.setRequired(envelope.resolved.egress !== undefined);
      pods.submit(envelope);
    },
    over: (state) => pods.over(state),
    enforced: (result) => pods.enforced(result),
    async close() {
      await server.close();
      await pods.close();
      await Promise.all([ended.close(), taken.close()]);
    },
  };
}
