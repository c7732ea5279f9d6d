import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import { memo } from '../../../lib/sharing/memo.ts';
import type { ChainOwner, CountedTable, Owners } from '../../record/accounting.ts';
import {
  CHAIN_PREFIX,
  type CountPurpose,
  type IptablesChain,
  type IptablesRuleset,
} from '../../render/iptables/tables.ts';
import { parseSaved, type SavedRule } from './saved.ts';

/**
 * The counters of iptables in the form that accounting reads: one "chain" for each rule of ours,
 * for whatever purpose. Accounting recognizes by name those that it has seen before.
 * @param saved the output of iptables-save and ip6tables-save
 * @returns null if nothing of ours exists
 */
export function countedRules(saved: Readonly<Record<Family, string>>): CountedTable | null {
  const isThere = FAMILIES.some((family) => saved[family].includes(`:${CHAIN_PREFIX}`));
  return isThere ? { chains: FAMILIES.flatMap((family) => countedSaved(family, saved[family])) } : null;
}

function countedSaved(family: Family, saved: string): Chains {
  return Object.entries(parseSaved(saved)).flatMap(([table, { chains }]) =>
    [...chains].flatMap(([chain, rules]) => {
      const names = ruleNames(chain, rules);
      return rules.map((rule, i) => counted(`${family} ${table} ${names[i]}`, rule));
    }),
  );
}

/**
 * Reads the counters of successive rulesets: one "chain" for each rule that counts for a policy
 * rule. Each is named for the rule's text, so that the count of an unchanged rule continues, also
 * across restarts, and that of a changed rule begins again at 0.
 */
export class IptablesCounters {
  readonly #counting = memo(countingRules);

  /** The counters of one family; without a ruleset, those of each rule of ours. */
  read(family: Family, saved: string, ruleset: IptablesRuleset | null): Chains {
    if (ruleset === null) return countedSaved(family, saved);
    const tables = parseSaved(saved);
    return ruleset.families[family].flatMap((table) =>
      [...table.chains.values()].flatMap((chain) => {
        const there = tables[table.name].chains.get(chain.name) ?? [];
        return this.#counting(chain).flatMap(({ index, name }) => {
          const found = heldRule(there, chain, index);
          return found === undefined ? [] : [counted(`${family} ${table.name} ${name}`, found)];
        });
      }),
    );
  }

  /** The policy rules that those "chains" count for. */
  owners({ families }: IptablesRuleset): Owners {
    const found = FAMILIES.flatMap((family) =>
      families[family].flatMap((table) =>
        [...table.chains.values()].flatMap((chain) =>
          this.#counting(chain).map((one) => ({ ...one, name: `${family} ${table.name} ${one.name}` })),
        ),
      ),
    );
    const logged = new Set(
      found.flatMap(({ counts: { kind, ruleId } }) => (kind === 'record' ? ruleId : [])),
    );
    const owner = ({ ruleId, kind }: CountPurpose): ChainOwner => ({
      rule: ruleId,
      kind: kind === 'matched' && logged.has(ruleId) ? 'logged' : kind,
    });
    return new Map(found.map(({ name, counts }) => [name, owner(counts)]));
  }
}

type Chains = CountedTable['chains'];

function counted(name: string, { packets, bytes }: SavedRule): Chains[number] {
  const handle = handleOf(name);
  return { name, handle, rules: [{ packets: BigInt(packets), bytes: BigInt(bytes) }] };
}

/** Names for all rules of a chain. Two rules with the same text get different names. */
function ruleNames(chain: string, rules: readonly { readonly text: string }[]): string[] {
  const times = new Map<string, number>();
  return rules.map(({ text }) => {
    const time = times.get(text) ?? 0;
    times.set(text, time + 1);
    return `${chain} ${shortHash(12, text, time)}`;
  });
}

interface Counting {
  readonly index: number;
  /** The rule's own, without its family and table. */
  readonly name: string;
  readonly counts: CountPurpose;
}

/** The rules of a chain that count. */
function countingRules(chain: IptablesChain): Counting[] {
  const names = ruleNames(chain.name, chain.rules);
  return chain.rules.flatMap(({ counts }, index) =>
    counts === null ? [] : [{ index, name: names[index] ?? '', counts }],
  );
}

/**
 * Finds a rule by its index, because another version of iptables may print its text differently. If
 * a third party changed the chain, finds it by its text; the chain is repaired soon.
 */
function heldRule(
  there: readonly SavedRule[],
  { rules }: IptablesChain,
  index: number,
): SavedRule | undefined {
  if (there.length === rules.length) return there[index];
  return there.find(({ text }) => text === rules[index]?.text);
}

/** iptables has no handles: uses 48 bits of a hash, which a number represents exactly. */
function handleOf(name: string): number {
  return Number.parseInt(shortHash(12, name), 16);
}
