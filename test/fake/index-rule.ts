import type { MatchEntry, Peers } from '../../agent/render/index/match-entry.ts';
import type { PortRange } from '../../apis/compiled.ts';
import { parseAddress, parseCidr } from '../../lib/net/address.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';

/** What the index knows of rules, in few words, for its tests. */

/** Peers named `key`: addresses and CIDRs as text. */
export function peersOf(key: string, ...members: readonly string[]): Peers {
  const cidrs = members.flatMap((text) => parseCidr(text)?.cidr ?? []);
  const addresses = members.filter((text) => parseAddress(text) !== null);
  return {
    key,
    members: toMemberSet(
      cidrs.map((cidr) => ({ cidr, except: [] })),
      addresses,
    ),
  };
}

interface Asked {
  /** Members of peers of its own, or other rules' peers; absent is anybody. */
  readonly from?: readonly string[] | Peers;
  /** Ports or ranges; absent is every port. */
  readonly ports?: readonly (number | PortRange)[];
  readonly final?: boolean;
  /** Source ports or ranges; absent is every port. */
  readonly sources?: readonly (number | PortRange)[];
}

/** A rule that ends its packets, in the chain of its name. */
export function item(id: string, { from, ports, sources, final = true }: Asked = {}): MatchEntry {
  const toRanges = (list: Asked['ports']): PortRange[] | null =>
    list?.map((port): PortRange => (typeof port === 'number' ? [port, port] : port)) ?? null;
  const peers = from === undefined ? null : 'key' in from ? from : peersOf(`peers of ${id}`, ...from);
  return { id, chain: id, peers, ranges: toRanges(ports), sources: toRanges(sources), final };
}

/** `length` rules: `rule 0`, `rule 1`, … */
export function items(length: number, asked: (index: number) => Asked): MatchEntry[] {
  return Array.from({ length }, (_, i) => item(`rule${i}`, asked(i)));
}
