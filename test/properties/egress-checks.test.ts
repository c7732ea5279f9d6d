import assert from 'node:assert/strict';
import fc from 'fast-check';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import type { EgressPolicySpec, InsideNetworks } from '../../apis/egress/objects.ts';
import { type ClusterObjects, NO_OBJECTS, type Service } from '../../apis/objects.ts';
import { type CrossProblem, formatPath } from '../../apis/validate/problem.ts';
import { egressProblems } from '../../controller/egress/check/egress-objects.ts';
import { IncrementalChecks } from '../../controller/egress/check/incremental.ts';
import { fakeGateway, fakeNode, fakePod, fakePolicy } from '../fake/egress-objects.ts';
import { check } from './runs.ts';

/** Of so few addresses that much overlaps. */
const ADDRESS = fc.nat(31).map((n) => `192.0.2.${n}`);
const CIDR = fc.tuple(fc.nat(7), fc.constantFrom(30, 31, 32)).map(([n, bits]) => `192.0.2.${n * 4}/${bits}`);
const some = <T>(of: fc.Arbitrary<T>, maxLength: number): fc.Arbitrary<T[]> => fc.array(of, { maxLength });
const named = <T, U>(of: fc.Arbitrary<T>, most: number, toObject: (name: string, value: T) => U) =>
  some(of, most).map((values) => values.map((value, i) => toObject(`o${i}`, value)));

const GATEWAY = fc.record({
  ranges: some(fc.oneof(ADDRESS, CIDR), 2),
  default: fc.boolean(),
  allowedNamespaces: fc.constantFrom({}, null, { matchLabels: { team: 'a' } }),
});
const POLICY: fc.Arbitrary<Partial<EgressPolicySpec>> = fc
  .record({
    gateway: fc.constantFrom(undefined, 'o0', 'o1', 'none'),
    to: fc.option(fc.array(CIDR, { minLength: 1, maxLength: 2 }), { nil: undefined }),
    ipv4: fc.option(ADDRESS),
  })
  .map(({ gateway, to, ipv4 }) => ({
    ...(gateway === undefined ? {} : { gateway }),
    ...(to === undefined ? {} : { to }),
    address: {
      allocation: ipv4 === null ? 'Shared' : 'Fixed',
      fixed: ipv4 === null ? {} : { ipv4 },
      count: 1,
    },
  }));
const service = (name: string, address: string): Service => ({
  kind: 'Service',
  namespace: 'n',
  name,
  selector: null,
  clusterIPs: [address],
  ports: [],
});
const WORLD: fc.Arbitrary<ClusterObjects> = fc.record({
  ...Object.fromEntries(Object.entries(NO_OBJECTS).map(([list, none]) => [list, fc.constant(none)])),
  nodes: named(fc.tuple(some(ADDRESS, 1), some(CIDR, 1)), 3, (name, [addresses, podCIDRs]) =>
    fakeNode(name, addresses, { podCIDRs }),
  ),
  pods: named(some(ADDRESS, 4), 4, (name, addresses) => fakePod(`n/${name}`, addresses)),
  services: named(ADDRESS, 2, service),
  namespaces: named(fc.constantFrom({}, { team: 'a' }), 2, (name, labels) => {
    return { kind: 'Namespace' as const, name, labels };
  }),
  insideNetworks: named(CIDR, 2, (name, cidr): InsideNetworks => ({ kind: 'IPPool', name, cidrs: [cidr] })),
  egressGateways: named(GATEWAY, 3, (name, spec) =>
    fakeGateway(name, { ...spec, source: spec.ranges.length > 0 ? 'Floating' : 'Node' }),
  ),
  egressPolicies: named(fc.tuple(POLICY, fc.constantFrom('', 'o0/', 'o1/')), 4, (name, [spec, within]) =>
    fakePolicy(`${within}${name}`, spec),
  ),
}) as unknown as fc.Arbitrary<ClusterObjects>;

/** Where several objects overlap, which of them is named may differ. */
const text = ({ problem: { severity, path, message } }: CrossProblem<object>): string =>
  `${severity} ${formatPath(path)}: ${message.replace(/overlaps .*/, 'overlaps')}`;

describe('the checks of one egress object', function () {
  this.timeout(0);

  it('find what the checks of all objects find', function () {
    const seen = new Set<string>();
    check(
      this,
      500,
      fc.array(WORLD, { minLength: 1, maxLength: 3 }),
      (worlds) => {
        const checks = new IncrementalChecks(DEFAULT_EGRESS_CONFIG);
        for (const [i, drawn] of worlds.entries()) {
          // Lists of the state before stay the same objects.
          const world = i % 2 === 0 ? drawn : { ...drawn, nodes: worlds[i - 1]?.nodes ?? [] };
          const all = egressProblems(world, DEFAULT_EGRESS_CONFIG, new Set());
          const of = (one: object) => all.filter(({ object }) => object === one).map(text);
          for (const found of all) seen.add(text(found).replaceAll(/[^ ]*\d+[^ ]*|".*"/g, '?'));
          for (const gateway of world.egressGateways)
            assert.deepEqual(checks.ofGateway(world, gateway).map(text), of(gateway));
          for (const policy of world.egressPolicies)
            assert.deepEqual(checks.ofPolicy(world, policy).map(text), of(policy));
        }
      },
      () => (seen.size > 12 ? [] : [`others than ${[...seen].join('; ')}`]),
    );
  });
});
