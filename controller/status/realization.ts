import type { Compiled, CompiledPolicy } from '../../apis/compiled.ts';
import type { FailingNode } from '../../apis/policy-status.ts';
import type { NodeReport } from '../../apis/stream.ts';
import { NO_PROGRESS, type Progress } from './status.ts';

/**
 * Time without a report after which a node no longer counts (milliseconds); agents report every 33
 * to 66 seconds.
 */
export const SILENCE = 180_000;

/** The last report of a node. */
interface Row {
  readonly name: string;
  /** The time of the report; before the first one, the time since when it is expected. */
  heard: number;
  hasReported: boolean;
  isSilent: boolean;
  /** The number of the revision in force; -1: none of this hub, or nothing is enforced. */
  enforced: number;
  /** The reason why it enforces nothing, or no changes, although it reports; null: none. */
  trouble: string | null;
  readonly failing: Map<string, NodeReport['failing']>;
}

interface Tracked {
  readonly compiled: CompiledPolicy;
  readonly generation: number;
  readonly rows: readonly Row[];
  /** The number of the revision that first had these rules. */
  readonly since: number;
  /** Nodes whose share of the rules changed at a later revision, by its number. */
  readonly later: ReadonlyMap<Row, number>;
}

/** Tracks which nodes enforce which policies. No I/O; policies are named `API_GROUP/NAME`. */
export class Realization {
  readonly #now: () => number;
  readonly #rows = new Map<string, Row>();
  readonly #tracked = new Map<string, Tracked>();
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
    const [life = '', number = ''] = revision.split('.');
    if (life !== this.#epoch) {
      this.#epoch = life;
      for (const row of this.#rows.values()) row.enforced = -1;
    }
    const before = new Set(this.#last);
    if (compiled.policies === this.#last) return;
    const removed = new Set(this.#tracked.keys());
    for (const policy of compiled.policies) {
      const key = keyOf(policy);
      removed.delete(key);
      if (!before.has(policy)) this.#track(key, policy, Number(number));
    }
    for (const key of removed) {
      this.#tracked.delete(key);
      this.#unsettled.delete(key);
      this.#changed.set(key, null);
    }
    this.#last = compiled.policies;
    this.#forgetNodes(compiled.nodeAddresses);
  }

  /**
   * Records a report. Returns a human-readable reason if the node has begun to enforce nothing, or
   * no changes; else null.
   */
  report(report: NodeReport): string | null {
    const row = this.#rowOf(report.node);
    const [life, number] = (report.enforced ?? '').split('.');
    const enforced = report.enabled && life === this.#epoch && number !== undefined ? Number(number) : -1;
    const before = row.enforced;
    row.enforced = enforced;
    row.heard = this.#now();
    row.hasReported = true;
    const trouble = troubleOf(report);
    const isNew = row.trouble === null;
    if (row.isSilent || row.trouble !== trouble) this.#changeAllOn(row);
    if (enforced !== before) this.#crossed(row, before);
    row.isSilent = false;
    row.trouble = trouble;
    this.#takeFailing(row, report);
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

  /** Discards all reports, because nodes report to another replica now. */
  forgetReports(): void {
    for (const row of this.#rows.values()) {
      row.enforced = -1;
      row.heard = this.#now();
      row.hasReported = false;
      row.isSilent = false;
      row.trouble = null;
      row.failing.clear();
    }
    this.#failing.clear();
    for (const key of this.#tracked.keys()) this.#unsettled.add(key);
    this.#changed = new Map(this.#tracked.keys().map((key) => [key, null]));
  }

  /** The progress of the compiled version. */
  progress(policy: string): Progress {
    const one = this.#tracked.get(policy);
    if (one === undefined) return NO_PROGRESS;
    const progress = this.#progressOf(policy, one);
    if (progress.current === progress.desired) {
      this.#unsettled.delete(policy);
      this.#tracked.set(policy, { ...one, later: new Map() });
    }
    return progress;
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

  #change(key: string, { name }: Row): void {
    const cause = this.#changed.get(key);
    this.#changed.set(key, cause === undefined || cause === name ? name : null);
  }

  #changeAllOn(row: Row): void {
    for (const [key, { compiled }] of this.#tracked) if (appliesTo(compiled, row)) this.#change(key, row);
  }

  /** Finds the policies that the node began, or ceased, to enforce at another revision. */
  #crossed(row: Row, before: number): void {
    // An older revision than before: the agent restarted.
    const keys = row.enforced < before ? this.#tracked.keys() : this.#unsettled;
    for (const key of keys) {
      const one = this.#tracked.get(key);
      if (one === undefined || !appliesTo(one.compiled, row)) continue;
      const needed = Math.max(one.since, one.later.get(row) ?? 0);
      if (before >= needed === row.enforced >= needed) continue;
      this.#unsettled.add(key);
      this.#change(key, row);
    }
  }

  #rowOf(name: string): Row {
    const there = this.#rows.get(name);
    if (there !== undefined) return there;
    const row: Row = {
      name,
      heard: this.#now(),
      hasReported: false,
      isSilent: false,
      enforced: -1,
      trouble: null,
      failing: new Map(),
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

  #track(key: string, compiled: CompiledPolicy, position: number): void {
    const before = this.#tracked.get(key);
    const [rule] = compiled.rules;
    const now = { compiled, generation: rule?.source.generation ?? 0, rows: this.#rowsIn(compiled.spans) };
    const isSame = before !== undefined && sameRules(before.compiled, compiled);
    const later = isSame ? this.#laterRows(before, compiled, position) : new Map<Row, number>();
    this.#tracked.set(key, { ...now, since: isSame ? before.since : position, later });
    this.#changed.set(key, null);
    this.#unsettled.add(key);
  }

  /** For unchanged rules that apply to other nodes than before. */
  #laterRows(before: Tracked, now: CompiledPolicy, position: number): Map<Row, number> {
    const later = new Map(before.later);
    const seen = new Map<ReadonlySet<string>, ReadonlySet<string>>();
    for (const [i, span] of now.spans.entries()) {
      const was = before.compiled.spans[i];
      if (was === span || was === undefined || seen.get(span) === was) continue;
      seen.set(span, was);
      for (const name of span) if (!was.has(name)) later.set(this.#rowOf(name), position);
      for (const name of was) if (!span.has(name)) later.set(this.#rowOf(name), position);
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
      if (!this.#tracked.has(key)) continue;
      row.failing.set(key, said);
      this.#change(key, row);
      const those = this.#failing.get(key) ?? new Set();
      this.#failing.set(key, those.add(row));
    }
  }

  #progressOf(key: string, { rows: selected, since, later, generation, compiled }: Tracked): Progress {
    const applies = (row: Row): boolean => appliesTo(compiled, row);
    const failingNodes: FailingNode[] = [];
    const failed = new Set<Row>();
    const names = this.#failing.get(key) ?? [];
    for (const row of [...names].sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (!applies(row)) continue;
      for (const one of row.failing.get(key) ?? []) {
        if (one.generation !== generation) continue;
        failed.add(row);
        const rule = one.rule === null ? {} : { rule: one.rule };
        failingNodes.push({ node: row.name, ...rule, reason: one.reason });
      }
    }
    let current = 0;
    const counts = (row: Row): boolean => !row.isSilent && row.trouble === null;
    for (const row of selected) if (row.enforced >= since && counts(row)) current++;
    for (const [row, at] of later) {
      if (row.enforced >= since && row.enforced < at && counts(row) && applies(row)) current--;
    }
    for (const row of failed) {
      if (row.enforced >= Math.max(since, later.get(row) ?? 0) && counts(row)) current--;
    }
    for (const row of selected) {
      const reason = row.isSilent ? whySilent(row) : row.trouble;
      if (reason !== null && !failed.has(row)) failingNodes.push({ node: row.name, reason });
    }
    failingNodes.sort((a, b) => (a.node < b.node ? -1 : a.node > b.node ? 1 : 0));
    return { desired: selected.length, current, failing: failingNodes, hasRules: compiled.rules.length > 0 };
  }
}

function appliesTo({ spans }: CompiledPolicy, { name }: Row): boolean {
  return spans.some((span) => span.has(name));
}

function whySilent({ hasReported }: Row): string {
  return hasReported
    ? 'the agent has not reported for 3 minutes; its last rules stay in force'
    : 'the agent has not reported; check that it runs and reaches the controller';
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
