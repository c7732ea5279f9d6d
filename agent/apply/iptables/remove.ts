import { FAMILIES } from '../../../lib/net/address.ts';
import { collectSets } from './collect-sets.ts';
import { readSets } from './kernel-set.ts';
import { ruleChange } from './rule-change.ts';
import { parseSaved, TABLES } from './saved.ts';
import { commandOf, type IptablesTools } from './tools.ts';

/**
 * Removes the jumps and chains of one variant in both families, whichever run left them. Returns
 * human-readable lines about what was removed, and what remains because rules of third parties lead
 * to it. Throws IptablesError.
 */
export async function removeRules(tools: IptablesTools): Promise<string[]> {
  const words: string[] = [];
  for (const family of FAMILIES) {
    const saved = parseSaved(await tools.save(family));
    const { text, left } = ruleChange(saved, [], { tables: null, shown: new Map() });
    if (text !== '') await tools.restore(family, text);
    const command = commandOf(family);
    for (const table of TABLES) {
      const { chains, leads } = saved[table];
      if (chains.size + leads.length === 0) continue;
      const jumps = leads.filter(({ isBuiltin }) => isBuiltin);
      words.push(`${command}, table ${table}: ${jumps.length} jumps, ${chains.size} chains`);
    }
    words.push(...left.map((kept) => `${command}, not removed: ${kept}`));
  }
  return words;
}

/**
 * Removes our sets. Rules of both variants name the same sets, so call this after the rules of both
 * are removed. Returns human-readable lines. Throws IpsetError.
 */
export async function removeSets({ ipset }: Pick<IptablesTools, 'ipset'>): Promise<string[]> {
  const names = [...(await readSets(ipset)).keys()];
  const { inUse, failed } = await collectSets(
    ipset,
    names.map((name) => ({ op: 'destroy', name })),
  );
  if (failed !== null) throw failed.error;
  const removed = names.length - inUse.size;
  const kept = [...inUse].map(([name, { message }]) => `ipset, not removed: ${name} (${message})`);
  return [...(removed === 0 ? [] : [`ipset: ${removed} sets`]), ...kept];
}
