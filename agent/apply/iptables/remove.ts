import { setTimeout as sleep } from 'node:timers/promises';
import { type DelOperation, type Ipset, IpsetError, type NameOperation } from 'ipset-ts';
import { FAMILIES } from '../../../lib/net/address.ts';
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

interface CollectedSets {
  /** Sets that rules of third parties name, with ipset's error. */
  readonly inUse: ReadonlyMap<string, IpsetError>;
  /** Another failure that ended the operation, and the sets that were not destroyed. */
  readonly failed: { readonly error: IpsetError; readonly left: readonly string[] } | null;
}

/**
 * Milliseconds between attempts to destroy a set that the kernel still calls in use: it frees
 * removed rules in work of its own, which may come after the command that removed them.
 */
const PAUSES = [50, 100, 200, 400, 800] as const;

interface CollectOptions {
  /** Sets that were in use before: for these the kernel's first answer counts. */
  readonly stuck?: ReadonlySet<string>;
  readonly pause?: (milliseconds: number) => Promise<unknown>;
}

/**
 * Deletes members and destroys sets, in order; sets that rules of third parties name stay. Throws
 * IpsetError if members can't be deleted.
 */
export async function collectSets(
  ipset: Ipset,
  operations: readonly (DelOperation | NameOperation)[],
  { stuck = new Set(), pause = sleep }: CollectOptions = {},
): Promise<CollectedSets> {
  const inUse = new Map<string, IpsetError>();
  let rest = operations;
  for (const wait of [...PAUSES, null]) {
    const collected = await collectOnce(ipset, rest);
    for (const one of rest) if (one.op === 'destroy') inUse.delete(one.name);
    for (const [name, error] of collected.inUse) inUse.set(name, error);
    if (collected.failed !== null) return { inUse, failed: collected.failed };
    rest = [...collected.inUse.keys()]
      .filter((name) => !stuck.has(name))
      .map((name) => ({ op: 'destroy', name }));
    if (rest.length === 0 || wait === null) break;
    await pause(wait);
  }
  return { inUse, failed: null };
}

async function collectOnce(
  ipset: Ipset,
  operations: readonly (DelOperation | NameOperation)[],
): Promise<CollectedSets> {
  const inUse = new Map<string, IpsetError>();
  let rest = operations;
  while (rest.length > 0) {
    try {
      await ipset.restore(rest, { exist: true });
      break;
    } catch (error) {
      const at = error instanceof IpsetError ? (error.operation ?? 0) : 0;
      const refused = rest[at];
      if (!(error instanceof IpsetError) || refused?.op !== 'destroy') throw error;
      if (error.code !== 'IN_USE') {
        const left = rest.flatMap((one) => (one.op === 'destroy' ? one.name : []));
        return { inUse, failed: { error, left } };
      }
      inUse.set(refused.name, error);
      rest = rest.slice(at + 1);
    }
  }
  return { inUse, failed: null };
}
