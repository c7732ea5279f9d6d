import { EGRESS_RULES } from '../egress/egress-rules.ts';
import type { RuleExtension } from './extension.ts';

/** Fills the port of stage 5. */
export const RULE_EXTENSION: RuleExtension = EGRESS_RULES;
