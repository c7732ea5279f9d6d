/** The dataplanes, each of which keeps every promise that a test of the kernel holds. */
import type { Namespace } from '../netns/namespace.ts';
import { type Iptables, type Listing, listIptables, loseIptables, missingIptables } from './iptables.ts';
import { kernelSuite } from './kernel-suite.ts';
import { toStableText } from './ruleset-text.ts';
import { areVariationsWanted } from './variations.ts';

export interface Dataplane {
  readonly name: 'nftables' | 'iptables-nft' | 'iptables-legacy';
  /** What a configuration says to have it. */
  readonly config: Readonly<Record<string, unknown>>;
  /**
   * Of the time, and of the random runs, that a test gives nftables: the whole suite must stay
   * short.
   */
  readonly share: number;
  readonly iptables: Iptables | null;
}

/**
 * Milliseconds within which an agent undoes what others did, on a busy machine too. The kernel
 * tells it of a change to nftables: without that it looks once a minute. Nobody tells of one to
 * iptables: it looks every 3 s, more seldom where looking takes long.
 */
export const REPAIRED_WITHIN = 50_000;

/** The default, and what says so of itself: no configuration names it. */
export const NFTABLES: Dataplane = {
  name: 'nftables',
  config: {},
  share: 1,
  iptables: null,
};
export const IPTABLES_NFT: Dataplane = ofIptables('nft', 0.5);
export const IPTABLES_LEGACY: Dataplane = ofIptables('legacy', 0.4);
export const DATAPLANES: readonly Dataplane[] = [NFTABLES, IPTABLES_NFT, IPTABLES_LEGACY];

function ofIptables(variant: Iptables, share: number): Dataplane {
  return {
    name: `iptables-${variant}`,
    config: { dataplane: 'iptables', iptables: { variant } },
    share,
    iptables: variant,
  };
}

/**
 * For suites of what nodewall does for either iptables in the same way: iptables-legacy is a
 * variation.
 */
export const EITHER_IPTABLES: readonly Dataplane[] = [NFTABLES, IPTABLES_NFT];

/** A suite for each dataplane that this machine has; those not in `dataplanes` are variations. */
export function forEachDataplane(
  title: string,
  body: (dataplane: Dataplane) => void,
  dataplanes: readonly Dataplane[] = DATAPLANES,
): void {
  const chosen = areVariationsWanted() ? DATAPLANES : dataplanes;
  for (const dataplane of chosen) dataplaneSuite(title, dataplane, () => body(dataplane));
}

/** A suite for one. NODEWALL_DATAPLANE=NAME leaves the others' out. */
export function dataplaneSuite(title: string, dataplane: Dataplane, body: () => void): void {
  const { NODEWALL_DATAPLANE: only } = process.env;
  if (only !== undefined && only !== dataplane.name) return;
  kernelSuite(`${title} (${dataplane.name})`, () => {
    before(async function () {
      await skipWithout(this, dataplane);
    });
    body();
  });
}

/** `it` for what is the same in every dataplane: with others than nftables it is a variation. */
export function itForAny(dataplane: Dataplane): (title: string, body: Mocha.AsyncFunc) => void {
  const isWanted = dataplane === NFTABLES || areVariationsWanted();
  return (title, body) => {
    if (isWanted) it(title, body);
  };
}

/** Skips what needs a dataplane that isn't to be had here. */
export async function skipWithout(test: Mocha.Context, ...dataplanes: readonly Dataplane[]): Promise<void> {
  for (const { iptables, name } of dataplanes) {
    const missing = iptables === null ? undefined : await missingIptables(iptables);
    if (missing === undefined) continue;
    process.stderr.write(`skipped: ${name}: ${missing}\n`);
    test.skip();
  }
}

/** What a dataplane has in force of ours; text '' when that is nothing. */
export async function inForce(node: Namespace, { iptables }: Dataplane): Promise<Listing> {
  if (iptables !== null) return await listIptables(node, iptables);
  const argv = ['nft', '-s', 'list', 'table', 'inet', 'nodewall'];
  const { status, stdout } = await node.run(argv, { anyStatus: true });
  const text = status === 0 ? toStableText(stdout) : '';
  return { rules: text, text, says: (word) => word.test(text) };
}

/** Takes away what a dataplane has in force of ours, as a reboot does. */
export async function lose(node: Namespace, { iptables }: Dataplane): Promise<void> {
  if (iptables !== null) return await loseIptables(node, iptables);
  await node.run(['nft', '-f', '-'], { stdin: 'delete table inet nodewall\n' });
}
