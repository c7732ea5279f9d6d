import type { Family } from '../../../apis/address.ts';
import { shortHash } from '../../../apis/hash.ts';
import type { ChainOwner, CountedTable, Owners } from '../../record/accounting.ts';
import type { Counts, IptablesRule, IptablesRuleset } from '../../render/iptables/tables.ts';

/** What one rule of iptables counted. */
export interface RuleCount {
  readonly family: Family;
  readonly counts: Counts;
  readonly packets: bigint;
  readonly bytes: bigint;
}

/**
 * What was counted, as accounting reads it: a "chain" for each family, policy rule and kind. Its name says as well whether the rule has a record:
 * with another name it is another chain, which begins at 0.
 */
export function countedTable(found: Iterable<RuleCount>): CountedTable {
  const all = [...found];
  const logged = recording(all);
  const sums = new Map<string, { packets: bigint; bytes: bigint }>();
  for (const { family, counts, packets, bytes } of all) {
    const name = countName(family, ownerOf(counts, logged));
    const sum = sums.get(name) ?? { packets: 0n, bytes: 0n };
    sums.set(name, { packets: sum.packets + packets, bytes: sum.bytes + bytes });
  }
  return { chains: [...sums].map(([name, sum]) => ({ name, handle: handleOf(name), rules: [sum] })) };
}

/** Whose packets those "chains" count. */
export function iptablesOwners({ families }: IptablesRuleset): Owners {
  const owners = new Map<string, ChainOwner>();
  const counting = ([4, 6] as const).map((family) => {
    const rules = families[family].flatMap(({ chains }) =>
      [...chains.values()].flatMap(({ rules }) => rules),
    );
    return [family, rules.flatMap(({ counts }: IptablesRule) => counts ?? [])] as const;
  });
  const logged = recording(counting.flatMap(([, all]) => all.map((counts) => ({ counts }))));
  for (const [family, all] of counting) {
    for (const counts of all) {
      const owner = ownerOf(counts, logged);
      owners.set(countName(family, owner), owner);
    }
  }
  return owners;
}

/** Ids of the rules that have a record, in whatever family. */
function recording(all: readonly { readonly counts: Counts }[]): ReadonlySet<string> {
  return new Set(all.flatMap(({ counts: { kind, ruleId } }) => (kind === 'record' ? [ruleId] : [])));
}

function ownerOf({ ruleId, kind }: Counts, logged: ReadonlySet<string>): ChainOwner {
  return { rule: ruleId, kind: kind === 'matched' && logged.has(ruleId) ? 'logged' : kind };
}

function countName(family: Family, { rule, kind }: ChainOwner): string {
  return `ipv${family} ${rule} ${kind}`;
}

/** Iptables has none: 48 bits of a hash, which a number holds exactly. */
function handleOf(name: string): number {
  return Number.parseInt(shortHash(12, name), 16);
}
