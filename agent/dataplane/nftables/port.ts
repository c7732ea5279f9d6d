import { CommandError, EXIT } from '../../../lib/process/exit.ts';
import { tryEgress, tryNftables } from '../../apply/netlink/nft-trial.ts';
import type { DataplanePort } from '../kind.ts';
import { EGRESS_LEFT_OVERS, FLOATING_LEFT_OVERS, nftLeftOvers, steeringLeftOvers } from './left-overs.ts';

export const nftablesPort: DataplanePort = {
  trial: () => tryNftables(),
  async open({ featureGates }, kernel) {
    const { nftablesDataplane } = await import('./nftables-dataplane.ts');
    const hasEgress = featureGates.EgressGateway === true;
    if (hasEgress) await checkEgress();
    const egress = hasEgress
      ? {
          ...(await import('../../egress/floating/open-floating.ts')),
          ...(await import('../../egress/floating/live-sets.ts')),
          ...(await import('../../egress/open-network.ts')),
          ...(await import('../../egress/health/egress-health.ts')),
          ...(await import('./egress-enforcer.ts')),
        }
      : null;
    const ofEgress = hasEgress ? [FLOATING_LEFT_OVERS, EGRESS_LEFT_OVERS] : [];
    const manages = [steeringLeftOvers(kernel), nftLeftOvers(kernel), ...ofEgress];
    return {
      dataplane: nftablesDataplane(kernel, egress),
      manages: manages.map(({ name }) => name),
      details: {},
    };
  },
  leftOvers: (kernel) => [
    FLOATING_LEFT_OVERS,
    steeringLeftOvers(kernel),
    nftLeftOvers(kernel),
    EGRESS_LEFT_OVERS,
  ],
  async plan({ kernel, state, config, digests }) {
    const { transactionText } = await import('../../apply/plan/transaction-text.ts');
    const { NodeRuleReconciler } = await import('../../apply/reconciler.ts');
    const { render } = await import('../../render/render.ts');
    // Plans like an agent that has just started: a fixed chain with its saved digest has the
    // content that its name stands for.
    const reconciler = new NodeRuleReconciler(kernel, { remembered: await digests() });
    return transactionText(await reconciler.plan(render(state, config)));
  },
  counts: (kernel) => kernel.snapshot(),
};

/** The whole table would be refused, and no policy enforced. */
async function checkEgress(): Promise<void> {
  const trial = await tryEgress();
  if (trial.works) return;
  throw new CommandError(
    EXIT.refused,
    `feature gate EgressGateway: nf_tables of this kernel lacks what egress gateways need; turn the gate off: ${trial.why}`,
  );
}
