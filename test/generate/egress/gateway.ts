import fc from 'fast-check';
import type { LabelSelector, Manifest } from '../../oracle/manifest.ts';
import { fields, maybe, oneOf, weighted } from '../choice.ts';
import { type LabelVocabulary, namespaceSelectors } from '../selector.ts';

/** An EgressGateway of nodewall.io. */
export interface GatewayManifest extends Manifest {
  spec: GatewaySpec;
  status?: {
    nodes: { name: string; ready: boolean; reason?: string }[];
    slots: { name: string; node: string; epoch: number; addresses: string[] }[];
  };
}

interface GatewaySpec {
  nodeSelector: LabelSelector;
  addresses?: { pools: { ranges: string[] }[] };
  source?: string;
  choice?: string;
  announce?: string;
  failover?: object;
  allowedNamespaces?: LabelSelector;
  default?: boolean;
}

/** Gateways without statuses; mostly one is the default. */
export function gateways(): fc.Arbitrary<GatewayManifest[]> {
  const drawn = fc.array(gateway(), { minLength: 1, maxLength: GATEWAYS.length - 1, size: 'max' });
  const defaults = weighted([12, fc.nat({ max: 2 }).map((one) => [one])], [1, fc.constant<number[]>([0, 1])]);
  return fc
    .tuple(drawn, defaults)
    .map(([list, isDefault]) => list.map((draw, index) => draw(index, isDefault.includes(index))));
}

/** Ranges of every form, of which no two share an address. Only parts that repeat are in `pool`. */
function ranges(index: number): string[][] {
  const v4 = (host: number) => `203.0.113.${index * 32 + host}`;
  const v6 = (host: string) => `2001:db8:e:${index}::${host}`;
  return [
    [v4(1)],
    [`${v4(3)}-${v4(5)}`],
    [`${v4(8)}/30`],
    [`${v4(12)}/31`, `${v4(14)}/32`],
    [`${v4(16)}/29`],
    [v6('1')],
    [`${v6('10')}-${v6('12')}`],
    [`${v6('20')}/127`, `${v6('2f')}/128`],
    [`${v6('100')}/120`],
    [`2001:db8:e:${index}:8000::/65`],
  ];
}

function gateway(): fc.Arbitrary<(index: number, isDefault: boolean) => GatewayManifest> {
  const forms = weighted(
    [3, fc.subarray([0, 1, 2, 3, 4], { minLength: 1, maxLength: 2 })],
    [1, fc.subarray([5, 6, 7, 8, 9], { minLength: 1, maxLength: 2 })],
    [3, fc.subarray([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], { minLength: 2, maxLength: 5 })],
    [2, fc.constant<number[]>([])],
  );
  return fc
    .record({
      nodeSelector: weighted<LabelSelector>([30, NODE_SELECTOR], [1, fc.constant({})]),
      forms,
      isSplit: fc.boolean(),
      isSourceSaid: fc.boolean(),
      isSpread: fc.boolean(),
      rest: fields<Pick<GatewaySpec, 'announce' | 'failover' | 'allowedNamespaces'>>({
        announce: maybe(20, fc.constantFrom('L2', 'None')),
        failover: maybe(10, fc.constant({ leaseSeconds: 3 })),
        allowedNamespaces: weighted<LabelSelector | undefined>(
          [4, fc.constant({})],
          [3, namespaceSelectors()],
          [1, fc.constant(undefined)],
        ),
      }),
    })
    .map((drawn) => (index: number, isDefault: boolean) => {
      const texts = drawn.forms.flatMap((form) => ranges(index)[form] ?? []);
      const pools = drawn.isSplit ? texts.map((text) => ({ ranges: [text] })) : [{ ranges: texts }];
      const isNode = texts.length === 0;
      return {
        apiVersion: 'nodewall.io/v1alpha1',
        kind: 'EgressGateway',
        metadata: { name: `gw-${index}` },
        spec: {
          nodeSelector: drawn.nodeSelector,
          ...(isNode ? {} : { addresses: { pools } }),
          ...(drawn.isSourceSaid ? { source: isNode ? 'Node' : 'Floating' } : {}),
          ...(isNode && drawn.isSpread ? { choice: 'Spread' } : {}),
          ...drawn.rest,
          ...(isDefault ? { default: true } : {}),
        },
      };
    });
}

/** The name of a gateway, mostly of one that is there. */
export function gatewayName(): fc.Arbitrary<string> {
  return weighted([8, oneOf(GATEWAYS.slice(0, 2))], [2, oneOf(GATEWAYS)]);
}

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
