/**
 * One node's part in egress gateways: a part of NodeState. A pure function of the objects and of
 * the allocation in their statuses (controller/egress/); rendered by agent/egress/render/.
 */
import type { Family } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import type { MemberSet } from '../../lib/net/member-set.ts';
import type { AddressPair, EgressGateway, EgressPolicy, EgressProbe } from './objects.ts';

/** Why the packet of a selected pod cannot go through its gateway (docs/egress.md). */
export const EGRESS_DROP_REASONS = [
  'no-gateway',
  'not-ready',
  'no-family',
  'no-address',
  'unknown-pod',
  'no-route',
] as const;
export type EgressDropReason = (typeof EGRESS_DROP_REASONS)[number];

/** Instead of the id of a pod's class: it depends on the pod's address (podSubnets). */
export const BY_ADDRESS = '*';

/** A pod in NodeEgress.pods; container runtimes give these three to CNI plugins. */
export function podKey(namespace: string, name: string, uid: string): string {
  return `${namespace}/${name}/${uid}`;
}

/** Slot numbers are local to a node: 1 to this. */
export const MOST_SLOTS = 63;

export interface NodeEgress {
  /** This node's end of the tunnel; null: the Node has no InternalIP. */
  readonly tunnel: TunnelEnd | null;
  /** Destinations that are never steered. */
  readonly inside: MemberSet;
  /** Hold: sources behind pod interfaces that are in no list are dropped towards the outside. */
  readonly unknownPods: 'Hold' | 'Pass';
  /** Addresses of all Nodes: only these may send to the tunnel's port. */
  readonly nodes: MemberSet;
  /**
   * Address of each pod of this node: the id of its class, or null if no policy selects the pod.
   */
  readonly sources: ReadonlyMap<string, string | null>;
  /**
   * The pods of this node from the moment they are scheduled, by podKey: the id of the class, null,
   * or BY_ADDRESS.
   */
  readonly pods: ReadonlyMap<string, string | null>;
  /** Sources that are no known pod (podSubnets); disjoint, sorted by family and first address. */
  readonly subnets: readonly {
    readonly family: Family;
    readonly range: Interval;
    readonly class: string;
  }[];
  /** By id. */
  readonly classes: ReadonlyMap<string, EgressClass>;
  /** By id: those that the classes name. */
  readonly outcomes: ReadonlyMap<string, EgressOutcome>;
  /** Where this node sends packets, by slot number. */
  readonly slots: ReadonlyMap<number, EgressSlot>;
  /** The nodes at the other ends of the tunnel that this node sends to or receives from. */
  readonly peers: ReadonlyMap<string, TunnelEnd>;
  /**
   * This node as a gateway: the pods that it serves, by address. Where there are thousands, a
   * BucketMap (lib/sharing), of which changedIds finds the changes without a pass over the rest.
   */
  readonly arrivals: ReadonlyMap<string, EgressArrival>;
  /**
   * This node as a gateway: the classes that it serves, by id, with the nodes that have such pods.
   * These nodes may claim addresses for pods whose address the controller does not know yet.
   */
  readonly served: ReadonlyMap<string, ServedClass>;
  /** This node as a gateway: by take number, 1 to 63. */
  readonly takes: ReadonlyMap<number, EgressTake>;
  /** This node as a gateway: every address of the pools (never answered but by its owner). */
  readonly floating: MemberSet;
  /**
   * The slots of floating gateways that this node owns by the statuses, as far as they have
   * addresses, by gateway and name. It may use them only under a lease (apis/heartbeat.ts).
   */
  readonly owned: readonly OwnedSlot[];
  /**
   * The gateways of which this node is a candidate, by name. If there are any, it sends heartbeats.
   */
  readonly candidacies: readonly Candidacy[];
  /**
   * Policies whose connections are dropped here, because no number was left for their slot, or for
   * their take if this node is the gateway; absent: none.
   */
  readonly refused?: readonly EgressPolicyName[];
  /**
   * Set by the agent alone, never sent: slots that lead to no node that answers, and whose
   * connections end, because new ones find another way; absent: none.
   */
  readonly ended?: ReadonlySet<number>;
  /**
   * Set by the agent alone, never sent: ways back to pods that this node served before, whose
   * connections go on: their nodes, by CIDR; absent: none.
   */
  readonly answers?: ReadonlyMap<string, TunnelEnd>;
}

/** One end of the tunnel. */
export interface TunnelEnd {
  readonly node: string;
  /** The Node's address that carries the tunnel. All ends are of one family. */
  readonly address: string;
  /**
   * The public key of its WireGuard device (base64), which carries the tunnel; '': its agent has
   * not said it yet, and nothing is sent there. Absent: the tunnel is not encrypted.
   */
  readonly key?: string;
  /** MAC of the device: `0e:…`, by a hash of the Node's uid or name. */
  readonly mac: string;
  /**
   * Pod networks of this node and of no other (CIDRs), by which answers find its pods; absent:
   * none, each pod needs a route of its own.
   */
  readonly networks?: readonly string[];
}

