import fc from 'fast-check';
import type { GroupManifest, LabelSelector, Labels } from '../oracle/manifest.ts';
import type { AddressPlan } from './address.ts';
import { type Feature, fields, maybe, oneOf, weighted } from './choice.ts';

/** Label keys with the values they may have. */
export type LabelVocabulary = Readonly<Record<string, readonly string[]>>;

/** What Nodes are labelled with. */
export const nodeLabels: LabelVocabulary = {
  role: ['worker', 'edge', 'db'],
  zone: ['a', 'b'],
  'node-role.kubernetes.io/control-plane': [''],
};

/** What pods are labelled with. */
export const podLabels: LabelVocabulary = {
  app: ['web', 'db', 'dns'],
  'example.com/track': ['stable', 'canary'],
};

/** What namespaces are labelled with, beside the name that each has. */
export const namespaceLabels: LabelVocabulary = { team: ['red', 'blue'], env: ['prod', 'test'] };

/** Namespaces that pods live in; `lost` is never declared. */
export const namespaceNames = ['shop', 'infra', 'default', 'lost'];

/** Selectors of namespaces, by their names too. */
export function namespaceSelectors(): fc.Arbitrary<LabelSelector> {
  return selectorOver({ ...namespaceLabels, 'kubernetes.io/metadata.name': namespaceNames });
}

/** Labels of one object: every key of the vocabulary now and then. */
export function labelsFrom(vocabulary: LabelVocabulary): fc.Arbitrary<Labels> {
  const model: Record<string, fc.Arbitrary<string | undefined>> = {};
  for (const [key, values] of Object.entries(vocabulary)) model[key] = maybe(60, oneOf(values));
  return fields<Labels>(model);
}

/**
 * A LabelSelector over the vocabulary: `{}` now and then, every operator, keys and values nobody
 * has rarely.
 */
export function selectorOver(vocabulary: LabelVocabulary): fc.Arbitrary<LabelSelector> {
  const keys = [...Object.keys(vocabulary), 'nobody'];
  const requirement = oneOf(keys).chain((key) => {
    const values = oneOf([...(vocabulary[key] ?? []), 'none']);
    return weighted<{ key: string; operator: string; values?: string[] }>(
      [2, listed(key, fc.constantFrom('In', 'NotIn'), values)],
      [1, fc.constantFrom('Exists', 'DoesNotExist').map((operator) => ({ key, operator }))],
    );
  });
  const matchLabels = oneOf(Object.keys(vocabulary)).chain((key) =>
    oneOf(vocabulary[key] ?? []).map((value): Labels => ({ [key]: value })),
  );
  return weighted<LabelSelector>(
    [2, fc.constant({})],
    [3, matchLabels.map((labels) => ({ matchLabels: labels }))],
    [3, fc.array(requirement, { minLength: 1, maxLength: 2 }).map((list) => ({ matchExpressions: list }))],
    [1, fc.record({ matchLabels, matchExpressions: fc.array(requirement, { minLength: 0, maxLength: 1 }) })],
  );
}

function listed(key: string, operators: fc.Arbitrary<string>, values: fc.Arbitrary<string>) {
  const list = fc.uniqueArray(values, { minLength: 1, maxLength: 2 });
  return fc.tuple(operators, list).map(([operator, chosen]) => ({ key, operator, values: chosen }));
}

/** What policies may name and which forms they may take. */
export interface Scope {
  features: ReadonlySet<Feature>;
  plan: AddressPlan | undefined;
  groups: GroupManifest[];
  /** Names that the configuration knows, and numbers. */
  interfaceGroups: (number | string)[];
}

/** What a rule's generator must know of its policy. */
export interface RuleContext {
  direction: 'ingress' | 'egress';
  /** Antrea's objects lack the fields that are ours alone. */
  isAntrea: boolean;
  scope: Scope;
}
