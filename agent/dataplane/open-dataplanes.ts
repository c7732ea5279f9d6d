import type { Config, DataplaneName } from '../../apis/config.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { Log } from '../../lib/process/log.ts';
import type { IptablesTools } from '../apply/iptables/tools.ts';
import { installedVariant, type Variant, variantTools } from '../apply/iptables/variant.ts';
import type { Kernel } from '../apply/netlink/kernel.ts';
import { TRIAL_WAYS, type TrialWay, tryNftables } from '../apply/netlink/nft-trial.ts';
import type { Dataplanes } from './dataplane.ts';
import { iptablesDataplane } from './iptables-dataplane.ts';
import { iptablesLeftOvers, nftLeftOvers, setLeftOvers } from './left-overs.ts';
import { nftablesDataplane } from './nftables-dataplane.ts';

interface Chosen {
  readonly name: DataplaneName;
  readonly why: string;
}

/**
 * `auto` chooses nftables if it works. That is tried, because an installed binary or module proves
 * little.
 */
export async function chooseDataplane(
  { dataplane }: Pick<Config, 'dataplane'>,
  ways: readonly TrialWay[] = TRIAL_WAYS,
): Promise<Chosen> {
  if (dataplane !== 'auto') return { name: dataplane, why: 'configured' };
  const trial = await tryNftables(ways);
  if (trial.works) return { name: 'nftables', why: 'nftables works here' };
  return { name: 'iptables', why: `nftables does not work here: ${trial.why}` };
}

interface OpenOptions {
  readonly node: string;
  readonly config: Config;
  readonly kernel: Kernel;
  readonly log: Pick<Log, 'info'>;
}

/**
 * The dataplane that the configuration names, and the places where others may have left rules.
 * Changes nothing.
 */
export async function openDataplanes({ node, config, kernel, log }: OpenOptions): Promise<Dataplanes> {
  const { name, why } = await chooseDataplane(config);
  const [table, nft, legacy, sets] = allLeftOvers(kernel);
  if (name === 'nftables') {
    log.info('dataplane chosen', { node, dataplane: name, reason: why });
    return {
      chosen: nftablesDataplane(kernel),
      others: [nft, legacy, sets],
      all: [table, nft, legacy, sets],
    };
  }
  const { tools, variant } = await iptablesCommands(config);
  log.info('dataplane chosen', { node, dataplane: name, variant, reason: why });
  // The reconciler manages the chains of its own variant, and all sets.
  const others = [table, variant === 'nft' ? legacy : nft];
  return { chosen: iptablesDataplane(tools), others, all: [table, nft, legacy, sets] };
}

/**
 * All places where our dataplanes may have left rules, in an order in which these can be removed.
 */
export function allLeftOvers(kernel: Kernel) {
  return [
    nftLeftOvers(kernel),
    iptablesLeftOvers('nft'),
    iptablesLeftOvers('legacy'),
    setLeftOvers(),
  ] as const;
}

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
