/**
 * Firewalls of one rule that drops, each at another place on a packet's way: the least that a drop
 * costs there.
 */
import type { Namespace } from '../../test/netns/namespace.ts';
import { STATEFUL } from './nft.ts';

export const DROPS = [
  'native',
  'generic',
  'ingress',
  'raw',
  'untracked',
  'notrack',
  'prerouting',
  'input',
] as const;
export type Drop = (typeof DROPS)[number];

export const DROP_TITLES: Readonly<Record<Drop, string>> = {
  native: 'XDP program, native',
  generic: 'XDP program, generic',
  ingress: 'one rule, netdev ingress hook',
  raw: 'one rule, raw priority',
  untracked: 'one rule, input hook, no connection tracking in the namespace',
  notrack: 'one rule, input hook, `notrack` at raw priority',
  prerouting: 'one rule, after connection tracking and before routing',
  input: 'one rule, input hook',
};

/** The network that perf/inject sends from: other traffic passes. */
const SOURCE = 'ip saddr 198.18.0.0/16';
const RULE = `${SOURCE} meta l4proto { tcp, udp } counter drop`;
const ESTABLISHED = 'ct state established,related accept';

/** The flood is not tracked. */
export const NOTRACK = table('ip', 'prerouting priority -300', `${SOURCE} notrack`);

/** The stateful table is beside a drop that does not track by itself, as other rules are. */
const TABLES: Readonly<Record<Drop, string>> = {
  native: STATEFUL,
  generic: STATEFUL,
  ingress: `${STATEFUL}${table('netdev', 'ingress device c0 priority 0', RULE)}`,
  raw: `${STATEFUL}${table('inet', 'prerouting priority -300', RULE)}`,
  untracked: table('inet', 'input priority 0', RULE),
  notrack: `${NOTRACK}${table('inet', 'input priority 0', ESTABLISHED, RULE)}`,
  prerouting: table('inet', 'prerouting priority -90', ESTABLISHED, RULE),
  input: table('inet', 'input priority 0', ESTABLISHED, RULE),
};

/** For `nft -f`. */
export function dropText(drop: Drop): string {
  return TABLES[drop];
}

/** Loads it beside what is loaded. */
export async function loadText(node: Namespace, text: string): Promise<void> {
  await node.run(['nft', '-f', '-'], { stdin: text });
}

function table(family: string, hook: string, ...rules: readonly string[]): string {
  const lines = [`type filter hook ${hook}; policy accept;`, ...rules];
  return `table ${family} denial {\n  chain base {\n${lines.map((line) => `    ${line}\n`).join('')}  }\n}\n`;
}
