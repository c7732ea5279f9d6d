import type { Compiled, NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { LeaseAnswer, LeaseGrant, LeaseRequest } from '../../apis/heartbeat.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { ClusterObject, ClusterObjects, Pod } from '../../apis/objects.ts';
import type { Update } from '../../apis/stream.ts';
import type { CrossProblem } from '../../apis/validate/problem.ts';
import type { Clock, WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { ListChange } from '../../lib/sharing/lists.ts';
import type { Stepwise } from '../../lib/sharing/stepwise.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import type { LeaseBatch, LeaseBatchAnswer } from '../publish/peer-calls.ts';
import type { WriterEvents } from '../status/writer.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import type { Snapshot } from '../watch/source.ts';
import type { Admission, AdmissionRequest } from '../webhook/review.ts';

/** An extension's part of the nodes' views, by node. */
type ExtensionPart = Pick<Compiled, 'egress'>;

/** Stage 2 of an extension: egress gateways are the only one. */
export interface CompileExtension {
  /** Changes nothing that others read. */
  compile(objects: ClusterObjects): Stepwise<ExtendedCompile>;
  /** Its state may be inconsistent, after an error: the next call starts from scratch. */
  restart(): void;
}

/** An extension in a controller: stage 2, and what the leader decides. */
export interface ControllerExtension extends CompileExtension {
  /** Called once, before anything is compiled. */
  leader(options: LeadOptions): LeadExtension;
}

/**
 * The leader's side of an extension: its decisions and writes. Every replica has one, and only that
 * of the leader writes. The extension itself tells it of the states that are published.
 */
export interface LeadExtension {
  /** A report that an agent made of its node. */
  report(report: NodeReport): void;
  heartbeatAnswered(answered: Taken): void;
  /** Watches the objects that it writes statuses of. */
  versions(following: Following): readonly Reflector[];
  /** If false, drops pending writes. */
  lead(leads: boolean): Promise<void>;
  /** Counts of floating addresses for the metrics. */
  counts(): { readonly slots: number; readonly addresses: number; readonly nodesNotReady: number };
  /** The number of queued statuses. */
  waiting(): number;
}

export interface LeadOptions {
  /** Fails unless it is certain that this process leads. */
  readonly request: KubeApi;
  readonly clock: WallClock;
  readonly events: WriterEvents;
  /** The leases of addresses, and the clock of heartbeats. */
  readonly heartbeats: LeaseOrders & Pick<Clock, 'now'>;
  /** Called for each slot that gets another owner. */
  readonly slotMoved: (reason: string) => void;
  readonly log: Log;
}

/** A compiled part that is not published yet. */
export interface ExtendedCompile {
  readonly part: ExtensionPart;
  /** The number of networks that do not count. */
  readonly ignoredNetworks: number;
  /** The part was sent to the nodes. */
  published(snapshot: Snapshot): void;
}

/** Stage 3 of an extension: its part of a node's view, as messages. */
export interface ViewExtension {
  /** The messages from one part to the next; none if either has no node. */
  changes(before: ExtensionPart, now: ExtensionPart): Stepwise<readonly ExtensionUpdate[]>;
  /** The whole part of a node; null: it has none. */
  whole(part: ExtensionPart, node: string): WholePart | null;
  /** Says that a node has none. */
  readonly removed: Update;
  /** Empties an object that a receiver holds; null for an id of a newer version. */
  empty(id: string): Update | null;
  /** The count that a bookmark has; without a field: the node has no part. */
  count(part: ExtensionPart, node: string): { readonly egress?: number };
  /** As it is printed. */
  written(state: NodeState): object;
}

/** A message, and the nodes that receive it. */
export interface ExtensionUpdate {
  readonly toUpdate: () => Update;
  readonly nodes: ReadonlySet<string>;
}

interface WholePart {
  readonly first: Update;
  readonly objects: Iterable<ExtensionObject>;
}

/** A message's worth of a part. */
export interface ExtensionObject {
  /** Unique in the part. */
  readonly id: string;
  /** The object that it was made from: as long as that is the same, so is the message. */
  readonly of: object;
  /** Whether many nodes have it in common. */
  readonly isShared: boolean;
  readonly toMessage: () => Update;
}

type Gateway = ClusterObjects['egressGateways'][number];
type Policy = ClusterObjects['egressPolicies'][number];

/** The objects of an extension among the others, in stage 1 and before it. */
export interface ObjectExtension {
  /** The kinds of its objects; all are of nodewall.io. */
  readonly kinds: readonly string[];
  /** Whether this version knows all fields of a policy that another one may have saved. */
  isKnown(saved: Policy): boolean;
  /**
   * The problems of its objects that others cause; none of them takes an object out of force.
   * @param invalid identities of gateways that exist and were rejected
   */
  problems(
    objects: ClusterObjects,
    config: Config['egress'],
    invalid: ReadonlySet<string>,
  ): readonly CrossProblem<Gateway | Policy>[];
  /** Whether two states differ at most in what `problems` does not read. */
  isSameForProblems(before: Checked, now: Checked): boolean;
  /** Policies that are too many for their namespace; those of the first list come first. */
  beyondLimits(
    lists: readonly (readonly Policy[])[],
    limits: Config['egress']['namespaceLimits'],
  ): readonly CrossProblem<Policy>[];
  /** For one process that answers the API server. */
  admission(): AdmissionExtension;
  /** For one process that sends the objects to such a one. */
  outsidePods(): PodFilter;
}

type Checked = Pick<ClusterObjects, 'egressGateways' | 'egressPolicies'>;

/** Admits the objects of an extension; keeps indexes of the others. */
export interface AdmissionExtension {
  /** A valid object that is created or changed. Null: it is none of the extension's. */
  change(valid: ClusterObject, world: ExtensionWorld): Admission | null;
  deletion(identity: string, world: ExtensionWorld): Admission;
  /** Asks for the right that an object needs besides. */
  right(valid: ClusterObject, request: AdmissionRequest, world: ExtensionWorld): Admission;
}

/** The part of the world that answers depend on; `egress` absent: the feature gate is off. */
export interface ExtensionWorld {
  readonly objects: (ExtensionObjects & Pick<ClusterObjects, 'nodes' | 'pods' | 'services'>) | null;
  readonly egress?: Config['egress'];
}

/** Objects that the checks of an extension read besides. */
export type ExtensionObjects = Pick<
  ClusterObjects,
  'egressGateways' | 'egressPolicies' | 'insideNetworks' | 'namespaces'
> & {
  /**
   * In the process that checks bodies: those outside of the networks of pods; absent: all are in
   * `pods`.
   */
  readonly outsidePods?: readonly AddressedPod[];
};

/** The part of a pod that checks read. */
export type AddressedPod = Pick<Pod, 'kind' | 'namespace' | 'name' | 'addresses'>;

/** The few pods that checks read, of the states of all objects one after another. */
export interface PodFilter {
  advance(objects: Pick<ClusterObjects, 'nodes' | 'pods' | 'insideNetworks'>): ListChange<AddressedPod>;
}

/** Leases of addresses, in the process of heartbeats. */
export interface LeaseExtension {
  granter(options: LeaseGranterOptions): LeaseGrants;
  /** Passes heartbeats on to the controller that leads. */
  relay(options: LeaseRelayOptions): LeasePasser;
}

export interface LeaseGrants extends LeaseOrders {
  /** Null: this controller does not lead. */
  grant(request: LeaseRequest): LeaseAnswer | null;
}

export interface LeasePasser {
  /** Null: no controller leads, as far as is known. */
  pass(request: LeaseRequest): Promise<LeaseAnswer | null>;
}

/** The leader's statuses as orders for leases. */
export interface LeaseOrders {
  /**
   * Leadership begins.
   *
   * @param leases of all gateways, in milliseconds
   */
  begin(slots: readonly WrittenSlot[], leases: readonly number[]): void;
  setSlots(slots: readonly WrittenSlot[]): void;
  /** The nodes that there are. */
  keepNodes(nodes: ReadonlySet<string>): void;
  /** Nothing is granted until `begin`. */
  end(): void;
}

/** A heartbeat that was answered. */
export interface Taken {
  /** By the clock of the granter. */
  readonly at: number;
  readonly request: LeaseRequest;
  readonly grants: readonly LeaseGrant[];
}

export interface LeaseGranterOptions {
  readonly clock: Pick<Clock, 'now'>;
  /** Whether it is certain, at the time of the call, that no other process leads. */
  readonly isLeader: () => boolean;
  readonly answered: (answered: Taken) => void;
}

/** A slot as the API has it: nothing else is granted. */
export interface WrittenSlot {
  readonly gateway: string;
  readonly slot: string;
  /** The owner. */
  readonly node: string;
  readonly epoch: number;
  readonly addresses: readonly string[];
  /** The gateway's lease time in milliseconds. */
  readonly lease: number;
  /**
   * The longest lease that may be granted, or may have been, as the status says; at least `lease`.
   */
  readonly longest: number;
}

export interface LeaseRelayOptions {
  /** Resolves with the answers of the controller at `peer` (HOST:PORT); throws if it has none. */
  readonly send: (peer: string, batch: LeaseBatch) => Promise<LeaseBatchAnswer>;
  /** The other controllers, HOST:PORT each. */
  readonly peers: () => readonly string[];
  readonly clock: Clock;
}
