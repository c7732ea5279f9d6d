import fc from 'fast-check';
import type { EgressConfig, EgressFlow } from '../../oracle/egress/egress-cluster.ts';
import type { Manifest } from '../../oracle/manifest.ts';
import { fields, maybe, weighted } from '../choice.ts';
import { edgeFlows, policyFlows, someOf } from './flows.ts';
import { gateways } from './gateway.ts';
import { members } from './members.ts';
import { policies } from './policy.ts';
import { withStatuses } from './statuses.ts';

/** A cluster with egress gateways: manifests in any order, the configuration, flows to judge. */
export interface EgressScenario {
  readonly objects: readonly object[];
  readonly config: EgressConfig;
  readonly flows: readonly EgressFlow[];
}

/**
 * Random clusters with so many policies at most and so many flows. Some of their objects are wrong
 * in themselves or name what is not there.
 */
export function egressScenario(size: number, flows: number): fc.Arbitrary<EgressScenario> {
  return fc
    .record({ members: members(size * 2), gateways: gateways(), policies: policies(size) })
    .chain((drawn) =>
      fc.record({
        members: fc.constant(drawn.members),
        steering: withStatuses(drawn.gateways, drawn.policies, drawn.members.nodes),
        networks: networks(),
        config: config(),
        offset: fc.nat({ max: 100_000 }),
      }),
    )
    .chain(
      ({ members: { nodes, namespaces, pods }, steering, networks: inside, config: written, offset }) => {
        const all = [...nodes, ...namespaces, ...pods, ...steering.gateways, ...steering.policies, ...inside];
        return fc.record({
          objects: fc.shuffledSubarray(all as object[], { minLength: all.length, maxLength: all.length }),
          config: fc.constant(written),
          flows: fc.constant([
            ...someOf(policyFlows(all), flows / 2, offset),
            ...someOf(edgeFlows(all, written), flows / 2, offset),
          ]),
        });
      },
    );
}

function networks(): fc.Arbitrary<Manifest[]> {
  const service = fc
    .subarray(['10.96.0.0/20', 'fd96::/112'], { minLength: 1 })
    .map((cidrs) => network('networking.k8s.io/v1', 'ServiceCIDR', { cidrs }));
  const pool = fc
    .constantFrom('10.9.0.0/28', 'fd09::/120')
    .map((cidr) => network('crd.projectcalico.org/v1', 'IPPool', { cidr }));
  return fc
    .tuple(maybe(50, service), maybe(30, pool))
    .map((list) => list.filter((one): one is Manifest => one !== undefined));
}

function network(apiVersion: string, kind: string, spec: object): Manifest {
  return { apiVersion, kind, metadata: { name: kind.toLowerCase() }, spec } as Manifest;
}

function config(): fc.Arbitrary<EgressConfig> {
  const egress = fields<NonNullable<EgressConfig['egress']>>({
    inside: maybe(40, fc.subarray(['192.0.2.32/28', '2001:db8:f:2::/64', '8.8.8.8/32'], { minLength: 1 })),
    serviceCIDRs: maybe(40, fc.subarray(['10.97.0.0/16', 'fd97::/112'], { minLength: 1 })),
    podCIDRs: maybe(30, fc.subarray(['10.1.0.0/22', '10.9.0.0/29', 'fd01::/16'], { minLength: 1 })),
    unknownPods: maybe(40, fc.constantFrom('Hold', 'Pass')),
  });
  return weighted<EgressConfig>([1, fc.constant({})], [3, egress.map((drawn) => ({ egress: drawn }))]);
}
