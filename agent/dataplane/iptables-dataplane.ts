import type { Family } from '../../lib/net/address.ts';
import type { Reconciler } from '../apply/dataplane.ts';
import { Enforcer } from '../apply/enforcer.ts';
import { countedFamily, iptablesOwners } from '../apply/iptables/counted.ts';
import { IptablesReconciler } from '../apply/iptables/reconciler.ts';
import type { IptablesTools } from '../apply/iptables/tools.ts';
import type { CountedTable } from '../record/accounting.ts';
import type { CountSource, Readings } from '../record/counters.ts';
import { iptablesRenderer } from '../render/iptables/render.ts';
import type { IptablesRuleset } from '../render/iptables/tables.ts';
import type { Dataplane } from './dataplane.ts';
import { pollKernel } from './poll-kernel.ts';

/**
 * Chains of ours in the tables of iptables and ip6tables, and sets of ours, by the commands of one
 * variant.
 */
export function iptablesDataplane(tools: IptablesTools): Dataplane {
  return {
    name: 'iptables',
    run({ config, readings, enforcer: parts }) {
      const counted = countedTools(tools, () => reconciler.inForce(), readings);
      const reconciler: IptablesReconciler = new IptablesReconciler(counted);
      const observed = observe(reconciler);
      const enforcer = new Enforcer({
        ...parts,
        reconciler: observed.reconciler,
        renderer: (canLog) => iptablesRenderer(config, canLog),
      });
      return {
        enforcer,
        counts: iptablesCounts(counted),
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

/**
 * The same reconciler, and how long a comparison takes: the shorter of the last two, as one may
 * have met a busy moment. After one that found something: 0, since who changes much changes it step
 * by step.
 */
function observe<Desired>(reconciler: Reconciler<Desired>) {
  let last = 0;
  let took = 0;
  const observed: Reconciler<Desired> = {
    apply: (desired) => reconciler.apply(desired),
    holdsRules: () => reconciler.holdsRules(),
    async verify() {
      const began = performance.now();
      const differences = await reconciler.verify();
      const now = performance.now() - began;
      took = differences.length > 0 ? 0 : Math.min(now, last);
      last = now;
      return differences;
    },
  };
  return { reconciler: observed, verifyTook: () => took };
}

/**
 * The same commands; whatever the rules are read for, what they counted is told, so that nothing is
 * lost when they are changed. Readings of a family are made one after the other: commands that run
 * at once end in any order. Before anything is in force, rules are known by what was saved of them.
 */
export function countedTools(
  tools: IptablesTools,
  inForce: () => IptablesRuleset | null,
  readings: Readings,
): IptablesTools {
  const last: Record<Family, Promise<unknown>> = { 4: Promise.resolve(), 6: Promise.resolve() };
  const found: Record<Family, CountedTable['chains'] | null> = { 4: null, 6: null };
  async function save(family: Family): Promise<string> {
    const text = await tools.save(family);
    const ruleset = inForce();
    const chains = countedFamily(family, text, ruleset);
    if (ruleset !== null) found[family] = chains;
    if (found[4] === null || found[6] === null) readings.some(chains);
    else readings.all({ chains: [...found[4], ...found[6]] });
    return text;
  }
  return {
    ...tools,
    save(family) {
      const next = last[family].then(() => save(family));
      last[family] = next.catch(() => undefined);
      return next;
    },
  };
}

/** @param counted countedTools */
export function iptablesCounts(counted: Pick<IptablesTools, 'save'>): CountSource {
  const readAll = async (): Promise<void> => {
    await Promise.all([counted.save(4), counted.save(6)]);
  };
  return { readAll, readSome: async (names) => (names.length === 0 ? undefined : readAll()) };
}
