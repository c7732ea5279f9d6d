import { brokenText } from '../../apis/explanation-text.ts';
import type { Impact } from '../impact/impact.ts';
import type { ObjectChange } from '../impact/object-mirror.ts';
import { type Admission, ALLOWED } from './review.ts';

interface Answered {
  readonly warnings: readonly string[];
  /** Whether there are Guardrails that must be checked. */
  readonly hasGuardrails: boolean;
}

/**
 * Refuses a change that breaks a Guardrail, and warns of the verdicts that it changes. A change
 * that was not evaluated in time is refused where there are Guardrails: else one that is too large
 * would get past them.
 *
 * @param impact null: the change was not evaluated
 */
export function impactAdmission(
  { kind, identity, next }: ObjectChange,
  impact: Impact | null,
  { warnings, hasGuardrails }: Answered,
): Admission {
  const object = `${kind}/${identity.slice(identity.lastIndexOf('|') + 1)}`;
  const verb = next === null ? 'delete' : 'store';
  const refusal = (reason: 'Forbidden' | 'ServiceUnavailable', message: string): Admission => ({
    ...ALLOWED,
    rejection: { reason, message: `${object}: ${message}`, isTransient: false },
  });
  if (impact === null && hasGuardrails) return refusal('ServiceUnavailable', LATE);
  if (impact === null) return { ...ALLOWED, warnings: [...warnings, UNKNOWN] };
  const { broken, neverHeld, lines } = impact;
  if (broken !== null) {
    const { guardrail, violation } = broken;
    const way = `to ${verb} it all the same: kubectl delete guardrail ${guardrail}`;
    return refusal('Forbidden', `would break Guardrail/${guardrail} ${brokenText(violation)}; ${way}`);
  }
  const own = neverHeld === null ? [] : [`does not hold ${brokenText(neverHeld.violation)}`];
  return { ...ALLOWED, warnings: [...warnings, ...own, ...lines] };
}

const LATE = 'the Guardrails cannot be checked in time; try again, or delete them if this must be stored now';
const UNKNOWN =
  'the verdicts that change could not be computed in time; try again, or see nodewall diff --against-cluster';
