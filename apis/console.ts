/**
 * The data documents of the console (docs/console.md): JSON, beside its pages, in the aggregated
 * API or at the machine's own door. Times are ISO 8601, UTC. Names, reasons and addresses in it are
 * texts of others: a page shows them as text, never as HTML.
 *
 * A page asks for `../overviews/NAME` and `../previews`, relative to itself. An answer that is not
 * 200 has a meta/v1 Status as its body; its `message` says what to do, and of a 403 which verb of
 * which resource is missing.
 */
import type { DataplaneName } from './dataplanes.ts';
import type { Verdict } from './flow.ts';
import type { FindingKind } from './lint/finding.ts';
import type { NodePhase } from './node-phase.ts';
import type { ApiGroup, Direction, PolicyMode, PolicyTraffic, RuleAction } from './objects.ts';
import type { PolicyPhase } from './policy-status.ts';
import type { RolloutDecision, RolloutStatus } from './rollout.ts';
import { CONTROL_PLANE } from './stream.ts';

const API = `/apis/${CONTROL_PLANE.group}/${CONTROL_PLANE.version}`;

/** `/FILE` below it is a file of the console's pages: resource `console`, named FILE. */
export const CONSOLE_PATH = `${API}/console`;
/** `/NAME` below it is a document: resource `overviews`, of these names. */
export const OVERVIEWS_PATH = `${API}/overviews`;
/** POST PreviewRequest: `create` of resource `previews`. */
export const PREVIEWS_PATH = `${API}/previews`;

/**
 * Below OVERVIEWS_PATH's folder: OverviewLines of the overview `cluster`. In this form the API
 * server knows that the request lasts (verb `watch`); it would end a `get` after a minute.
 */
export const OVERVIEW_WATCH = 'overviews?watch=true&fieldSelector=metadata.name%3Dcluster';

/**
 * `cluster`: Overview; to watch it, see OVERVIEW_WATCH. `drops`: Drops. `peers`: DeniedPeers.
 * `audit`: Audit. `lint`: Lint. `peers` and `audit` ask nodes, and take `?node=NAME` (may be
 * repeated); without it they ask the nodes where most was denied, or all.
 */
export const OVERVIEWS = ['cluster', 'drops', 'peers', 'audit', 'lint'] as const;
export type OverviewName = (typeof OVERVIEWS)[number];

/** A whole cluster, or one machine without one. */
export type ConsoleScope = 'cluster' | 'machine';

/** Node × policy: what is in force where. */
export interface Overview {
  readonly scope: ConsoleScope;
  readonly time: string;
  /** The controller's revision, for support; opaque. */
  readonly revision: string;
  /** The feature gate NodeNetworkPolicy (scope machine: whether nodewall is on). */
  readonly isEnabled: boolean;
  /** Why it may be incomplete, for people; null: it is complete. */
  readonly remark: string | null;
  /** Sorted by name. */
  readonly nodes: readonly OverviewNode[];
  /** In the order of evaluation; those that are not enforced in any version come last. */
  readonly policies: readonly OverviewPolicy[];
  readonly rollouts: readonly OverviewRollout[];
  /** What somebody has to look at, the worst first, as `nodewall status` says. */
  readonly problems: readonly StatusProblem[];
}

export interface OverviewNode {
  readonly name: string;
  readonly phase: NodePhase;
  /** Why it is in this phase; '': nothing to say. */
  readonly message: string;
  /**
   * The last report as of this document; null: none. A later report that says the same makes no
   * change.
   */
  readonly reported: string | null;
  /** Of its agent; null: not known. */
  readonly version: string | null;
  readonly dataplane: DataplaneName | null;
}

export interface OverviewPolicy {
  readonly apiGroup: ApiGroup;
  /** Unique together with `apiGroup`. */
  readonly name: string;
  readonly tier: string;
  readonly priority: number;
  readonly mode: PolicyMode;
  readonly traffic: PolicyTraffic;
  readonly phase: PolicyPhase;
  /** For people: `3 of 4 nodes enforce the policy.` */
  readonly message: string;
  /** The newest generation in the API; 0: it has none (manifests). */
  readonly generation: number;
  /**
   * The generation that nodes are to enforce where no exception says otherwise; null: none was
   * ever valid. Less than `generation`: the newest is invalid, or a rollout has not begun.
   */
  readonly enforcedGeneration: number | null;
  /**
   * Since when all its nodes have had `enforcedGeneration` in force without a break. Null: they
   * do not, or did before this controller began (`sinceAtLeast`).
   */
  readonly since: string | null;
  /** Where `since` is null, and no node is an exception: in force at this time, and before. */
  readonly sinceAtLeast: string | null;
  /** When the spec was last changed, and by which field manager (`kubectl-client-side-apply`). */
  readonly changed: { readonly time: string; readonly by: string } | null;
  /** The nodes that it applies to. */
  readonly nodes: NodeRanges;
  /** Where `enforcedGeneration` is not simply in force; each node of `nodes` in one at most. */
  readonly exceptions: readonly PolicyException[];
  /** The key of its rollout in Overview.rollouts; null: none. */
  readonly rollout: string | null;
}

