import fc from 'fast-check';
import type { LabelSelector } from '../../oracle/manifest.ts';
import { weighted } from '../choice.ts';
import type { LabelVocabulary } from '../selector.ts';

/** Namespaces that pods live in; `lost` is never declared. */
export const NAMESPACES = ['shop', 'infra', 'default', 'lost'];

/** Gateways that policies name; `gw-9` is never there. */
export const GATEWAYS = ['gw-0', 'gw-1', 'gw-2', 'gw-9'];

/** Labels that choose gateway nodes. */
export const NODE_LABELS: LabelVocabulary = { egress: ['a', 'b'], zone: ['x', 'y'] };

/** Selectors of gateway nodes; `none` is nobody's label. */
export const NODE_SELECTOR: fc.Arbitrary<LabelSelector> = weighted<LabelSelector>(
  [4, fc.constantFrom('a', 'b').map((value) => ({ matchLabels: { egress: value } }))],
  [8, fc.constant({ matchExpressions: [{ key: 'egress', operator: 'Exists' }] })],
  [6, fc.constant({ matchExpressions: [{ key: 'zone', operator: 'NotIn', values: ['x'] }] })],
  [1, fc.constant({ matchLabels: { egress: 'none' } })],
);

/** Destinations of policies. Each holds some of the others, or shares an edge with one. */
export const DESTINATIONS = [
  ...['192.0.2.0/24', '192.0.2.128/25', '192.0.2.64/26', '192.0.2.200/32', '0.0.0.0/0', '10.0.0.0/8'],
  ...['8.8.8.0/24', '128.0.0.0/1', '192.0.2.77/26'],
  ...['2001:db8:f::/48', '2001:db8:f:1::/64', '2001:db8:f:1::7/128', '::/0', '8000::/1'],
];
