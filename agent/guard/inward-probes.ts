import type { InwardProbeConfig } from '../../apis/config.ts';
import type { Flow } from '../../apis/flow.ts';
import {
  type AskedProbe,
  type InwardQuestion,
  type InwardResult,
  type Made,
  OWN_PROBES,
} from '../../apis/probes.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { present } from '../../lib/sharing/present.ts';
import { attemptService, type InwardProbe } from './probes.ts';

interface InwardProbesOptions {
  readonly node: string;
  /** Those of the configuration, and nodewall's own where this node has the servers for them. */
  readonly probes: () => readonly InwardProbeConfig[];
  /** That each connection has. */
  readonly milliseconds: number;
  /** Asks the controller; rejects if it has no answer. */
  readonly ask: (question: InwardQuestion) => Promise<readonly InwardResult[]>;
  readonly clock: Clock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly log: Log;
}

/** Milliseconds until a probe is made again that did not pass under the confirmed rules. */
const FIRST_WAIT = 5_000;
const LONGEST_WAIT = 600_000;
/** Milliseconds in which controllers say that nobody can make a probe, until it does not count. */
const ABSENT = 30_000;

/**
 * Connections to this node that the controller or another agent makes. They can't be made just
 * before a change without delaying it, so the result under the confirmed rules is kept: from the
 * start, or from the trial of these rules (docs/adr/0022-guarded-apply.md). Only a probe that
 * passed counts, and only as long as the same prober makes it; or one of which nothing is known.
 */
export class InwardProbes {
  readonly #options: InwardProbesOptions;
  readonly #waits: BackOff;
  /** The last results under the confirmed rules, by probe. */
  readonly #confirmed = new Map<string, Made>();
  /** Those under the rules that are tried. */
  readonly #tried = new Map<string, Made>();
  /** Since when controllers say that nobody can make it (monotonic milliseconds), by probe. */
  readonly #absent = new Map<string, number>();
  /** The confirmed rules were in force: from then on probes are made under them. */
  #isBegun = false;
  /** Results of earlier rules are dropped. */
  #rules = 0;
  #cancel: (() => void) | null = null;
  /** The reasons that were logged last. */
  #said = '';

  constructor(options: InwardProbesOptions) {
    this.#options = options;
    this.#waits = new BackOff({ first: FIRST_WAIT, longest: LONGEST_WAIT, random: options.random });
  }

