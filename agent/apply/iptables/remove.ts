import { IpsetError } from 'ipset-ts';
import { readSets } from './heldset.ts';
import { ruleChange } from './rulechange.ts';
import { parseSaved } from './saved.ts';
import type { IptablesTools } from './tools.ts';

/** Removes all that is ours, of whatever run: jumps and chains of both families, then sets. In words what was removed, and what others' rules keep. */
export async function removeIptables(tools: IptablesTools): Promise<string[]> {
  return [...(await removeRules(tools)), ...(await removeSets(tools))];
}

/** Of one variant: jumps and chains of both families. */
export async function removeRules(tools: IptablesTools): Promise<string[]> {
  const words: string[] = [];
  for (const family of [4, 6] as const) {
    const saved = parseSaved(await tools.save(family));
    const { text, left } = ruleChange(saved, [], { tables: null, shown: new Map() });
    if (text !== '') await tools.restore(family, text);
    const command = family === 4 ? 'iptables' : 'ip6tables';
    for (const table of ['filter', 'nat'] as const) {
      const { chains, leads } = saved[table];
      if (chains.size + leads.length === 0) continue;
      const jumps = leads.filter(({ isBuiltin }) => isBuiltin);
      words.push(`${command}, table ${table}: ${jumps.length} jumps, ${chains.size} chains`);
    }
    words.push(...left.map((kept) => `${command}, not removed: ${kept}`));
  }
  return words;
}

/** Both variants' rules name the same sets: they go once those of both are gone. */
export async function removeSets({ ipset }: Pick<IptablesTools, 'ipset'>): Promise<string[]> {
  let rest = [...(await readSets(ipset)).keys()];
  const kept: string[] = [];
  let removed = 0;
  while (rest.length > 0) {
    try {
      await ipset.restore(
        rest.map((name) => ({ op: 'destroy', name })),
        { exist: true },
      );
      removed += rest.length;
      break;
    } catch (error) {
      if (!(error instanceof IpsetError) || error.code !== 'IN_USE') throw error;
      const at = error.operation ?? 0;
      kept.push(`ipset, not removed: ${rest[at]} (${error.message})`);
      removed += at;
      rest = rest.slice(at + 1);
    }
  }
  return [...(removed === 0 ? [] : [`ipset: ${removed} sets`]), ...kept];
}
