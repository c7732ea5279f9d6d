/** The kinds of flows that a node has, as its agent answers (docs/flows.md). */
import type { FailsafeEntry } from './config.ts';
import type { Answer, Flow, Verdict } from './flow.ts';
import type { Direction } from './objects.ts';

/** Kinds of flows of a node. Times are ISO 8601, to the second. */
export interface NodeFlows {
  readonly node: string;
  /** Since when flows are seen. */
  readonly since: string;
  /** When live connections were counted; null: they cannot be. */
  readonly liveAt: string | null;
  /** Last seen first; of a page, in the order of their keys. */
  readonly flows: readonly NodeFlow[];
  /** Whether more kinds match. */
  readonly isCut: boolean;
  /**
   * The place where the next page begins. Absent: this was the last, or pages were not asked for.
   */
  readonly continue?: string;
  /**
   * The agent's additions to the failsafe list of egress (NodeState.controlPlane); absent: nothing.
   */
  readonly controlPlane?: readonly FailsafeEntry[];
  /** Kinds of the inventory. */
  readonly kinds: number;
  readonly missed: Readonly<Missed>;
}

export interface NodeFlow {
  readonly direction: Direction;
  readonly traffic: 'Host' | 'NodePort';
  /** An address, or a CIDR for many. */
  readonly peer: string;
  readonly protocol: NonNullable<Flow['protocol']>;
  /** The server's port. */
  readonly port?: number;
  readonly icmpType?: number;
  readonly icmpCode?: number;
  /** Many ports, or types, that no other kind names. */
  readonly allPorts?: true;
  /** Link group of the interface: a name of the configuration, else the number. Absent: none. */
  readonly interfaceGroup?: string | number;
  /** The verdict on the flows. */
  readonly verdict: Verdict;
  readonly connections: number;
  /** Null: not known. */
  readonly live: number | null;
  readonly firstSeen: string;
  readonly lastSeen: string;
  /**
   * The flow that rules are asked about: the last one of the kind. Where the kind has many peers or
   * ports, it is one example of them.
   */
  readonly flow: Flow;
  /** The decision of the rules in force; null: none are in force. */
  readonly decision: Answer | null;
}

/** Flows that an inventory lacks. */
export interface Missed {
  /** Kinds that were left out because there were too many. */
  leftOut: number;
  /** Times that the kernel discarded events because the agent was too slow. */
  overruns: number;
  /** Seconds in which more connections began than the agent reads. */
  busySeconds: number;
}

/** The text of a bundle in place of flows, and the reason. */
export const FLOWS_LEFT_OUT = [
  'flows',
  'they say who connected to whom in the last days: --with-flows adds them',
] as const;

/** Whether a kind stands for many peers or ports, so that its `flow` is an example only. */
export function isFolded({ peer, allPorts }: Pick<NodeFlow, 'peer' | 'allPorts'>): boolean {
  return allPorts === true || peer.includes('/');
}
