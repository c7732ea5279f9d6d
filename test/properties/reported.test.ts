import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type ClusterObjects, NO_OBJECTS, type Node, type Pod, type Service } from '../../apis/objects.ts';
import { compile, compiler } from '../../controller/compile/compile.ts';
import { HostAddresses } from '../../controller/index/host-addresses.ts';
import { isCovered, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import { plainCompiled } from './pipeline.ts';
import { check } from './runs.ts';

/**
 * Few, so that they meet; of both families, as text sorts them and not, and some that nobody may
 * claim.
 */
const USABLE = ['10.0.0.1', '10.0.0.2', '10.0.0.10', '100.64.0.1', '2001:db8::1', '2001:db8::a'];
const UNUSABLE = [
  '127.0.0.1',
  '169.254.0.1',
  '224.0.0.1',
  '0.0.0.0',
  '::1',
  'fe80::1',
  'ff02::1',
  'no address',
];
const NAMES = ['a', 'b', 'c', 'd'];

const some = (of: readonly string[], maxLength = 3): fc.Arbitrary<string[]> =>
  fc.uniqueArray(fc.constantFrom(...of), { maxLength });
const name = fc.constantFrom(...NAMES);
const own = fc.option(some(USABLE, 2));
/** They overlap, as in no sound cluster. */
const podCIDRs = some(['10.0.0.0/29', '10.0.0.8/29', '10.0.0.0/24', '2001:db8::/126'], 2);

/** One thing that happens; null takes the object away. */
const CHANGE = fc.oneof(
  fc.record({ what: fc.constant('node' as const), name, addresses: own, podCIDRs }),
  fc.record({ what: fc.constant('pod' as const), name, addresses: own }),
  fc.record({ what: fc.constant('service' as const), name, addresses: own, isExternal: fc.boolean() }),
  fc.record({ what: fc.constant('report' as const), name, addresses: some([...USABLE, ...UNUSABLE], 6) }),
  fc.record({ what: fc.constant('report' as const), name, addresses: some([...USABLE, ...UNUSABLE], 6) }),
);
type Change = typeof CHANGE extends fc.Arbitrary<infer T> ? T : never;
type Reports = ReadonlyMap<string, readonly string[]>;

function withObject<T extends { readonly name: string }>(
  list: readonly T[],
  which: string,
  object: T | null,
): T[] {
  return [...list.filter((one) => one.name !== which), ...(object === null ? [] : [object])];
}

function changed(now: ClusterObjects, change: Exclude<Change, { what: 'report' }>): ClusterObjects {
  const { what, name: which, addresses } = change;
  const there = { name: which, labels: {} };
  const inNamespace = { ...there, namespace: 'default' };
  switch (what) {
    case 'node': {
      const networks = change.podCIDRs.length === 0 ? {} : { podCIDRs: change.podCIDRs };
      const node: Node | null = addresses && { ...there, kind: 'Node', addresses, ...networks };
      return { ...now, nodes: withObject(now.nodes, which, node) };
    }
    case 'pod': {
      const pod: Pod | null = addresses && {
        ...inNamespace,
        kind: 'Pod',
        serviceAccount: 'default',
        addresses,
      };
      return { ...now, pods: withObject(now.pods, which, pod) };
    }
    case 'service': {
      const lists = change.isExternal
        ? { clusterIPs: [], externalAddresses: addresses ?? [] }
        : { clusterIPs: addresses ?? [] };
      const service: Service | null = addresses && {
        kind: 'Service',
        namespace: 'default',
        name: which,
        selector: null,
        ...lists,
        ports: [],
      };
      return { ...now, services: withObject(now.services, which, service) };
    }
  }
}

/** The rule, as the documentation has it. */
function expected({ nodes, pods, services }: ClusterObjects, reports: Reports): Map<string, string[]> {
  const claimed = new Set([
    ...[...nodes, ...pods].flatMap(({ addresses }) => addresses),
    ...services.flatMap(({ clusterIPs, externalAddresses = [] }) => [...clusterIPs, ...externalAddresses]),
  ]);
  const reporters = (address: string): Node[] =>
    nodes.filter(({ name: one }) => reports.get(one)?.includes(address));
  const counts = (address: string, node: Node): boolean => {
    if (!USABLE.includes(address) || claimed.has(address)) return false;
    const inNetworks = nodes.filter((one) => owns(one, address));
    if (inNetworks.length > 0 && !inNetworks.includes(node)) return false;
    const all = reporters(address);
    const owners = all.filter((one) => owns(one, address));
    return all.length === 1 || (owners.length === 1 && owners[0] === node);
  };
  return new Map(
    nodes.map((node) => [
      node.name,
      (reports.get(node.name) ?? []).filter((address) => counts(address, node)).sort(),
    ]),
  );
}

function owns({ podCIDRs: networks = [] }: Node, text: string): boolean {
  const address = parseAddress(text);
  return (
    address !== null &&
    isCovered(
      networks.flatMap((one) => parseCidr(one)?.cidr ?? []),
      address,
    )
  );
}

function fromScratch(objects: ClusterObjects, reports: Reports): ClusterObjects {
  const addresses = new HostAddresses();
  addresses.advance(objects);
  for (const [node, reported] of [...reports].reverse()) addresses.report(node, reported.toReversed());
  return addresses.advance(objects);
}

describe('addresses that agents report', function () {
  this.timeout(0);

  it('give the same result after any history, and none counts that another Node or pod has', function () {
    const histories = fc.array(fc.array(CHANGE, { maxLength: 4 }), { minLength: 1, maxLength: 20 });
    let counting = 0;
    check(this, 500, histories, (batches) => {
      const addresses = new HostAddresses();
      const next = compiler();
      const reports = new Map<string, readonly string[]>();
      let objects: ClusterObjects = {
        ...NO_OBJECTS,
        nodes: NAMES.map((one) => ({ kind: 'Node', name: one, labels: {}, addresses: [] })),
      };
      addresses.advance(objects);
      for (const batch of batches) {
        for (const change of batch) {
          if (change.what !== 'report') {
            objects = changed(objects, change);
            addresses.advance(objects);
            const there = new Set(objects.nodes.map((node) => node.name));
            for (const gone of reports.keys()) if (!there.has(gone)) reports.delete(gone);
          } else if (objects.nodes.some((node) => node.name === change.name)) {
            reports.set(change.name, change.addresses);
            addresses.report(change.name, change.addresses);
          }
        }
        const now = addresses.advance(objects);
        const counted = now.nodes.map((node) => [node.name, [...(node.reportedAddresses ?? [])].sort()]);
        assert.deepEqual(new Map(counted as [string, string[]][]), expected(objects, reports));
        counting += counted.flat(2).length - now.nodes.length;
        assert.deepEqual(now, fromScratch(objects, reports));
        const compiled = next(now);
        assert.deepEqual(plainCompiled(compiled), plainCompiled(compile(now)));
        const members = compiled.addressSets.get(compiled.allNodes)?.members;
        assert.ok(members !== undefined);
        const wanted = now.nodes.flatMap((node) => [...node.addresses, ...(node.reportedAddresses ?? [])]);
        assert.deepEqual(formatMembers(members).sort(), [...new Set(wanted)].sort());
        assert.deepEqual(compiled.nodeAddresses, compile(objects).nodeAddresses);
      }
    });
    assert.ok(counting > 0, 'some counted');
  });
});
