import { NO_MEMORY, toLastCounted, toMemory, toRollbacks } from '../../agent/guard/guard-file.ts';
import type {
  Fault,
  GuardEffect,
  GuardEvent,
  GuardMemory,
  GuardState,
  HoldReason,
  PolicyChange,
  ProbeResult,
} from '../../agent/guard/guard-state.ts';
import { guardStep } from '../../agent/guard/guard-step.ts';
import { proofOf } from '../../agent/guard/held-step.ts';
import { emptyNodeState, type NodeState } from '../../apis/compiled.ts';
import type { Family } from '../../lib/net/address.ts';
import { type FakeClock, fakeClock } from './fake-clock.ts';

type OwnEvent = GuardEvent extends infer E ? (E extends GuardEvent ? Omit<E, 'at' | 'time'> : never) : never;

/** A version of a policy; a bad one denies probes. */
interface Version {
  readonly number: number;
  readonly denies: readonly string[];
}

/** Versions by policy key. */
type Versions = ReadonlyMap<string, Version>;

interface RolledBack {
  readonly at: number;
  readonly why: HoldReason;
  readonly keys: readonly string[];
}

interface RoundBefore {
  readonly at: number;
  readonly first: number;
  readonly last: number;
  readonly passed: readonly string[];
}

const TIMES = { window: 10_000, failAfter: 15_000, manual: null } as const;
/** As the round before a change is shared by a burst. */
const SHARED = 900;
/** More than until a round begins that makes a probe (milliseconds). */
const SHORTEST_STAY = 12_000;
const NONE: Versions = new Map();
/** The policy of most tests. */
const FIRST = 'nodewall.io/p';

