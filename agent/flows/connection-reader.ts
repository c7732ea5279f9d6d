import { CONNTRACK_STATUS, type ScannedConnection, TCP_ENDED } from 'nftables-napi';
import { addressTextAt, type FlowFacts } from './flow-facts.ts';
import type { FlowKind, SeenFlow } from './flow-kind.ts';

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
