import type { Compiled, CompiledRule } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { findingText, type NodeFinding } from '../../apis/lint/finding.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { MOST_VIOLATIONS, type Violation } from '../../apis/validate/guardrail.ts';
import { compiler } from '../compile/compile.ts';
import {
  type ClusterDifference,
  clusterDifference,
  type WideChange,
} from '../difference/cluster-difference.ts';
import { clusterLint } from '../difference/cluster-lint.ts';
import { brokenGuardrails, checkGuardrails, guardrailOf, withGuardrails } from '../difference/guardrails.ts';
import { Names, shownChanges } from '../difference/row-text.ts';
import { changedObjects, type ObjectChange } from './object-mirror.ts';

/** By name of the Guardrail; those that hold are left out. */
export type Violations = ReadonlyMap<string, readonly Violation[]>;

/** The effect of a change on the Guardrails. */
export interface ImpactJudgement {
  /** A Guardrail that holds now and would not; null: there is none. */
  readonly broken: { readonly guardrail: string; readonly violation: Violation } | null;
  /** A Guardrail that does not hold, and is new; null: there is none. */
  readonly neverHeld: { readonly guardrail: string; readonly violation: Violation } | null;
}

/** The effect of a change. */
export interface Impact extends ImpactJudgement {
  /** The flows whose verdict would change, in a few lines. */
  readonly lines: readonly string[];
}

/** The states of the cluster before and after a change. */
export interface JudgedChange {
  readonly judgement: ImpactJudgement;
  readonly change: ObjectChange;
  readonly before: CompiledObjects;
  readonly after: CompiledObjects;
}

interface CompiledObjects {
  readonly objects: ClusterObjects;
  readonly compiled: Compiled;
}

