import { present } from '../../lib/sharing/present.ts';
import {
  LONGEST_ROLLOUT_SPEC,
  ROLLOUT_ANNOTATION,
  ROLLOUT_COMMANDS,
  type RolloutSpec,
  rolloutCommand,
} from '../rollout.ts';
import { asFields, type FieldMap } from '../schema/json-schema.ts';
import { isSubdomain, SUBDOMAIN_FORM } from './names.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

/** Checks spec.rollout, and `rollout` in the configuration, beyond the schema. */
export function checkRollout(rollout: unknown, path: FieldPath, found: Findings): void {
  const { steps, group } = asFields(rollout) ?? {};
  if (typeof group === 'string' && !isSubdomain(group))
    found.error([...path, 'group'], `${show(group)} is not a valid name: ${SUBDOMAIN_FORM}`);
  if (!Array.isArray(steps)) return;
  const at = [...path, 'steps'];
  if (steps.length === 0) found.error(at, 'is empty; it must have at least one step, or be left out');
  if (steps.length > MOST_STEPS) found.error(at, `has ${steps.length} steps; the most are ${MOST_STEPS}`);
  checkSteps(steps.slice(0, MOST_STEPS), at, found);
}

export const MOST_STEPS = 20;

/** Numbers ascend, and so do shares; how the two compare depends on the number of nodes. */
function checkSteps(steps: readonly unknown[], path: FieldPath, found: Findings): void {
  const last = { count: 0, share: 0 };
  for (const [i, step] of steps.entries()) {
    const isCount = typeof step === 'number';
    if (!isCount && typeof step !== 'string') continue;
    const size = isCount ? step : toShare(step);
    // The schema reports fractions.
    if (isCount && !Number.isInteger(step)) continue;
    if (size === null || size < 1) {
      const message = `${show(step)} is not a step: it must be a whole number of nodes from 1, or a share from 1% to 100%`;
      found.error([...path, i], isCount || !/^\d+$/.test(step) ? message : `${message}; remove the quotes`);
      continue;
    }
    const kind = isCount ? 'count' : 'share';
    if (size <= last[kind]) {
      const least = isCount ? `${last.count}` : `${last.share}%`;
      found.error([...path, i], `${show(step)} must be above ${least}, the step before: steps ascend`);
    }
    last[kind] = Math.max(last[kind], size);
  }
}

/** Percent; null if it is not a share. */
function toShare(text: string): number | null {
  const { percent } = /^(?<percent>[1-9]\d?|100)%$/.exec(text)?.groups ?? {};
  return percent === undefined ? null : Number(percent);
}

/** A policy's rollout, with its annotation and the size of its spec. */
export function checkPolicyRollout(raw: FieldMap, found: Findings): void {
  const spec = asFields(raw.spec) ?? {};
  checkAnnotation(raw, found);
  if (spec.rollout === undefined) return;
  checkRollout(spec.rollout, ['spec', 'rollout'], found);
  if (fitsStatus(spec)) return;
  found.error(
    ['spec', 'rollout'],
    `the spec has more than ${LONGEST_ROLLOUT_SPEC / 1024} KiB as JSON, and the version before would not fit into the status; split the policy, or leave rollout out`,
  );
}

/** Whether the versions of a policy with such a spec fit into its status. */
export function fitsStatus(spec: unknown): boolean {
  return JSON.stringify(spec).length <= LONGEST_ROLLOUT_SPEC;
}

function checkAnnotation(raw: FieldMap, found: Findings): void {
  const annotation = asFields(asFields(raw.metadata)?.annotations)?.[ROLLOUT_ANNOTATION];
  if (typeof annotation !== 'string' || rolloutCommand(annotation) !== null) return;
  const message = `${show(annotation)} is ignored: it must be ${ROLLOUT_COMMANDS.slice(0, -1).join(', ')} or ${ROLLOUT_COMMANDS.at(-1)}`;
  found.warning(['metadata', 'annotations', ROLLOUT_ANNOTATION], message);
}

/** A rollout that passed the checks; the fields in one order. */
export function toRollout({ steps, pause, maxFailures, group }: RolloutSpec): RolloutSpec {
  return {
    ...present({ steps, pause, maxFailures, group }),
  };
}
