import { toMemory, toRollbacks } from '../../agent/guard/guard-file.ts';
import type {
  Fault,
  GuardEffect,
  GuardEvent,
  GuardMemory,
  GuardState,
  HoldReason,
} from '../../agent/guard/guard-state.ts';
import { guardStep } from '../../agent/guard/guard-step.ts';
import type { NodeState } from '../../apis/compiled.ts';
import { emptyNodeState } from '../../apis/compiled.ts';
import { type FakeClock, fakeClock } from './fake-clock.ts';

type OwnEvent = GuardEvent extends infer E ? (E extends GuardEvent ? Omit<E, 'at' | 'time'> : never) : never;

/** A version of the one policy; a bad one denies the probe. */
interface Version {
  readonly number: number;
  readonly isBad: boolean;
}

interface RolledBack {
  readonly at: number;
  readonly why: HoldReason;
}

const KEY = 'nodewall.io/p';
const PROBE = 'api-server';
const TIMES = { window: 10_000, failAfter: 15_000, manual: null } as const;

/** A node with one policy, one probe and the guard's step, driven by a fake clock. */
export class GuardWorld {
  readonly clock: FakeClock = fakeClock();
  readonly rollbacks: RolledBack[] = [];
  readonly applies: number[] = [];
  hasOutage = false;
  /** No rule is found that denies the probe's flow. */
  isFaultUnknown = false;
  /** Milliseconds by which timers fire early, as those of a real clock may. */
  early = 0;
  /** The round before an edit says nothing: it was made under rules that are rolled back by now. */
  isRoundStale = false;
  /** Nobody can make the probe. */
  isProberAway = false;
  wanted: Version | null = null;
  /** In the kernel. */
  inForce: Version | null = null;
  /** What the disk has. */
  saved: Version | null = null;
  #memory: GuardMemory | null = null;
  #state: GuardState;
  readonly #versions = new WeakMap<NodeState, Version>();
  #cancelRound = (): void => {};
  #cancelWake = (): void => {};
  readonly #manual: number | null;

  constructor(manual: number | null = null) {
    this.#manual = manual;
    this.#state = this.#loaded();
  }

  get state(): GuardState {
    return this.#state;
  }

  get isSettled(): boolean {
    return this.#state.trial === null && this.#state.check === null;
  }

  edit(isBad: boolean): void {
    this.wanted = { number: (this.wanted?.number ?? 0) + 1, isBad };
    this.happened({ kind: 'wanted', digestOf: () => digestOf(this.wanted) });
    this.#submit();
  }

  /** kill -9 and a new start, which loses the kernel's rules after a reboot. */
  restart(isReboot: boolean): void {
    this.#cancelRound();
    this.#cancelWake();
    if (isReboot) this.inForce = null;
    this.#state = this.#loaded();
    this.happened({ kind: 'started' });
    if (this.wanted === null) return;
    this.happened({ kind: 'wanted', digestOf: () => digestOf(this.wanted) });
    this.#submit();
  }

  /** The first state of a run, where nothing is known of a trial. */
  resume(): void {
    const digest = digestOf(this.wanted);
    const changes = [{ key: KEY, digest, before: digestOf(this.saved), generation: 1 }];
    this.happened({ kind: 'resumed', changes });
    this.#submit();
  }

  happened(event: OwnEvent): void {
    const stamped = { ...event, at: this.clock.now(), time: '' } as GuardEvent;
    const step = guardStep(this.#state, stamped, { ...TIMES, manual: this.#manual });
    this.#state = step.state;
    for (const effect of step.effects) this.#do(effect);
  }

  #loaded(): GuardState {
    return {
      confirmed: this.saved === null ? null : this.#stateOf(this.saved),
      trial: null,
      interrupted: this.#memory?.trial ?? null,
      check: null,
      lastCounted: null,
      holds: this.#memory?.holds ?? [],
      rollbacks: this.#memory === null ? new Map() : toRollbacks(this.#memory, this.#wallClock()),
    };
  }

  #do(effect: GuardEffect): void {
    switch (effect.kind) {
      case 'save':
        this.saved = this.#versionOf(effect.state);
        break;
      case 'remember':
        this.#memory = structuredClone(toMemory(this.#state, this.#wallClock()));
        break;
      case 'submit':
        this.#submit();
        break;
      case 'probe':
        this.#cancelRound();
        if (effect.probes.length > 0)
          this.#cancelRound = this.clock.after(Math.max(1, effect.after - this.early), () => this.#probe());
        break;
      case 'wake':
        this.#cancelWake();
        if (effect.after !== null)
          this.#cancelWake = this.clock.after(Math.max(1, effect.after), () =>
            this.happened({ kind: 'timer' }),
          );
        break;
      case 'rolledBack':
        this.rollbacks.push({ at: this.clock.now(), why: effect.why });
        break;
      case 'report':
      case 'say':
        break;
    }
  }

  /** Applied at once: what the guard passes on, judged as the driver does. */
  #submit(): void {
    const { holds, confirmed } = this.#state;
    const isHeld = holds.some(({ digest }) => digest === digestOf(this.wanted));
    const next = isHeld ? (confirmed === null ? null : this.#versionOf(confirmed)) : this.wanted;
    const passed = this.#passes() && !this.isRoundStale ? [PROBE] : [];
    if (digestOf(next) !== digestOf(this.inForce)) this.applies.push(this.clock.now());
    this.inForce = next;
    const old = confirmed === null ? null : this.#versionOf(confirmed);
    const isTried = digestOf(old) !== digestOf(next);
    const changes = isTried
      ? [{ key: KEY, digest: digestOf(next), before: digestOf(old), generation: 1 }]
      : [];
    const state = next === null ? emptyNodeState('n') : this.#stateOf(next);
    this.happened({ kind: 'applied', state, isTried, changes, sets: [], passed });
  }

  #passes(): boolean {
    return !this.hasOutage && this.inForce?.isBad !== true;
  }

  #probe(): void {
    const fault = this.inForce?.isBad === true && !this.isFaultUnknown ? FAULT : null;
    const result = this.#passes()
      ? { probe: PROBE, error: null, fault: null }
      : { probe: PROBE, error: 'no answer', fault };
    const results = this.isProberAway ? [] : [result];
    this.happened({ kind: 'round', began: this.clock.now(), results });
  }

  #stateOf(version: Version): NodeState {
    const state = emptyNodeState('n');
    this.#versions.set(state, version);
    return state;
  }

  #versionOf(state: NodeState): Version | null {
    return this.#versions.get(state) ?? null;
  }

  #wallClock() {
    return { ...this.clock, date: () => new Date(1_700_000_000_000 + this.clock.now()) };
  }
}

const FAULT: Fault = { apiGroup: 'nodewall.io', policy: 'p', generation: 1, rule: 'r', ruleIndex: 0 };

function digestOf(version: Version | null): string | null {
  return version === null ? null : `v${version.number}`;
}
