import type { Reconciler } from '../agent/apply/dataplane.ts';
import { Enforcer } from '../agent/apply/enforcer.ts';
import { countedTable, iptablesOwners } from '../agent/apply/iptables/counted.ts';
import { IptablesReconciler } from '../agent/apply/iptables/reconciler.ts';
import type { IptablesTools } from '../agent/apply/iptables/tools.ts';
import type { CountSource, Readings } from '../agent/record/counters.ts';
import { iptablesRenderer } from '../agent/render/iptables/render.ts';
import type { IptablesRuleset } from '../agent/render/iptables/tables.ts';
import type { Dataplane } from './dataplane.ts';
import { pollKernel } from './pollkernel.ts';

/** Chains of ours in the tables of iptables and ip6tables, and sets of ours, by the commands of one variant. */
export function iptablesDataplane(tools: IptablesTools): Dataplane {
  return {
    name: 'iptables',
    run({ config, readings, enforcer: parts }) {
      const reconciler = new IptablesReconciler(tools);
      const observed = observe(reconciler);
      const enforcer = new Enforcer({
        ...parts,
        reconciler: observed.reconciler,
        renderer: (canLog) => iptablesRenderer(config, canLog),
      });
      const inForce = (): IptablesRuleset | null => (observed.isApplying() ? null : reconciler.inForce());
      return {
        enforcer,
        counts: iptablesCounts(tools, inForce, readings),
        owners() {
          const ruleset = reconciler.inForce();
          return ruleset === null ? null : iptablesOwners(ruleset);
        },
        digests: () => ({}),
        watch: () => pollKernel(enforcer, observed.verifyTook),
      };
    },
  };
}

/** The same reconciler, and what it is at. */
function observe<Desired>(reconciler: Reconciler<Desired>) {
  let took = 0;
  let isApplying = false;
  const observed: Reconciler<Desired> = {
    async apply(desired) {
      isApplying = true;
      try {
        return await reconciler.apply(desired);
      } finally {
        isApplying = false;
      }
    },
    holdsRules: () => reconciler.holdsRules(),
    async verify() {
      const began = performance.now();
      const differences = await reconciler.verify();
      took = performance.now() - began;
      return differences;
    },
  };
  return { reconciler: observed, verifyTook: () => took, isApplying: () => isApplying };
}

/**
 * One reading at a time: commands that run at once end in any order. Whose packets a rule counts is told by what is in force: nothing is said of a reading
 * before the first apply (what was saved stands), nor of one during which something else was applied.
 */
export function iptablesCounts(
  tools: Pick<IptablesTools, 'save'>,
  inForce: () => IptablesRuleset | null,
  readings: Readings,
): CountSource {
  let last: Promise<void> = Promise.resolve();
  async function readAll(): Promise<void> {
    const ruleset = inForce();
    if (ruleset === null) return;
    const saved = { 4: await tools.save(4), 6: await tools.save(6) };
    if (inForce() === ruleset) readings.all(countedTable(saved, ruleset));
  }
  const next = (): Promise<void> => {
    last = last.then(readAll, readAll);
    return last;
  };
  return { readAll: next, readSome: async (names) => (names.length === 0 ? undefined : next()) };
}
