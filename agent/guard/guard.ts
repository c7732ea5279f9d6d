import type { NodeState } from '../../apis/compiled.ts';
import type { Config, GuardConfig } from '../../apis/config.ts';
import type { FailingRule, TriedPolicy } from '../../apis/stream.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { policyKey } from '../apply/plan/substitute.ts';
import type { GuardFile } from './guard-file.ts';
import { toMemory, toRollbacks } from './guard-file.ts';
import type {
  GuardEffect,
  GuardEvent,
  GuardMemory,
  GuardState,
  GuardTimes,
  HoldReason,
  PolicyChange,
  ProbeResult,
} from './guard-state.ts';
import { guardStep } from './guard-step.ts';
import { failingOf, holdText, triedOf } from './held-report.ts';
import { digestOf, policyChanges, withHolds } from './holds.ts';
import type { InwardProbes } from './inward-probes.ts';
import { type OutwardProbe, type Probe, probeRound } from './probes.ts';
import { faults, type Judged, type JudgedAs, judgedAs, touchedSets } from './verdicts.ts';

export interface GuardParts {
  readonly node: string;
  readonly config: Config;
  readonly clock: WallClock;
  readonly log: Log;
  readonly file: GuardFile;
  readonly memory: GuardMemory | null;
  /** The state confirmed last; null: none ever was. */
  readonly confirmed: NodeState | null;
  /** All probes of this agent, inward ones too. */
  readonly probes: () => readonly Probe[];
  /** Null: no probe is made from outside. */
  readonly inward: InwardProbes | null;
  /**
   * Compares the kernel with the rules in force, and repairs it; `lost` is called first if a third
   * party changed them.
   */
  readonly verify: () => Promise<void>;
  /** Passes a state on to be enforced. */
  readonly submit: (state: NodeState) => void;
  /** The state with what this node adds: addresses of names, local pods. */
  readonly whole: (state: NodeState) => NodeState;
  readonly events: GuardEvents;
}

export interface GuardEvents {
  /** The state is confirmed, and must survive. */
  save(state: NodeState): void;
  /** What the guard reports changed. */
  changed(report: GuardReport): void;
  rolledBack(rollback: Rollback): void;
}

export interface Rollback {
  readonly why: HoldReason;
  /** API group/name. */
  readonly policies: readonly string[];
}

export interface GuardReport {
  readonly tried: readonly TriedPolicy[];
  readonly held: readonly FailingRule[];
}

/**
 * Milliseconds that the round before a change has, and in which its connections must be made: less
 * than until TCP sends a packet again, which the new rules would judge.
 */
const BEFORE = { milliseconds: 2_000, connectWithin: 900 };
const LONGEST_ATTEMPT = 3_000;

/** Milliseconds that an attempt has in a round. */
export function longestAttempt({ failAfter }: GuardConfig): number {
  return Math.min(LONGEST_ATTEMPT, failAfter * 500);
}

/**
 * Guarded apply (docs/semantics.md section 6): stands between the source of states and what
 * enforces them. It delays none: a state is in force first, then judged; probes of the state before
 * send their first packets before the new one is submitted. guard-step.ts decides, this class
 * carries out.
 */
export class Guard {
  readonly #parts: GuardParts;
  readonly #times: GuardTimes;
  readonly #wantedOf = new WeakMap<NodeState, NodeState>();
  #state: GuardState;
  #wanted: NodeState | null = null;
  #submitted: NodeState | null;
  /** The state that the next turn of the event loop submits. */
  #queued: NodeState | null = null;
  /**
   * The probes that passed in rounds before states that are not judged yet; null: none was made.
   */
  #before: Promise<readonly string[]> | null = null;
  #beforeAt = 0;
  /** In force: as submitted, and as a whole. */
  #inForce: Judged | null = null;
  #judging: Promise<void> | null = null;
  /** Of the state that is judged: it is not confirmed either. */
  #judged: readonly PolicyChange[] = [];
  /** The sets that have a probe's address otherwise than in the confirmed state. */
  #known: { state: NodeState; confirmed: NodeState | null; sets: readonly string[] } | null = null;
  #cancelWake = (): void => {};
  #cancelRound = (): void => {};
  /** Counts rounds: results of a round that was superseded are dropped. */
  #round = 0;
  /** The next state is submitted in this turn: a repair must not put the tried one back first. */
  #isUrgent = false;
  #isClosed = false;
  /** No state was submitted yet. */
  #isFirst = true;

