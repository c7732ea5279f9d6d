import type { Compiled, CompiledPolicy } from '../../apis/compiled.ts';
import type { FailingNode } from '../../apis/policy-status.ts';
import { AGENT_FEATURES, type AgentFeature, type NodeReport } from '../../apis/stream.ts';
import { sameItems } from '../../lib/sharing/same-items.ts';
import { parseRevision, type Revision } from '../publish/revision.ts';
import { versionKey } from '../publish/rule-groups.ts';
import { type Outcome, outcomeOf } from '../rollout/outcome.ts';
import { WATCHED } from '../watch/cluster/resources.ts';
import { NO_PROGRESS, type Progress } from './status.ts';

/**
 * Time without a report after which a node no longer counts (milliseconds); agents report every 33
 * to 66 seconds.
 */
export const SILENCE = 180_000;

/** The same for the first report, as far as rollouts are concerned, which wait for it. */
const FIRST_REPORT = 75_000;

/** Indexes in the position of a revision. */
const [NODES, POLICIES] = ['nodes', 'clusternetworkpolicies.nodewall.io'].map((name) =>
  WATCHED.findIndex((resource) => resource.name === name),
) as [number, number];

/** The last report of a node. */
interface Row {
  readonly name: string;
  /** The time of the report; before the first one, the time since when it is expected. */
  heard: number;
  /** Null before the first. */
  report: NodeReport | null;
  isSilent: boolean;
  /** The revision in force; null: nothing is enforced. */
  enforced: Revision | null;
  /** The reason why it enforces nothing, or no changes, although it reports; null: none. */
  trouble: string | null;
  readonly failing: Map<string, NodeReport['failing']>;
  /** The generations that are not confirmed yet, by policy; empty: none. */
  tried: ReadonlyMap<string, number>;
  /** The features that its agent has not; before the first report, none. */
  lacks: readonly AgentFeature[];
}

/** A policy, or one version of it where nodes may have another one. */
interface Tracked {
  /** The policy's `API_GROUP/NAME`. */
  readonly policy: string;
  readonly compiled: CompiledPolicy;
  readonly generation: number;
  readonly rows: readonly Row[];
  /** The number of the revision that first had these rules. */
  readonly since: number;
  /** The resource version at which its nodes were decided; 0: all nodes have it. */
  readonly decided: number;
  /** Nodes whose share of the rules changed at a later revision. */
  readonly later: ReadonlyMap<Row, Place>;
  /** The resource version for which the progress was last computed. */
  readonly version: number;
}

/** Where a change is: in the messages of this hub, and in the events about Nodes and policies. */
interface Place {
  readonly number: number;
  readonly nodes: number;
  /** 0: it has no other reason than Nodes. */
  readonly policies: number;
}

/**
 * Tracks which nodes enforce which policies, whichever controller serves them: revisions of this
 * hub are compared by number, others by their positions. No I/O; policies are named
 * `API_GROUP/NAME`.
 */
export class Realization {
  readonly #now: () => number;
  readonly #rows = new Map<string, Row>();
  /** By policy and version. */
  readonly #tracked = new Map<string, Tracked>();
  /** By policy: the keys of its versions. */
  readonly #versions = new Map<string, readonly string[]>();
  /** By policy: nodes that report it as failing, in any version. */
  readonly #failing = new Map<string, Set<Row>>();
  /** Policies that are not enforced on all their nodes yet. */
  readonly #unsettled = new Set<string>();
  /** By policy: the only node whose report may have changed its progress; null: not one alone. */
  #changed = new Map<string, string | null>();
  #rowsOf = new WeakMap<ReadonlySet<string>, readonly Row[]>();
  #epoch = '';
  #last: readonly CompiledPolicy[] = [];

