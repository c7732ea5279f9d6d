import type { EgressArrival, NodeEgress, TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { changedIds } from '../../../lib/sharing/changed-map.ts';

/** A pod that this node serves as a gateway, and the other end of the tunnel that it comes from. */
export interface ServedPod {
  readonly arrival: EgressArrival;
  readonly peer: TunnelEnd;
}

/**
 * Is called for each pod that is different. `before` null: it was not served, or its node had no
 * end of the tunnel; `now` alike.
 */
export type OnChange = (address: string, before: ServedPod | null, now: ServedPod | null) => void;

type Served = Pick<NodeEgress, 'arrivals' | 'peers'>;

const NOBODY: Served = { arrivals: new Map(), peers: new Map() };

/**
 * Finds the differences between the values of a sequence. It costs their number; where nodes
 * changed, one pass over the pods.
 */
export class ArrivalChanges {
  #last = NOBODY;

  /** A call for each change: for 100,000 pods, half as long as a list of them. */
  next({ arrivals, peers }: Served, on: OnChange): void {
    const last = this.#last;
    const now = { arrivals, peers };
    this.#last = now;
    if (last.arrivals.size === 0) {
      arrivals.forEach((arrival, address) => {
        const peer = peers.get(arrival.node);
        if (peer !== undefined) on(address, null, { arrival, peer });
      });
      return;
    }
    const nodes = new Set(
      [...changedIds(last.peers, peers)].filter((node) => !isSameEnd(last.peers.get(node), peers.get(node))),
    );
    const changed = new Set(changedIds(last.arrivals, arrivals));
    if (nodes.size > 0) for (const [address, { node }] of arrivals) if (nodes.has(node)) changed.add(address);
    for (const address of changed) on(address, servedPod(last, address), servedPod(now, address));
  }
}

function servedPod({ arrivals, peers }: Served, address: string): ServedPod | null {
  const arrival = arrivals.get(address);
  const peer = arrival === undefined ? undefined : peers.get(arrival.node);
  return arrival === undefined || peer === undefined ? null : { arrival, peer };
}

/** As far as pods are concerned. */
function isSameEnd(a: TunnelEnd | undefined, b: TunnelEnd | undefined): boolean {
  return a?.mac === b?.mac && a?.networks?.join() === b?.networks?.join();
}
