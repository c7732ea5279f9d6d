import type { ObjectExtension } from '../../extension/object-extension.ts';
import { EgressAdmission } from './egress-admission.ts';
import { egressProblems } from './egress-problems.ts';
import { beyondLimits } from './namespace-limits.ts';
import { OutsidePods } from './outside-pods.ts';
import { isSameForChecks } from './same-checks.ts';

/** Egress gateways and policies among the other objects. */
export const EGRESS_OBJECTS: ObjectExtension = {
  problems: egressProblems,
  isSameForProblems: isSameForChecks,
  beyondLimits,
  admission: () => new EgressAdmission(),
  outsidePods: () => new OutsidePods(),
};
