import { CONNTRACK_STATUS, type ScannedConnection, TCP_ENDED } from 'nftables-napi';
import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import { hasAddress, type MemberSet, packAddress } from '../../lib/net/member-set.ts';
import { type RouteTexts, routedOutBy } from '../interfaces/local-pods.ts';
import type { FlowKind, SeenFlow } from './flow-kind.ts';

/** Facts that this machine's kernel gives. */
interface FactReadings {
  /** Addresses of all interfaces, loopback ones too. */
  readonly addresses: readonly { readonly address: string; readonly netmask: string }[];
  readonly links: readonly { readonly name: string; readonly group: number }[];
  /** Null: they cannot be read; then no peer has a link group. */
  readonly routes: RouteTexts | null;
  /** Link groups of peers that are known otherwise. */
  readonly known?: ReadonlyMap<string, number>;
}

/**
 * Facts that conntrack does not give: which connections are this machine's own, and by which
 * interfaces.
 */
export class FlowFacts {
  readonly #own4 = new Set<number>();
  readonly #own6 = new Set<string>();
  readonly #broadcasts = new Set<number>();
  readonly #known: ReadonlyMap<string, number>;
  readonly #routed: readonly { readonly group: number; readonly peers: MemberSet }[];

  /** Costs a parse of the routes for each link group but 0 that an interface has. */
  constructor({ addresses, links, routes, known = new Map() }: FactReadings) {
    this.#known = known;
    for (const { address: text, netmask } of addresses) {
      const address = parseAddress(text);
      if (address === null) continue;
      if (address.family === 6) {
        this.#own6.add(Buffer.from(packAddress(address)).toString('latin1'));
        continue;
      }
      const value = Number(address.value);
      this.#own4.add(value);
      const mask = Number(parseAddress(netmask)?.value ?? 0xffff_ffffn);
      // A network of two addresses or one has no broadcast address.
      if (mask < 0xffff_fffe) this.#broadcasts.add((value | ~mask) >>> 0);
    }
    this.#own6.add(LOOPBACK_6);
    const groups = [...new Set(links.map(({ group }) => group))].filter((group) => group !== 0);
    const names = (of: number): ReadonlySet<string> =>
      new Set(links.filter(({ group }) => group === of).map(({ name }) => name));
    this.#routed =
      routes === null ? [] : groups.map((group) => ({ group, peers: routedOutBy(routes, names(group)) }));
  }

  /** Whether the address at this place is the machine's own, or a loopback one. */
  isOwn(bytes: Buffer, at: number, family: 4 | 6): boolean {
    if (family === 6) return this.#own6.has(bytes.toString('latin1', at, at + 16));
    return bytes[at] === LOOPBACK_4 || this.#own4.has(bytes.readUInt32BE(at));
  }

  /** Whether what is tracked to this address is delivered here: own, multicast, or broadcast. */
  isDelivered(bytes: Buffer, at: number, family: 4 | 6): boolean {
    const first = bytes[at] ?? 0;
    if (family === 6 ? first === 0xff : first >= 224 && first < 240) return true;
    if (this.isOwn(bytes, at, family)) return true;
    if (family === 6) return false;
    const value = bytes.readUInt32BE(at);
    return value === 0xffff_ffff || this.#broadcasts.has(value);
  }

  /** The link group of the interfaces by which the peer (an address) is reached; 0: none. */
  groupOf(peer: string): number {
    const known = this.#known.get(peer);
    return known ?? this.#routed.find(({ peers }) => hasAddress(peers, peer))?.group ?? 0;
  }
}

/** 127.0.0.0/8 */
const LOOPBACK_4 = 127;
const LOOPBACK_6 = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]).toString('latin1');

/** The text of the address at this place. */
function addressTextAt(bytes: Buffer, at: number, family: 4 | 6): string {
  if (family === 4) return `${bytes[at]}.${bytes[at + 1]}.${bytes[at + 2]}.${bytes[at + 3]}`;
  const value = (bytes.readBigUInt64BE(at) << 64n) | bytes.readBigUInt64BE(at + 8);
  return formatAddress({ family, value });
}

