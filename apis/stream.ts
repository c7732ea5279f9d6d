import type { CompiledRule } from './compiled.ts';
import type { DataplaneName } from './config.ts';
import type { ApiGroup } from './objects.ts';
import type { AddressSetMessage, NodeMessage, ServiceSetMessage } from './wire.ts';

/**
 * What the controller tells an agent, and what an agent reports:
 * `controlplane.nodewall.io/v1alpha1` over HTTPS.
 *
 * A watch (`NODE_VIEWS_PATH?watch=true&fieldSelector=metadata.name=NODE`) answers with
 * `StreamMessage`s, one JSON document a line. Without a resourceVersion, or with one the controller
 * doesn't know, the whole view comes first, then a bookmark with `initial`; with a known one what
 * was missed, then a bookmark. Sets come before the rules that name them, removals after; a node
 * holds a set only while one of its rules, or `allNodes` or `controllers`, names it. A receiver
 * acts at bookmarks only; one comes after each batch of changes that belong together, and every 30
 * s or so as a sign of life.
 */
export const CONTROL_PLANE = { group: 'controlplane.nodewall.io', version: 'v1alpha1' } as const;

/** Where the views are; `/NODE` after it is one, `/NODE/status` takes the node's report. */
export const NODE_VIEWS_PATH = `/apis/${CONTROL_PLANE.group}/${CONTROL_PLANE.version}/nodeviews`;

export type Update =
  | ResetUpdate
  | GateUpdate
  | EndpointsUpdate
  | NodeMessage
  | AddressSetMessage
  | AddressSetPatchUpdate
  | AddressSetRemovedUpdate
  | ServiceSetMessage
  | ServiceSetRemovedUpdate
  | RulesUpdate
  | RulesRemovedUpdate
  | BookmarkUpdate;

/** Forget all: a whole view follows. Every whole view starts with it. */
export interface ResetUpdate {
  readonly type: 'reset';
}

/**
 * The feature gate NodeNetworkPolicy as the cluster has it; in a whole view it comes right after
 * the reset.
 */
export interface GateUpdate {
  readonly type: 'gate';
  readonly enabled: boolean;
}

/**
 * Where the API server is, for the failsafe list: whole, in place of those before. In a whole view
 * it comes after the gate; absent is none.
 */
export interface EndpointsUpdate {
  readonly type: 'endpoints';
  readonly endpoints: readonly Endpoints[];
}

/** A TCP port, and the addresses it is on, sorted. */
export interface Endpoints {
  readonly port: number;
  readonly addresses: readonly string[];
}

/**
 * Members of an AddressSet that the receiver holds: what is removed is there, what is added is not.
 */
export interface AddressSetPatchUpdate {
  readonly type: 'addressSetPatch';
  readonly id: string;
  /** CIDRs and addresses, sorted, as in the set; absent is none. */
  readonly add?: readonly string[];
  readonly remove?: readonly string[];
}

export interface AddressSetRemovedUpdate {
  readonly type: 'addressSetRemoved';
  readonly id: string;
}

export interface ServiceSetRemovedUpdate {
  readonly type: 'serviceSetRemoved';
  readonly id: string;
}

/**
 * Those rules of one policy that apply to the same nodes; in place of the part of this name, if
 * there is one.
 */
export interface RulesUpdate {
  readonly type: 'rules';
  /** `API_GROUP/POLICY/NUMBER`. */
  readonly part: string;
  readonly rules: readonly CompiledRule[];
}

export interface RulesRemovedUpdate {
  readonly type: 'rulesRemoved';
  readonly part: string;
}

/** What came before belongs together and is complete. */
export interface BookmarkUpdate {
  readonly type: 'bookmark';
  /** The whole view has been sent. */
  readonly initial?: true;
  /**
   * How many of each the receiver must hold now; where it holds other numbers it asks for a whole
   * view.
   */
  readonly rules: number;
  readonly addressSets: number;
  readonly serviceSets: number;
}

/**
 * A line of the stream. `sequence` counts 1, 2, 3 … within one answer: a gap or a repetition means
 * that something was lost, and the receiver resumes from its last bookmark's revision in a new
 * connection. `revision` (`EPOCH.NUMBER`, opaque to receivers) is the controller's position after
 * this message.
 */
export type StreamMessage = Update & { readonly sequence: number; readonly revision: string };

/** A rule, or a whole policy, that a node can't enforce. */
export interface FailingRule {
  readonly apiGroup: ApiGroup;
  readonly policy: string;
  readonly generation: number;
  /** Null where all of the policy fails. */
  readonly rule: string | null;
  readonly reason: string;
}

/** What an agent says of its node: `PUT NODE_VIEWS_PATH/NODE/status`. */
export interface NodeReport {
  readonly node: string;
  /** Of the last bookmark received; null before the first. */
  readonly revision: string | null;
  /** The revision in force; null where nothing of the controller's is. */
  readonly enforced: string | null;
  /** Whether the feature gate lets the agent enforce anything. */
  readonly enabled: boolean;
  /**
   * `nodewall off` holds on the node, with this reason ('': none was given): nothing is enforced.
   * Absent: it doesn't.
   */
  readonly off?: string;
  /**
   * Why the controller's whole view cannot be followed; what was enforced before it stays. Absent:
   * it is followed.
   */
  readonly viewError?: string;
  /** At most `MOST_FAILING`. */
  readonly failing: readonly FailingRule[];
  /** Policies in force. */
  readonly policies: number;
  /** The node's own addresses, as its kernel has them. */
  readonly hostAddresses: readonly string[];
  /** Of nodewall. */
  readonly version: string;
  readonly dataplane: DataplaneName;
  /** ISO 8601, UTC; in what the controller shows, when it came. */
  readonly time: string;
}

export const MOST_FAILING = 100;