  constructor(parts: GuardParts) {
    const { config, memory, confirmed, clock } = parts;
    const { window, failAfter, confirm, timeout } = config.guard;
    this.#parts = parts;
    this.#times = {
      window: window * 1000,
      failAfter: failAfter * 1000,
      manual: confirm === 'Manual' ? timeout * 1000 : null,
    };
    this.#state = {
      confirmed,
      trial: null,
      interrupted: memory?.trial ?? null,
      check: null,
      holds: memory?.holds ?? [],
      rollbacks: memory === null ? new Map() : toRollbacks(memory, clock),
    };
    this.#submitted = confirmed;
    this.#happened({ kind: 'started' });
    if (this.#state.holds.length > 0) parts.events.changed(this.report());
  }

  /** Takes the state that is wanted; passes it on, with the confirmed versions of what is held. */
  submit(wanted: NodeState): void {
    this.#wanted = wanted;
    this.#happened({ kind: 'wanted', digestOf: (key) => digestOf(wanted, key) });
    if (this.#isFirst) this.#resume(wanted);
    this.#isFirst = false;
    this.#pass();
  }

  /** The state that was wanted, of one that this guard passed on. */
  wantedOf(state: NodeState): NodeState {
    return this.#wantedOf.get(state) ?? state;
  }

  /** `state` is in force; `whole` has what the node adds. */
  enforced(state: NodeState, whole: NodeState): void {
    if (this.#isClosed) return;
    const last = this.#inForce;
    this.#inForce = { state, whole };
    // Other addresses of names, or a repair.
    if (last?.state === state) return;
    const { trial, confirmed, holds, check } = this.#state;
    const isQuiet = check === null && this.#judging === null && holds.length === 0;
    if (isQuiet && trial === null && confirmed?.rules === state.rules && this.#touched(state).length === 0) {
      this.#before = null;
      this.#applied({ isTried: false, changes: [], sets: [], passed: [] });
      return;
    }
    // Only members changed: the difference is not computed for each, while a change is tried.
    if (isQuiet && trial?.state.rules === state.rules) {
      this.#applied({ isTried: true, changes: trial.changes, sets: trial.sets, passed: [] });
      return;
    }
    this.#judged = policyChanges(confirmed, state);
    this.#judging ??= this.#judge();
  }

  /** The kernel's rules were changed by a third party, and are about to be repaired. */
  lost(): void {
    this.#isUrgent = true;
    this.#happened({ kind: 'lost' });
    this.#isUrgent = false;
  }

  /** `nodewall confirm`: returns the policies that were tried. */
  confirm(): readonly string[] {
    const tried = this.#state.trial?.changes.map(({ key }) => key) ?? [];
    this.#happened({ kind: 'confirm' });
    return tried;
  }

  /** `nodewall retry`, of one policy by its name or of all: returns those that were held. */
  retry(policy: string | null): readonly string[] {
    const before = this.#state.holds;
    this.#happened({ kind: 'retry', policy });
    return before.filter((one) => !this.#state.holds.includes(one)).map(({ key }) => key);
  }

  report(): GuardReport {
    const { trial, holds } = this.#state;
    const rules = this.#wanted?.rules ?? [];
    const generationOf = (key: string): number | undefined =>
      rules.find((rule) => policyKey(rule) === key)?.source.generation;
    return { tried: triedOf(trial?.changes ?? this.#judged), held: failingOf(holds, generationOf) };
  }

  /** Resolves once no state waits to be submitted or judged. */
  async idle(): Promise<void> {
    while (this.#queued !== null || this.#judging !== null) {
      await (this.#judging ?? nextTurn());
    }
  }

  async close(): Promise<void> {
    const { file, clock } = this.#parts;
    const { trial } = this.#state;
    // Who is told to end was not cut off: the next run tries it as often as this one would have.
    if (trial !== null)
      file.save(toMemory({ ...this.#state, trial: { ...trial, attempt: trial.attempt - 1 } }, clock));
    this.#isClosed = true;
    this.#cancelWake();
    this.#cancelRound();
    this.#round++;
    this.#parts.inward?.close();
    await file.flush();
  }

  #resume(wanted: NodeState): void {
    const { confirmed, interrupted, holds } = this.#state;
    if (confirmed === null || interrupted !== null) return;
    const held = new Set(holds.map(({ key }) => key));
    const changes = policyChanges(confirmed, wanted).filter(({ key }) => !held.has(key));
    if (changes.length > 0) this.#happened({ kind: 'resumed', changes });
  }

  #pass(): void {
    const wanted = this.#wanted;
    if (wanted === null || this.#isClosed) return;
    const { holds, confirmed } = this.#state;
    const state = holds.length === 0 ? wanted : withHolds(wanted, holds, confirmed);
    if (state !== wanted) this.#wantedOf.set(state, wanted);
    const isSame = sameRules(this.#submitted, state) && this.#touched(state).length === 0;
    this.#submitted = state;
    if (!isSame) this.#parts.inward?.changing();
    if (this.#queued !== null && !this.#isUrgent) {
      this.#queued = state;
      return;
    }
    if (isSame || this.#isUrgent) {
      this.#queued = null;
      this.#parts.submit(state);
      return;
    }
    this.#probeBefore();
    this.#queued = state;
    // The probes' packets leave in this turn of the event loop.
    setImmediate(() => {
      const next = this.#queued;
      this.#queued = null;
      if (next !== null && !this.#isClosed) this.#parts.submit(next);
    });
  }

  /** Asked when a state is submitted, and again when it is in force. */
  #touched(state: NodeState): readonly string[] {
    const { confirmed } = this.#state;
    if (this.#known?.state === state && this.#known.confirmed === confirmed) return this.#known.sets;
    const sets = touchedSets(this.#parts.probes, confirmed, state);
    this.#known = { state, confirmed, sets };
    return sets;
  }

  /** Once for a burst of states; what passed before any of them counts. */
  #probeBefore(): void {
    const now = this.#parts.clock.now();
    const earlier = this.#before;
    if (earlier !== null && now < this.#beforeAt + BEFORE.connectWithin) return;
    this.#beforeAt = now;
    const fresh = this.#passingNow();
    this.#before = earlier === null ? fresh : Promise.all([earlier, fresh]).then((all) => all.flat());
  }

  async #passingNow(): Promise<readonly string[]> {
    const results = await probeRound(outward(this.#parts.probes()), BEFORE);
    return [...results].filter(([, error]) => error === null).map(([name]) => name);
  }

  /** Says of the newest state in force whether it is tried; others may follow meanwhile. */
  async #judge(): Promise<void> {
    for (;;) {
      await nextTurn();
      const judged = this.#inForce;
      if (judged === null) return;
      const { confirmed } = this.#state;
      const changes = policyChanges(confirmed, judged.state);
      const sets = changes.length === 0 ? this.#touched(judged.state) : [];
      const verdict = this.#verdict(judged, changes, sets);
      const passed = verdict.isTried ? await (this.#before ?? []) : [];
      const fromOutside = this.#parts.inward?.passing() ?? [];
      if (judged !== this.#inForce || confirmed !== this.#state.confirmed) continue;
      this.#before = null;
      this.#judging = null;
      this.#judged = [];
      this.#applied({ ...verdict, passed: [...passed, ...fromOutside] });
      if (!verdict.isTried && changes.length > 0) this.#parts.events.changed(this.report());
      return;
    }
  }

  /** A bug in what is computed here must not end the agent: then the state is tried. */
  #verdict(judged: Judged, changes: readonly PolicyChange[], sets: readonly string[]): JudgedAs {
    const { config, whole, probes, log, node } = this.#parts;
    const { confirmed } = this.#state;
    try {
      const before = confirmed === null ? null : whole(confirmed);
      return judgedAs({ ...judged, before, changes, sets, probes, config });
    } catch (error) {
      const fields = { node, stage: 'guard', error: (error as Error).stack };
      log.error('internal error; the rules in force are tried. Please report it', fields);
      return { isTried: true, changes, sets };
    }
  }

  #applied(verdict: JudgedAs & { readonly passed: readonly string[] }): void {
    const inForce = this.#inForce;
    if (inForce !== null) this.#happened({ kind: 'applied', state: inForce.state, ...verdict });
  }

  #happened(event: OwnEvent): void {
    if (this.#isClosed) return;
    const { clock, inward } = this.#parts;
    const stamped = { ...event, at: clock.now(), time: clock.date().toISOString() } as GuardEvent;
    const { trial } = this.#state;
    const { state, effects } = guardStep(this.#state, stamped, this.#times);
    this.#state = state;
    if (trial !== null && state.trial === null) inward?.ended(state.confirmed === trial.state);
    for (const effect of effects) this.#do(effect);
    const isSettled = state.trial === null && state.check === null && this.#inForce !== null;
    if (isSettled && this.#judging === null && this.#queued === null) inward?.settled();
  }

  #do(effect: GuardEffect): void {
    const { clock, log, node, file, events } = this.#parts;
    switch (effect.kind) {
      case 'save':
        events.save(effect.state);
        break;
      case 'remember':
        // At once: what is not on the disk is forgotten when the agent is killed.
        file.save(toMemory(this.#state, clock));
        void file.flush();
        break;
      case 'submit':
        this.#pass();
        break;
      case 'probe':
        this.#arm(effect.probes, effect.after);
        break;
      case 'wake':
        this.#cancelWake();
        this.#cancelWake =
          effect.after === null ? () => {} : clock.after(effect.after, () => void this.#ring());
        break;
      case 'report':
        events.changed(this.report());
        break;
      case 'rolledBack':
        this.#rolledBack(effect.why, effect.changes);
        break;
      case 'say':
        log.log(effect.level, effect.message, { node, stage: 'guard', ...effect.fields });
        break;
    }
  }

  /** What no probe confirms, time does, if the rules are still there. */
  async #ring(): Promise<void> {
    const { trial } = this.#state;
    if (trial?.counted.size === 0) await this.#parts.verify();
    if (trial === this.#state.trial) this.#happened({ kind: 'timer' });
  }

  #rolledBack(why: HoldReason, changes: readonly PolicyChange[]): void {
    const { log, node, events } = this.#parts;
    const policies = changes.map(({ key }) => key);
    const rule = why.kind === 'probe' && why.fault !== null ? why.fault : undefined;
    log.error(
      'rolled back to the last confirmed rules; the change is held until it is edited, or nodewall retry',
      {
        ...{ node, stage: 'guard', policies, reason: holdText(why) },
        ...(rule === undefined ? {} : { policy: rule.policy, rule: rule.rule }),
      },
    );
    events.rolledBack({ why, policies });
  }

  #arm(names: readonly string[], after: number): void {
    this.#cancelRound();
    this.#round++;
    if (names.length === 0) return;
    this.#cancelRound = this.#parts.clock.after(after, () => void this.#probe(names, this.#round));
  }

  async #probe(names: readonly string[], round: number): Promise<void> {
    const { clock, config, probes, inward } = this.#parts;
    const began = clock.now();
    const wanted = probes().filter(({ name }) => names.includes(name));
    const patience = { milliseconds: longestAttempt(config.guard) };
    const [found, fromOutside] = await Promise.all([
      probeRound(outward(wanted), patience),
      inward?.round(names, this.#state.trial !== null),
    ]);
    const isPassed = [...found.values(), ...(fromOutside?.values() ?? [])].every((error) => error === null);
    if (round === this.#round && isPassed) await this.#parts.verify();
    if (round !== this.#round || this.#isClosed) return;
    const errorOf = (name: string): string | null => found.get(name) ?? fromOutside?.get(name) ?? null;
    const failed = wanted.filter(({ name }) => errorOf(name) !== null);
    const whole = this.#inForce?.whole;
    const denied = failed.length === 0 || whole === undefined ? new Map() : faults(failed, whole, config);
    const isMade = (name: string): boolean =>
      fromOutside?.has(name) === true ||
      !wanted.some((probe) => probe.name === name && probe.kind === 'inward');
    // A probe that is no longer known, as of a server that was removed, proves nothing: it passes.
    const results = names.filter(isMade).map((probe): ProbeResult => {
      return { probe, error: errorOf(probe), fault: denied.get(probe) ?? null };
    });
    this.#happened({ kind: 'round', began, results });
  }
}

function outward(probes: readonly Probe[]): OutwardProbe[] {
  return probes.filter((probe): probe is OutwardProbe => probe.kind === 'outward');
}

type OwnEvent = GuardEvent extends infer E ? (E extends GuardEvent ? Omit<E, 'at' | 'time'> : never) : never;

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** By identity first: unchanged rules are mostly the same objects. */
function sameRules(before: NodeState | null, { rules }: NodeState): boolean {
  if (before === null) return rules.length === 0;
  if (before.rules === rules) return true;
  return (
    before.rules.length === rules.length &&
    rules.every(
      (rule, i) => rule === before.rules[i] || JSON.stringify(rule) === JSON.stringify(before.rules[i]),
    )
  );
}
