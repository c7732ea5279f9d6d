import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { type FamilyMembers, formatFamily } from '../../../lib/net/member-set.ts';

/**
 * The table `arp nodewall`: for a floating address that is not alive on this node, no question is
 * answered and none is asked. What the agent itself sends by a packet socket does not pass it. For
 * IPv6, the table `inet nodewall` does the same (frame.ts).
 */
export const ARP_TABLE = { family: 'arp', name: 'nodewall' } as const;
export const ARP_SETS = { live: 'live', floating: 'floating' } as const;
export const ARP_CHAINS = { input: 'own', output: 'own-output' } as const;

/** Its only content that changes: the pools' IPv4 addresses. Null: there is no such table. */
export type ArpTable = Pick<FamilyMembers, 'singles' | 'prefixes'>;

export function toArpTable(egress: NodeEgress | null): ArpTable | null {
  if (egress === null) return null;
  const { v4 } = egress.floating;
  return v4.singles.length === 0 && v4.prefixes.length === 0 ? null : v4;
}

/** As `nft list table` would print it, except for counters. */
export function arpTableText(table: ArpTable): string {
  const { live, floating } = ARP_SETS;
  const elements = formatFamily({ family: 4, ...table }).join(', ');
  const block = (kind: string, name: string, ...lines: readonly string[]): string =>
    `\t${kind} ${name} {\n${lines.map((line) => `\t\t${line}\n`).join('')}\t}\n`;
  const chain = (name: string, hook: string, match: string): string =>
    block('chain', name, `type filter hook ${hook} priority 0; policy accept;`, `${match} counter drop`);
  const isDead = (field: string): string => `arp ${field} ip @${floating} arp ${field} ip != @${live}`;
  const blocks = [
    block('set', live, 'type ipv4_addr', 'flags timeout'),
    block('set', floating, 'type ipv4_addr', 'flags interval', `elements = { ${elements} }`),
    chain(ARP_CHAINS.input, 'input', `arp operation request ${isDead('daddr')}`),
    chain(ARP_CHAINS.output, 'output', isDead('saddr')),
  ];
  return `table ${ARP_TABLE.family} ${ARP_TABLE.name} {\n${blocks.join('\n')}}\n`;
}
