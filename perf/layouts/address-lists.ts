import { type RuleSet, sourcesOf } from '../generate/ruleset.ts';

/** A list of addresses and prefixes that rules share. */
interface AddressList {
  readonly name: string;
  readonly members: readonly string[];
}

interface AddressLists {
  readonly lists: readonly AddressList[];
  /**
   * By rule: its list's name; null where it has no member of the family, so that the rule matches
   * nothing.
   */
  readonly names: readonly (string | null)[];
}

/**
 * Equal lists are one, in the order in which rules name them. Rules without peers are an error: no
 * layout here needs them.
 */
export function addressLists(set: RuleSet, family: 4 | 6): AddressLists {
  const byMembers = new Map<string, AddressList>();
  const names = sourcesOf(set).map((sources) => {
    if (sources === null) throw new Error('a rule without peers');
    const members = sources.filter((source) => source.includes(':') === (family === 6));
    if (members.length === 0) return null;
    const key = members.join(' ');
    const list = byMembers.get(key) ?? { name: `list-${byMembers.size}`, members };
    byMembers.set(key, list);
    return list.name;
  });
  return { lists: [...byMembers.values()], names };
}
