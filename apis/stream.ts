import { present } from '../lib/sharing/present.ts';
import type { ProbeTarget } from './config.ts';
import type { EgressPart, EgressSet } from './egress/entries.ts';
import type { EgressWholeMessage, WrittenEntries } from './egress/messages.ts';
import type { AddressSetMessage, NodeMessage, ServiceSetMessage, WrittenRule } from './wire.ts';

/**
 * Messages from the controller to an agent (its reports: node-report.ts):
 * `controlplane.nodewall.io/v1alpha1` over HTTPS.
 *
 * A watch (`NODE_VIEWS_PATH?watch=true&fieldSelector=metadata.name=NODE`) answers with
 * `StreamMessage`s, one JSON document per line. Without a resourceVersion, or with one that the
 * controller does not know, it sends the whole view, then a bookmark with `initial`. With a known
 * one it sends the messages that the agent missed, then a bookmark. A watch by POST has the view
 * that the agent holds as its body (`HeldView`): a controller that does not know the
 * resourceVersion sends the differences from it, then a bookmark. A controller that has not yet
 * seen what the resourceVersion stands for answers 503, unless `anyPosition=true` is given. Sets
 * come before the rules that name them, removals after. A node holds a set only while one of its
 * rules, or `allNodes` or `controllers`, names it. A receiver acts at bookmarks only. A bookmark
 * follows each batch of changes that belong together; about every 30 s one is sent as a keep-alive.
 * `features` is a list with commas of what earlier agents do not know: `egress` asks for the
 * messages of egress gateways, `probes` for ProbeUpdates, `questions` for QuestionUpdates.
 */
export const CONTROL_PLANE = { group: 'controlplane.nodewall.io', version: 'v1alpha1' } as const;

/**
 * Path of the node views. `/NODE` below it is one view; `/NODE/status` accepts the node's report.
 */
export const NODE_VIEWS_PATH = `/apis/${CONTROL_PLANE.group}/${CONTROL_PLANE.version}/nodeviews`;

/** The messages of the stream, before they have a sequence number and a revision. */
export type Update =
  /** Discard the state: a whole view follows. Every whole view starts with this message. */
  | { readonly type: 'reset' }
  | GateUpdate
  /**
   * Endpoints of the API server, and of the cluster's DNS on ports other than 53, for the failsafe
   * list; replaces all earlier ones. In a whole view it comes after the gate; if absent, there are
   * none.
   */
  | ({ readonly type: 'endpoints' } & WrittenEndpoints)
  | NodeMessage
  | AddressSetMessage
  | AddressSetPatchUpdate
  | { readonly type: 'addressSetRemoved' | 'serviceSetRemoved'; readonly id: string }
  | ServiceSetMessage
  | RulesUpdate
  /** Removes the rule group `part`. */
  | { readonly type: 'rulesRemoved'; readonly part: string }
  | EgressWholeMessage
  | EgressMembersPatchUpdate
  | EgressPatchUpdate
  | EgressRemovedUpdate
  | ProbeUpdate
  | QuestionUpdate
  | BookmarkUpdate;

/**
 * A feature gate of the cluster. `unset`: it has no value, since nobody has set one or what had it
 * was deleted. Each node keeps what it has then; only an explicit `false` switches off.
 */
export type GateValue = boolean | 'unset';

/** The cluster's feature gate NodeNetworkPolicy. In a whole view it comes right after the reset. */
export interface GateUpdate {
  readonly type: 'gate';
  readonly enabled: GateValue;
  /**
   * Where it is off: nodes that enforce follow one by one over this time (seconds). Absent: at
   * once.
   */
  readonly over?: number;
}

/** A port and the addresses that serve it, sorted. */
export interface Endpoints {
  /** Absent: TCP. */
  readonly protocol?: 'udp';
  readonly port: number;
  readonly addresses: readonly string[];
}

/**
 * Endpoints as they are sent and saved. Those of UDP have a list of their own: agents of version
 * 0.1 take every port in `endpoints` as one of TCP, and would open it.
 */
