import { isDeepStrictEqual } from 'node:util';
import { EGRESS_FEATURE, type NodeReport, SILENCE } from '../../../apis/node-report.ts';
import type { Clock, WallClock } from '../../../lib/process/clock.ts';
import { WorkQueue } from '../../../lib/process/work-queue.ts';
import type { LeaseOrders, Taken } from '../../extension/extension.ts';
import { parseRevision } from '../../publish/resume-log.ts';
import type { CompiledEgress } from '../compile-egress.ts';
import type { GatewayDecision, SlotMove } from './decide-gateway.ts';
import { GatewayDecisions } from './gateway-decisions.ts';
import { Leases } from './leases.ts';

interface AddressOwnersOptions {
  readonly clock: WallClock;
  /** Answers heartbeats. */
  readonly granter: LeaseOrders;
  /** The clock of its heartbeats. */
  readonly heartbeatClock: Pick<Clock, 'now'>;
  /** Called with the decisions for all gateways after each round: they must be written. */
  readonly decided: (decisions: readonly GatewayDecision[]) => void;
  /** Called when slots of a gateway get other owners, before that is written. */
  readonly moved: (gateway: string, moves: readonly SlotMove[]) => void;
}

/** Milliseconds in which reports are gathered. */
const GATHER = 500;
/** How often nodes without reports are looked for (milliseconds). */
const SILENCE_CHECK = 10_000;
const GATEWAYS = 'gateways';

/**
 * Decides, while this process leads, which nodes of egress gateways are ready and which of them has
 * which address. A decision is in force once it is written: all replicas compile from the statuses,
 * and leases are granted by them.
 */
export class AddressOwners {
  readonly reports: AgentReports;
  readonly #options: AddressOwnersOptions;
  readonly #leases: Leases;
  readonly #decisions: GatewayDecisions;
  /** Has one key: a round of decisions for all gateways. */
  readonly #queue: WorkQueue;
  #compiled: CompiledEgress | null = null;
  #leadsSince: number | null = null;

  constructor(options: AddressOwnersOptions) {
    const { clock, granter, heartbeatClock } = options;
    this.#options = options;
    this.reports = new AgentReports(clock);
    this.#queue = new WorkQueue({ clock, work: () => void this.decide() });
    this.#leases = new Leases({ clock: heartbeatClock, granter, changed: () => this.decideWithin(0) });
    this.#decisions = new GatewayDecisions({
      ...options,
      leases: this.#leases,
      agentLack: (node) => this.#agentLack(node),
    });
  }

  publish(compiled: CompiledEgress): void {
    const before = this.#compiled;
    this.#compiled = compiled;
    const { allocations, nodes } = compiled;
    if (before === null && this.#leadsSince !== null) this.#leases.begin(allocations);
    else this.#leases.publish(allocations);
    if (nodes !== before?.nodes) this.reports.keep(new Set(nodes.map(({ name }) => name)));
    // Owners do not depend on pods.
    if (allocations !== before?.allocations || nodes !== before.nodes) this.decideWithin(0);
  }

  /** The granter has answered a heartbeat. */
  heartbeatAnswered(answered: Taken): void {
    this.#leases.heartbeatAnswered(answered);
  }

  /** Returns whether it says something else than the agent's last one that statuses depend on. */
  report(report: NodeReport): boolean {
    const isNews = this.reports.receive(report);
    if (isNews) this.decideWithin(GATHER);
    return isNews;
  }

  lead(leads: boolean): void {
    if (leads === (this.#leadsSince !== null)) return;
    this.#leadsSince = leads ? this.#options.clock.now() : null;
    void this.#queue.clear();
    this.#decisions.clear();
    if (!leads) this.#leases.end();
    else if (this.#compiled !== null) this.#leases.begin(this.#compiled.allocations);
    this.decideWithin(0);
  }

  /** At 0 milliseconds, events of one turn count together. */
  decideWithin(milliseconds: number): void {
    if (this.#leadsSince !== null && this.#compiled !== null) this.#queue.addAfter(GATEWAYS, milliseconds);
  }

  /** Decides by the state that was published last, while this process leads. */
  decide(): readonly GatewayDecision[] {
    if (this.#leadsSince === null || this.#compiled === null) return [];
    const decisions = this.#decisions.decide(this.#compiled);
    this.#leases.decided(decisions);
    this.#options.decided(decisions);
    // Time alone may change a decision.
    this.decideWithin(Math.min(Math.ceil(this.#decisions.next()), SILENCE_CHECK));
    return decisions;
  }

  /** Slots and addresses under a lease. */
  counts(): { readonly slots: number; readonly addresses: number } {
    return this.#leases.counts();
  }

  /** Candidates of gateways that are not ready, as it was last decided. */
  nodesNotReady(): number {
    return this.#decisions.nodesNotReady();
  }

  /** As in GatewayDecisionsOptions. */
  #agentLack(node: string): string | null | undefined {
    const report = this.reports.fresh(node);
    if (report !== undefined) return agentLack(report);
    const now = this.#options.clock.now();
    // A new leader may not have heard of all agents yet.
    return now - (this.#leadsSince ?? now) < SILENCE ? undefined : 'AgentSilent';
  }
}

/** The last report of each agent, of which owners and statuses depend on the part of egress. */
export class AgentReports {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #received = new Map<string, { readonly report: NodeReport; readonly at: number }>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** @returns whether it says something else than the one before that decisions depend on */
  receive(report: NodeReport): boolean {
    const before = this.last(report.node);
    this.#received.set(report.node, { report, at: this.#clock.now() });
    return before === undefined || !isDeepStrictEqual(factsOf(before), factsOf(report));
  }

  /** Undefined: there is none, or the agent has been silent since. */
  fresh(node: string): NodeReport | undefined {
    const received = this.#received.get(node);
    return received !== undefined && this.#clock.now() - received.at <= SILENCE ? received.report : undefined;
  }

  /** However old. */
  last(node: string): NodeReport | undefined {
    return this.#received.get(node)?.report;
  }

  /** Forgets deleted nodes. A report may come before the Node that it is of. */
  keep(nodes: { has(node: string): boolean }): void {
    for (const node of this.#received.keys())
      if (!nodes.has(node) && this.fresh(node) === undefined) this.#received.delete(node);
  }
}

function factsOf(report: NodeReport): unknown {
  return [agentLack(report), report.egress, parseRevision(report.enforced ?? '')?.position];
}

/**
 * Why the agent steers nothing as its view says, or drops what a gateway needs; null: nothing is
 * known. A word, and what the agent says.
 */
export function agentLack(report: NodeReport): string | null {
  const { features, egress, off, enabled, viewError } = report;
  if (off !== undefined || !enabled) return 'AgentOff';
  if (features?.includes(EGRESS_FEATURE) !== true) return withText('AgentWithoutEgress', egress?.refused);
  return viewError === undefined ? null : withText('AgentNotFollowing', viewError);
}

/** The lack in the node's network configuration, whose connections are dropped; null: none. */
export function networkLack({ egress }: NodeReport): string | null {
  const [first, ...more] = egress?.problems ?? [];
  if (first === undefined) return null;
  return withText('NetworkIncomplete', `${first}${more.length === 0 ? '' : ` (and ${more.length} more)`}`);
}

function withText(word: string, text: string | undefined): string {
  return text === undefined ? word : `${word}: ${text.slice(0, LONGEST)}`;
}

/** A status names up to a hundred nodes. */
const LONGEST = 200;
