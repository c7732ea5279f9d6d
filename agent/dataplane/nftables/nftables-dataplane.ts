import type { Generation } from 'nftables-napi';
import type { Reconciler } from '../../apply/dataplane.ts';
import { DeadlineKeeper, withDeadline } from '../../apply/deadline.ts';
import { Enforcer } from '../../apply/enforcer.ts';
import type { Kernel } from '../../apply/netlink/kernel.ts';
import { nftDeadline } from '../../apply/netlink/nft-deadline.ts';
import { NodeRuleReconciler } from '../../apply/reconciler.ts';
import { KERNEL_EXTENSION } from '../../extension/kernel.ts';
import { nftOwners } from '../../record/accounting.ts';
import { countedKernel, kernelCounts } from '../../record/counters.ts';
import { DEADLINE_SETS, deadlineOf } from '../../render/deadline.ts';
import { renderer } from '../../render/render.ts';
import type { Ruleset } from '../../render/ruleset.ts';
import type { Dataplane } from '../dataplane.ts';
import { nftBootFiles } from './boot-files.ts';
import { watchKernel } from './watch-kernel.ts';

/** The dataplane with one nftables table, through netlink. */
export function nftablesDataplane(kernel: Kernel): Dataplane {
  return {
    name: 'nftables',
    run(options) {
      const { config, log, digests, readings, troubled, deadlinePassed: passed = () => {} } = options;
      const { enforcer: parts } = options;
      const { clock } = parts;
      const committed = (generation: Readonly<Generation>): void => reconciler.committed(generation);
      const extension = options.extension?.open({ kernel, log, clock, committed, troubled }) ?? null;
      const counted = countedKernel(extension?.kernel ?? kernel, readings);
      const reconciler = new NodeRuleReconciler(counted, { remembered: digests });
      const deadline = new DeadlineKeeper({ clock, log, kernel: nftDeadline(kernel, committed), passed });
      const timed = <Desired extends Ruleset>(one: Reconciler<Desired>): Reconciler<Desired> =>
        withDeadline(one, deadline, deadlineOf);
      const render = (canLog: boolean) => renderer(config, canLog);
      const enforcer =
        extension === null
          ? new Enforcer({ ...parts, reconciler: timed(unextended(reconciler, kernel)), renderer: render })
          : extension.enforce({ rules: reconciler, render, timed, enforcer: parts });
      return {
        enforcer,
        counts: kernelCounts(counted),
        owners() {
          const ruleset = reconciler.inForce();
          return ruleset === null ? null : nftOwners(ruleset);
        },
        bootFiles(state) {
          const ruleset = reconciler.inForce();
          return () => (ruleset === null ? {} : nftBootFiles(ruleset, state, config));
        },
        digests: () => reconciler.digests(),
        deadline,
        watch() {
          const quietSets = [...(extension?.quietSets ?? []), ...Object.values(DEADLINE_SETS)];
          return watchKernel({ reconciler, enforcer, log, clock, troubled, quietSets });
        },
      };
    },
  };
}

/** The first rules without an extension replace those of an earlier run that may have had it. */
function unextended(reconciler: NodeRuleReconciler, kernel: Kernel): Reconciler<Ruleset> {
  let isFirst = true;
  return {
    async apply(desired) {
      if (isFirst) await KERNEL_EXTENSION.replaced(kernel).catch(laterRemoved);
      isFirst = false;
      return await reconciler.apply(desired);
    },
    verify: () => reconciler.verify(),
    holdsRules: () => reconciler.holdsRules(),
  };
}

/** Rules do not wait for that: left-overs are removed behind them as well, until it works. */
function laterRemoved(): void {}
