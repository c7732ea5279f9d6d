import { tryNftables } from '../../apply/netlink/nft-trial.ts';
import { transactionText } from '../../apply/plan/transaction-text.ts';
import { NodeRuleReconciler } from '../../apply/reconciler.ts';
import { render } from '../../render/render.ts';
import type { DataplanePort } from '../kind.ts';
import { nftLeftOvers } from './left-overs.ts';
import { nftablesDataplane } from './nftables-dataplane.ts';

export const nftablesPort: DataplanePort = {
  trial: () => tryNftables(),
  async open(_config, kernel) {
    return { dataplane: nftablesDataplane(kernel), manages: [nftLeftOvers(kernel).name], details: {} };
  },
  leftOvers: (kernel) => [nftLeftOvers(kernel)],
  async plan({ kernel, state, config, digests }) {
    // Plans like an agent that has just started: a fixed chain with its saved digest has the
    // content that its name stands for.
    const reconciler = new NodeRuleReconciler(kernel, { remembered: await digests() });
    return transactionText(await reconciler.plan(render(state, config)));
  },
  counts: (kernel) => kernel.snapshot(),
};
