import type { Log } from '../../lib/process/log.ts';
import type { PreparedExtension, PrepareOptions } from '../extension/agent-extension.ts';
import { releasePlugin } from './pods/plugin.ts';
import { publicKeyText, wireguardKeys } from './wireguard-keys.ts';

/** Egress gateways of an agent, which are off without their feature gate. */
export async function prepareEgress({ stateDir, config, log }: PrepareOptions): Promise<PreparedExtension> {
  const keys = await wireguardKeys(stateDir, config, log);
  return {
    publicKey: keys === null ? null : publicKeyText(keys),
    async open(context) {
      if (config.featureGates.EgressGateway !== true) {
        await released(stateDir, log);
        return null;
      }
      const { openEgress } = await import('./egress-agent.ts');
      return await openEgress(context, keys);
    },
  };
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
