import type { LeaseAnswer, LeaseRequest } from '../../../apis/egress/lease.ts';
import type { LeaseGranterOptions, LeaseGrants, WrittenSlot } from '../../extension/lease-extension.ts';
import { LeaseTable } from './lease-table.ts';

/** Answers heartbeats, by the slots as the API has them. Decides nothing about owners. */
export class LeaseGranter implements LeaseGrants {
  readonly #options: LeaseGranterOptions;
  readonly #table = new LeaseTable();
  #isServing = false;
  #nodes: ReadonlySet<string> | null = null;

  constructor(options: LeaseGranterOptions) {
    this.#options = options;
  }

  begin(slots: readonly WrittenSlot[], leases: readonly number[]): void {
    this.#table.begin(this.#options.clock.now(), slots, leases);
    this.#nodes = null;
    this.#isServing = true;
  }

  setSlots(slots: readonly WrittenSlot[]): void {
    if (!this.#isServing) return;
    this.#table.setSlots(slots);
    this.#forget();
  }

  keepNodes(nodes: ReadonlySet<string>): void {
    if (!this.#isServing) return;
    this.#nodes = nodes;
    this.#forget();
  }

  end(): void {
    this.#isServing = false;
    this.#table.end();
  }

  /** Null: this process does not lead, or not with certainty. */
  grant(request: LeaseRequest): LeaseAnswer | null {
    const { clock, isLeader, answered: taken } = this.#options;
    if (!this.#isServing || !isLeader()) return null;
    const at = clock.now();
    const grants = this.#table.grant(at, request);
    if (grants !== null) taken({ at, request, grants });
    // The work above takes time, and the process may have been stopped.
    return isLeader() ? { grants: grants ?? [] } : null;
  }

  #forget(): void {
    if (this.#nodes !== null) this.#table.forget(this.#options.clock.now(), this.#nodes);
  }
}
