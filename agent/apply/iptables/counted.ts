import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import type { ChainOwner, CountedTable, Owners } from '../../record/accounting.ts';
import {
  CHAIN_PREFIX,
  type Counts,
  type IptablesChain,
  type IptablesRuleset,
} from '../../render/iptables/tables.ts';
import { parseSaved, type SavedRule } from './saved.ts';

/**
 * What iptables counted, as accounting reads it: a "chain" for each rule of ours, whatever it is
 * for; accounting knows by their names those that it has seen before.
 * @param saved what iptables-save and ip6tables-save print
 * @returns null where nothing of ours is there
 */
export function countedRules(saved: Readonly<Record<Family, string>>): CountedTable | null {
  const isThere = FAMILIES.some((family) => saved[family].includes(`:${CHAIN_PREFIX}`));
  return isThere
    ? { chains: FAMILIES.flatMap((family) => countedFamily(family, saved[family], null)) }
    : null;
}

/**
 * Of one family, a "chain" for each rule that counts for a policy rule; without a ruleset for each
 * rule of ours. It is named for its text, so that one that is left as it is goes on, through
 * restarts too, and one that is written otherwise begins anew.
 */
export function countedFamily(family: Family, saved: string, ruleset: IptablesRuleset | null): Chains {
  const tables = parseSaved(saved);
  if (ruleset === null) {
    return Object.entries(tables).flatMap(([table, { chains }]) =>
      [...chains].flatMap(([chain, rules]) => {
        const names = ruleNames(`${family} ${table} ${chain}`, rules);
        return rules.map((rule, i) => counted(names[i] ?? '', rule));
      }),
    );
  }
  return ruleset.families[family].flatMap((table) =>
    [...table.chains.values()].flatMap((chain) => {
      const there = tables[table.name].chains.get(chain.name) ?? [];
      return [...counting(`${family} ${table.name}`, chain)].flatMap(([index, { name }]) => {
        const found = heldRule(there, chain, index);
        return found === undefined ? [] : [counted(name, found)];
      });
    }),
  );
}

type Chains = CountedTable['chains'];

function counted(name: string, { packets, bytes }: SavedRule): Chains[number] {
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

interface Counting {
  readonly name: string;
  readonly counts: Counts;
}

/**
 * The rules of a chain that count, by their index. Chains that are the same object are not looked
 * at again.
 */
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

/**
 * By its place: another version of iptables may show the text otherwise. A chain that somebody
 * changed is repaired soon; until then by its text.
 */
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
