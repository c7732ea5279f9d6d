import fc from 'fast-check';
import type { FailsafeEntry, OracleConfig } from '../oracle/flow.ts';
import { type AddressPlan, ipBlock, toPool } from './address.ts';
import { fields, maybe, weighted } from './choice.ts';
import { portNumber } from './service.ts';

type Exemptions = NonNullable<OracleConfig['exemptions']>;
type Failsafe = NonNullable<OracleConfig['failsafe']>;

/**
 * The agent's configuration: empty as a rule; exemptions off, no
 * anti-spoofing, other failsafe lists, other link groups now and then. With a plan, what the
 * network of a kernel test itself lives on stays exempt: loopback, ND and MLD.
 */
export function config(plan?: AddressPlan): fc.Arbitrary<OracleConfig> {
  const onOff = maybe(30, weighted([3, fc.constant(false)], [1, fc.constant(true)]));
  const onOffHere = plan === undefined ? onOff : fc.constant(undefined);
  const exemptions = fields<Exemptions>({
    loopback: onOffHere,
    neighborDiscovery: onOffHere,
    multicastListener: onOffHere,
    dhcpClient: onOff,
    localPods: onOff,
  });
  const list = fc.array(failsafeEntry(plan), { minLength: 0, maxLength: 3 });
  const failsafe = fields<Failsafe>({
    ingress: maybe(60, list),
    egress: maybe(60, list),
    platform: maybe(30, fc.boolean()),
  });
  const groups = fc.constantFrom<Record<string, number>>({ pods: 20 }, { blue: 30 }, { pods: 20, blue: 30 });
  return fields<OracleConfig>({
    exemptions: maybe(25, exemptions),
    antiSpoofing: maybe(15, weighted([3, fc.constant(false)], [1, fc.constant(true)])),
    // Narrowing in the tests' pipeline has no configuration.
    endpointsWithoutPods: fc.constant(undefined),
    failsafe: maybe(35, failsafe),
    interfaceGroups: maybe(plan === undefined ? 15 : 0, groups),
  });
}

function failsafeEntry(plan?: AddressPlan): fc.Arbitrary<FailsafeEntry> {
  const cidrs = fc.array(
    ipBlock(toPool(plan)).map(({ cidr }) => cidr),
    { minLength: 1, maxLength: 2 },
  );
  const range = fc.tuple(portNumber(), fc.integer({ min: 0, max: 2000 })).map(([port, width]) => {
    return { port, endPort: Math.min(65535, port + width) };
  });
  const ports = weighted<{ port?: number; endPort?: number }>(
    [4, portNumber().map((port) => ({ port }))],
    [3, range],
    [1, fc.constant({})],
  );
  const peers = weighted<FailsafeEntry['peers']>(
    [2, fc.constant('nodes')],
    [2, fc.constant('controllers')],
    [3, fc.constant('any')],
    [3, cidrs],
  );
  const protocol = maybe(80, fc.constantFrom('TCP', 'UDP', 'SCTP'));
  return fc
    .tuple(fields<{ protocol?: string }>({ protocol }), ports, peers)
    .map(([name, numbers, list]) => ({ ...name, ...numbers, peers: list }));
}