/** Inclusive ranges of indexes in Overview.nodes, ascending. */
export type NodeRanges = readonly (readonly [first: number, last: number])[];

export const EXCEPTION_STATES = [
  /** It was sent and is not in force yet. */
  'Pending',
  /** In force, and not confirmed yet (guarded apply). */
  'Trying',
  /** Its rollout has not come to these nodes: another version is in force there. */
  'OtherVersion',
  /** A rule cannot be enforced; the version before is in force, if there was one. */
  'Failed',
  /** Guarded apply went back to the version before. */
  'RolledBack',
  /** The agent is of an older version, and ignores a field. Its rules are enforced. */
  'Partly',
] as const;
export type ExceptionState = (typeof EXCEPTION_STATES)[number];

/** Nodes with the same state, reason and generation. */
export interface PolicyException {
  readonly nodes: NodeRanges;
  readonly state: ExceptionState;
  /** For people; '': the state says it all. */
  readonly reason: string;
  /** The rule that fails; null: the whole policy, or none. */
  readonly rule: string | null;
  /** The generation that is in force there; null: none, or not known. */
  readonly generation: number | null;
  /** Since when there are such nodes, as this controller saw it. */
  readonly since: string;
}

/** Exceptions of a policy; of more, the rest has the reason `OTHER_REASONS`. */
export const MOST_EXCEPTIONS = 50;
export const OTHER_REASONS = 'other reasons; nodewall status and the policy have more';

/** What is in force of one policy on one node. */
export type CellState =
  | 'NotApplied'
  | 'InForce'
  | ExceptionState
  /** Of the node, whatever the policy: `Silent` has the last rules in force. */
  | Extract<NodePhase, 'Off' | 'Disabled' | 'NotFollowing' | 'Silent' | 'Unknown'>;

/**
 * The cell of a node and a policy. The state of a node that enforces nothing, or no changes, or
 * does not report, is that of all its cells.
 */
export function cellState(
  { nodes }: Pick<Overview, 'nodes'>,
  policy: Pick<OverviewPolicy, 'nodes' | 'exceptions'>,
  node: number,
): CellState {
  if (!isInRanges(policy.nodes, node)) return 'NotApplied';
  const phase = nodes[node]?.phase ?? 'Unknown';
  if (phase !== 'Enforced' && phase !== 'Pending' && phase !== 'Failing') return phase;
  return policy.exceptions.find((one) => isInRanges(one.nodes, node))?.state ?? 'InForce';
}

export function isInRanges(ranges: NodeRanges, node: number): boolean {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranges[middle]?.[1] ?? 0) < node) low = middle + 1;
    else high = middle;
  }
  return (ranges[low]?.[0] ?? Number.POSITIVE_INFINITY) <= node;
}

/** @param nodes ascending */
export function toRanges(nodes: Iterable<number>): NodeRanges {
  const ranges: [number, number][] = [];
  for (const node of nodes) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === node - 1) last[1] = node;
    else ranges.push([node, node]);
  }
  return ranges;
}

/** A rollout of one policy, or of several of a group. */
export interface OverviewRollout {
  readonly key: string;
  readonly state: RolloutDecision['state'];
  readonly pausedBy: RolloutDecision['pausedBy'] | null;
  readonly progress: string;
  readonly message: string;
  readonly policies: RolloutDecision['policies'];
  /** Of those that take part so far; null: not counted yet. */
  readonly nodes: number | null;
  readonly updated: number | null;
  readonly confirmed: number | null;
  readonly failed: NonNullable<RolloutStatus['failed']>;
  readonly silent: NonNullable<RolloutStatus['silent']>;
  readonly waiting: readonly string[];
  /** What can be done in this state, as lines for a shell; the console does nothing itself. */
  readonly commands: readonly { readonly does: string; readonly line: string }[];
}