/**
 * The outcomes for pods with the same ordered policies, as disjoint destinations, sorted.
 * Destinations in no range are not steered. `inside` is tested before.
 */
export interface EgressClass {
  readonly id: string;
  readonly ipv4: readonly DestinationRange[];
  readonly ipv6: readonly DestinationRange[];
}

export interface DestinationRange {
  readonly range: Interval;
  /** Id of an EgressOutcome. */
  readonly outcome: string;
}

export interface EgressPolicyName extends Pick<EgressPolicy, 'kind' | 'namespace' | 'name'> {
  /** 'nodewall.io', or what an older controller has sent. */
  readonly apiGroup: string;
}

export interface EgressOutcome {
  readonly id: string;
  /** The policy that decides; null: none does, and only `audited` has any. */
  readonly policy: EgressPolicyName | null;
  /** Policies in mode Audit that would have decided before, in order. */
  readonly audited: readonly EgressPolicyName[];
  /** Connections that began before the policy, by another way, end; absent: they go on. */
  readonly established?: 'Recheck';
  readonly action:
    | { readonly kind: 'pass' }
    | { readonly kind: 'direct' }
    /** Taken by one of these slots, by a hash of source and destination. */
    | {
        readonly kind: 'slots';
        readonly slots: readonly number[];
        /**
         * Where none of `slots` leads to a node that answers: the first of these that does. Of
         * gateways with the nodes' own addresses; absent: none.
         */
        readonly reserve?: readonly number[];
        /** Where none answers at all: leaves directly; absent: is dropped as not-ready. */
        readonly otherwise?: 'Direct';
      }
    /** This node is the gateway: source NAT here, without the tunnel. */
    | { readonly kind: 'take'; readonly take: number }
    | { readonly kind: 'drop'; readonly reason: EgressDropReason | 'policy' };
}

/** A way to one gateway node. */
export interface EgressSlot {
  readonly number: number;
  /** Name of a peer, or this node's own name if it is the gateway itself. */
  readonly node: string;
  /** The take of this node, if `node` is this node; else 0. */
  readonly take: number;
  /**
   * The slot of a floating gateway, as slotKey has it: its connections follow it to another node,
   * and leases decide about its owner: the node does not take it for lost by itself. Absent: the
   * node itself is the way (source Node).
   */
  readonly floating?: string;
}

/** The name of a floating gateway's slot, unique over the gateways. */
export function slotKey({ slot, gateway }: Pick<OwnedSlot, 'slot' | 'gateway'>): string {
  return `${slot} ${gateway}`;
}

/** A pod that a gateway serves. */
export interface EgressArrival {
  /** The peer that the pod's packets come from. */
  readonly node: string;
  /** Disjoint destinations, sorted, of the pod's family. */
  readonly takes: readonly { readonly range: Interval; readonly take: number }[];
  /**
   * The class in `served` whose takes these are. Only its id is sent and saved with each of its
   * pods; absent: the takes themselves.
   */
  readonly class?: string;
}

export interface ServedClass {
  /** Names of peers, sorted; none if podSubnets decide which pods have the class. */
  readonly nodes: readonly string[];
  /** As in EgressArrival. */
  readonly ipv4: EgressArrival['takes'];
  readonly ipv6: EgressArrival['takes'];
}

/** How a gateway translates what it takes: to one of the addresses of the family, by the source. */
export type EgressTake =
  | { readonly kind: 'floating'; readonly ipv4: readonly string[]; readonly ipv6: readonly string[] }
  /** The node's own address: that of the route, or of the interface. */
  | {
      readonly kind: 'node';
      readonly interface: string | null;
      /** Set by the agent alone, never sent: the addresses that the interface has. */
      readonly found?: AddressPair;
    };

/** A slot of a floating gateway, for its owner. */
export interface OwnedSlot {
  /** As leaseName has it. */
  readonly gateway: string;
  readonly slot: string;
  /** Grows with each other owner. */
  readonly epoch: number;
  readonly addresses: readonly string[];
  readonly announce: 'L2' | 'None';
  readonly leaseMilliseconds: number;
}

/** A gateway of which a node is a candidate. */
export interface Candidacy {
  /** As leaseName has it. */
  readonly gateway: string;
  readonly source: 'Floating' | 'Node';
  readonly heartbeatMilliseconds: number;
  readonly probes: readonly EgressProbe[];
}

export interface OwnedAddress {
  readonly address: string;
  readonly announce: 'L2' | 'None';
}

/** 32 bytes in base64, as wg(8) writes them. The last digit has two bits that are always 0. */
const KEY = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;

export function isWireGuardKey(text: unknown): text is string {
  return typeof text === 'string' && KEY.test(text);
}

/** The name of a gateway in leases: unique over the API groups. */
export function leaseName({ name }: Pick<EgressGateway, 'name'>): string {
  return name;
}
