import { BUILT_IN_TIERS } from '../validate/builtin-tiers.ts';
import { GRANULAR_OBJECT } from './crd-keywords.ts';
import type { JsonSchema } from './json-schema.ts';
import { kindSchema } from './kind.ts';

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
    description: { type: 'string', description: 'Its purpose, human-readable.' },
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
