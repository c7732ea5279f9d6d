import type { Ipset, RestoreOperation } from 'ipset-ts';
import type { Family } from '../../../lib/net/address.ts';
import { DeadlineKeeper, type DeadlineKernel, withDeadline } from '../../apply/deadline.ts';
import { Enforcer } from '../../apply/enforcer.ts';
import { entries, holdable, ipsetMemberCount } from '../../apply/iptables/kernel-set.ts';
import { IptablesReconciler } from '../../apply/iptables/reconciler.ts';
import { IptablesCounters } from '../../apply/iptables/saved.ts';
import type { IptablesTools } from '../../apply/iptables/tools.ts';
import type { Reconciler } from '../../apply/reconciler-interface.ts';
import type { CountedTable } from '../../record/accounting.ts';
import type { CountSource, Readings } from '../../record/counters.ts';
import { iptablesRenderer } from '../../render/iptables/render.ts';
import type { IpSet, IptablesRuleset } from '../../render/iptables/tables.ts';
import type { Dataplane, Running } from '../dataplane.ts';
import { iptablesBootFiles } from './text.ts';

/**
 * The dataplane with our chains in the tables of iptables and ip6tables, and our sets, through the
 * commands of one variant.
 */
export function iptablesDataplane(tools: IptablesTools): Dataplane {
  return {
    name: 'iptables',
    run({ config, log, readings, deadlinePassed: passed = () => {}, enforcer: parts }) {
      const counters = new IptablesCounters();
      const inForce = () => reconciler.inForce();
      const counted = countedTools(tools, { counters, inForce }, readings);
      const reconciler: IptablesReconciler = new IptablesReconciler(counted);
      const observed = observe(reconciler);
      const kernel = ipsetDeadline(tools.ipset, inForce);
      const deadline = new DeadlineKeeper({ clock: parts.clock, log, kernel, passed });
      const enforcer = new Enforcer({
        ...parts,
        reconciler: withDeadline(observed.reconciler, deadline, ipsetDeadlineOf),
        renderer: (canLog) => iptablesRenderer(config, canLog),
      });
      return {
        enforcer,
        counts: iptablesCounts(counted),
        owners() {
          const ruleset = inForce();
          return ruleset === null ? null : counters.owners(ruleset);
        },
        bootFiles() {
          const ruleset = inForce();
          return () => (ruleset === null ? {} : iptablesBootFiles(ruleset));
        },
        digests: () => ({}),
        deadline,
        watch: () => pollKernel(enforcer, observed.verifyTook),
      };
    },
  };
}

/**
 * Measures how long a comparison takes, in milliseconds: the shorter of the last two, since the
 * machine may have been busy during one. It is 0 after a comparison that found differences, since a
 * large change is often made in steps.
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
 * The same commands, but each reading of the rules also passes on their counters, so that none are
 * lost when rules change. Readings of one family are made one after the other, because concurrent
 * commands may end in any order. Before a ruleset is in force, all saved rules are counted, each
 * under a name made from its text.
 */
export function countedTools(
  tools: IptablesTools,
  {
    counters,
    inForce,
  }: { readonly counters: IptablesCounters; readonly inForce: () => IptablesRuleset | null },
  readings: Readings,
): IptablesTools {
  const last: Record<Family, Promise<unknown>> = { 4: Promise.resolve(), 6: Promise.resolve() };
  const found: Record<Family, CountedTable['chains'] | null> = { 4: null, 6: null };
  async function save(family: Family): Promise<string> {
    const text = await tools.save(family);
    const ruleset = inForce();
    const chains = counters.read(family, text, ruleset);
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

/** @param counted the result of countedTools */
export function iptablesCounts(counted: Pick<IptablesTools, 'save'>): CountSource {
  const readAll = async (): Promise<void> => {
    await Promise.all([counted.save(4), counted.save(6)]);
  };
  return { readAll, readSome: async (names) => (names.length === 0 ? undefined : readAll()) };
}

/** The least time between two comparisons, in milliseconds. */
const LEAST_WAIT = 3_000;
/**
 * Or this multiple of the duration of the last comparison, so that an idle agent uses at most a
 * hundredth of a processor.
 */
const SHARE = 100;
/** The most time between two comparisons, in milliseconds, however slow the machine was once. */
const MOST_WAIT = 60_000;

/** Milliseconds until the next comparison, after one that took `took` milliseconds. */
export function pollInterval(took: number): number {
  return Math.min(MOST_WAIT, Math.max(LEAST_WAIT, SHARE * took));
}

/**
 * Compares repeatedly, because there are no events for changes of iptables and ipset. Returns a
 * function that stops it.
 */
function pollKernel(
  enforcer: Pick<Running['enforcer'], 'verify' | 'idle'>,
  took: () => number,
): () => Promise<void> {
  let timer: NodeJS.Timeout;
  let ended = false;
  const wait = (): void => {
    timer = setTimeout(() => void look(), pollInterval(took()));
  };
  async function look(): Promise<void> {
    enforcer.verify();
    await enforcer.idle();
    if (!ended) wait();
  }
  wait();
  return async () => {
    ended = true;
    clearTimeout(timer);
  };
}

/** The sets of a ruleset that keep the deadline of a trial; empty: it has none. */
function deadlineSets({ sets }: Pick<IptablesRuleset, 'sets'>): IpSet[] {
  return [...sets.values()].filter(({ timeout }) => timeout !== undefined);
}

/** Milliseconds until the deadline of this ruleset, from when it is renewed; null: it has none. */
function ipsetDeadlineOf(ruleset: Pick<IptablesRuleset, 'sets'>): number | null {
  const [first] = deadlineSets(ruleset);
  return first?.timeout === undefined ? null : first.timeout * 1000;
}

/** As toSetName has the names of DEADLINE_SETS. */
const DEADLINE_NAMES = 'nodewall-trial-deadline-';

/** @param inForce the ruleset that has the deadline */
export function ipsetDeadline(
  ipset: Pick<Ipset, 'names' | 'save' | 'restore'>,
  inForce: () => IptablesRuleset | null,
): DeadlineKernel {
  return {
    async move(milliseconds) {
      const ruleset = inForce();
      const sets = ruleset === null ? [] : deadlineSets(ruleset);
      let isThere = true;
      const renewals: RestoreOperation[] = [];
      for (const set of sets) {
        const { members } = holdable(set);
        const [saved] = await ipset.save(set.name);
        // Entries whose time is over are not listed.
        isThere &&= saved?.entries.length === ipsetMemberCount(set, members);
        for (const entry of entries(set, members))
          renewals.push({ op: 'add', set: set.name, entry, timeout: milliseconds / 1000 });
      }
      await ipset.restore(renewals, { exist: true });
      return isThere;
    },
    isThere: async () => (await ipset.names()).some((name) => name.startsWith(DEADLINE_NAMES)),
  };
}
