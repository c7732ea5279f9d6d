import { type ClusterSize, memberOf, portOf } from './cluster.ts';

/**
 * Flows to the ports of all rules by turns, every other one from an address that the rule is for;
 * JSON lines.
 */
export function flowLines(size: ClusterSize, amount: number): string {
  const lines = Array.from({ length: amount }, (_, i) => {
    const rule = (i * 7) % size.rules;
    return JSON.stringify({
      direction: 'ingress',
      src: i % 2 === 0 ? memberOf(size, rule) : `203.0.113.${i % 250}`,
      dst: '10.90.0.10',
      protocol: 'tcp',
      srcPort: 32_768 + (i % 28_000),
      dstPort: portOf(rule),
    });
  });
  return `${lines.join('\n')}\n`;
}