  all(): InwardProbe[] {
    return this.#options.probes().map((config) => ({
      kind: 'inward',
      name: config.name,
      flow: flowOf(config, this.#last(config.name)),
    }));
  }

  /** The names of those that passed under the confirmed rules. */
  passing(): string[] {
    const known = new Set(this.#options.probes().map(({ name }) => name));
    const passed = [...this.#confirmed.values()].filter(({ error }) => error === null);
    return passed.map(({ name }) => name).filter((name) => known.has(name));
  }

  /**
   * The names of those that were never made under the confirmed rules: the controller is away, or
   * nobody answered it yet. Not so where it says for a while that nobody can.
   */
  unmade(): string[] {
    const now = this.#options.clock.now();
    const isAbsent = (name: string): boolean => now - (this.#absent.get(name) ?? now) >= ABSENT;
    const names = this.#isBegun ? this.#options.probes().map(({ name }) => name) : [];
    return names.filter((name) => !this.#confirmed.has(name) && !isAbsent(name));
  }

  /** Other rules are about to be in force. */
  changing(): void {
    this.#rules++;
    this.#cancel?.();
    this.#cancel = null;
  }

  /** The confirmed rules are in force, and nothing is tried. */
  settled(): void {
    this.#isBegun = true;
    if (this.#cancel !== null || this.#missing().length === 0) return;
    this.#cancel = this.#options.clock.after(0, () => void this.#learn(this.#rules));
  }

  /** A trial ended: its rules are confirmed, or those before are in force again. */
  ended(isConfirmed: boolean): void {
    this.changing();
    if (isConfirmed) {
      // A probe not tried under these rules is unknown. One that failed did not count, or does now.
      for (const [name, { error }] of this.#confirmed) if (error === null) this.#confirmed.delete(name);
      for (const [name, result] of this.#tried) this.#confirmed.set(name, result);
    }
    this.#tried.clear();
    this.#waits.reset();
  }

  /**
   * Makes these again: null for each that passed, else the reason. One that nobody could make is
   * absent, and so is one that failed for another prober.
   * @param isTrial whether the rules in force are tried; else they are confirmed
   */
  async round(names: readonly string[], isTrial: boolean): Promise<ReadonlyMap<string, string | null>> {
    const rules = this.#rules;
    const asked = this.#options.probes().filter(({ name }) => names.includes(name));
    if (!isTrial) this.#isBegun = true;
    const results = asked.length === 0 ? [] : await this.#made(asked.map(({ name }) => name));
    if (rules !== this.#rules) return new Map();
    for (const result of results) (isTrial ? this.#tried : this.#confirmed).set(result.name, result);
    return new Map(results.map(({ name, error }) => [name, error]));
  }

  close(): void {
    this.changing();
  }

  /** Those of which no passing result is known. */
  #missing(): string[] {
    const passing = new Set(this.passing());
    return this.#options
      .probes()
      .map(({ name }) => name)
      .filter((name) => !passing.has(name));
  }

  async #learn(rules: number): Promise<void> {
    const names = this.#missing();
    // Anybody may make it: a prober that is gone would keep the probe from ever counting again.
    const results = await this.#made(names, true);
    if (rules !== this.#rules) return;
    for (const result of results) this.#confirmed.set(result.name, result);
    this.#sayCounting(results.filter(({ error }) => error === null));
    this.#cancel =
      this.#missing().length === 0
        ? null
        : this.#options.clock.after(this.#waits.next(), () => void this.#learn(this.#rules));
  }

  /** The last result that is known of a probe. */
  #last(name: string): Made | undefined {
    return this.#confirmed.get(name) ?? this.#tried.get(name);
  }

  async #made(names: readonly string[], isAnybody = false): Promise<Made[]> {
    const proberOf = (name: string): string | undefined => (isAnybody ? undefined : this.#last(name)?.prober);
    const probes = names.map((name): AskedProbe => {
      const prober = proberOf(name);
      return { name, ...present({ prober }) };
    });
    const { ask, milliseconds } = this.#options;
    let isAnswered = true;
    const results = await ask({ probes, milliseconds }).catch((error: Error): InwardResult[] => {
      isAnswered = false;
      return names.map((name) => ({ name, notMade: error.message }));
    });
    for (const { name, prober } of probes) {
      const isAbsent = results.some((one) => one.name === name && 'notMade' in one);
      // That one prober is away says nothing of others.
      if (prober === undefined) this.#noteAbsence(name, isAnswered && isAbsent);
    }
    this.#say(results);
    const made = results.flatMap((one) => ('notMade' in one || !names.includes(one.name) ? [] : [one]));
    return made.filter(({ name, prober, error }) => {
      const before = proberOf(name);
      return error === null || before === undefined || before === prober;
    });
  }

  #noteAbsence(name: string, isAbsent: boolean): void {
    if (!isAbsent) this.#absent.delete(name);
    else if (!this.#absent.has(name)) this.#absent.set(name, this.#options.clock.now());
  }

  #sayCounting(passed: readonly Made[]): void {
    if (passed.length === 0) return;
    const probers = Object.fromEntries(passed.map(({ name, prober }) => [name, prober]));
    const fields = { node: this.#options.node, stage: 'guard', probers };
    this.#options.log.info('these probes to the node pass, and count for the next change', fields);
  }

  /** Once for the same reasons: the controller may be away for long. */
  #say(results: readonly InwardResult[]): void {
    // In a cluster of one node nobody can make nodewall's own.
    const configured = results.filter(({ name }) => !OWN_PROBES.includes(name));
    const reasons = Object.fromEntries(
      configured.flatMap((one) => ('notMade' in one ? [[one.name, one.notMade]] : [])),
    );
    const said = JSON.stringify(reasons);
    if (said === this.#said) return;
    this.#said = said;
    if (said === '{}') return;
    const message = 'nobody could make these probes to the node; they do not count until they pass';
    this.#options.log.warn(message, { node: this.#options.node, stage: 'guard', probes: reasons });
  }
}

/** As explain is asked: the source is as the prober knows it. */
function flowOf({ target }: InwardProbeConfig, made: Made | undefined): Flow | null {
  if (made === undefined) return null;
  const { address, source } = made;
  return {
    direction: 'ingress',
    ...(source === null ? {} : { src: source }),
    dst: address,
    ...attemptService({ ...target, address }),
  };
}
