import { setImmediate as nextTurn } from 'node:timers/promises';
import type { NodeState } from '../../apis/compiled.ts';
import type { FailsafeEntry } from '../../apis/config.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { type Envelope, envelopeOf } from '../apply/envelope.ts';
import { lackingFamily } from '../apply/reconciler-interface.ts';
import type { GuardFile } from './guard-file.ts';
import { toLastCounted, toMemory, toRollbacks } from './guard-file.ts';
import {
  AGAIN,
  type GuardEffect,
  type GuardEvent,
  type GuardMemory,
  type GuardState,
  type GuardTimes,
  type HoldReason,
  type PolicyChange,
  timesOf,
  UNJUDGED,
} from './guard-state.ts';
import { guardStep } from './guard-step.ts';
import { proofOf } from './held-step.ts';
import {
  type GuardReport,
  guardReport,
  holdText,
  NOT_CONFIRMED,
  notConfirmedIn,
  policyChanges,
  policyDigest,
  sameRules,
  withHolds,
  withSets,
} from './holds.ts';
import type { InwardProbes } from './inward-probes.ts';
import { Judgement, type JudgementOptions, type StateVerdict, TrialDeadline } from './judgement.ts';
import { ProbeRounds, type ProbeRoundsOptions, RoundBefore } from './probe-rounds.ts';
import type { JudgedState } from './verdicts.ts';

export interface GuardOptions
  extends Pick<JudgementOptions, 'node' | 'config' | 'log' | 'probes' | 'resolve'>,
    Pick<ProbeRoundsOptions, 'isInTime'> {
  readonly clock: WallClock;
  readonly file: GuardFile;
  readonly memory: GuardMemory | null;
  /** The state confirmed last; null: none ever was. */
  readonly confirmed: NodeState | null;
  /** The run before ended while it tried rules. */
  readonly wasTried: boolean;
  /** Null: no probe is made from outside. */
  readonly inward: InwardProbes | null;
  /** Compares the kernel with the rules in force, and repairs it; calls `lost` before. */
  readonly verify: () => Promise<void>;
  /** API servers and controllers, whatever the configuration's failsafe list is. */
  readonly controlPlane: () => readonly FailsafeEntry[];
  /** Passes an envelope on to be enforced. */
  readonly next: (envelope: Envelope) => void;
  readonly events: GuardEvents;
}

interface GuardEvents {
  /** The state is confirmed, and must survive. */
  save(state: NodeState): void;
  /** The report of the guard is another one. */
  changed(report: GuardReport): void;
  rolledBack(rollback: Rollback): void;
}

export interface Rollback {
  readonly why: HoldReason;
  /** API group/name. */
  readonly policies: readonly string[];
}

/**
 * Guarded apply (docs/semantics.md section 6): stands between the source of states and what
 * enforces them. It delays none: a state is in force first, then judged; probes of the state before
 * send their first packets before the new one is submitted. guard-step.ts decides, this class
 * carries out.
 */
export class Guard {
  readonly #options: GuardOptions;
  readonly #times: GuardTimes;
  readonly #before: RoundBefore;
  readonly #judgement: Judgement;
  readonly #rounds: ProbeRounds;
  readonly #deadline: TrialDeadline;
  #state: GuardState;
  #wanted: Envelope | null = null;
  /** Without its deadline; at first, the state confirmed last. */
  #submitted: Envelope | null;
  /** The next turn of the event loop passes it on. */
  #isQueued = false;
  #cancelWake = (): void => {};
  #isClosed = false;
  /** With its deadline. */
  #sent: Envelope | null = null;
  /** A change is tried again since nobody was asked to confirm it by a new connection. */
  #isInterrupted: boolean;