/** Something that an operator has to look at. */
export interface StatusProblem {
  /** KIND/NAME */
  readonly object: string;
  readonly phase: string;
  readonly message: string;
}

/**
 * A line of OVERVIEW_WATCH: first a whole Overview, then what changed, at most ten lines a second.
 * An empty line is a sign of life, at least every 30 s. A slow reader gets fewer lines; one that
 * takes nothing for a minute is cut off, and every watch ends after half an hour: begin again.
 */
export type OverviewLine =
  | { readonly type: 'overview'; readonly overview: Overview }
  | ({ readonly type: 'change' } & OverviewChange);

/**
 * What replaces the same of the Overview before. Nodes are never added or removed here: then a
 * whole Overview follows.
 */
export interface OverviewChange {
  readonly time: string;
  readonly revision: string;
  readonly isEnabled?: boolean;
  readonly remark?: string | null;
  /** Changed nodes, whole. */
  readonly nodes?: readonly { readonly index: number; readonly node: OverviewNode }[];
  /** Changed and added policies, whole. */
  readonly policies?: readonly OverviewPolicy[];
  /**
   * All policies in their order, as `API_GROUP/NAME`: present if one was added, removed or moved.
   * Those that it does not name are removed.
   */
  readonly order?: readonly string[];
  /** All of them. */
  readonly rollouts?: readonly OverviewRollout[];
  readonly problems?: readonly StatusProblem[];
}

/** As in OverviewChange.order. */
export function policyKey({ apiGroup, name }: Pick<OverviewPolicy, 'apiGroup' | 'name'>): string {
  return `${apiGroup}/${name}`;
}

