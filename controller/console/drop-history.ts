import type { CompiledPolicy, CompiledRule } from '../../apis/compiled.ts';
import { type DropCount, type DropRule, type Drops, MOST_DROP_ROWS } from '../../apis/console-documents.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { denyingRules, growth, ruleGrowth } from '../metrics/rule-sums.ts';

interface DropHistoryOptions {
  /** The compiled policies: the same object as long as they are the same. */
  readonly policies: () => readonly CompiledPolicy[];
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Rules and nodes that have a series; of more, those with the fewest packets have none. */
const MOST_SERIES = 4_000;
/** More of them before some are left out, so that it is not done for each. */
const SLACK = 400;

interface Row<Of> {
  readonly of: Of;
  readonly series: DropSeries;
}

/**
 * Counts of packets that rules dropped and rejected over a day, by rule and by node, from the
 * growth of nodes' reports: since this process began to hear of a node. At most 10 MB.
 */
export class DropHistory {
  readonly #options: DropHistoryOptions;
  readonly #known = memo(denyingRules);
  readonly #total: DropSeries;
  readonly #rules = new Map<string, Row<DropRule>>();
  readonly #nodes = new Map<string, Row<{ readonly node: string }>>();
  readonly #begun: number;

  constructor(options: DropHistoryOptions) {
    this.#options = options;
    this.#begun = options.now();
    this.#total = new DropSeries(this.#begun);
  }

  /** @param before the same node's report before this one; null: this is the first */
  receive(report: Pick<NodeReport, 'node' | 'totals'>, before: Pick<NodeReport, 'totals'> | null): void {
    const now = this.#options.now();
    const rules = this.#known(this.#options.policies());
    for (const { id, packets } of ruleGrowth(report, before, rules)) {
      const rule = rules.get(id);
      if (packets > 0 && rule !== undefined) this.#add(this.#rules, id, toDropRule(rule), packets);
    }
    if (report.totals === undefined || before?.totals === undefined) return;
    const denied = growth(before.totals.denied, report.totals.denied);
    if (denied === 0) return;
    this.#total.add(denied, now);
    this.#add(this.#nodes, report.node, { node: report.node }, denied);
  }

  document(remark: string | null): Drops {
    const now = this.#options.now();
    const rules = rowsOf(this.#rules, now);
    const nodes = rowsOf(this.#nodes, now);
    return {
      time: new Date(now).toISOString(),
      since: new Date(Math.max(this.#begun, (stepOf(now) - STEPS + 1) * STEP)).toISOString(),
      remark,
      step: STEP / 1000,
      lastStep: new Date(stepOf(now) * STEP).toISOString(),
      total: this.#total.read(now),
      rules: rules.slice(0, MOST_DROP_ROWS),
      nodes: nodes.slice(0, MOST_DROP_ROWS),
      rulesLeftOut: Math.max(0, rules.length - MOST_DROP_ROWS),
      nodesLeftOut: Math.max(0, nodes.length - MOST_DROP_ROWS),
    };
  }

  /** The nodes where most was denied over the day, at most `most`. */
  worstNodes(most: number): string[] {
    const rows = rowsOf(this.#nodes, this.#options.now());
    return rows.slice(0, most).map(({ node }) => node);
  }

  #add<Of>(rows: Map<string, Row<Of>>, key: string, of: Of, packets: number): void {
    const now = this.#options.now();
    const known = rows.get(key) ?? { of, series: new DropSeries(now) };
    known.series.add(packets, now);
    rows.set(key, known);
    if (rows.size > MOST_SERIES + SLACK) leaveOut(rows, now);
  }
}

/** Those with packets, the most first; the others are forgotten. */
function rowsOf<Of>(rows: Map<string, Row<Of>>, now: number): (Of & DropCount)[] {
  const found: (Of & DropCount)[] = [];
  for (const [key, { of, series }] of rows) {
    const count = series.read(now);
    if (count.packets > 0) found.push({ ...of, ...count });
    else rows.delete(key);
  }
  return found.sort((a, b) => b.packets - a.packets);
}

function leaveOut<Of>(rows: Map<string, Row<Of>>, now: number): void {
  const counts = [...rows].map(([key, { series }]) => ({ key, packets: series.read(now).packets }));
  counts.sort((a, b) => b.packets - a.packets);
  for (const { key } of counts.slice(MOST_SERIES)) rows.delete(key);
}

function toDropRule({ source, action }: Pick<CompiledRule, 'source' | 'action'>): DropRule {
  const { apiGroup, policy, direction, rule, ruleIndex } = source;
  return { apiGroup, policy, direction, rule, ruleIndex, action };
}

/** Milliseconds of a step, and how many make a day. */
export const STEP = 900_000;
export const STEPS = 96;
/** Milliseconds after which what was counted weighs a third in the rate of now. */
const DECAY = 120_000;

/** Packets over a day: 1 kB, whatever is counted. Times are milliseconds since 1970. */
class DropSeries {
  readonly #steps = new Float64Array(STEPS);
  /** The number of the newest step, since 1970. */
  #newest: number;
  #rate = 0;
  #ratedAt: number;

  constructor(now: number) {
    this.#newest = stepOf(now);
    this.#ratedAt = now;
  }

  add(packets: number, now: number): void {
    this.#forward(now);
    const at = this.#newest % STEPS;
    this.#steps[at] = (this.#steps[at] ?? 0) + packets;
    this.#rate = this.#rateAt(now) + (packets * 1000) / DECAY;
    this.#ratedAt = now;
  }

  read(now: number): DropCount {
    this.#forward(now);
    const first = this.#newest - STEPS + 1;
    const series = Array.from({ length: STEPS }, (_, i) => this.#steps[(first + i) % STEPS] ?? 0);
    const begin = series.findIndex((packets) => packets > 0);
    return {
      packetsPerSecond: Math.round(this.#rateAt(now) * 100) / 100,
      packets: series.reduce((sum, packets) => sum + packets, 0),
      series: begin < 0 ? [] : series.slice(begin),
    };
  }

  /** A clock that was set back adds to the newest step. */
  #forward(now: number): void {
    const newest = Math.max(this.#newest, stepOf(now));
    const passed = Math.min(newest - this.#newest, STEPS);
    for (let i = 0; i < passed; i++) this.#steps[(newest - i) % STEPS] = 0;
    this.#newest = newest;
  }

  #rateAt(now: number): number {
    return this.#rate * Math.exp(-Math.max(0, now - this.#ratedAt) / DECAY);
  }
}

function stepOf(now: number): number {
  return Math.floor(now / STEP);
}
