import type { Compiled, CompiledRule } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { MOST_VIOLATIONS, type Violation } from '../../apis/guardrail.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { compiler } from '../compile/compile.ts';
import { clusterDifference, type NodeGroup } from '../difference/cluster-difference.ts';
import { cells, Names } from '../difference/row-text.ts';
import { guardrailOf, withGuardrails } from '../guardrail/as-policies.ts';
import { brokenGuardrails, checkGuardrails } from '../guardrail/check-guardrails.ts';
import { clusterLint } from '../lint/cluster-lint.ts';
import { changedObjects, type ObjectChange } from './changed-objects.ts';
import { unreachableLines } from './unreachable-lines.ts';

/** By name of the Guardrail; those that hold are left out. */
export type Violations = ReadonlyMap<string, readonly Violation[]>;

/** What a change would do. */
export interface Impact {
  /** A Guardrail that holds now and would not; null: there is none. */
  readonly broken: { readonly guardrail: string; readonly violation: Violation } | null;
  /** A Guardrail that does not hold, and is new; null: there is none. */
  readonly neverHeld: { readonly guardrail: string; readonly violation: Violation } | null;
  /** The flows whose verdict would change, in a few lines. */
  readonly lines: readonly string[];
}

export interface ChangeLimits {
  /** Called often while the difference is computed; may throw, which leaves it out. */
  readonly checkpoint: () => void;
}

/** Rows in the lines. */
const MOST_ROWS = 8;

/** Evaluates Guardrails and changes for successive states of a cluster. */
export class ImpactJudge {
  readonly #config: Config;
  readonly #compile = compiler();
  readonly #withGuardrails = withGuardrails();
  #last: { readonly objects: ClusterObjects; readonly violations: Violations } | null = null;

  constructor(config: Config) {
    this.#config = config;
  }

  /** The first violations of each Guardrail; the same map for the same objects. */
  violations(objects: ClusterObjects): Violations {
    if (this.#last?.objects === objects) return this.#last.violations;
    const compiled = this.#compiled(objects);
    const violations = checkGuardrails(compiled, { config: this.#config, most: MOST_VIOLATIONS });
    this.#last = { objects, violations };
    return violations;
  }

  change(objects: ClusterObjects, change: ObjectChange, { checkpoint }: ChangeLimits): Impact {
    const before = this.violations(objects);
    const next = changedObjects(objects, change);
    const now = this.#compiled(objects);
    const compiled = this.#compiled(next);
    const known = new Set(objects.guardrails.map(({ name }) => name));
    let broken: Impact['broken'] = null;
    let neverHeld: Impact['broken'] = null;
    for (const [guardrail, violation] of brokenGuardrails(compiled, { config: this.#config })) {
      if (before.has(guardrail)) continue;
      if (known.has(guardrail)) broken ??= { guardrail, violation };
      else neverHeld ??= { guardrail, violation };
    }
    const isRefused = broken !== null || change.kind === 'Guardrail';
    const sides = { before: { objects, compiled: now }, after: { objects: next, compiled } };
    const lines = isRefused ? [] : this.#lines(sides, checkpoint);
    const unreachable = isRefused ? [] : this.#unreachable(change, compiled, checkpoint);
    return { broken, neverHeld, lines: [...unreachable, ...lines] };
  }

  #compiled(objects: ClusterObjects): Compiled {
    return this.#compile(this.#withGuardrails(objects));
  }

  #lines({ before, after }: Sides, checkpoint: () => void): string[] {
    const [from, to] = [withoutGuardrails(before.compiled), withoutGuardrails(after.compiled)];
    try {
      const { groups } = clusterDifference(from, to, { config: this.#config, checkpoint });
      const names = new Names({ before, after, config: this.#config });
      return linesOf(groups, names);
    } catch (error) {
      if (error instanceof ChangeOverrunError) return [LARGE];
      throw error;
    }
  }

  /** The rules of a changed policy that would decide nothing. */
  #unreachable({ kind, next }: ObjectChange, compiled: Compiled, checkpoint: () => void): string[] {
    if (next === null || kind !== 'ClusterNetworkPolicy') return [];
    const { apiGroup, name } = next;
    const isWanted = ({ source }: CompiledRule): boolean =>
      source.policy === name && source.apiGroup === apiGroup;
    try {
      const options = { config: this.#config, checkpoint, isWanted, isWithoutFlows: true };
      return unreachableLines(clusterLint(withoutGuardrails(compiled), options));
    } catch (error) {
      // The warning about the verdicts says that the change is too large.
      if (error instanceof ChangeOverrunError) return [];
      throw error;
    }
  }
}

interface Sides {
  readonly before: { readonly objects: ClusterObjects; readonly compiled: Compiled };
  readonly after: { readonly objects: ClusterObjects; readonly compiled: Compiled };
}

/** A checkpoint's time is over. */
export class ChangeOverrunError extends Error {
  override readonly name = 'ChangeOverrunError';
}

const LARGE =
  'the verdicts that change are too many to compute here; nodewall diff --against-cluster shows them';

function withoutGuardrails(compiled: Compiled): Compiled {
  return { ...compiled, policies: compiled.policies.filter(({ name }) => guardrailOf(name) === null) };
}

function linesOf(groups: readonly NodeGroup[], names: Names): string[] {
  const rows = groups.flatMap(({ nodes, changes }) => changes.map((row) => ({ nodes, row })));
  const lines = rows.slice(0, MOST_ROWS).map(({ nodes, row }) => {
    const [direction, traffic, flows, peers, before, after] = cells(row, names);
    const [first = ''] = nodes;
    const where = nodes.length === 1 ? first : `${first} and ${nodes.length - 1} more`;
    const kind = traffic === 'Host' ? direction : `${direction} ${traffic}`;
    const preposition = direction === 'ingress' ? 'from' : 'to';
    return `changes ${before} into ${after}: ${kind} ${flows} ${preposition} ${peers} on ${where}`;
  });
  const left = rows.length - lines.length;
  if (left === 0) return lines;
  return [...lines, `changes ${left} more sets of flows; nodewall diff --against-cluster shows all`];
}