export interface WrittenEndpoints {
  readonly endpoints: readonly Endpoints[];
  /** Absent: none. */
  readonly udpEndpoints?: readonly Endpoints[];
}

export function toWrittenEndpoints(all: readonly Endpoints[]): WrittenEndpoints {
  const { tcp = [], udp } = Object.groupBy(all, ({ protocol = 'tcp' }) => protocol);
  return { endpoints: tcp, ...present({ udpEndpoints: udp }) };
}

export function toEndpoints({ endpoints, udpEndpoints = [] }: WrittenEndpoints): readonly Endpoints[] {
  return [...endpoints, ...udpEndpoints];
}

/**
 * Changes of an AddressSet that the receiver holds: it has every member in `remove` and none in
 * `add`.
 */
export interface AddressSetPatchUpdate {
  readonly type: 'addressSetPatch';
  readonly id: string;
  /** CIDRs and addresses, sorted, written as in the set; absent: none. */
  readonly add?: readonly string[];
  readonly remove?: readonly string[];
}

/**
 * A rule group: the rules of one policy that apply to the same nodes. Replaces the group with the
 * same name in `part`, if any.
 */
export interface RulesUpdate {
  readonly type: 'rules';
  /**
   * `API_GROUP/POLICY/RULE`, with the name of the group's first rule; `POLICY@VERSION` where other
   * nodes may have another version of the policy.
   */
  readonly part: string;
  readonly rules: readonly WrittenRule[];
}

/** Changes of a set that the receiver holds, as of an AddressSet. */
export interface EgressMembersPatchUpdate {
  readonly type: 'egressMembersPatch';
  readonly set: EgressSet;
  readonly add?: readonly string[];
  readonly remove?: readonly string[];
}

/** Other entries of a part: the receiver has all keys in `remove`. */
export interface EgressPatchUpdate {
  readonly type: 'egressPatch';
  readonly part: EgressPart;
  readonly set?: WrittenEntries;
  readonly remove?: readonly string[];
}

/**
 * The gate EgressGateway is off: the node steers nothing. While it is unset, nothing is sent of
 * egress gateways, and each node keeps what it steers.
 */
export interface EgressRemovedUpdate {
  readonly type: 'egressRemoved';
}

/**
 * Another node's guarded apply asks for a connection to it: not part of the view. The answer goes
 * to `probeAnswerPath` (probes.ts). Only to watchers with the feature `probes`.
 */
export interface ProbeUpdate {
  readonly type: 'probe';
  readonly id: string;
  readonly target: ProbeTarget;
  /** How long an answer may take. */
  readonly milliseconds: number;
}

/**
 * Somebody asks a controller for what only this node knows: not part of the view. The answer goes
 * to `answerPath` (node-question.ts). Only to watchers with the feature `questions`.
 */
export interface QuestionUpdate {
  readonly type: 'question';
  readonly id: string;
  /** As in NodeQuestion; a later version may ask about more. */
  readonly about: string;
  readonly query: string;
}

/** The messages up to this one form a complete state. */
export interface BookmarkUpdate {
  readonly type: 'bookmark';
  /** Present at the end of a whole view. */
  readonly initial?: true;
  /**
   * How many rules and sets the receiver must hold now. If it holds other numbers, it asks for a
   * whole view.
   */
  readonly rules: number;
  readonly addressSets: number;
  readonly serviceSets: number;
  /** The members and entries of egress gateways; absent: not compared. */
  readonly egress?: number;
}

/**
 * A line of the stream. `sequence` counts 1, 2, 3 … within one response: after a gap or a
 * repetition, messages are lost, and the receiver resumes from the revision of its last bookmark on
 * a new connection. `revision` (`EPOCH.NUMBER`, opaque to receivers) is the controller's position
 * after this message; that of a bookmark also says how far each watch of the API had come
 * (controller/publish/resume-log.ts).
 */
export type StreamMessage = Update & { readonly sequence: number; readonly revision: string };