/** Rows in the lines. */
const MOST_ROWS = 8;
/** Rules that are named one by one. */
const MOST_RULES = 5;

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

  /** @param checkpoint called often; may throw, which leaves the change unjudged */
  judge(objects: ClusterObjects, change: ObjectChange, checkpoint: () => void): JudgedChange {
    return { change, ...this.judgeNext(objects, changedObjects(objects, change), checkpoint) };
  }

  /** As `judge`, of any other state of the objects. */
  judgeNext(
    objects: ClusterObjects,
    next: ClusterObjects,
    checkpoint: () => void,
  ): Omit<JudgedChange, 'change'> {
    const before = this.violations(objects);
    const now = this.#compiled(objects);
    const compiled = this.#compiled(next);
    const known = new Set(objects.guardrails.map(({ name }) => name));
    let broken: Impact['broken'] = null;
    let neverHeld: Impact['broken'] = null;
    for (const [guardrail, violation] of brokenGuardrails(compiled, { config: this.#config, checkpoint })) {
      if (before.has(guardrail)) continue;
      if (known.has(guardrail)) broken ??= { guardrail, violation };
      else neverHeld ??= { guardrail, violation };
    }
    return {
      judgement: { broken, neverHeld },
      before: { objects, compiled: now },
      after: { objects: next, compiled },
    };
  }

  /**
   * The flows whose verdict would change; none of a change that is refused.
   *
   * @param checkpoint called often; may throw ChangeOverrunError, which makes it one line that says
   * so
   */
  lines(judged: JudgedChange, checkpoint: () => void): readonly string[] {
    const { judgement, change } = judged;
    if (judgement.broken !== null || change.kind === 'Guardrail') return [];
    const lines = this.#lines(judged, checkpoint);
    return [...this.#unreachable(judged, checkpoint), ...lines];
  }

  #compiled(objects: ClusterObjects): Compiled {
    return this.#compile(this.#withGuardrails(objects));
  }

  #lines({ before, after }: JudgedChange, checkpoint: () => void): readonly string[] {
    const [from, to] = [withoutGuardrails(before.compiled), withoutGuardrails(after.compiled)];
    try {
      const difference = clusterDifference(from, to, { config: this.#config, checkpoint });
      const names = new Names({ before, after, config: this.#config });
      return linesOf(difference, names);
    } catch (error) {
      if (error instanceof ChangeOverrunError) return LARGE;
      throw error;
    }
  }

  /** The rules of a changed policy that would decide nothing. */
  #unreachable({ change, after }: JudgedChange, checkpoint: () => void): string[] {
    const { kind, next } = change;
    if (next === null || kind !== 'ClusterNetworkPolicy') return [];
    const { apiGroup, name } = next;
    const isWanted = ({ source }: CompiledRule): boolean =>
      source.policy === name && source.apiGroup === apiGroup;
    try {
      const options = { config: this.#config, checkpoint, isWanted, isWithoutFlows: true };
      return unreachableLines(clusterLint(withoutGuardrails(after.compiled), options));
    } catch (error) {
      // The warning about the verdicts says that the change is too large.
      if (error instanceof ChangeOverrunError) return [];
      throw error;
    }
  }
}

/** A checkpoint's time is over. */
export class ChangeOverrunError extends Error {
  override readonly name = 'ChangeOverrunError';
}

/** In place of lines that were not computed in time. */
export const LARGE: readonly string[] = [
  'the verdicts that change are too many to compute here; nodewall diff --against-cluster shows them',
];

/** The compiled policies alone. */
export function withoutGuardrails(compiled: Compiled): Compiled {
  return { ...compiled, policies: compiled.policies.filter(({ name }) => guardrailOf(name) === null) };
}

/** A line for each change; of a wide one with what it leaves out. */
function linesOf({ groups, wide }: ClusterDifference, names: Names): string[] {
  const changes = groups.flatMap((group) =>
    shownChanges(
      group,
      wideIfInTime(() => wide(group)),
      names,
    ).map((change) => ({ nodes: group.nodes, change })),
  );
  const lines = changes.slice(0, MOST_ROWS).map(({ nodes, change: { cells, exceptions } }) => {
    const [direction, traffic, flows, , before, after] = cells;
    const [first = ''] = nodes;
    const where = nodes.length === 1 ? first : `${first} and ${nodes.length - 1} more`;
    const kind = traffic === 'Host' ? direction : `${direction} ${traffic}`;
    const what =
      exceptions.length === 0 ? flowsText(cells) : `${flows}, ${exceptions.map(flowsText).join('; ')},`;
    return `changes ${before} into ${after}: ${kind} ${what} on ${where}`;
  });
  const left = changes.length - lines.length;
  if (left === 0) return lines;
  return [...lines, `changes ${left} more sets of flows; nodewall diff --against-cluster shows all`];
}

/** Without them the rows are shown as they are. */
function wideIfInTime(changes: () => readonly WideChange[]): readonly WideChange[] {
  try {
    return changes();
  } catch (error) {
    if (error instanceof ChangeOverrunError) return [];
    throw error;
  }
}

function flowsText([direction, , flows, peers]: readonly string[]): string {
  return `${flows} ${direction === 'ingress' ? 'from' : 'to'} ${peers}`;
}

/** Warnings about rules that decide nothing, as in `spec.ingress[1]: decides nothing on n1: …`. */
function unreachableLines(findings: readonly NodeFinding[]): string[] {
  const unreachable = findings.filter(({ kind }) => kind === 'unreachable');
  const lines = unreachable.slice(0, MOST_RULES).map((finding) => {
    const { direction, ruleIndex, nodes } = finding;
    const [first = ''] = nodes;
    const where = nodes.length === 1 ? first : `${first} and ${nodes.length - 1} more`;
    return `spec.${direction}[${ruleIndex}]: on ${where}: ${findingText(finding)}`;
  });
  const left = unreachable.length - lines.length;
  return left === 0 ? lines : [...lines, `${left} more rules decide nothing; nodewall lint shows all`];
}
