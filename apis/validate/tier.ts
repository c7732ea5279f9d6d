import type { ApiGroup, Tier } from '../objects.ts';
import { BUILT_IN_TIERS, isBuiltInTier } from '../order.ts';
import { GRANULAR_OBJECT, kindSchema } from '../schema/crd-parts.ts';
import { textField } from '../schema/fields.ts';
import { asFields, type FieldMap, type JsonSchema } from '../schema/json-schema.ts';
import { checkMetadata, toIdentity } from './metadata.ts';
import { type CrossProblem, type Findings, hasError } from './problem.ts';
import { reportSchema } from './schema-problem.ts';

const schema = kindSchema('A named priority that policies are grouped by.', {
  ...GRANULAR_OBJECT,
  description: 'The priority.',
  required: ['priority'],
  properties: {
    priority: {
      type: 'integer',
      description: '1 to 252 and unique; lower is evaluated first. 253 is the baseline tier.',
      minimum: 1,
      maximum: 253,
      crd: {
        cel: [
          { rule: 'self == oldSelf', message: "a tier's priority can't be changed; create another tier" },
        ],
      },
    },
    description: textField('Its purpose, human-readable.'),
  },
});

const BUILT_IN = `{${Object.entries(BUILT_IN_TIERS)
  .map(([name, priority]) => `"${name}": ${priority}`)
  .join(', ')}}`;

export const TIER_SCHEMA: JsonSchema = {
  ...schema,
  crd: {
    cel: [
      {
        rule: `self.metadata.name in ${BUILT_IN} ? ${BUILT_IN}[self.metadata.name] == self.spec.priority : !${BUILT_IN}.exists(name, ${BUILT_IN}[name] == self.spec.priority)`,
        message:
          'the priorities 50, 100, 150, 200, 250 and 253 belong to the built-in tiers; choose another, 1 to 252',
      },
    ],
  },
};

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

/**
 * Reports all tiers that share their priority with another one, since none takes precedence. A tier
 * of the same name in the other API group counts as the same tier and may have the same priority.
 */
export function checkTiers(tiers: readonly Tier[]): CrossProblem<Tier>[] {
  const byPriority = Map.groupBy(
    tiers.filter(({ name }) => !isBuiltInTier(name)),
    (tier) => tier.priority,
  );
  return tiers.flatMap((tier) => {
    const sharing = byPriority.get(tier.priority) ?? [];
    const other = sharing.find(({ name }) => name !== tier.name);
    if (other === undefined || isBuiltInTier(tier.name)) return [];
    const message = `${tier.priority} is also the priority of Tier ${other.name}; each tier needs its own`;
    return [{ object: tier, problem: { severity: 'error', path: ['spec', 'priority'], message } }];
  });
}