  constructor(options: GuardOptions) {
    const { config, memory, confirmed, clock, wasTried } = options;
    this.#options = options;
    this.#times = timesOf(config.guard);
    this.#state = {
      confirmed,
      trial: null,
      interrupted: memory?.trial ?? null,
      // At the first start of all, the kernel has no rules of a trial.
      proof: confirmed === null && memory === null ? null : proofOf([]),
      lacking: null,
      check: null,
      lastCounted: memory === null ? null : toLastCounted(memory),
      holds: memory?.holds ?? [],
      rollbacks: memory === null ? new Map() : toRollbacks(memory, clock),
    };
    this.#submitted = confirmed === null ? null : envelopeOf(confirmed);
    this.#isInterrupted = wasTried;
    this.#before = new RoundBefore(options);
    this.#judgement = new Judgement({
      ...options,
      confirmed: () => this.#state.confirmed,
      before: ({ round }) => this.#before.results(round),
      done: (judged, verdict) => this.#judged(judged, verdict),
    });
    this.#deadline = new TrialDeadline({ ...options, touched: (state) => this.#judgement.touched(state) });
    this.#rounds = new ProbeRounds({
      ...options,
      isTrial: () => this.#state.trial !== null,
      inForce: () => this.#judgement.inForce?.resolved ?? null,
      confirmed: () => (this.#state.confirmed === null ? null : options.resolve(this.#state.confirmed)),
      done: (began, results) => this.#happened({ kind: 'round', began, results }),
    });
    this.#happened({ kind: 'started' });
    if (this.#state.holds.length > 0) options.events.changed(this.report());
  }

  /** Takes the state that is wanted; passes it on, with the confirmed versions of what is held. */
  submit(envelope: Envelope): void {
    this.#wanted = envelope;
    this.#pass(false);
  }

  /** The part of an envelope that was passed on and is in force. */
  enforced(result: Pick<Enforced, 'envelope' | 'plain' | 'resolved' | 'failedFamily'>): void {
    if (this.#isClosed) return;
    const { plain: state, resolved, envelope } = result;
    const { round } = envelope;
    this.#happened({ kind: 'family', lacking: lackingFamily(result) });
    if (!this.#judgement.applied({ plain: state, resolved, round })) return;
    const { trial, confirmed, holds, check } = this.#state;
    const isQuiet = check === null && this.#judgement.running === null && holds.length === 0;
    const hasSameRules = isQuiet && trial === null && confirmed?.rules === state.rules;
    if (hasSameRules && this.#judgement.touched(state).length === 0) {
      this.#before.forget(round);
      this.#happened({ kind: 'applied', state, isTried: false, ...UNJUDGED });
      return;
    }
    // Only members changed: the difference is not computed for each, while a change is tried.
    if (isQuiet && trial?.state.rules === state.rules) {
      const { changes, sets } = trial;
      this.#happened({ kind: 'applied', state, isTried: true, ...UNJUDGED, changes, sets });
      return;
    }
    this.#judgement.begin();
  }

  /** A third party changed the rules, or packets were accepted past the deadline. */
  lost(): void {
    // Also before it is known that the change is tried.
    this.#isInterrupted ||= this.#sent?.resolved.deadline !== undefined;
    this.#happened({ kind: 'lost' });
  }

  /**
   * `nodewall confirm`: returns the policies that were tried. Throws if the connection by which it
   * comes may be older than the rules that are tried, or made past the deadline.
   */
  async confirm(): Promise<readonly string[]> {
    const isInTime = await this.#options.isInTime();
    const { trial, interrupted, lacking } = this.#state;
    if (this.#isInterrupted && (trial ?? interrupted) !== null) {
      this.#isInterrupted = trial === null;
      throw new Error(NOT_CONFIRMED.interrupted);
    }
    if (!isInTime) throw new Error(NOT_CONFIRMED.unknown);
    if (trial !== null && lacking !== null) throw new Error(notConfirmedIn(lacking));
    const tried = trial?.changes.map(({ key }) => key) ?? [];
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
    return guardReport(this.#state, this.#judgement.changes, this.#wanted?.wanted ?? null);
  }

  /** Resolves once no state waits to be submitted or judged. */
  async idle(): Promise<void> {
    while (this.#isQueued || this.#judgement.running !== null) {
      await (this.#judgement.running ?? nextTurn());
    }
  }

  async close(): Promise<void> {
    const { file, clock } = this.#options;
    const { trial } = this.#state;
    // An agent that is told to end was not cut off: the next run has as many attempts as this one.
    if (trial !== null)
      file.save(toMemory({ ...this.#state, trial: { ...trial, attempt: trial.attempt - 1 } }, clock));
    this.#isClosed = true;
    this.#cancelWake();
    this.#rounds.cancel();
    this.#options.inward?.close();
    await file.close();
  }

  /** @param isUrgent in this turn of the event loop, without probes before */
  #pass(isUrgent: boolean): void {
    const envelope = this.#wanted;
    if (envelope === null || this.#isClosed) return;
    const { wanted } = envelope;
    const changes = this.#state.proof === null ? [] : policyChanges(this.#state.confirmed, wanted);
    this.#happened({ kind: 'wanted', digestOf: (key) => policyDigest(wanted, key), changes });
    const state = this.#allowed(wanted);
    const last = this.#submitted;
    const isSame = sameRules(last?.plain ?? null, state) && this.#judgement.touched(state).length === 0;
    if (!isSame) this.#options.inward?.changing();
    const isAtOnce = isUrgent || (isSame && !this.#isQueued);
    const kept = last?.plain === state ? last.round : null;
    const round = isAtOnce ? kept : this.#probeBefore(state);
    this.#submitted = { ...envelope, plain: state, resolved: state, round };
    const isWaiting = this.#isQueued;
    this.#isQueued = !isAtOnce;
    if (isAtOnce) this.#send(this.#submitted);
    // The probes' packets leave in this turn of the event loop.
    else if (!isWaiting) setImmediate(() => this.#sendQueued());
  }

  #sendQueued(): void {
    const isQueued = this.#isQueued;
    this.#isQueued = false;
    if (isQueued && this.#submitted !== null && !this.#isClosed) this.#send(this.#submitted);
  }

  #send(envelope: Envelope): void {
    this.#sent = { ...envelope, resolved: this.#deadline.over(envelope.plain, this.#state) };
    this.#options.next(this.#sent);
  }

  /** The state in force is tried from now on, by probes that count now; or it is not any more. */
  #updateDeadline(): void {
    const envelope = this.#submitted;
    if (this.#isQueued || this.#judgement.running !== null) return;
    if (envelope === null || this.#sent === null) return;
    const now = this.#deadline.over(envelope.plain, this.#state);
    if (now !== this.#sent.resolved) this.#send(envelope);
  }

  /** The state with the confirmed version of what is held. */
  #allowed(wanted: NodeState): NodeState {
    const { holds, confirmed, proof } = this.#state;
    const state = holds.length === 0 ? wanted : withHolds(wanted, holds, confirmed);
    const sets = proof === null ? [] : this.#judgement.touched(state);
    return sets.length === 0 ? state : withSets(state, sets, confirmed);
  }

  /** The state's number (RoundBefore). */
  #probeBefore(state: NodeState): number {
    const isConfirmed =
      sameRules(this.#state.confirmed, state) && this.#judgement.touched(state).length === 0;
    return isConfirmed ? this.#before.skip() : this.#before.make();
  }

  #judged({ plain: state, round }: JudgedState, verdict: StateVerdict): void {
    this.#before.forget(round);
    const { inward } = this.#options;
    const passed = [...verdict.passed, ...(inward?.passing() ?? [])];
    this.#happened({ kind: 'applied', state, ...verdict, passed, unmade: inward?.unmade() ?? [] });
    if (verdict.isTried || verdict.changes.length === 0) return;
    // The interrupted change is confirmed, or wanted no more.
    if (state === this.#submitted?.plain && this.#state.interrupted === null) this.#isInterrupted = false;
    this.#options.events.changed(this.report());
  }

  #happened(event: OwnEvent): void {
    if (this.#isClosed) return;
    const { clock, inward } = this.#options;
    const stamped = { ...event, at: clock.now(), time: clock.date().toISOString() } as GuardEvent;
    const { trial } = this.#state;
    const { state, effects } = guardStep(this.#state, stamped, this.#times);
    this.#state = state;
    if (trial !== null && state.trial === null) inward?.ended(state.confirmed === trial.state);
    if (trial !== null && state.trial === null) this.#isInterrupted = event.kind === 'lost';
    for (const effect of effects) this.#do(effect);
    if (event.kind !== 'wanted') this.#updateDeadline();
    const { trial: tried, check, proof } = this.#state;
    const isSettled = tried === null && check === null && proof === null && this.#judgement.running === null;
    // Else the rules in force may be others, which are about to be judged.
    const { inForce } = this.#judgement;
    if (isSettled && inForce !== null && inForce.plain === this.#submitted?.plain) inward?.settled();
  }

  #do(effect: GuardEffect): void {
    const { clock, log, node, file, events } = this.#options;
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
        this.#pass(effect.isUrgent);
        break;
      case 'probe':
        this.#rounds.arm(effect.probes, effect.after);
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

  /** Time confirms a change that no probe confirms, if the rules are still there. */
  async #ring(): Promise<void> {
    const { trial } = this.#state;
    const isByTime = trial?.counted.size === 0;
    if (isByTime) await this.#options.verify();
    const isKnown = !isByTime || (await this.#options.isInTime());
    if (trial !== this.#state.trial) return;
    if (!isKnown) return this.#do({ kind: 'wake', after: AGAIN });
    const changes = trial?.changes ?? [];
    this.#happened({ kind: 'timer', atFault: (probe) => this.#judgement.atFault(probe, changes) });
  }

  #rolledBack(why: HoldReason, changes: readonly PolicyChange[]): void {
    const { log, node, events } = this.#options;
    const policies = changes.map(({ key }) => key);
    const rule = why.kind === 'probe' && why.fault !== null ? why.fault : undefined;
    log.error(
      'rolled back to the last confirmed rules; the change is held until it is edited, or nodewall retry',
      {
        node,
        stage: 'guard',
        policies,
        reason: holdText(why),
        ...(rule === undefined ? {} : { policy: rule.policy, rule: rule.rule }),
      },
    );
    events.rolledBack({ why, policies });
  }
}

type OwnEvent = GuardEvent extends infer E ? (E extends GuardEvent ? Omit<E, 'at' | 'time'> : never) : never;
