import type { L4Protocol } from '../ruleset.ts';

/** The chain of an index that receives the packets of a protocol, if it has one. */
export function protocolChain(index: string, protocol: L4Protocol): string {
  return `${index}-${protocol}`;
}
