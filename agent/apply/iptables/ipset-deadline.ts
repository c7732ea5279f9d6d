import type { Ipset, RestoreOperation } from 'ipset-ts';
import type { IpSet, IptablesRuleset } from '../../render/iptables/tables.ts';
import type { DeadlineKernel } from '../deadline.ts';
import { entries, holdable, ipsetMemberCount, refOf } from './kernel-set.ts';

/** The sets of a ruleset that keep the deadline of a trial; empty: it has none. */
function deadlineSets({ sets }: Pick<IptablesRuleset, 'sets'>): IpSet[] {
  return [...sets.values()].filter(({ timeout }) => timeout !== undefined);
}

/** Milliseconds until the deadline of this ruleset, from when it is renewed; null: it has none. */
export function ipsetDeadlineOf(ruleset: Pick<IptablesRuleset, 'sets'>): number | null {
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
        for (const entry of entries(set, members)) {
          const timed = { ...entry, timeout: milliseconds / 1000 };
          renewals.push({ op: 'add', set: refOf(set.name, set), entry: timed } as RestoreOperation);
        }
      }
      await ipset.restore(renewals, { exist: true });
      return isThere;
    },
    isThere: async () => (await ipset.names()).some((name) => name.startsWith(DEADLINE_NAMES)),
  };
}
