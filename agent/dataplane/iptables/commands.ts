import type { Config } from '../../../apis/config.ts';
import { CommandError, EXIT } from '../../../lib/process/exit.ts';
import {
  type IptablesTools,
  installedVariant,
  type Variant,
  variantTools,
} from '../../apply/iptables/tools.ts';
import { tryVariant, type VariantTrial } from '../../apply/iptables/trial.ts';

interface Commands {
  readonly tools: IptablesTools;
  readonly variant: Variant;
}

/** Commands that were tried in the kernel; `lacks`: what of them does not work, '' if all does. */
export interface TriedCommands extends Commands {
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
