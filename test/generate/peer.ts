import fc from 'fast-check';
import type { PeerManifest } from '../oracle/manifest.ts';
import type { AddressPlan } from './address.ts';
import { ipBlock, toPool } from './address.ts';
import { oneOf, weighted } from './choice.ts';
import { namespaceNames, serviceAccountNames } from './cluster.ts';
import type { LabelVocabulary } from './selector.ts';
import { namespaceLabels, nodeLabels, podLabels, selectorOver } from './selector.ts';

const namespaces: LabelVocabulary = { ...namespaceLabels, 'kubernetes.io/metadata.name': namespaceNames };

/** One item of `from` or `to`, of every kind in scope. */
export function peer(plan?: AddressPlan): fc.Arbitrary<PeerManifest> {
  const block = ipBlock(toPool(plan)).map((drawn): PeerManifest => ({ ipBlock: drawn }));
  const podSelector = selectorOver(podLabels);
  const namespaceSelector = selectorOver(namespaces);
  const serviceAccount = fc.record({ name: oneOf(serviceAccountNames), namespace: oneOf(namespaceNames) });
  return weighted<PeerManifest>(
    [8, block],
    [3, selectorOver(nodeLabels).map((nodeSelector) => ({ nodeSelector }))],
    [2, podSelector.map((selector) => ({ podSelector: selector }))],
    [2, namespaceSelector.map((selector) => ({ namespaceSelector: selector }))],
    [2, fc.record({ podSelector, namespaceSelector })],
    [2, serviceAccount.map((account) => ({ serviceAccount: account }))],
  );
}

/** A rule's peers: absent, empty, or one to three items. */
export function peers(plan?: AddressPlan): fc.Arbitrary<PeerManifest[] | undefined> {
  return weighted<PeerManifest[] | undefined>(
    [3, fc.constant(undefined)],
    [1, fc.constant([])],
    [12, fc.array(peer(plan), { minLength: 1, maxLength: 3 })],
  );
}
