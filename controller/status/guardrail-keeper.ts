import { isDeepStrictEqual } from 'node:util';
import { brokenText } from '../../apis/explanation-text.ts';
import type { Guardrail } from '../../apis/objects.ts';
import { MOST_PROBLEMS } from '../../apis/policy-status.ts';
import type { GuardrailStatus, Violation } from '../../apis/validate/guardrail.ts';
import type { LoadProblem } from '../watch/source.ts';
import type { FailureEvents } from './failure-events.ts';
import type { StatusTarget, StatusWriter, WriteTimes } from './writer.ts';

export const GUARDRAIL_TARGET: StatusTarget<GuardrailStatus> = {
  path: (name) => `/apis/nodewall.io/v1alpha1/guardrails/${encodeURIComponent(name)}`,
  toPatch: ({ violations, problems = null, ...status }) => ({
    ...status,
    // In a merge patch, null says that none are left.
    problems,
    violations: violations.map(({ rule, ...violation }) =>
      rule === null ? violation : { ...violation, rule },
    ),
  }),
};

/** Milliseconds: a broken Guardrail is reported within a second. */
export const GUARDRAIL_TIMES: WriteTimes = {
  between: 20,
  betweenOfOne: 500,
  firstRetry: 200,
  longestRetry: 5_000,
};

interface GuardrailKeeperOptions {
  readonly writer: StatusWriter<GuardrailStatus>;
  readonly events: Pick<FailureEvents, 'broken'>;
}

interface Known {
  readonly uid: string;
  readonly status: GuardrailStatus;
}

/**
 * Writes the statuses of Guardrails, and an Event on each that begins to be broken, while it leads.
 */
export class GuardrailKeeper {
  readonly #options: GuardrailKeeperOptions;
  /** As last evaluated, by name. */
  #evaluated: ReadonlyMap<string, Known> = new Map();
  /** Those that wait for something that they name, by name. */
  #waiting: ReadonlyMap<string, Known> = new Map();
  /** Both. */
  #known = new Map<string, Known>();
  #leads = false;

  constructor(options: GuardrailKeeperOptions) {
    this.#options = options;
  }

  /** How many there are, and how many of them are broken. */
  counts(): { readonly all: number; readonly broken: number } {
    const statuses = [...this.#known.values()].map(({ status }) => status);
    return { all: statuses.length, broken: statuses.filter(({ phase }) => phase === 'Broken').length };
  }

  /** As last evaluated, by name, whether this process leads or not. */
  statuses(): { readonly name: string; readonly status: GuardrailStatus }[] {
    return [...this.#known].map(([name, { status }]) => ({ name, status }));
  }

  /** @param violations by name of the Guardrail */
  set(guardrails: readonly Guardrail[], violations: ReadonlyMap<string, readonly Violation[]>): void {
    this.#evaluated = new Map(
      guardrails.map(({ name, uid, generation }) => {
        const own = violations.get(name) ?? [];
        const phase = own.length === 0 ? 'Holds' : 'Broken';
        return [name, { uid, status: { phase, observedGeneration: generation, violations: own } }];
      }),
    );
    this.#update();
  }

  /** Takes those that are not evaluated, because they name missing objects. */
  wait(waiting: readonly Guardrail[], problems: readonly LoadProblem[]): void {
    this.#waiting = new Map(
      waiting.map(({ name, uid, generation }) => {
        const own = problems.filter((problem) => problem.kind === 'Guardrail' && problem.name === name);
        const lines = own.slice(0, MOST_PROBLEMS).map(({ path, message }) => `${path}: ${message}`);
        const status = {
          phase: 'Pending',
          observedGeneration: generation,
          violations: [],
          problems: lines,
        } as const;
        return [name, { uid, status }];
      }),
    );
    this.#update();
  }

  #update(): void {
    const before = this.#known;
    this.#known = new Map([...this.#waiting, ...this.#evaluated]);
    // In force with what was deleted: it is evaluated, and says what it names.
    for (const [name, { uid, status }] of this.#evaluated) {
      const waiting = this.#waiting.get(name);
      if (waiting?.uid !== uid || waiting.status.problems === undefined) continue;
      this.#known.set(name, { uid, status: { ...status, problems: waiting.status.problems } });
    }
    for (const name of before.keys()) if (!this.#known.has(name)) this.#options.writer.forget(name);
    if (!this.#leads) return;
    for (const [name, now] of this.#known) {
      const last = before.get(name);
      if (!isDeepStrictEqual(last, now)) this.#write(name, now, last?.uid === now.uid ? last.status : null);
    }
  }

  /** A new leader writes all: it does not know what was written. If false, drops pending writes. */
  async lead(leads: boolean): Promise<void> {
    if (leads === this.#leads) return;
    this.#leads = leads;
    if (!leads) return this.#options.writer.clear();
    for (const [name, now] of this.#known) this.#write(name, now, null);
  }

  #write(name: string, { uid, status }: Known, before: GuardrailStatus | null): void {
    this.#options.writer.submit(name, uid, status, null);
    const [violation] = status.violations;
    if (violation === undefined || before?.phase === 'Broken') return;
    this.#options.events.broken({ name, uid }, brokenText(violation));
  }
}
