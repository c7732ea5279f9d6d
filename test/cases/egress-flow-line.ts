import type { EgressAnswer, EgressFlow } from '../oracle/egress/egress-oracle.ts';

/**
 * A flow of a pod or an address towards a destination, and the answer, on one line:
 *
 *   shop/web > 192.0.2.1 => Gateway by shop/p through gw: g1, 203.0.113.4
 *   [fd01::7] > [2001:db8::1] => Drop by shop/p through gw, no-family
 *   10.1.0.200 > 192.0.2.1 => Drop, unknown-pod
 */
export interface EgressFlowLine {
  readonly flow: EgressFlow;
  /** All up to the arrow, as it is written. */
  readonly words: string;
}

const LINE = /^((?:\[(?<src6>\S+)\]|(?<src4>\d\S*)|(?<pod>\S+\/\S+)) > \[?(?<dst>[^\s\]]+)\]?\s*=>)/;

/** Throws on a line it can't read. */
export function parseEgressFlowLine(line: string): EgressFlowLine {
  const found = LINE.exec(line.includes('=>') ? line : `${line} =>`);
  if (found === null) throw new Error(`not a flow: ${JSON.stringify(line)}; write "shop/web > 192.0.2.1"`);
  const { src6, src4, pod, dst = '' } = found.groups ?? {};
  const src = src6 ?? src4;
  const source = pod === undefined ? { src: src ?? '' } : { pod };
  return { flow: { traffic: 'Egress', ...source, dst }, words: found[1] ?? '' };
}

/** The answer in words. */
export function formatEgressAnswer(answer: EgressAnswer): string {
  const { verdict, policy, gateway, node, address, reason } = answer;
  const by = policy === null ? '' : ` by ${policy}`;
  const through = gateway === null ? '' : ` through ${gateway}`;
  if (verdict === 'Gateway') return `${verdict}${by}${through}: ${node}, ${address}`;
  return `${verdict}${by}${through}${reason === 'policy' ? '' : `, ${reason}`}`;
}
