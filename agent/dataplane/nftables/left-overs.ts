import type { Kernel } from '../../apply/netlink/kernel.ts';
import { removeTable } from '../../apply/netlink/kernel.ts';
import { whereNfTablesIs } from '../../apply/netlink/netlink-kernel.ts';
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
