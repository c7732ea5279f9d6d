import type { NodeState } from '../../apis/compiled.ts';
import { withControllers } from '../receive/controllers.ts';
import type { Folded } from '../receive/fold.ts';
import { type Seen, UNSEEN } from '../receive/outage.ts';

/** What this node should do now. `nothing`: it isn't known yet, and what is in force stays. */
export type Wanted =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'none'; readonly why: 'machine' | 'off' | 'gate' }
  | { readonly kind: 'enforce'; readonly state: NodeState };

interface WantedParts {
  /** False where this machine has the feature gate off, whatever the cluster says. */
  readonly isAllowed: boolean;
  /** What was enforced last, by an earlier run; null: nothing. */
  readonly last: NodeState | null;
  /** The gate as an earlier run knew it; null: not at all. */
  readonly rememberedGate: boolean | null;
}

/** From all that an agent of a cluster hears to what it enforces. What is asked twice without news is the same object. */
export class WantedState {
  readonly #parts: WantedParts;
  /** Nothing was heard of the controller, and what was enforced last is to be. */
  #isLastUsed = false;
  /** As of the last bookmark. */
  folded: Folded | null = null;
  /** Of the API server, while no controller answers. */
  #seen: Seen = UNSEEN;
  #made: { readonly of: NodeState; readonly seen: Seen; readonly state: NodeState } | null = null;

  constructor(parts: WantedParts) {
    this.#parts = parts;
  }

  /** Null: nobody has said yet. */
  get gate(): boolean | null {
    return this.#seen.gate ?? this.folded?.enabled ?? this.#parts.rememberedGate;
  }

  /** A bookmark: from now on the controller alone counts. True where something else is wanted by it. */
  fold(folded: Folded): boolean {
    const before = this.folded;
    const isNews =
      before?.state !== folded.state || before.enabled !== folded.enabled || this.#seen !== UNSEEN;
    this.folded = folded;
    this.#seen = UNSEEN;
    return isNews;
  }

  /** What wasn't said this time is as it was said before. */
  see(seen: Seen): void {
    const controllers = seen.controllers ?? this.#seen.controllers;
    const gate = seen.gate ?? this.#seen.gate;
    const isSame = gate === this.#seen.gate && controllers?.join() === this.#seen.controllers?.join();
    if (!isSame) this.#seen = { controllers, gate };
  }

  /** The controller stays away: what was enforced last is to be, until it is there. Null: there is nothing, or it came. */
  useLast(): NodeState | null {
    if (this.folded !== null || !this.#parts.isAllowed || this.gate === false) return null;
    this.#isLastUsed = true;
    return this.#parts.last;
  }

  wanted(isOff: boolean): Wanted {
    if (!this.#parts.isAllowed) return { kind: 'none', why: 'machine' };
    if (isOff) return { kind: 'none', why: 'off' };
    if (this.gate === false) return { kind: 'none', why: 'gate' };
    const state = this.#state();
    return state === null ? NOTHING : { kind: 'enforce', state };
  }

  /** The state that one to be enforced was made of. */
  origin(state: NodeState): NodeState {
    return this.#made?.state === state ? this.#made.of : state;
  }

  #state(): NodeState | null {
    const isLast = this.#isLastUsed || this.#seen.gate === true;
    const of = this.folded?.state ?? (isLast ? this.#parts.last : null);
    if (of === null || this.#seen.controllers === null) return of;
    if (this.#made?.of !== of || this.#made.seen !== this.#seen) {
      this.#made = { of, seen: this.#seen, state: withControllers(of, this.#seen.controllers) };
    }
    return this.#made.state;
  }
}

const NOTHING: Wanted = { kind: 'nothing' };
