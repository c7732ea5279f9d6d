import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { type Kernel, whereNfTablesIs } from '../apply/netlink/kernel.ts';
import { tryEgress } from '../apply/netlink/nft-trial.ts';
import type { KernelExtension, LeftOvers } from '../dataplane/dataplane.ts';
import { releasePlugin } from './pods/plugin.ts';

/** Egress gateways in the kernel, of any run; their parts are loaded when they are used. */
export const EGRESS_KERNEL: KernelExtension = {
  isOn: ({ featureGates }) => featureGates.EgressGateway === true,
  async refusal() {
    const { egressRefusal } = await import('./apply/host-settings.ts');
    return egressRefusal();
  },
  /** The whole table would be refused, and no policy enforced. */
  async check() {
    const trial = await tryEgress();
    if (trial.works) return;
    throw new CommandError(
      EXIT.refused,
      `feature gate EgressGateway: nf_tables of this kernel lacks what egress gateways need; turn the gate off: ${trial.why}`,
    );
  },
  leftOvers: (kernel) => ({
    beforeTable: [FLOATING, steering(kernel)],
    afterTable: [NETWORK],
  }),
  manages: (isOn) => [STEERING, ...(isOn ? [FLOATING.name, NETWORK.name] : [])],
  replaced: (kernel) => steering(kernel).remove(),
  release: releasePlugin,
};

/**
 * Before the table `inet nodewall`, without which the kernel would reset what comes to these
 * addresses.
 */
const FLOATING: LeftOvers = {
  name: 'floating addresses',
  holdsRules: async () => false,
  async remove() {
    const { removeFloating } = await import('./floating/open-floating.ts');
    return await whereNfTablesIs(removeFloating, []);
  },
};

/** The network configuration of egress gateways, where no table steers any more. */
const NETWORK: LeftOvers = {
  name: 'egress network',
  holdsRules: async () => false,
  async remove() {
    const { removeNetwork } = await import('./open-network.ts');
    return await removeNetwork();
  },
};

const STEERING = 'egress connections';

/** Connections that the table steers, and the network that it steers them to; before the table. */
function steering(kernel: Kernel): LeftOvers {
  return {
    name: STEERING,
    holdsRules: async () => false,
    async remove() {
      const { endSteering } = await import('./forget-connections.ts');
      const { removeNetwork } = await import('./open-network.ts');
      return await whereNfTablesIs(() => endSteering(kernel, { removeNetwork }), []);
    },
  };
}
