/**
 * The documents of the console beside the overview (console.ts): what was dropped and by whom,
 * audit verdicts, findings of lint, and previews of changes.
 */

import type { NodeGroup, Row } from './difference/row.ts';
import type { FlowAnswer } from './flow.ts';
import type { NodeFinding } from './lint/finding.ts';
import type { NodeFlow } from './node-flows.ts';
import type { UnansweredNode } from './node-question.ts';
import type { Direction, Problem, RuleAction } from './objects.ts';
import type { CountedRule } from './rule-counts.ts';
import type { GuardrailViolation } from './validate/guardrail.ts';

/** Packets that rules dropped and rejected, now and over a day. */
export interface Drops {
  readonly time: string;
  /** Since when it is counted here: at most a day ago. */
  readonly since: string;
  readonly remark: string | null;
  /** Seconds of one step of a series; the last step is still being filled. */
  readonly step: number;
  /** When the last step of each series began. */
  readonly lastStep: string;
  readonly total: DropCount;
  /** Most packets of the day first, at most `MOST_DROP_ROWS`. Audit policies drop nothing. */
  readonly rules: readonly (DropCount & DropRule)[];
  readonly nodes: readonly (DropCount & { readonly node: string })[];
  /** How many rules and nodes with drops have no row, for which there is no room. */
  readonly rulesLeftOut: number;
  readonly nodesLeftOut: number;
}

export const MOST_DROP_ROWS = 200;

export type DropRule = Pick<
  CountedRule,
  'apiGroup' | 'policy' | 'direction' | 'rule' | 'ruleIndex' | 'action'
>;

export interface DropCount {
  /** Now: what is two minutes old weighs a third. Nodes report once a minute. */
  readonly packetsPerSecond: number;
  /** Since Drops.since. */
  readonly packets: number;
  /** Packets of each step up to `lastStep`, oldest first, from the first step with any. */
  readonly series: readonly number[];
}

/** Which nodes were asked, of a document that is made of their answers. */
export interface AskedNodes {
  readonly nodes: readonly string[];
  readonly failed: readonly UnansweredNode[];
  /** How many nodes were not asked: ask for them by `?node=`. */
  readonly notAsked: number;
}

/** The most nodes that one document asks. */
export const MOST_ASKED = 64;

/** Flows of many nodes: those of `nodewall flows --all-nodes -o json`, equal ones together. */
export interface FlowsOnNodes {
  readonly asked: AskedNodes;
  /** Most connections first, at most `MOST_PEERS`. */
  readonly flows: readonly FlowOnNodes[];
  readonly isCut: boolean;
}

export const MOST_PEERS = 500;

export interface FlowOnNodes
  extends Pick<NodeFlow, 'direction' | 'traffic' | 'peer' | 'protocol' | 'port' | 'verdict'>,
    Pick<NodeFlow, 'connections' | 'live' | 'firstSeen' | 'lastSeen'> {
  /** The decision of the rules in force; null: none are in force. */
  readonly decision: Pick<FlowAnswer, 'verdict' | 'policy' | 'rule'> | null;
  /** Sorted. */
  readonly nodes: readonly string[];
}

/** Denied flows: as inventories know them, so only those that rules with `enableLogging` denied. */
export interface DeniedPeers extends FlowsOnNodes {
  readonly time: string;
}

/** Verdicts that Audit policies would have given. */
export interface Audit {
  readonly time: string;
  readonly asked: AskedNodes;
  /** In the order of evaluation, also those that matched nothing. */
  readonly rules: readonly AuditRule[];
  /** From the nodes' last records; most records first, at most `MOST_PEERS`. */
  readonly peers: readonly AuditPeer[];
  readonly isCut: boolean;
}

/** An item of `rules` of `nodewall rules -o json`, of all nodes that were asked together. */
export interface AuditRule extends Omit<CountedRule, 'since' | 'width'> {
  /** Those where it matched, sorted. */
  readonly nodes: readonly string[];
}

export interface AuditPeer {
  readonly policy: string;
  readonly rule: string;
  readonly direction: Direction;
  /** The rule's verdict if it were enforced. */
  readonly verdict: RuleAction;
  readonly peer: string;
  readonly protocol: string | number;
  /** The server's port; absent: it has none. */
  readonly port?: number;
  /**
   * Records: no more than one of each connection, and fewer than connections if some are limited.
   */
  readonly records: number;
  readonly lastSeen: string;
  readonly nodes: readonly string[];
}

/** The findings of `nodewall lint -o json` on the policies in force. */
export interface Lint {
  /** The time of the state that it is about. */
  readonly time: string;
  /** Each with the first nodes and other rules: `MOST_NAMED` and `MOST_NAMED_RULES`. */
  readonly findings: readonly NodeFinding[];
  /** How many findings are left out. */
  readonly leftOut: number;
}

export const MOST_FINDINGS = 1_000;

/** Nodes in a list that names the first ones. */
export const MOST_NAMED = 20;

export interface PreviewRequest {
  /**
   * YAML or JSON documents as for `kubectl apply`: ClusterNetworkPolicies, ClusterGroups, Tiers and
   * Guardrails; each replaces the one of its name, the others stay. At most `LONGEST_PREVIEW`
   * bytes.
   */
  readonly yaml: string;
}

export const LONGEST_PREVIEW = 1 << 20;

/** The effect of applying it. Nothing is stored, and nothing is sent to nodes. */
export interface Preview {
  /** The time of the state that it is compared with. */
  readonly time: string;
  /** Those of `nodewall validate -o json`; with errors, nothing below is computed. */
  readonly problems: readonly Problem[];
  /** Objects that would be added, replaced, or stay as they are. */
  readonly objects: readonly {
    readonly kind: string;
    readonly name: string;
    readonly change: 'added' | 'replaced' | 'unchanged';
  }[];
  /** A Guardrail that holds now and would not; the webhook would refuse the change. */
  readonly brokenGuardrail: GuardrailViolation | null;
  /** Those of `nodewall diff -o json`; none: no verdict changes. */
  readonly groups: readonly NodeGroup<PreviewRow>[];
  /** How many rows are left out of all groups. */
  readonly leftOut: number;
  /** Why there is no difference (it takes too long); null: `groups` is the difference. */
  readonly noDifference: string | null;
  readonly impact: PreviewImpact;
}

/** Rows of all groups together. */
export const MOST_PREVIEW_ROWS = 500;

/**
 * A row of the difference, with text in the place of its ranges, which can be any number: as
 * `nodewall diff` prints it, with the names of Pods and Nodes that have the addresses.
 */
export interface PreviewRow
  extends Pick<Row, 'direction' | 'traffic' | 'before' | 'after' | 'ruleBefore' | 'ruleAfter'> {
  readonly flowsText: string;
  readonly peersText: string;
}

/** Flows that are seen now and would be denied. */
export type PreviewImpact = { readonly reason: string } | FlowsOnNodes;
