import { NftError } from 'nftables-napi';
import type { Kernel } from '../../apply/netlink/kernel.ts';
import { removeTable } from '../../apply/netlink/kernel.ts';
import { TABLE } from '../../render/ruleset.ts';
import type { LeftOvers } from '../dataplane.ts';

export function nftLeftOvers(kernel: Kernel): LeftOvers {
  return {
    name: 'nftables',
    async holdsRules() {
      const { NodeRuleReconciler } = await import('../../apply/reconciler.ts');
      return whereNfTablesIs(() => new NodeRuleReconciler(kernel).holdsRules(), false);
    },
    remove: () =>
      whereNfTablesIs(
        async () => ((await removeTable(kernel)) ? [`table ${TABLE.family} ${TABLE.name}`] : []),
        [],
      ),
  };
}

/**
 * The kernel's errors if nf_tables is neither built in nor available as a module: then there are no
 * rules.
 */
const NO_NF_TABLES: ReadonlySet<string> = new Set(['EINVAL', 'EOPNOTSUPP', 'EPROTONOSUPPORT']);

/** The result without nf_tables is `otherwise`. */
export async function whereNfTablesIs<T>(work: () => Promise<T>, otherwise: T): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NftError && NO_NF_TABLES.has(error.code)) return otherwise;
    throw error;
  }
}

/**
 * Before the table `inet nodewall`, without which the kernel would reset what comes to these
 * addresses.
 */
export const FLOATING_LEFT_OVERS: LeftOvers = {
  name: 'floating addresses',
  holdsRules: async () => false,
  async remove() {
    const { removeFloating } = await import('../../egress/floating/open-floating.ts');
    return await whereNfTablesIs(removeFloating, []);
  },
};

/** The network configuration of egress gateways: no packet takes it without the table's marks. */
export const EGRESS_LEFT_OVERS: LeftOvers = {
  name: 'egress network',
  holdsRules: async () => false,
  async remove() {
    const { removeNetwork } = await import('../../egress/open-network.ts');
    return await removeNetwork();
  },
};

/** Connections that the table steers; before the table. */
export function steeringLeftOvers(kernel: Kernel): LeftOvers {
  return {
    name: 'egress connections',
    holdsRules: async () => false,
    async remove() {
      const { endSteering } = await import('../../egress/end-steering.ts');
      await whereNfTablesIs(() => endSteering(kernel), undefined);
      return [];
    },
  };
}
