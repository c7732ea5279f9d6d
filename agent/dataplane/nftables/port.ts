import { type Kernel, removeTable, whereNfTablesIs } from '../../apply/netlink/kernel.ts';
import { tryNftables } from '../../apply/netlink/nft-trial.ts';
import { KERNEL_EXTENSION } from '../../extension/kernel.ts';
import { TABLE } from '../../render/ruleset.ts';
import type { DataplanePort, LeftOvers } from '../dataplane.ts';

export const nftablesPort: DataplanePort = {
  trial: () => tryNftables(),
  async open(config, kernel) {
    const { nftablesDataplane } = await import('./nftables-dataplane.ts');
    const isExtended = KERNEL_EXTENSION.isOn(config);
    if (isExtended) await KERNEL_EXTENSION.check();
    return {
      dataplane: nftablesDataplane(kernel),
      manages: [nftLeftOvers(kernel).name, ...KERNEL_EXTENSION.manages(isExtended)],
      details: {},
    };
  },
  leftOvers(kernel) {
    const { beforeTable, afterTable } = KERNEL_EXTENSION.leftOvers(kernel);
    return [...beforeTable, nftLeftOvers(kernel), ...afterTable];
  },
  async plan({ kernel, state, config, digests }) {
    const { transactionText } = await import('../../apply/plan/transaction.ts');
    const { NodeRuleReconciler } = await import('../../apply/reconciler.ts');
    const { render } = await import('../../render/render.ts');
    // Plans like an agent that has just started: a fixed chain with its saved digest has the
    // content that its name stands for.
    const reconciler = new NodeRuleReconciler(kernel, { remembered: await digests() });
    return transactionText(await reconciler.plan(render(state, config)));
  },
  counts: (kernel) => kernel.snapshot(),
};

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
