import type { Config } from '../../../apis/config.ts';
import { CommandError, EXIT } from '../../../lib/process/exit.ts';
import type { IptablesTools } from '../../apply/iptables/tools.ts';
import { installedVariant, type Variant, variantTools } from '../../apply/iptables/variant.ts';

/**
 * The commands that the configuration names, and their variant. Throws CommandError if they aren't
 * installed.
 */
export async function iptablesCommands({ iptables }: Pick<Config, 'iptables'>): Promise<{
  readonly tools: IptablesTools;
  readonly variant: Variant;
}> {
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
