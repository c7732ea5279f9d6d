import type { Family } from '../../../apis/address.ts';
import { shortHash } from '../../../apis/hash.ts';
import type { ChainOwner, CountedTable, Owners } from '../../record/accounting.ts';
import type { Counts, IptablesChain, IptablesRuleset } from '../../render/iptables/tables.ts';
import { parseSaved, type SavedRule } from './saved.ts';

/**
 * What iptables counted, as accounting reads it: a "chain" for each rule that counts for a policy rule. It is named for its text, so that one that is
 * left as it is goes on, through restarts too, and one that is written otherwise begins anew.
 * @param saved what iptables-save and ip6tables-save print
 * @returns null where nothing of ours is there
 */
export function countedTable(
  saved: Readonly<Record<Family, string>>,
  ruleset: IptablesRuleset,
): CountedTable | null {
  const chains: CountedTable['chains'][number][] = [];
  let isThere = false;
  for (const family of FAMILIES) {
    const tables = parseSaved(saved[family]);
    isThere ||= Object.values(tables).some((table) => table.chains.size > 0);
    for (const table of ruleset.families[family]) {
      for (const chain of table.chains.values()) {
        const there = tables[table.name].chains.get(chain.name) ?? [];
        for (const [index, { name }] of counting(`${family} ${table.name}`, chain)) {
          const found = heldRule(there, chain, index);
          if (found !== undefined) chains.push(counted(name, found));
        }
      }
    }
  }
  return isThere ? { chains } : null;
}

/** Likewise of all rules of ours, whatever they are for: accounting knows those that it has seen before by their names. */
export function countedRules(saved: Readonly<Record<Family, string>>): CountedTable | null {
  const chains: CountedTable['chains'][number][] = [];
  let isThere = false;
  for (const family of FAMILIES) {
    for (const [table, own] of Object.entries(parseSaved(saved[family]))) {
      isThere ||= own.chains.size > 0;
      for (const [chain, rules] of own.chains) {
        const names = ruleNames(`${family} ${table} ${chain}`, rules);
        for (const [i, rule] of rules.entries()) chains.push(counted(names[i] ?? '', rule));
      }
    }
  }
  return isThere ? { chains } : null;
}

function counted(name: string, { packets, bytes }: SavedRule): CountedTable['chains'][number] {
  const handle = handleOf(name);
  return { name, handle, rules: [{ packets: BigInt(packets), bytes: BigInt(bytes) }] };
}

/** Of all rules of a chain. The same text twice is two rules. */
function ruleNames(place: string, rules: readonly { readonly text: string }[]): string[] {
  const times = new Map<string, number>();
  return rules.map(({ text }) => {
    const time = times.get(text) ?? 0;
    times.set(text, time + 1);
    return `${place} ${shortHash(12, text, time)}`;
  });
}

/** Whose packets those "chains" count. */
export function iptablesOwners({ families }: IptablesRuleset): Owners {
  const found = FAMILIES.flatMap((family) =>
    families[family].flatMap((table) =>
      [...table.chains.values()].flatMap((chain) => [...counting(`${family} ${table.name}`, chain).values()]),
    ),
  );
  const logged = new Set(found.flatMap(({ counts: { kind, ruleId } }) => (kind === 'record' ? ruleId : [])));
  const owner = ({ ruleId, kind }: Counts): ChainOwner => ({
    rule: ruleId,
    kind: kind === 'matched' && logged.has(ruleId) ? 'logged' : kind,
  });
  return new Map(found.map(({ name, counts }) => [name, owner(counts)]));
}

const FAMILIES = [4, 6] as const;

interface Counting {
  readonly name: string;
  readonly counts: Counts;
}

/** The rules of a chain that count, by their index. Chains that are the same object are not looked at again. */
function counting(place: string, chain: IptablesChain): ReadonlyMap<number, Counting> {
  const known = KNOWN.get(chain)?.get(place);
  if (known !== undefined) return known;
  const found = new Map<number, Counting>();
  const names = ruleNames(`${place} ${chain.name}`, chain.rules);
  for (const [index, { counts }] of chain.rules.entries()) {
    if (counts !== null) found.set(index, { name: names[index] ?? '', counts });
  }
  const places = KNOWN.get(chain) ?? new Map<string, ReadonlyMap<number, Counting>>();
  KNOWN.set(chain, places.set(place, found));
  return found;
}

const KNOWN = new WeakMap<IptablesChain, Map<string, ReadonlyMap<number, Counting>>>();

/** By its place: another version of iptables may show the text otherwise. A chain that somebody changed is repaired soon; until then by its text. */
function heldRule(
  there: readonly SavedRule[],
  { rules }: IptablesChain,
  index: number,
): SavedRule | undefined {
  if (there.length === rules.length) return there[index];
  return there.find(({ text }) => text === rules[index]?.text);
}

/** iptables has none: 48 bits of a hash, which a number holds exactly. */
function handleOf(name: string): number {
  return Number.parseInt(shortHash(12, name), 16);
}