/** What rules dropped and rejected, now and over a day. */
export interface Drops {
  readonly scope: ConsoleScope;
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

export interface DropRule {
  readonly apiGroup: ApiGroup;
  readonly policy: string;
  readonly direction: Direction;
  readonly rule: string;
  readonly ruleIndex: number;
  readonly action: RuleAction;
}

export interface DropCount {
  /** Now: what is two minutes old weighs a third. Nodes report once a minute. */
  readonly packetsPerSecond: number;
  /** Since Drops.since. */
  readonly packets: number;
  /** Packets of each step up to `lastStep`, oldest first, from the first step with any. */
  readonly series: readonly number[];
}

/** Which nodes were asked, of a document that is made of their answers. */
export interface Asked {
  readonly nodes: readonly string[];
  /** Those that did not answer, and why. */
  readonly failed: readonly { readonly node: string; readonly message: string }[];
  /** How many nodes were not asked: ask for them by `?node=`. */
  readonly notAsked: number;
}

/** The most nodes that one document asks. */
export const MOST_ASKED = 64;

/** Who was denied: of the flow inventories, so only what rules with `enableLogging` denied. */
export interface DeniedPeers {
  readonly scope: ConsoleScope;
  readonly time: string;
  readonly asked: Asked;
  /** Most connections first, at most `MOST_PEERS`. */
  readonly peers: readonly DeniedPeer[];
  readonly isCut: boolean;
}

export const MOST_PEERS = 500;

export interface DeniedPeer {
  /** An address, or a CIDR that stands for many. */
  readonly peer: string;
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  readonly protocol: string | number;
  /** Of the server; null: it has none, or it stands for many. */
  readonly port: number | null;
  /** What became of the flows. */
  readonly verdict: Verdict;
  /** The rule that decides them now; null: none. */
  readonly rule: { readonly policy: string; readonly rule: string } | null;
  /** Whether the rules in force would allow it now. */
  readonly isAllowedNow: boolean;
  readonly connections: number;
  readonly firstSeen: string;
  readonly lastSeen: string;
  /** Sorted. */
  readonly nodes: readonly string[];
}

/** What Audit policies would have done. */
export interface Audit {
  readonly scope: ConsoleScope;
  readonly time: string;
  readonly asked: Asked;
  /** In the order of evaluation, also those that matched nothing. */
  readonly rules: readonly AuditRule[];
  /** Of the nodes' last records; most records first, at most `MOST_PEERS`. */
  readonly peers: readonly AuditPeer[];
  readonly isCut: boolean;
}

export interface AuditRule extends DropRule {
  readonly packets: number;
  readonly bytes: number;
  readonly lastHit: string | null;
  /** Those where it matched, sorted. */
  readonly nodes: readonly string[];
}

export interface AuditPeer {
  readonly policy: string;
  readonly rule: string;
  readonly direction: Direction;
  /** What the rule would have done. */
  readonly verdict: RuleAction;
  readonly peer: string;
  readonly protocol: string | number;
  /** Of the server; null: it has none. */
  readonly port: number | null;
  /** Records: no more than one of each connection, and fewer than connections if some are limited. */
  readonly records: number;
  readonly lastSeen: string;
  readonly nodes: readonly string[];
}

/** What `nodewall lint` says of the policies in force. */
export interface Lint {
  readonly scope: ConsoleScope;
  /** Of the state that it is about. */
  readonly time: string;
  readonly findings: readonly LintFinding[];
  /** How many findings are left out. */
  readonly leftOut: number;
}

export const MOST_FINDINGS = 1_000;

export interface LintFinding {
  readonly kind: FindingKind;
  readonly direction: Direction;
  readonly policy: string;
  readonly rule: string;
  readonly ruleIndex: number;
  /** A sentence about the rule, without its name. */
  readonly text: string;
  /** One flow for which it holds, as `nodewall explain --flow` takes it; null: there is none. */
  readonly flow: object | null;
  /** The first `MOST_NAMED` nodes where it holds, and how many there are. */
  readonly nodes: readonly string[];
  readonly nodeCount: number;
}

/** Nodes in a list that names the first ones. */
export const MOST_NAMED = 20;

export interface PreviewRequest {
  /**
   * YAML or JSON documents as for `kubectl apply`: ClusterNetworkPolicies, ClusterGroups, Tiers and
   * Guardrails; each replaces the one of its name, the others stay. At most `LONGEST_PREVIEW` bytes.
   */
  readonly yaml: string;
}

export const LONGEST_PREVIEW = 1 << 20;

/** What applying it would do. Nothing is stored, and nothing is sent to nodes. */
export interface Preview {
  readonly scope: ConsoleScope;
  /** Of the state that it is compared with. */
  readonly time: string;
  /** Why it would be refused, or is left out; if there are errors, nothing below is computed. */
  readonly problems: readonly PreviewProblem[];
  /** Objects that would be added, replaced, or stay as they are. */
  readonly objects: readonly {
    readonly kind: string;
    readonly name: string;
    readonly change: 'added' | 'replaced' | 'unchanged';
  }[];
  /** A Guardrail that holds now and would not; the webhook would refuse the change. */
  readonly brokenGuardrail: { readonly guardrail: string; readonly message: string } | null;
  /** Nodes with the same changes; none: no verdict changes. */
  readonly groups: readonly PreviewGroup[];
  /** How many rows are left out of all groups. */
  readonly leftOut: number;
  /** Why there is no difference (it takes too long); null: `groups` is the difference. */
  readonly noDifference: string | null;
  readonly impact: PreviewImpact;
}

export interface PreviewProblem {
  readonly severity: 'error' | 'warning';
  /** In the text; 0: not known. */
  readonly line: number;
  /** `ClusterNetworkPolicy/web`; '': of the text. */
  readonly object: string;
  /** `spec.ingress[0].action`; '': of the object. */
  readonly path: string;
  readonly message: string;
}

/** Rows of all groups together. */
export const MOST_PREVIEW_ROWS = 500;

export interface PreviewGroup {
  /** The first `MOST_NAMED`, sorted, and how many there are. */
  readonly nodes: readonly string[];
  readonly nodeCount: number;
  readonly rows: readonly PreviewRow[];
}

/** A set of flows whose verdict changes, as `nodewall diff` prints it. */
export interface PreviewRow {
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  readonly flows: string;
  readonly peers: string;
  readonly before: string;
  readonly after: string;
  /** Whether it is allowed now and would not be, or the reverse. */
  readonly change: 'denied' | 'allowed' | 'other';
}

/** What is seen now and would be denied. */
export type PreviewImpact =
  | { readonly reason: string }
  | {
      readonly asked: Asked;
      /** Most connections first, at most `MOST_PEERS`. */
      readonly newlyDenied: readonly ImpactKind[];
      readonly isCut: boolean;
    };

export interface ImpactKind extends Omit<DeniedPeer, 'verdict' | 'isAllowedNow'> {
  /** Connections now, which would go on until they end; null: not known. */
  readonly live: number | null;
}
