import { isDeepStrictEqual } from 'node:util';
import type { CompiledPolicy } from '../../apis/compiled.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import { type RateLimiter, rateLimiter } from '../../lib/process/fair-queue.ts';
import { parseRevision, type Revision } from '../publish/resume-log.ts';
import { WATCHED } from '../watch/cluster/resources.ts';
import type { ReportedNode } from './reported-node.ts';

/** Indexes in the position of a revision. */
const [NODES, POLICIES, ANTREA_POLICIES] = [
  'nodes',
  'clusternetworkpolicies.nodewall.io',
  'clusternetworkpolicies.crd.antrea.io',
].map((name) => WATCHED.findIndex((resource) => resource.name === name)) as [number, number, number];

/** Where a change is: in the messages of this hub, and in the events about Nodes and policies. */
interface Place {
  readonly number: number;
  readonly nodes: number;
  /** 0: it has no other reason than Nodes. */
  readonly policies: number;
}

/** A policy, or one version of it where nodes may have another one. */
export interface TrackedVersion {
  /** The policy's `API_GROUP/NAME`. */
  readonly policy: string;
  readonly compiled: CompiledPolicy;
  readonly generation: number;
  readonly nodes: readonly ReportedNode[];
  /** The number of the revision that first had these rules. */
  readonly since: number;
  /** The resource version at which its nodes were decided; 0: all nodes have it. */
  readonly decided: number;
  /** Nodes whose share of the rules changed at a later revision. */
  readonly later: ReadonlyMap<ReportedNode, Place>;
  /** The resource version for which the progress was last computed. */
  readonly version: number;
}

/** The place of a change of this policy, in a revision of this hub. */
export function placeInRevision({ number, position }: Revision, { since = 0 }: CompiledPolicy): Place {
  return { number, nodes: position[NODES] ?? 0, policies: since };
}

interface Publication {
  readonly policy: string;
  readonly place: Place;
  /** The nodes that the version applies to. */
  readonly nodes: readonly ReportedNode[];
  readonly nodeOf: (name: string) => ReportedNode;
}

/** Tracks a version that is published: anew if it has other rules than before. */
export function trackVersion(
  before: TrackedVersion | undefined,
  compiled: CompiledPolicy,
  { policy, place, nodes, nodeOf }: Publication,
): TrackedVersion {
  const [rule] = compiled.rules;
  const generation =
    compiled.version === undefined ? (rule?.source.generation ?? 0) : Number(compiled.version);
  const now = { policy, compiled, generation, nodes, version: before?.version ?? 0 };
  if (before === undefined || !sameRules(before.compiled, compiled))
    return { ...now, since: place.number, decided: place.policies, later: new Map() };
  const { since, decided } = before;
  return { ...now, since, decided, later: laterNodes(before, compiled, place, nodeOf) };
}

/**
 * Whether a revision has the version's rules for the node. Revisions of this hub (`epoch`) are
 * compared by number, others by their positions.
 */
export function hasVersion(
  enforced: Revision | null,
  node: ReportedNode,
  { policy, since, later, version, decided }: TrackedVersion,
  epoch: string,
): boolean {
  if (enforced === null) return false;
  const { number, position } = enforced;
  const isOwn = enforced.epoch === epoch;
  const reached = position[policy.startsWith('crd.antrea.io/') ? ANTREA_POLICIES : POLICIES] ?? -1;
  if (isOwn ? number < since : reached < version) return false;
  const place = later.get(node);
  if (place === undefined) return isOwn || reached >= decided;
  if (isOwn) return number >= place.number;
  return (position[NODES] ?? -1) >= place.nodes && reached >= place.policies;
}

/** Whether a node went back to an older state: its agent restarted, or enforces nothing. */
export function isOlder(now: Revision | null, before: Revision | null): boolean {
  if (before === null) return false;
  if (now === null) return true;
  if (now.epoch === before.epoch) return now.number < before.number;
  return [POLICIES, ANTREA_POLICIES, NODES].some(
    (at) => (now.position[at] ?? -1) < (before.position[at] ?? 0),
  );
}

export function appliesTo({ spans }: CompiledPolicy, { name }: ReportedNode): boolean {
  return spans.some((span) => span.has(name));
}

/** For unchanged rules that apply to other nodes than before. */
function laterNodes(
  before: TrackedVersion,
  now: CompiledPolicy,
  place: Place,
  nodeOf: (name: string) => ReportedNode,
): Map<ReportedNode, Place> {
  const later = new Map(before.later);
  const seen = new Map<ReadonlySet<string>, ReadonlySet<string>>();
  for (const [i, span] of now.spans.entries()) {
    const was = before.compiled.spans[i];
    if (was === span || was === undefined || seen.get(span) === was) continue;
    seen.set(span, was);
    for (const name of span) if (!was.has(name)) later.set(nodeOf(name), place);
    for (const name of was) if (!span.has(name)) later.set(nodeOf(name), place);
  }
  return later;
}

function sameRules(a: CompiledPolicy, b: CompiledPolicy): boolean {
  if (a.rules === b.rules) return true;
  return a.rules.length === b.rules.length && a.rules.every((rule, i) => rule === b.rules[i]);
}

/** So many changes of one node at once, and then so many a second. */
const CHANGES = { burst: 10, perSecond: 0.1 };

/**
 * Holds reports of a node whose reports change all the time: each may change the statuses of all
 * policies on the node. A report that only enforces a later revision is not such a change. The last
 * report is never lost.
 */
export class ReportDamper {
  readonly #limiter: RateLimiter;
  /** By node: the report that was used last. */
  readonly #used = new Map<string, NodeReport>();
  readonly #held = new Map<string, NodeReport>();

  /** @param now returns monotonic milliseconds */
  constructor(now: () => number) {
    this.#limiter = rateLimiter({ ...CHANGES, now });
  }

  /** Whether to use this report now; if not, `take` returns it later. */
  isDue(report: NodeReport): boolean {
    const { node } = report;
    const before = this.#used.get(node);
    const isDue = before === undefined || isProgress(before, report) || this.#limiter.allows(node);
    if (isDue) {
      this.#used.set(node, report);
      this.#held.delete(node);
    } else this.#held.set(node, report);
    return isDue;
  }

  /** The held reports that are due now. */
  due(): NodeReport[] {
    return [...this.#held.values()].filter((report) => this.isDue(report));
  }

  /** Keeps those of existing nodes only: another machine may get the name of a deleted one. */
  forgetOthers(existing: ReadonlyMap<string, unknown>): void {
    for (const node of this.#held.keys()) if (!existing.has(node)) this.#held.delete(node);
    if (this.#used.size <= existing.size) return;
    for (const node of this.#used.keys()) if (!existing.has(node)) this.#used.delete(node);
  }
}

function isProgress(before: NodeReport, now: NodeReport): boolean {
  return (
    before.enabled === now.enabled &&
    before.off === now.off &&
    before.viewError === now.viewError &&
    isDeepStrictEqual(before.failing, now.failing) &&
    isDeepStrictEqual(before.features, now.features) &&
    !isOlder(parseRevision(now.enforced ?? ''), parseRevision(before.enforced ?? ''))
  );
}
