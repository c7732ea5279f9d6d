/** What others have on a node, by every tool, beside whatever is ours: it must stay as it is. */
import type { Namespace } from '../netns/namespace.ts';
import type { Dataplane } from './dataplane.ts';
import { commandOf, type Iptables } from './iptables.ts';
import { FAMILIES } from './passed-by.ts';

const TABLES = `table inet other {
  set guests { type ipv4_addr; flags interval; elements = { 192.0.2.0/24, 198.51.100.7 }; }
  chain input { type filter hook input priority 5; policy accept; ip saddr @guests tcp dport 1 counter drop; }
}
table ip nodewall { chain input { type filter hook input priority 6; tcp dport 2 counter; }; }
`;
/** Names that ours could be taken for. */
const SETS = `create others hash:net family inet
add others 192.0.2.0/24
create my-nodewall-4 hash:ip family inet
create nodewall hash:ip family inet
`;
const RULES = `*filter
:OTHERS - [0:0]
:NODEWALL - [0:0]
:MY-NODEWALL-A - [0:0]
-A INPUT -m comment --comment "not NODEWALL-INPUT" -j OTHERS
-A FORWARD -j NODEWALL
-A OTHERS -p tcp -m tcp --dport 1 -j DROP
-A MY-NODEWALL-A -j RETURN
COMMIT
*nat
:OTHERS - [0:0]
-A POSTROUTING -j OTHERS
COMMIT
`;

const VARIANTS: readonly Iptables[] = ['nft', 'legacy'];

export interface ForeignRules {
  /**
   * Everything on the node but what is ours: rules, chains, tables, sets; equal texts, equal state.
   */
  list(): Promise<string>;
}

/** `dataplanes`: those this machine has. */
export async function installForeignRules(
  node: Namespace,
  dataplanes: readonly Dataplane[],
): Promise<ForeignRules> {
  const variants = VARIANTS.filter((variant) => dataplanes.some(({ iptables }) => iptables === variant));
  await node.run(['nft', '-f', '-'], { stdin: TABLES });
  if (variants.length > 0) await node.run(['ipset', 'restore'], { stdin: SETS });
  for (const variant of variants) {
    for (const family of FAMILIES) {
      await node.run([commandOf(variant, family, '-restore'), '--noflush'], { stdin: RULES });
    }
  }
  return { list: () => listForeignRules(node, variants) };
}

/** As ForeignRules.list, of whatever others have there. */
export async function listForeignRules(node: Namespace, variants: readonly Iptables[]): Promise<string> {
  return (await everything(node, variants)).filter((line) => !isOurs(line)).join('\n');
}

/**
 * All that any tool shows, ours too, but for what iptables-nft and the kernel make by themselves:
 * tables, built-in chains.
 */
export async function everything(node: Namespace, variants: readonly Iptables[]): Promise<string[]> {
  const lines = await nftTables(node);
  if (variants.length === 0) return lines;
  for (const variant of variants) {
    for (const family of FAMILIES) {
      const command = commandOf(variant, family, '-save');
      const { stdout } = await node.run([command]);
      const own = stdout.split('\n').filter((line) => /^(-A |:\S+ - )/.test(line));
      lines.push(...own.map((line) => `${command} ${line.replace(/ \[.*/, '')}`));
    }
  }
  const sets = (await node.run(['ipset', 'save'])).stdout.split('\n').filter(Boolean).sort();
  return [...lines, ...sets.map((line) => `ipset ${line}`)];
}

/** By their handles: a table that was deleted and added again is another. */
async function nftTables(node: Namespace): Promise<string[]> {
  const { stdout } = await node.run(['nft', 'list', 'tables']);
  const tables = stdout.split('\n').flatMap((line) => /^table (\S+ \S+)$/.exec(line)?.[1] ?? []);
  const others = tables.filter((table) => !/^ip6? (filter|nat|mangle|raw|security)$/.test(table)).sort();
  const listings = others.map((table) => node.run(['nft', '-a', 'list', 'table', ...table.split(' ')]));
  // Of counters, whatever they count.
  return (await Promise.all(listings)).map((one) =>
    one.stdout.replaceAll(/packets \d+ bytes \d+/g, 'packets N'),
  );
}

/** Chains and sets by their names, and jumps to them; of nft, the table. */
function isOurs(line: string): boolean {
  return (
    /^ip6?tables-\S+ (:|-A )NODEWALL-/.test(line) ||
    /^ip6?tables-.* -[jg] NODEWALL-/.test(line) ||
    /^ipset (create|add) nodewall-/.test(line) ||
    /^table inet nodewall /.test(line)
  );
}
