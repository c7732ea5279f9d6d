import fc from 'fast-check';
import type { PeerManifest } from '../oracle/manifest.ts';
import { ipBlock, toPool } from './address.ts';
import { oneOf, weighted } from './choice.ts';
import { serviceAccountNames } from './cluster.ts';
import { namesOf } from './group.ts';
import { fqdn } from './name.ts';
import type { RuleContext } from './scope.ts';
import { namespaceNames, namespaceSelectors, nodeLabels, podLabels, selectorOver } from './selector.ts';

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
