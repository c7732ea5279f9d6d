import { EGRESS_CHECKS } from '../egress/egress-checks.ts';

/** An extension's checks of a machine, by name (agent/check/machine-check.ts). */
export const EXTENSION_CHECKS = EGRESS_CHECKS;
