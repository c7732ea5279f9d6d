import fc from 'fast-check';
import type { Names } from '../oracle/flow.ts';
import type { PeerManifest } from '../oracle/manifest.ts';
import { type AddressPlan, addressNear, ipBlock, toPool } from './address.ts';
import { maybe, oneOf, weighted } from './choice.ts';
import { serviceAccountNames } from './cluster.ts';
import { namesOf } from './group.ts';
import {
  namespaceNames,
  namespaceSelectors,
  nodeLabels,
  podLabels,
  type RuleContext,
  selectorOver,
} from './selector.ts';

/** One item of `from` or `to`, of every kind that the direction and the policy's API group have. */
function peer({ direction, isAntrea, scope }: RuleContext): fc.Arbitrary<PeerManifest> {
  const { features, groups, interfaceGroups } = scope;
  const block = ipBlock(toPool(scope.plan)).map((drawn): PeerManifest => ({ ipBlock: drawn }));
  const podSelector = selectorOver(podLabels);
  const namespaceSelector = namespaceSelectors();
  const serviceAccount = fc.record({ name: oneOf(serviceAccountNames), namespace: oneOf(namespaceNames) });
  const kinds: [number, fc.Arbitrary<PeerManifest>][] = [
    [8, block],
    [3, selectorOver(nodeLabels).map((nodeSelector) => ({ nodeSelector }))],
    [2, podSelector.map((selector) => ({ podSelector: selector }))],
    [2, namespaceSelector.map((selector) => ({ namespaceSelector: selector }))],
    [2, fc.record({ podSelector, namespaceSelector })],
    [2, serviceAccount.map((account) => ({ serviceAccount: account }))],
  ];
  if (features.has('group')) kinds.push([7, fc.record({ group: oneOf(namesOf(groups)) })]);
  if (features.has('fqdn') && direction === 'egress') kinds.push([6, fc.record({ fqdn: fqdn() })]);
  if (features.has('interfaceGroup') && !isAntrea) {
    kinds.push([7, fc.record({ interfaceGroup: oneOf(interfaceGroups) })]);
  }
  return weighted(...kinds);
}

/** A rule's peers: absent, empty, or one to three items. */
export function peers(context: RuleContext): fc.Arbitrary<PeerManifest[] | undefined> {
  return weighted<PeerManifest[] | undefined>(
    [3, fc.constant(undefined)],
    [1, fc.constant([])],
    [12, fc.array(peer(context), { minLength: 1, maxLength: 3 })],
  );
}

/** Names that may resolve to something, some spelt unusually; each means another name. */
const resolvable = [
  'example.com',
  'api.example.com',
  'v2.api.example.com',
  'DB.Example.com',
  'notexample.com',
  'example.org.',
  'www.example.org',
];

/** What rules ask for, in various spellings; nobody is of `nowhere.test`. */
const asked = [
  ...['example.com', 'api.example.com', 'API.example.com.', 'db.example.com', 'example.org'],
  ...['*.example.com', '*.Example.COM', '*.api.example.com', '*.example.org.', '*.com'],
];

/** One `fqdn`. */
function fqdn(): fc.Arbitrary<string> {
  return weighted([12, fc.constantFrom(...asked)], [1, fc.constantFrom('nowhere.test', '*.nowhere.test')]);
}

/**
 * What names resolve to: none to three addresses of either family, each name now and then not known
 * at all.
 */
export function names(plan?: AddressPlan): fc.Arbitrary<Names> {
  const pool = toPool(plan);
  const address = fc.constantFrom<4 | 6>(4, 6).chain((family) => addressNear(pool, family));
  const addresses = fc.array(address, { minLength: 0, maxLength: 3 });
  const known = resolvable.map((name) =>
    maybe(
      80,
      addresses.map((list) => [name, list] as const),
    ),
  );
  return fc
    .tuple(...known)
    .map((entries) => Object.fromEntries(entries.filter((entry) => entry !== undefined)));
}