/** A flow of this node, and its kind. */
export interface TrackedFlow {
  flow: SeenFlow;
  /** Null: it has not been looked up. */
  kind: FlowKind | null;
  /** Connections that were not counted for that. */
  waiting: number;
  /** It has been looked up, and no rule decides about it. */
  isExempt: boolean;
}

/** Flows that are known by their bytes, without making texts of them. */
const MOST_KNOWN = 20_000;

type As = 'ingress' | 'egress' | 'nodeport';

/**
 * Finds the flows of tracked connections. A connection is seen as its first packet was: Host
 * traffic by the destination after NAT, NodePort traffic by that before it. There is none if no
 * rule decides about it: forwarded without NAT, between addresses of this machine, or expected by
 * another connection (FTP's data). The same flow is the same object, until the facts change.
 */
export class ConnectionReader {
  readonly facts: FlowFacts;
  readonly #known = new Map<string, TrackedFlow>();

  constructor(facts: FlowFacts) {
    this.facts = facts;
  }

  read(one: ScannedConnection, take: (known: TrackedFlow) => void): void {
    const { bytes, family, status, source, replySource } = one;
    if ((status & CONNTRACK_STATUS.expected) !== 0) return;
    if (this.facts.isOwn(bytes, source, family)) {
      if (this.facts.isOwn(bytes, replySource, family)) return;
      take(this.#flowOf(one, 'egress'));
      return;
    }
    if ((status & CONNTRACK_STATUS.destinationNat) !== 0) take(this.#flowOf(one, 'nodeport'));
    if (this.facts.isDelivered(bytes, replySource, family)) take(this.#flowOf(one, 'ingress'));
  }

  #flowOf(one: ScannedConnection, as: As): TrackedFlow {
    const { bytes, family, protocol, icmpType, icmpCode } = one;
    const peer = as === 'egress' ? one.replySource : one.source;
    const port = as === 'nodeport' ? one.destinationPort : one.replySourcePort;
    const address = bytes.toString('latin1', peer, peer + (family === 4 ? 4 : 16));
    const key = `${as} ${protocol} ${port} ${icmpType} ${icmpCode} ${address}`;
    let known = this.#known.get(key);
    if (known === undefined) {
      known = { flow: toFlow(one, as, this.facts), kind: null, waiting: 0, isExempt: false };
      if (this.#known.size >= MOST_KNOWN) this.#known.clear();
      this.#known.set(key, known);
    } else if (known.kind?.isGone === true) known.kind = null;
    return known;
  }
}

function toFlow(one: ScannedConnection, as: As, facts: FlowFacts): SeenFlow {
  const { bytes, family, status, source, destination, replySource } = one;
  const isEgress = as === 'egress';
  const isNodePort = as === 'nodeport';
  const peer = addressTextAt(bytes, isEgress ? replySource : source, family);
  const local = isEgress ? source : isNodePort ? destination : replySource;
  const isTranslated = !isNodePort && (status & CONNTRACK_STATUS.destinationNat) !== 0;
  return {
    direction: isEgress ? 'egress' : 'ingress',
    traffic: isNodePort ? 'NodePort' : 'Host',
    protocol: one.protocol,
    peer,
    port: toNumber(isNodePort ? one.destinationPort : one.replySourcePort),
    type: toNumber(one.icmpType),
    code: toNumber(one.icmpCode),
    group: facts.groupOf(peer),
    verdict: 'Allow',
    local: addressTextAt(bytes, local, family),
    srcPort: toNumber(one.sourcePort),
    originalDst: isTranslated ? addressTextAt(bytes, destination, family) : null,
    originalPort: isTranslated ? toNumber(one.destinationPort) : null,
  };
}

function toNumber(field: number): number | null {
  return field < 0 ? null : field;
}

/** Whether the connection is not over. */
export function isLive({ status, tcpState }: ScannedConnection): boolean {
  return (status & CONNTRACK_STATUS.dying) === 0 && !TCP_ENDED.has(tcpState);
}
