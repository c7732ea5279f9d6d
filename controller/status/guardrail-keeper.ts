import { isDeepStrictEqual } from 'node:util';
import { brokenText } from '../../apis/explanation-text.ts';
import type { Guardrail } from '../../apis/objects.ts';
import { type Condition, MOST_PROBLEMS } from '../../apis/policy-status.ts';
import type { GuardrailStatus, Violation } from '../../apis/validate/guardrail.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import type { LoadProblem } from '../watch/source.ts';
import { type ConditionState, readinessConditions, timed } from './conditions.ts';
import type { FailureEvents } from './failure-events.ts';
import type { StatusTarget, StatusWriter, WriteTimes } from './writer.ts';

/** The whole status, as it is written. */
interface WrittenGuardrail extends GuardrailStatus {
  readonly conditions: readonly Condition[];
}

const GUARDRAILS = '/apis/nodewall.io/v1alpha1/guardrails';

export const GUARDRAIL_TARGET: StatusTarget<WrittenGuardrail> = {
  path: (name) => `${GUARDRAILS}/${encodeURIComponent(name)}`,
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
  readonly writer: StatusWriter<WrittenGuardrail>;
  readonly events: Pick<FailureEvents, 'broken'>;
  readonly clock: Pick<WallClock, 'date'>;
  readonly request: KubeApi;
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
  /** The conditions last written, by uid; null: they are being read. */
  #conditions: Map<string, readonly Condition[]> | null = null;

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
    for (const [name, { uid }] of before) {
      if (this.#known.get(name)?.uid !== uid) this.#conditions?.delete(uid);
      if (!this.#known.has(name)) this.#options.writer.forget(name);
    }
    if (!this.#leads || this.#conditions === null) return;
    for (const [name, now] of this.#known) {
      const last = before.get(name);
      if (!isDeepStrictEqual(last, now)) this.#write(name, now, last?.uid === now.uid ? last.status : null);
    }
  }

  /** A new leader writes all: it does not know what was written. If false, drops pending writes. */
  async lead(leads: boolean): Promise<void> {
    if (leads === this.#leads) return;
    this.#leads = leads;
    this.#conditions = null;
    if (!leads) return this.#options.writer.clear();
    const written = await writtenConditions(this.#options.request);
    // It may have lost the lead meanwhile.
    if (!this.#leads) return;
    this.#conditions = new Map(written);
    for (const [name, now] of this.#known) this.#write(name, now, null);
  }

  #write(name: string, { uid, status }: Known, before: GuardrailStatus | null): void {
    const { writer, clock } = this.#options;
    const last = this.#conditions?.get(uid) ?? [];
    const conditions = timed(readiness(status), status.observedGeneration, last, clock.date());
    this.#conditions?.set(uid, conditions);
    writer.submit(name, uid, { ...status, conditions }, null);
    const [violation] = status.violations;
    if (violation === undefined || before?.phase === 'Broken') return;
    this.#options.events.broken({ name, uid }, brokenText(violation));
  }
}

const READINESS_OF = { Holds: 'Ready', Broken: 'Stalled', Pending: 'Reconciling' } as const;

function readiness({ phase, violations, problems }: GuardrailStatus): ConditionState[] {
  const [violation] = violations;
  const holds = 'Every flow has its verdict on every selected Node.';
  const message = violation === undefined ? (problems?.[0] ?? holds) : brokenText(violation);
  return readinessConditions(READINESS_OF[phase], { reason: phase, message });
}

/** By uid; empty if the API server does not answer: the conditions begin anew. */
async function writtenConditions(request: KubeApi): Promise<ReadonlyMap<string, readonly Condition[]>> {
  try {
    const { items = [] } = await request<WrittenList>({ method: 'GET', path: GUARDRAILS });
    return new Map(items.map(({ metadata, status }) => [metadata.uid, status?.conditions ?? []]));
  } catch {
    return new Map();
  }
}

interface WrittenList {
  readonly items?: readonly {
    readonly metadata: { readonly uid: string };
    readonly status?: Partial<WrittenGuardrail>;
  }[];
}
