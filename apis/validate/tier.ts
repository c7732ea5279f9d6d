import type { ApiGroup, Tier } from '../objects.ts';
import { asFields, type FieldMap } from '../schema/json-schema.ts';
import { TIER_SCHEMA } from '../schema/tier.ts';
import { BUILT_IN_TIERS } from './builtin-tiers.ts';
import { checkMetadata, toIdentity } from './metadata.ts';
import type { Findings } from './problem.ts';
import { hasError } from './problem.ts';
import { reportSchema } from './schema-problem.ts';

export function validateTier(raw: FieldMap, apiGroup: ApiGroup, found: Findings): Tier | null {
  checkMetadata(raw, found);
  reportSchema(TIER_SCHEMA, raw, found);
  const { name } = toIdentity(raw);
  const priority = asFields(raw.spec)?.priority;
  if (typeof priority === 'number') checkPriority(name, priority, found);
  if (hasError(found.problems) || typeof priority !== 'number') return null;
  return { kind: 'Tier', apiGroup, name, priority };
}

function checkPriority(name: string, priority: number, found: Findings): void {
  const path = ['spec', 'priority'];
  const own = BUILT_IN_TIERS[name];
  if (own !== undefined) {
    if (priority !== own)
      found.error(path, `${name} is built in with priority ${own}, which can't be changed to ${priority}`);
    return;
  }
  const holder = Object.entries(BUILT_IN_TIERS).find(([, taken]) => taken === priority)?.[0];
  if (holder !== undefined)
    found.error(path, `${priority} is the priority of the built-in tier ${holder}; choose another, 1 to 252`);
}
