import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import { NO_MEMBERS } from '../../lib/net/member-set.ts';

/** A node that does nothing for egress gateways, but for what is said. */
export function fakeNodeEgress(said: Partial<NodeEgress> = {}): NodeEgress {
  return {
    tunnel: null,
    inside: NO_MEMBERS,
    nodes: NO_MEMBERS,
    floating: NO_MEMBERS,
    unknownPods: 'Pass',
    sources: new Map(),
    pods: new Map(),
    subnets: [],
    classes: new Map(),
    outcomes: new Map(),
    slots: new Map(),
    peers: new Map(),
    arrivals: new Map(),
    served: new Map(),
    takes: new Map(),
    owned: [],
    candidacies: [],
    ...said,
  };
}
