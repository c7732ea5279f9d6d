/** The kernel's own cost of the smallest transactions: what no agent can go below. */
import type { Namespace } from '../../test/netns/namespace.ts';
import { cProgram } from '../../test/probe/probe.ts';

export const FLOORS = ['element', 'chain', 'rule', 'sets', 'setsByName', 'setsAndRules'] as const;
export type Floor = (typeof FLOORS)[number];

/**
 * Milliseconds; `median` of the transactions. In an empty namespace: its table `inet floor` has
 * `chains` chains of one rule as nodewall's are, which a verdict map by port leads to.
 */
export async function kernelFloor(
  namespace: Namespace,
  floor: Floor,
  { chains, count }: { readonly chains: number; readonly count: number },
): Promise<number> {
  const program = await cProgram(import.meta.dirname, 'floor', ['nftnl', 'mnl']);
  await namespace.run(['nft', '-f', '-'], { stdin: floorTable(chains) });
  const { stdout } = await namespace.run([program, floor, String(count)]);
  return (JSON.parse(stdout) as { median: number }).median / 1000;
}

function floorTable(count: number): string {
  const names = Array.from({ length: count }, (_, i) => `rule-${i}`);
  const elements = names.map((name, i) => `${1 + i} : jump ${name}`).join(', ');
  return `table inet floor {
  set members { type ipv4_addr; }
  map ports { type inet_service : verdict; ${count > 0 ? `elements = { ${elements} };` : ''} }
${names.map((name, i) => `  chain ${name} { ${ruleText(i)}; }\n`).join('')}
  chain input { type filter hook input priority 0; policy accept; tcp dport vmap @ports; }
}
`;
}

/**
 * As long as nodewall's: the kernel goes through all that can be reached, rule by rule, when one is
 * added.
 */
function ruleText(i: number): string {
  return `tcp dport ${1 + i} ip saddr @members counter accept comment "policy-${i}/rule-${i}"`;
}
