import { Enforcer } from '../../apply/enforcer.ts';
import type { Kernel } from '../../apply/netlink/kernel.ts';
import { NodeRuleReconciler } from '../../apply/reconciler.ts';
import { countedKernel, kernelCounts } from '../../record/counted-kernel.ts';
import { nftOwners } from '../../record/owners.ts';
import { renderer } from '../../render/render.ts';
import type { Dataplane } from '../dataplane.ts';
import { watchKernel } from './watch-kernel.ts';

/** The dataplane with one nftables table, through netlink. */
export function nftablesDataplane(kernel: Kernel): Dataplane {
  return {
    name: 'nftables',
    run({ config, log, digests, readings, troubled, enforcer: parts }) {
      const counted = countedKernel(kernel, readings);
      const reconciler = new NodeRuleReconciler(counted, { remembered: digests });
      const enforcer = new Enforcer({ ...parts, reconciler, renderer: (canLog) => renderer(config, canLog) });
      return {
        enforcer,
        counts: kernelCounts(counted),
        owners() {
          const ruleset = reconciler.inForce();
          return ruleset === null ? null : nftOwners(ruleset);
        },
        digests: () => reconciler.digests(),
        watch: () => watchKernel({ reconciler, enforcer, log, clock: parts.clock, troubled }),
      };
    },
  };
}
