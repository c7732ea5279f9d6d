import { type Config, DATAPLANE_NAMES, type DataplaneName } from '../../apis/config.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Kernel } from '../apply/netlink/kernel.ts';
import type { CountedTable } from '../record/accounting.ts';
import type { DataplaneKind, DataplanePort, Dataplanes, LeftOvers } from './dataplane.ts';

/** All dataplanes. A dataplane's text is pure; its port needs the native addon. */
export const DATAPLANES: Readonly<Record<DataplaneName, DataplaneKind>> = {
  nftables: {
    output: 'nft',
    hasIndex: true,
    text: async () => (await import('./nftables/text.ts')).nftablesText,
    port: async () => (await import('./nftables/port.ts')).nftablesPort,
  },
  iptables: {
    output: 'iptables',
    hasIndex: false,
    text: async () => (await import('./iptables/text.ts')).iptablesText,
    port: async () => (await import('./iptables/port.ts')).iptablesPort,
  },
};

type Triable = Readonly<Record<DataplaneName, { port(): Promise<Pick<DataplanePort, 'trial'>> }>>;

/**
 * `auto` chooses the first dataplane that works. That is tried, because an installed binary or
 * module proves little.
 */
export async function chooseDataplane(
  { dataplane, iptables }: Pick<Config, 'dataplane' | 'iptables'>,
  kinds: Triable = DATAPLANES,
): Promise<{ readonly name: DataplaneName; readonly why: string }> {
  if (dataplane !== 'auto') return { name: dataplane, why: 'configured' };
  const failures: string[] = [];
  for (const name of DATAPLANE_NAMES) {
    const trial = await (await kinds[name].port()).trial({ iptables });
    if (trial.works) return { name, why: [...failures, `${name} works here`].join('; ') };
    failures.push(`${name} does not work here: ${trial.why}`);
  }
  throw new CommandError(EXIT.refused, failures.join('; '));
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
  const port = await DATAPLANES[name].port();
  const { dataplane, manages, details } = await port.open(config, kernel);
  log.info('dataplane chosen', { node, dataplane: name, ...details, reason: why });
  const all = await allLeftOvers(kernel);
  return { chosen: dataplane, others: all.filter((one) => !manages.includes(one.name)), all };
}

/**
 * All places where our dataplanes may have left rules, in an order in which these can be removed.
 */
export async function allLeftOvers(kernel: Kernel): Promise<readonly LeftOvers[]> {
  const leftOvers: LeftOvers[] = [];
  for (const name of DATAPLANE_NAMES) leftOvers.push(...(await DATAPLANES[name].port()).leftOvers(kernel));
  return leftOvers;
}

/** The counters of whichever dataplane has rules in force; null: none. Needs no configuration. */
export async function countsInForce(kernel: Kernel): Promise<CountedTable | null> {
  for (const name of DATAPLANE_NAMES) {
    const counts = await (await DATAPLANES[name].port()).counts(kernel);
    if (counts !== null) return counts;
  }
  return null;
}