  /** @param now returns monotonic milliseconds */
  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * Policies count as unchanged if they are the same objects.
   * @param revision the hub's revision after it published this state
   */
  publish(compiled: Compiled, revision: string): void {
    const { epoch = '', number = 0, position = [] } = parseRevision(revision) ?? {};
    this.#epoch = epoch;
    const nodes = position[NODES] ?? 0;
    const before = new Set(this.#last);
    if (compiled.policies === this.#last) return;
    const removed = new Set(this.#tracked.keys());
    for (const policy of compiled.policies) {
      const key = versionKey(policy);
      removed.delete(key);
      if (!before.has(policy)) this.#track(key, policy, { number, nodes, policies: policy.since ?? 0 });
    }
    for (const key of removed) this.#untrack(key);
    this.#last = compiled.policies;
    this.#forgetNodes(compiled.nodeAddresses);
  }

  /**
   * Records a report. Returns a human-readable reason if the node has begun to enforce nothing, or
   * no changes; else null.
   */
  report(report: NodeReport): string | null {
    const row = this.#rowOf(report.node);
    const enforced = report.enabled ? parseRevision(report.enforced ?? '') : null;
    const before = row.enforced;
    row.enforced = enforced;
    row.heard = this.#now();
    row.report = report;
    const trouble = troubleOf(report);
    const isNew = row.trouble === null;
    const lacks = AGENT_FEATURES.filter((one) => report.features?.includes(one) !== true);
    if (row.isSilent || row.trouble !== trouble || !sameItems(lacks, row.lacks)) this.#changeAllOn(row);
    row.lacks = lacks;
    this.#findCrossed(row, before);
    row.isSilent = false;
    row.trouble = trouble;
    this.#takeFailing(row, report);
    this.#takeTried(row, report);
    return isNew ? trouble : null;
  }

  /** The node is alive, although its report is not used. */
  heard(node: string): void {
    this.#rowOf(node).heard = this.#now();
  }

  /**
   * Finds the nodes without a report for `SILENCE`, including those that never reported. Must be
   * called periodically.
   */
  lookForSilent(): void {
    const latest = this.#now() - SILENCE;
    for (const row of this.#rows.values()) {
      if (row.isSilent || row.heard > latest) continue;
      row.isSilent = true;
      this.#changeAllOn(row);
    }
  }

  /**
   * The progress of the compiled version. Where nodes have several, that of the given generation:
   * nodes that have another one still are desired, and not current.
   * @param version the resource version of the policy at which its generation was first seen
   */
  progress(policy: string, version: number, generation: number): Progress {
    let whole = NO_PROGRESS;
    for (const key of this.#versions.get(policy) ?? []) {
      const one = this.#tracked.get(key);
      if (one === undefined) continue;
      const { version: name, selected } = one.compiled;
      const isOther = name !== undefined && one.generation !== generation;
      const progress = this.#progressOfVersion(key, one, isOther ? one.version : version);
      if (isOther) continue;
      whole = selected === undefined ? progress : { ...progress, desired: this.#rowsIn(selected).length };
    }
    return whole;
  }

  /**
   * What a node made of the versions that it must have now, of several policies.
   * @param generations by policy, the generation that the node must have
   */
  outcome(
    node: string,
    generations: ReadonlyMap<string, number>,
  ): { readonly outcome: Outcome; readonly reason: string } {
    const row = this.#rowOf(node);
    const { report, heard, enforced } = row;
    const hasWaited = report === null && this.#now() >= heard + FIRST_REPORT;
    const isSilent = row.isSilent || hasWaited;
    let isCurrent = true;
    let failing: string | null = null;
    for (const [policy, generation] of generations) {
      const versions = (this.#versions.get(policy) ?? []).flatMap((key) => this.#tracked.get(key) ?? []);
      const version = versions.find((one) => one.generation === generation);
      isCurrent &&=
        version !== undefined &&
        row.tried.get(policy) !== generation &&
        versions.every((one) => this.#isCurrent(row, enforced, one));
      failing ??= row.failing.get(policy)?.find((one) => one.generation === generation)?.reason ?? null;
      if (version !== undefined) failing ??= whyPartly(row, neededFeatures(version.compiled));
    }
    const outcome = outcomeOf({ report, isSilent, isCurrent, isFailing: failing !== null });
    if (outcome === 'silent') return { outcome, reason: isSilent ? whySilent(row) : (row.trouble ?? '') };
    return { outcome, reason: failing ?? row.trouble ?? '' };
  }

  /**
   * The policies for which `progress` may have changed since the last call, each with the only node
   * whose report is the reason; null: several nodes, or something else.
   */
  takeChanged(): ReadonlyMap<string, string | null> {
    const taken = this.#changed;
    this.#changed = new Map();
    return taken;
  }

  #progressOfVersion(key: string, one: Tracked, version: number): Progress {
    const progress = this.#progressOf({ ...one, version });
    const isSettled = progress.current === progress.desired;
    if (isSettled) this.#unsettled.delete(key);
    if (isSettled || version !== one.version)
      this.#tracked.set(key, { ...one, version, later: isSettled ? new Map() : one.later });
    return progress;
  }

  #change(policy: string, { name }: Row): void {
    const cause = this.#changed.get(policy);
    this.#changed.set(policy, cause === undefined || cause === name ? name : null);
  }

  #changeAllOn(row: Row): void {
    for (const { policy, compiled } of this.#tracked.values())
      if (appliesTo(compiled, row)) this.#change(policy, row);
  }

  /** Finds the policies that the node began, or ceased, to enforce at another revision. */
  #findCrossed(row: Row, before: Revision | null): void {
    const keys = isOlder(row.enforced, before) ? this.#tracked.keys() : this.#unsettled;
    for (const key of keys) {
      const one = this.#tracked.get(key);
      if (one === undefined || !appliesTo(one.compiled, row)) continue;
      if (this.#isCurrent(row, before, one) === this.#isCurrent(row, row.enforced, one)) continue;
      this.#unsettled.add(key);
      this.#change(one.policy, row);
    }
  }

  /** Whether the revision has the policy's rules for the node. */
  #isCurrent(row: Row, enforced: Revision | null, { since, later, version, decided }: Tracked): boolean {
    if (enforced === null) return false;
    const { epoch, number, position } = enforced;
    const isOwn = epoch === this.#epoch;
    if (isOwn ? number < since : (position[POLICIES] ?? -1) < version) return false;
    const place = later.get(row);
    if (place === undefined) return isOwn || (position[POLICIES] ?? -1) >= decided;
    if (isOwn) return number >= place.number;
    return (position[NODES] ?? -1) >= place.nodes && (position[POLICIES] ?? -1) >= place.policies;
  }

  #rowOf(name: string): Row {
    const there = this.#rows.get(name);
    if (there !== undefined) return there;
    const row: Row = {
      name,
      heard: this.#now(),
      report: null,
      isSilent: false,
      enforced: null,
      trouble: null,
      failing: new Map(),
      tried: new Map(),
      lacks: [],
    };
    this.#rows.set(name, row);
    return row;
  }

  #rowsIn(spans: readonly ReadonlySet<string>[]): readonly Row[] {
    const distinct = [...new Set(spans)];
    const [first] = distinct;
    if (first === undefined) return [];
    if (distinct.length > 1)
      return [...new Set(distinct.flatMap((span) => [...span]))].map((name) => this.#rowOf(name));
    const known = this.#rowsOf.get(first);
    if (known !== undefined) return known;
    const made = Array.from(first, (name) => this.#rowOf(name));
    this.#rowsOf.set(first, made);
    return made;
  }

  #track(key: string, compiled: CompiledPolicy, place: Place): void {
    const before = this.#tracked.get(key);
    const [rule] = compiled.rules;
    const policy = keyOf(compiled);
    const generation =
      compiled.version === undefined ? (rule?.source.generation ?? 0) : Number(compiled.version);
    const now = { policy, compiled, generation, rows: this.#rowsIn(compiled.spans) };
    const isSame = before !== undefined && sameRules(before.compiled, compiled);
    const later = isSame ? this.#laterRows(before, compiled, place) : new Map<Row, Place>();
    const version = before?.version ?? 0;
    const since = isSame ? before.since : place.number;
    const decided = isSame ? before.decided : place.policies;
    this.#tracked.set(key, { ...now, since, decided, later, version });
    if (before === undefined) this.#versions.set(policy, [...(this.#versions.get(policy) ?? []), key]);
    this.#changed.set(policy, null);
    this.#unsettled.add(key);
  }

  #untrack(key: string): void {
    const { policy = '' } = this.#tracked.get(key) ?? {};
    const others = (this.#versions.get(policy) ?? []).filter((one) => one !== key);
    if (others.length > 0) this.#versions.set(policy, others);
    else this.#versions.delete(policy);
    this.#tracked.delete(key);
    this.#unsettled.delete(key);
    this.#changed.set(policy, null);
  }

  /** For unchanged rules that apply to other nodes than before. */
  #laterRows(before: Tracked, now: CompiledPolicy, place: Place): Map<Row, Place> {
    const later = new Map(before.later);
    const seen = new Map<ReadonlySet<string>, ReadonlySet<string>>();
    for (const [i, span] of now.spans.entries()) {
      const was = before.compiled.spans[i];
      if (was === span || was === undefined || seen.get(span) === was) continue;
      seen.set(span, was);
      for (const name of span) if (!was.has(name)) later.set(this.#rowOf(name), place);
      for (const name of was) if (!span.has(name)) later.set(this.#rowOf(name), place);
    }
    return later;
  }

  #forgetNodes(there: ReadonlyMap<string, unknown>): void {
    if (this.#rows.size <= there.size) return;
    for (const [name, row] of this.#rows) {
      if (there.has(name)) continue;
      for (const key of row.failing.keys()) this.#noLongerFailing(key, row);
      this.#rows.delete(name);
    }
    // Spans that include deleted nodes are no longer in use.
    this.#rowsOf = new WeakMap();
  }

  #noLongerFailing(key: string, row: Row): void {
    const those = this.#failing.get(key);
    those?.delete(row);
    if (those?.size === 0) this.#failing.delete(key);
  }

  #takeFailing(row: Row, report: NodeReport): void {
    for (const key of row.failing.keys()) {
      this.#noLongerFailing(key, row);
      this.#change(key, row);
    }
    row.failing.clear();
    for (const [key, said] of Map.groupBy(
      report.failing,
      ({ apiGroup, policy }) => `${apiGroup}/${policy}`,
    )) {
      // Names of policies that don't exist are ignored: a node could fill the memory with them.
      if (!this.#versions.has(key)) continue;
      row.failing.set(key, said);
      this.#change(key, row);
      const those = this.#failing.get(key) ?? new Set();
      this.#failing.set(key, those.add(row));
    }
  }

  #takeTried(row: Row, { tried = [] }: NodeReport): void {
    const now = new Map(tried.map((one) => [`${one.apiGroup}/${one.policy}`, one.generation]));
    for (const key of new Set([...row.tried.keys(), ...now.keys()])) {
      if (row.tried.get(key) !== now.get(key) && this.#versions.has(key)) this.#change(key, row);
    }
    row.tried = now;
  }

  #progressOf(tracked: Tracked): Progress {
    const { policy: key, rows: selected, generation, compiled } = tracked;
    const failingNodes: FailingNode[] = [];
    const failed = new Set<Row>();
    const names = this.#failing.get(key) ?? [];
    for (const row of [...names].sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (!appliesTo(compiled, row)) continue;
      for (const one of row.failing.get(key) ?? []) {
        if (one.generation !== generation) continue;
        failed.add(row);
        const rule = one.rule === null ? {} : { rule: one.rule };
        const rolledBack = one.rolledBack === true ? { rolledBack: true as const } : {};
        failingNodes.push({ node: row.name, ...rule, reason: one.reason, ...rolledBack });
      }
    }
    const needs = neededFeatures(compiled);
    let current = 0;
    for (const row of selected) {
      const reason = row.isSilent ? whySilent(row) : (row.trouble ?? whyPartly(row, needs));
      const isTried = row.tried.get(key) === generation;
      if (reason === null && !failed.has(row) && !isTried && this.#isCurrent(row, row.enforced, tracked))
        current++;
      if (reason !== null && !failed.has(row)) failingNodes.push({ node: row.name, reason });
    }
    failingNodes.sort((a, b) => (a.node < b.node ? -1 : a.node > b.node ? 1 : 0));
    return { desired: selected.length, current, failing: failingNodes, hasRules: compiled.rules.length > 0 };
  }
}

function appliesTo({ spans }: CompiledPolicy, { name }: Row): boolean {
  return spans.some((span) => span.has(name));
}

/** Whether a node went back to an older state: its agent restarted, or enforces nothing. */
export function isOlder(now: Revision | null, before: Revision | null): boolean {
  if (before === null) return false;
  if (now === null) return true;
  if (now.epoch === before.epoch) return now.number < before.number;
  return [POLICIES, NODES].some((at) => (now.position[at] ?? -1) < (before.position[at] ?? 0));
}

function whySilent({ report }: Row): string {
  return report !== null
    ? 'the agent has not reported for 3 minutes; its last rules stay in force'
    : 'the agent has not reported; check that it runs and reaches the controller';
}

/** The features that an agent needs for all that the rules say, each with the field's name. */
function neededFeatures({ rules }: CompiledPolicy): ReadonlyMap<AgentFeature, string> {
  const rechecks = rules.some(({ source }) => source.established !== undefined);
  return new Map(rechecks ? [['established', 'established: Recheck']] : []);
}

/**
 * The reason why the node's agent ignores a part of the rules that it enforces; null: it does not.
 */
function whyPartly({ lacks }: Row, needs: ReadonlyMap<AgentFeature, string>): string | null {
  const fields = lacks.flatMap((one) => needs.get(one) ?? []);
  if (fields.length === 0) return null;
  return `the policy needs a newer agent: this version ignores ${fields.join(', ')}; its rules are enforced`;
}

/** The reason in a report that affects every policy on the node; null: none. */
function troubleOf({ off, viewError }: NodeReport): string | null {
  if (off !== undefined) return `nodewall is off on the node (nodewall off)${off === '' ? '' : `: ${off}`}`;
  if (viewError !== undefined) return `the agent cannot follow the controller: ${viewError}`;
  return null;
}

export function keyOf({ apiGroup, name }: { readonly apiGroup: string; readonly name: string }): string {
  return `${apiGroup}/${name}`;
}

function sameRules(a: CompiledPolicy, b: CompiledPolicy): boolean {
  if (a.rules === b.rules) return true;
  return a.rules.length === b.rules.length && a.rules.every((rule, i) => rule === b.rules[i]);
}
