import type { NodeReport } from '../../../apis/node-report.ts';
import type { Log } from '../../../lib/process/log.ts';
import type { LeadExtension, LeadOptions, Taken } from '../../extension/extension.ts';
import { type StatusTarget, type StatusWriter, statusWriter, type WriteTimes } from '../../status/writer.ts';
import type { Following } from '../../watch/cluster/follow-object.ts';
import type { Reflector } from '../../watch/cluster/reflector.ts';
import { AddressOwners } from '../owners/address-owners.ts';
import type { SlotMove } from '../owners/decide-gateway.ts';
import { type EgressStatus, egressVersions } from './egress-status.ts';
import { type EgressState, EgressStatusKeeper } from './keeper.ts';

/** Addresses of a slot in a log line. */
const MOST_LOGGED = 10;

/** Their names are their paths. */
const EGRESS_TARGET: StatusTarget<EgressStatus> = { path: (name) => name, toPatch: (status) => status };

/**
 * Milliseconds: a floating address that waits for its next owner has none; the limit is for nodes
 * whose readiness changes all the time.
 */
const GATEWAY_TIMES: WriteTimes = { between: 5, betweenOfOne: 100, firstRetry: 200, longestRetry: 5_000 };

/** The leader's side of egress gateways: it decides about their addresses, and writes statuses. */
export class EgressLead implements LeadExtension {
  readonly #owners: AddressOwners;
  readonly #keeper: EgressStatusKeeper;
  readonly #writer: StatusWriter<EgressStatus>;
  readonly #gatewayWriter: StatusWriter<EgressStatus>;

  constructor({ request, clock, events, heartbeats, slotMoved, log }: LeadOptions) {
    this.#writer = statusWriter(request, clock, events, EGRESS_TARGET);
    this.#gatewayWriter = statusWriter(request, clock, events, EGRESS_TARGET, GATEWAY_TIMES);
    this.#owners = new AddressOwners({
      clock,
      granter: heartbeats,
      heartbeatClock: heartbeats,
      decided: (decisions) => this.#keeper.decided(decisions),
      moved(gateway, moves) {
        for (const move of moves) {
          slotMoved(move.reason);
          sayMove(log, gateway, move);
        }
      },
    });
    this.#keeper = new EgressStatusKeeper({
      writer: this.#writer,
      gatewayWriter: this.#gatewayWriter,
      clock,
      owners: this.#owners,
    });
  }

  /** A state that the nodes were sent. */
  publish(state: EgressState): void {
    this.#owners.publish(state.compiled);
    this.#keeper.publish(state);
  }

  report(report: NodeReport): void {
    if (this.#owners.report(report)) this.#keeper.reported();
  }

  heartbeatAnswered(answered: Taken): void {
    this.#owners.heartbeatAnswered(answered);
  }

  versions(following: Following): readonly Reflector[] {
    return egressVersions(following, (...change) => this.#keeper.version(...change));
  }

  lead(leads: boolean): Promise<void> {
    this.#owners.lead(leads);
    return this.#keeper.lead(leads);
  }

  counts(): ReturnType<LeadExtension['counts']> {
    return { ...this.#owners.counts(), nodesNotReady: this.#owners.nodesNotReady() };
  }

  waiting(): number {
    return this.#writer.waiting() + this.#gatewayWriter.waiting();
  }
}

function sayMove(log: Log, gateway: string, { slot, from, to, epoch, addresses, reason }: SlotMove): void {
  const fields = { gateway, slot, from, to, epoch, reason, addresses: addresses.slice(0, MOST_LOGGED) };
  log.info('floating addresses move to another node', { stage: 'status', ...fields });
}
