/**
 * The data documents of the console (docs/console.md): JSON, beside its pages, in the aggregated
 * API. Times are ISO 8601, UTC. Names, reasons and addresses in it are texts of others: a page
 * shows them as text, never as HTML.
 *
 * A page asks for `../overviews/NAME` and `../previews`, relative to itself. An answer that is not
 * 200 has a meta/v1 Status as its body; its `message` says what to do, and of a 403 which verb of
 * which resource is missing.
 */
import type { DataplaneName } from './config.ts';
import type { NodePhase } from './node-report.ts';
import type { ApiGroup, PolicyMode, PolicyTraffic } from './objects.ts';
import type { PolicyPhase } from './policy-status.ts';
import type { RolloutProgress } from './rollout.ts';
import type { StatusProblem } from './status-problems.ts';
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

/** Node × policy: what is in force where. */
export interface Overview {
  readonly time: string;
  /** The controller's revision, for support; opaque. */
  readonly revision: string;
  /** The feature gate NodeNetworkPolicy. */
  readonly isEnabled: boolean;
  /** Why it may be incomplete, for people; null: it is complete. */
  readonly remark: string | null;
  /** Sorted by name. */
  readonly nodes: readonly OverviewNode[];
  /** In the order of evaluation; those that are not enforced in any version come last. */
  readonly policies: readonly OverviewPolicy[];
  /**
   * Those of `nodewall rollout status -o json`, by name of the policy; nodes are named by the first
   * one of a group alone.
   */
  readonly rollouts: readonly RolloutProgress[];
  /** Those of `nodewall status -o json`. */
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
  /** The version of its agent; null: not known. */
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
}

/** Inclusive ranges of indexes in Overview.nodes, ascending. */
export type NodeRanges = readonly (readonly [first: number, last: number])[];

const EXCEPTION_STATES = [
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
  /** In force, and matching nothing beside the node's Service proxy. */
  'NotEnforced',
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

/** The state of one policy on one node. */
export type CellState =
  | 'NotApplied'
  | 'InForce'
  | ExceptionState
  /** States of the node, whatever the policy: `Silent` has the last rules in force. */
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

/**
 * A line of OVERVIEW_WATCH: first a whole Overview, then what changed, at most ten lines a second.
 * An empty line is a sign of life, at least every 30 s. A slow reader gets fewer lines; one that
 * takes nothing for a minute is cut off, and every watch ends after half an hour: begin again.
 */
export type OverviewLine =
  | { readonly type: 'overview'; readonly overview: Overview }
  | ({ readonly type: 'change' } & OverviewChange);

/**
 * The parts that replace those of the Overview before. Nodes are never added or removed here: then
 * a whole Overview follows.
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
  readonly rollouts?: readonly RolloutProgress[];
  readonly problems?: readonly StatusProblem[];
}

/** As in OverviewChange.order. */
export function overviewPolicyKey({ apiGroup, name }: Pick<OverviewPolicy, 'apiGroup' | 'name'>): string {
  return `${apiGroup}/${name}`;
}
