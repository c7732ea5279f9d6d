import { IpsetError } from 'ipset-ts';
import type { Config } from '../../../apis/config.ts';
import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import { CommandError, EXIT } from '../../../lib/process/exit.ts';
import { collectSets } from '../../apply/iptables/remove.ts';
import {
  commandOf,
  IptablesError,
  type IptablesTools,
  installedVariant,
  type Variant,
  variantTools,
} from '../../apply/iptables/tools.ts';
import { CHAIN_PREFIX, SET_PREFIX } from '../../render/iptables/tables.ts';

interface Commands {
  readonly tools: IptablesTools;
  readonly variant: Variant;
}

/** Commands that were tried in the kernel; `lacks`: what of them does not work, '' if all does. */
interface TriedCommands extends Commands {
  readonly lacks: string;
}

const OTHER: Readonly<Record<Variant, Variant>> = { nft: 'legacy', legacy: 'nft' };

/**
 * The commands that the configuration names and that work in this network namespace; with `auto`
 * the other variant's if only that works. Rules of ours in force are proof enough. Null for the
 * tools if none of them works, not even for IPv4. Throws CommandError if they aren't installed.
 */
export async function workingCommands(
  config: Pick<Config, 'iptables'>,
  trial: (tools: IptablesTools) => Promise<VariantTrial> = tryVariant,
): Promise<TriedCommands | { readonly tools: null; readonly lacks: string }> {
  const first = await iptablesCommands(config);
  const candidates = [first];
  if (config.iptables.variant === 'auto') {
    const variant = OTHER[first.variant];
    const tools = await variantTools(variant);
    if (tools !== null) candidates.push({ tools, variant });
  }
  const tried: (TriedCommands & { readonly hasIPv4: boolean })[] = [];
  for (const { tools, variant } of candidates) {
    const failures = (await holdsRules(tools)) ? NO_FAILURES : await trial(tools);
    const lacks = [...failures.values()].map((text) => `${variant}: ${text}`).join('; ');
    tried.push({ tools, variant, lacks, hasIPv4: !failures.has(4) });
    if (lacks === '') break;
  }
  const found = tried.find(({ lacks }) => lacks === '') ?? tried.find(({ hasIPv4 }) => hasIPv4);
  return found ?? { tools: null, lacks: tried.map(({ lacks }) => lacks).join('; ') };
}

const NO_FAILURES: VariantTrial = new Map();

async function holdsRules(tools: IptablesTools): Promise<boolean> {
  const { IptablesReconciler } = await import('../../apply/iptables/reconciler.ts');
  // Commands that fail are tried, and then say what is wrong.
  return await new IptablesReconciler(tools).holdsRules().catch(() => false);
}

/**
 * The commands that the configuration names, and their variant. Throws CommandError if they aren't
 * installed.
 */
export async function iptablesCommands({ iptables }: Pick<Config, 'iptables'>): Promise<Commands> {
  const variant = await installedVariant(iptables.variant);
  // By the variant's own names: `iptables` may be switched to the other variant while the agent
  // runs, and the rules would then be in both.
  const tools = variant === null ? null : await variantTools(variant);
  if (variant !== null && tools !== null) return { tools, variant };
  const command = iptables.variant === 'auto' ? 'iptables' : `iptables-${iptables.variant}`;
  throw new CommandError(
    EXIT.refused,
    `the dataplane iptables needs the commands ${command} and ipset; install the packages iptables and ipset`,
  );
}

/** A variant's families that do not work, each with its error; empty: all work. */
type VariantTrial = ReadonlyMap<Family, string>;

const CHAIN = `${CHAIN_PREFIX}TRIAL`;
const sets = { 4: `${SET_PREFIX}trial-4`, 6: `${SET_PREFIX}trial-6` } as const;

/**
 * The chain returns every packet, and is there for as long as two commands take. Names of ours, so
 * that whatever a crash leaves is removed like other left-overs.
 */
function texts(family: Family): readonly string[] {
  const match = `-m set --match-set ${sets[family]} src -m conntrack --ctstate ESTABLISHED`;
  return [
    `*filter\n:${CHAIN} - [0:0]\n-A ${CHAIN} ${match} -m comment --comment trial -j RETURN\n-I INPUT 1 -j ${CHAIN}\nCOMMIT\n`,
    `*filter\n-D INPUT -j ${CHAIN}\n-F ${CHAIN}\n-X ${CHAIN}\nCOMMIT\n`,
  ];
}

/**
 * Tries in the kernel what rules need of a variant: a set, a chain, a jump from INPUT. Removes them
 * again. Throws if this process has not the permission for it.
 */
export async function tryVariant(tools: IptablesTools): Promise<VariantTrial> {
  const failures = new Map<Family, string>();
  for (const family of FAMILIES) {
    try {
      await tryFamily(tools, family);
    } catch (error) {
      if (!(error instanceof IptablesError || error instanceof IpsetError)) throw error;
      if (error.code === 'NOT_PERMITTED') throw error;
      if (error.code !== 'NO_FAMILY') failures.set(family, `${commandOf(family)}: ${error.message}`);
    }
  }
  return failures;
}

async function tryFamily({ ipset, restore }: IptablesTools, family: Family): Promise<void> {
  const name = sets[family];
  const set = { name, type: 'hash:net', family: family === 4 ? 'inet' : 'inet6' } as const;
  await ipset.restore([{ op: 'create', set }], { exist: true });
  try {
    for (const text of texts(family)) await restore(family, text);
  } finally {
    await collectSets(ipset, [{ op: 'destroy', name }]);
  }
}