/** A node with policies and probes, and the guard's step, driven by a fake clock. */
export class GuardWorld {
  readonly clock: FakeClock = fakeClock();
  readonly rollbacks: RolledBack[] = [];
  readonly applies: number[] = [];
  probes: readonly string[] = ['api-server'];
  /** Milliseconds until the kernel has what was submitted; newer states replace it meanwhile. */
  applyTakes = 0;
  /** Milliseconds from then until it is judged. */
  judgeTakes = 0;
  /** Milliseconds until the disk has what the guard remembers. */
  writeTakes = 0;
  /** Milliseconds that a round of probes takes. */
  roundTakes = 0;
  hasOutage = false;
  /** Probes that never pass, whatever the rules are. */
  denied: readonly string[] = [];
  /** No rule is found that denies the probe's flow. */
  isFaultUnknown = false;
  /** Milliseconds by which timers fire early, as those of a real clock may. */
  early = 0;
  /** The round before an edit says nothing: it was made under rules that are rolled back by now. */
  isRoundStale = false;
  /** Nobody can make the probes; those of `inward` alone, where there are some. */
  isProberAway = false;
  /** Probes to the node, as InwardProbes has them: results under the confirmed rules are kept. */
  inward: readonly string[] = [];
  readonly #kept = new KeptProbes();
  /** When the prober is back, or was. */
  #backAt = Number.NEGATIVE_INFINITY;
  wanted: Versions = NONE;
  /** In the kernel. */
  inForce: Versions = NONE;
  /** Confirmed on the disk; null: nothing ever was. */
  saved: Versions | null = null;
  memory: GuardMemory | null = null;
  #edits = 0;
  #state: GuardState;
  #submitted: Versions = NONE;
  /** Counts what was submitted, and what of it the kernel has. */
  #number = 0;
  #numberInForce = 0;
  /** The rounds before states that are not judged yet, as RoundBefore has them. */
  #before: readonly RoundBefore[] = [];
  readonly #versions = new WeakMap<NodeState, Versions>();
  #cancelApply: (() => void) | null = null;
  #cancelJudge = (): void => {};
  #cancelWrite = (): void => {};
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
    return this.#state.trial === null && this.#state.check === null && this.#state.proof === null;
  }

  /** The version of the first policy that survives. */
  get confirmed(): number | undefined {
    return this.saved?.get(FIRST)?.number;
  }

  /** The one in the kernel. */
  get enforced(): number | undefined {
    return this.inForce.get(FIRST)?.number;
  }

  edit(isBad: boolean | readonly string[], key = FIRST): void {
    const denies = typeof isBad === 'boolean' ? (isBad ? this.probes : []) : isBad;
    this.want(new Map(this.wanted).set(key, { number: ++this.#edits, denies }));
  }

  delete(key: string): void {
    this.want(new Map([...this.wanted].filter(([other]) => other !== key)));
  }

  want(wanted: Versions): void {
    this.wanted = wanted;
    this.#submit();
  }

  /**
   * kill -9 and a new start, which loses the kernel's rules after a reboot. The rules of `lacking`
   * cannot be changed.
   */
  restart(isReboot: boolean, lacking: Family | null = null): void {
    this.#cancelRound();
    this.#cancelWake();
    this.#cancelApply?.();
    this.#cancelApply = null;
    this.#cancelJudge();
    this.#cancelWrite();
    this.#before = [];
    this.#kept.clear();
    if (isReboot) this.inForce = NONE;
    this.#state = this.#loaded();
    this.happened({ kind: 'started' });
    this.happened({ kind: 'family', lacking });
    this.#submitted = this.saved ?? NONE;
    this.#submit();
  }

  /** A third party removes the kernel's rules, and the agent repairs them. */
  lose(): void {
    this.inForce = NONE;
    this.happened({ kind: 'lost' });
    this.#enforce(false);
  }

  /** For so many milliseconds; not soon after it was away the last time. */
  proberLeaves(time: number): void {
    if (this.isProberAway || this.clock.now() < this.#backAt + SHORTEST_STAY) return;
    this.isProberAway = true;
    this.#backAt = this.clock.now() + time;
    this.clock.after(time, () => {
      this.isProberAway = false;
    });
  }

  happened(event: OwnEvent): void {
    const stamped = { ...event, at: this.clock.now(), time: '' } as GuardEvent;
    const { trial } = this.#state;
    const step = guardStep(this.#state, stamped, { ...TIMES, manual: this.#manual });
    this.#state = step.state;
    if (trial !== null && step.state.trial === null) this.#kept.ended(step.state.confirmed === trial.state);
    for (const effect of step.effects) this.#do(effect);
    const isInForce = sameVersions(this.inForce, this.#confirmed());
    if (this.isSettled && isInForce && sameVersions(this.#submitted, this.inForce) && !this.isProberAway)
      for (const name of this.inward) this.#kept.learn(name, this.#passes(name));
  }

  #loaded(): GuardState {
    const isFresh = this.saved === null && this.memory === null;
    const { memory } = this;
    this.memory ??= NO_MEMORY;
    return {
      confirmed: this.saved === null ? null : this.#stateOf(this.saved),
      trial: null,
      lacking: null,
      interrupted: memory?.trial ?? null,
      proof: isFresh ? null : proofOf([]),
      check: null,
      lastCounted: memory === null ? null : toLastCounted(memory),
      holds: memory?.holds ?? [],
      rollbacks: memory === null ? new Map() : toRollbacks(memory, this.#wallClock()),
    };
  }

  #do(effect: GuardEffect): void {
    switch (effect.kind) {
      case 'save':
        this.saved = this.#versionsOf(effect.state);
        break;
      case 'remember':
        this.#remember(structuredClone(toMemory(this.#state, this.#wallClock())));
        break;
      case 'submit':
        this.#submit();
        break;
      case 'probe':
        this.#cancelRound();
        if (effect.probes?.length !== 0)
          this.#cancelRound = this.clock.after(Math.max(1, effect.after - this.early), () =>
            this.#probe(effect.probes ?? this.probes),
          );
        break;
      case 'wake':
        this.#cancelWake();
        if (effect.after !== null)
          this.#cancelWake = this.clock.after(Math.max(1, effect.after), () =>
            this.happened({ kind: 'timer', atFault: (probe) => this.#atFault(probe) }),
          );
        break;
      case 'rolledBack':
        this.rollbacks.push({
          at: this.clock.now(),
          why: effect.why,
          keys: effect.changes.map(({ key }) => key),
        });
        break;
      case 'report':
      case 'say':
        break;
    }
  }

  /** As the driver passes a state on, with a round of probes before. */
  #submit(): void {
    const isProof = this.#state.proof !== null;
    const changes = isProof ? this.#changes(this.wanted) : [];
    this.happened({ kind: 'wanted', digestOf: (key) => digestOf(this.wanted, key), changes });
    const next = new Map(this.wanted);
    for (const { key } of this.#state.holds) {
      const confirmed = this.#confirmed().get(key);
      if (confirmed === undefined) next.delete(key);
      else next.set(key, confirmed);
    }
    const isSame = sameVersions(next, this.#submitted);
    this.#submitted = next;
    this.#number++;
    if (!isSame && !sameVersions(next, this.#confirmed())) this.#probeBefore();
    this.#enforce(true);
  }

  #probeBefore(): void {
    const [at, last] = [this.clock.now(), this.#number];
    const latest = this.#before.at(-1);
    if (latest?.last === last - 1 && at < latest.at + SHARED) {
      this.#before = [...this.#before.slice(0, -1), { ...latest, last }];
      return;
    }
    const passed = this.isRoundStale ? [] : this.probes.filter((probe) => this.#passes(probe));
    this.#before = [...this.#before, { at, first: last, last, passed }];
  }

  #enforce(isChange: boolean): void {
    if (this.applyTakes === 0) {
      this.#apply(isChange);
      return;
    }
    this.#cancelApply ??= this.clock.after(this.applyTakes, () => {
      this.#cancelApply = null;
      this.#apply(true);
    });
  }

  /** Judged as the driver does; a repair is not. */
  #apply(isChange: boolean): void {
    const next = this.#submitted;
    if (!sameVersions(next, this.inForce)) this.applies.push(this.clock.now());
    this.inForce = next;
    this.#numberInForce = this.#number;
    if (!isChange) return;
    this.#cancelJudge();
    if (this.judgeTakes === 0) this.#judge(next);
    else this.#cancelJudge = this.clock.after(this.judgeTakes, () => this.#judge(next));
  }

  #remember(memory: GuardMemory): void {
    this.#cancelWrite();
    if (this.writeTakes === 0) this.memory = memory;
    else
      this.#cancelWrite = this.clock.after(this.writeTakes, () => {
        this.memory = memory;
      });
  }

  #judge(next: Versions): void {
    const changes = this.#changes(next);
    const number = this.#numberInForce;
    const rounds = this.#before.filter(({ first }) => first <= number);
    this.#before = this.#before.filter(({ last }) => last > number);
    const made = rounds.length === 0 ? this.probes : rounds.flatMap((one) => one.passed);
    const outward = made.filter((name) => !this.inward.includes(name));
    const passed = [...outward, ...this.inward.filter((name) => this.#kept.isPassing(name))];
    const unmade = this.inward.filter((name) => !this.#kept.isKnown(name));
    const isTried = changes.length > 0;
    const state = this.#stateOf(next);
    this.happened({ kind: 'applied', state, isTried, changes, sets: [], passed, unmade });
  }

  #passes(probe: string): boolean {
    return !this.hasOutage && !this.denied.includes(probe) && !this.#isDenied(probe);
  }

  #isDenied(probe: string): boolean {
    return [...this.inForce.values()].some(({ denies }) => denies.includes(probe));
  }

  /** The policies that deny the probe. */
  #atFault(probe: string): readonly string[] {
    return [...this.inForce].filter(([, { denies }]) => denies.includes(probe)).map(([key]) => key);
  }

  #probe(names: readonly string[]): void {
    const began = this.clock.now();
    const isMade = (name: string): boolean =>
      !this.isProberAway || (this.inward.length > 0 && !this.inward.includes(name));
    const results = names.filter(isMade).map((probe) => this.#result(probe));
    const done = (): void => {
      const inward = results.filter(({ probe }) => this.inward.includes(probe));
      for (const { probe, error } of inward)
        this.#kept.made(probe, error === null, this.#state.trial !== null);
      this.happened({ kind: 'round', began, results });
    };
    if (this.roundTakes === 0) done();
    else this.#cancelRound = this.clock.after(this.roundTakes, done);
  }

  #result(probe: string): ProbeResult {
    if (this.#passes(probe)) return { probe, error: null, fault: null };
    const [key] = this.#atFault(probe);
    const fault = key === undefined || this.isFaultUnknown ? null : faultOf(key);
    return { probe, error: 'no answer', fault };
  }

  #changes(now: Versions): PolicyChange[] {
    const keys = [...new Set([...this.#confirmed().keys(), ...now.keys()])].sort();
    return keys.flatMap((key): PolicyChange[] => {
      const [digest, before] = [digestOf(now, key), digestOf(this.#confirmed(), key)];
      return digest === before ? [] : [{ key, digest, before, generation: 1 }];
    });
  }

  #confirmed(): Versions {
    const { confirmed } = this.#state;
    return confirmed === null ? NONE : this.#versionsOf(confirmed);
  }

  #stateOf(versions: Versions): NodeState {
    const state = emptyNodeState('n');
    this.#versions.set(state, versions);
    return state;
  }

  #versionsOf(state: NodeState): Versions {
    return this.#versions.get(state) ?? NONE;
  }

  #wallClock() {
    return { ...this.clock, date: () => new Date(1_700_000_000_000 + this.clock.now()) };
  }
}

function faultOf(key: string): Fault {
  return { apiGroup: 'nodewall.io', policy: key.split('/')[1] ?? '', generation: 1, rule: 'r', ruleIndex: 0 };
}

function digestOf(versions: Versions, key: string): string | null {
  const version = versions.get(key);
  return version === undefined ? null : `v${version.number}`;
}

function sameVersions(a: Versions, b: Versions): boolean {
  return a.size === b.size && [...a.keys()].every((key) => digestOf(a, key) === digestOf(b, key));
}

/** Results of probes to a node, kept as InwardProbes keeps them. */
class KeptProbes {
  /** By name, whether it passed under the confirmed rules. */
  readonly #confirmed = new Map<string, boolean>();
  /** Under those that are tried. */
  readonly #tried = new Map<string, boolean>();

  isKnown(name: string): boolean {
    return this.#confirmed.has(name);
  }

  isPassing(name: string): boolean {
    return this.#confirmed.get(name) === true;
  }

  made(name: string, isPassed: boolean, isTrial: boolean): void {
    (isTrial ? this.#tried : this.#confirmed).set(name, isPassed);
  }

  /** Made again while nothing is tried, unless it passed. */
  learn(name: string, isPassed: boolean): void {
    if (!this.isPassing(name)) this.#confirmed.set(name, isPassed);
  }

  /** A trial ended: what passed before and was not made in it is not known under its rules. */
  ended(isConfirmed: boolean): void {
    if (isConfirmed) {
      for (const [name, isPassed] of this.#confirmed) if (isPassed) this.#confirmed.delete(name);
      for (const [name, isPassed] of this.#tried) this.#confirmed.set(name, isPassed);
    }
    this.#tried.clear();
  }

  clear(): void {
    this.#confirmed.clear();
    this.#tried.clear();
  }
}
