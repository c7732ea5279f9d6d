import type { EgressPolicy } from '../../../apis/egress/objects.ts';
import type { LeaseAnswer, LeaseRequest } from '../../../apis/heartbeat.ts';
import type { NodeReport } from '../../../apis/node-report.ts';
import type { CompiledEgress } from '../../../controller/egress/compile-egress.ts';
import { LeaseGranter } from '../../../controller/egress/lease/lease-table.ts';
import { AddressOwners } from '../../../controller/egress/owners/address-owners.ts';
import type { SlotMove } from '../../../controller/egress/owners/decide-gateway.ts';
import type { EgressStatus, EgressVersion } from '../../../controller/egress/status/egress-status.ts';
import { EgressStatusKeeper } from '../../../controller/egress/status/keeper.ts';
import type { StatusWriter } from '../../../controller/status/writer.ts';
import { nodeReport } from '../../fake/node-state.ts';
import { Process, type World } from './world.ts';

/** A state of the API. */
export interface ApiState {
  readonly version: number;
  readonly compiled: CompiledEgress;
  readonly policies: readonly EgressPolicy[];
  readonly versions: readonly EgressVersion[];
}

interface SimControllerOptions {
  readonly world: World;
  readonly rateError: number;
  readonly nodes: readonly string[];
  /** Calls back when the API has it, or after a failure, whether or not it has it. */
  readonly write: (path: string, status: EgressStatus, over: (isWritten: boolean) => void) => void;
  readonly isElected: () => boolean;
  readonly moved: (gateway: string, moves: readonly SlotMove[]) => void;
}

/** A controller's process, as far as it deals with floating addresses: the real parts. */
export class SimController {
  readonly process: Process;
  readonly #options: SimControllerOptions;
  readonly #granter: LeaseGranter;
  readonly #owners: AddressOwners;
  readonly #keeper: EgressStatusKeeper;
  /** The wall clock jumps. */
  dateOffset = 0;
  #seen = -1;
  /** The version that it must have seen before it leads; null: it is not elected. */
  #mustSee: number | null = null;
  #leads = false;

  constructor(options: SimControllerOptions) {
    const { world, rateError, isElected, moved } = options;
    this.#options = options;
    this.process = new Process(world, rateError);
    const { now, after } = this.process;
    const date = (): Date => new Date(Date.UTC(2026, 0, 1) + world.now + this.dateOffset);
    const clock = { now, after, date };
    this.#granter = new LeaseGranter({
      clock,
      isLeader: isElected,
      answered: (one) => this.#owners.heartbeatAnswered(one),
    });
    this.#owners = new AddressOwners({
      clock,
      granter: this.#granter,
      heartbeatClock: clock,
      decided: (decisions) => this.#keeper.decided(decisions),
      moved,
    });
    this.#keeper = new EgressStatusKeeper({
      writer: this.#writer(),
      gatewayWriter: this.#writer(),
      clock,
      owners: this.#owners,
    });
  }

  see(state: ApiState): void {
    this.process.run(() => {
      if (state.version <= this.#seen) return;
      this.#seen = state.version;
      for (const one of state.versions) this.#keeper.version(null, one);
      this.#owners.publish(state.compiled);
      this.#keeper.publish({ ...state, nodes: new Map(), problems: [] });
      this.#turn();
    });
  }

  /** It was elected when the API had this version. */
  elected(version: number): void {
    this.process.run(() => {
      this.#mustSee = version;
      for (const node of this.#options.nodes) this.#owners.report(reportOf(node));
      this.#turn();
    });
  }

  lost(): void {
    this.process.run(() => {
      this.#mustSee = null;
      this.#turn();
    });
  }

  /** Null: it does not lead. */
  lease(request: LeaseRequest, answered: (answer: LeaseAnswer | null) => void): void {
    this.process.run(() => answered(this.#granter.grant(request)));
  }

  #turn(): void {
    const leads = this.#mustSee !== null && this.#seen >= this.#mustSee && this.#options.isElected();
    if (leads === this.#leads) return;
    this.#leads = leads;
    this.#owners.lead(leads);
    void this.#keeper.lead(leads);
  }

  /** Writes one status of an object after the other, and the last that was submitted. */
  #writer(): StatusWriter<EgressStatus> {
    const queued = new Map<string, EgressStatus>();
    const writing = new Set<string>();
    const next = (path: string): void => {
      const status = queued.get(path);
      if (status === undefined || writing.has(path)) return;
      queued.delete(path);
      writing.add(path);
      this.#options.write(path, status, (isWritten) =>
        this.process.run(() => {
          writing.delete(path);
          if (!isWritten && !queued.has(path) && this.#leads) queued.set(path, status);
          this.process.after(isWritten ? 0 : 100, () => next(path));
        }),
      );
    };
    return {
      submit(path, _uid, status) {
        queued.set(path, status);
        next(path);
      },
      forget: (path) => queued.delete(path),
      has: (path) => queued.has(path),
      async clear() {
        queued.clear();
      },
      waiting: () => queued.size,
    };
  }
}

function reportOf(node: string): NodeReport {
  return nodeReport(node, null, { policies: 0, features: ['egress'] });
}
