import assert from 'node:assert/strict';
import type { NodeFlow } from '../../apis/node-flows.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { seenKind } from '../../test/fake/record.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import { NodeClass, type SeenUse, scanners, sortOwners } from './node-class.ts';
import { PeerOwners } from './peer-owner.ts';
import { evidenceOf, toSeenService } from './seen-service.ts';

const ADMIN = '198.51.100.1';
const SCANNER = '203.0.113.66';
const once = { connections: 1 };

function classOf(kinds: readonly NodeFlow[], objects: readonly object[] = []): NodeClass {
  const owners = new PeerOwners(objects.length === 0 ? NO_OBJECTS : toClusterObjects(objects), 8);
  const found = new NodeClass();
  for (const kind of kinds) {
    const service = toSeenService(kind);
    const seen = { service, reason: kind.allPorts === true ? ('many-ports' as const) : null };
    found.add(seen, { owner: owners.ownerOf(kind, service), evidence: evidenceOf(kind, 'n') });
  }
  return found;
}

const ports = (count: number, more: Partial<NodeFlow> = {}, peer = SCANNER): NodeFlow[] =>
  Array.from({ length: count }, (_, i) => seenKind(peer, 100 + i, { ...once, ...more }));
const scan = (...kinds: readonly NodeFlow[]) => [...scanners(classOf(kinds))];

/** Reason by peer, for the only service of these kinds. */
function reasons(
  kinds: readonly NodeFlow[],
  { scanning = new Set<string>(), deniedAt = () => null as number | null } = {},
) {
  const [of, ...more]: SeenUse[] = [...classOf(kinds).uses.values()];
  assert.ok(of !== undefined && more.length === 0);
  const sorted = sortOwners(of, { scanners: scanning, deniedAt });
  return sorted.map(({ owner, reason }) => `${owner.key} ${reason ?? 'good'}`);
}

describe('a scanner', () => {
  it('is one peer on many ports that nobody else uses, ports in use among them', () => {
    assert.deepEqual(scan(...ports(16), seenKind(SCANNER, 22, once), seenKind(ADMIN, 22)), [SCANNER]);
    assert.deepEqual(scan(...ports(15)), []);
  });

  it('is each of two that look at the same ports, however often', () => {
    const other = '203.0.113.67';
    assert.deepEqual(scan(...ports(20, { connections: 24 }), ...ports(20, { connections: 24 }, other)), [
      SCANNER,
      other,
    ]);
  });

  it('is nobody on ports that others use, with open connections, or outwards', () => {
    const used = ports(20, { connections: 50 }, ADMIN);
    const others = ports(20, { connections: 50 }, '198.51.100.2').slice(0, 15);
    assert.deepEqual(scan(...ports(20, { live: 1 })), []);
    assert.deepEqual(scan(...ports(20, { direction: 'egress' })), []);
    assert.deepEqual(scan(...used.slice(0, 15), ...others), []);
  });

  it('is no Node whose ports other Nodes use as often, and a Node that alone looks at many', () => {
    const address = (i: number) => `192.0.2.${i}`;
    const nodes = [1, 2].map((i) => ({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: `n${i}` },
      status: { addresses: [{ type: 'InternalIP', address: address(i) }] },
    }));
    const both = [1, 2].flatMap((i) => ports(20, { connections: 30 }, address(i)));
    assert.deepEqual([...scanners(classOf(both, nodes))], []);
    assert.deepEqual([...scanners(classOf(ports(20, {}, address(1)), nodes))], ['Node n1']);
  });

  it('is whoever has more ports than the agent tells apart', () => {
    assert.deepEqual(scan(seenKind(SCANNER, 0, { allPorts: true })), [SCANNER]);
  });
});

describe('a source of a service', () => {
  it('is odd if it came once or twice and has nothing open', () => {
    assert.deepEqual(reasons([seenKind(ADMIN, 22), seenKind('198.51.100.2', 22, { connections: 2 })]), [
      `${ADMIN} good`,
      '198.51.100.2 few',
    ]);
    assert.deepEqual(reasons([seenKind(ADMIN, 179, { ...once, live: 1 })]), [`${ADMIN} good`]);
  });

  it('is not odd among many that mostly come once', () => {
    const many = Array.from({ length: 8 }, (_, i) => seenKind(`198.51.100.${i}`, 443, once));
    assert.equal(reasons(many).filter((text) => text.endsWith(' good')).length, 8);
    assert.equal(reasons(many.slice(1)).filter((text) => text.endsWith(' few')).length, 7);
    assert.equal(
      reasons([...many, seenKind('198.51.0.0/16', 443)]).filter((text) => text.endsWith(' few')).length,
      0,
    );
  });

  it('is odd among many that come often', () => {
    const many = Array.from({ length: 9 }, (_, i) => seenKind(`198.51.100.${i}`, 443));
    assert.deepEqual(reasons([...many, seenKind(SCANNER, 443, once)]).at(-1), `${SCANNER} few`);
  });

  it('is odd if it scans, or was denied later than it was allowed', () => {
    assert.deepEqual(reasons([seenKind(SCANNER, 22)], { scanning: new Set([SCANNER]) }), [
      `${SCANNER} scanner`,
    ]);
    const seen = Date.parse(seenKind(ADMIN, 22).lastSeen);
    assert.deepEqual(reasons([seenKind(ADMIN, 22)], { deniedAt: () => seen + 1 }), [`${ADMIN} denied`]);
    assert.deepEqual(reasons([seenKind(ADMIN, 22)], { deniedAt: () => seen - 1 }), [`${ADMIN} good`]);
  });

  it('is odd on a port that clients use, unless it came often', () => {
    assert.deepEqual(reasons([seenKind(ADMIN, 40_000, { connections: 9, live: 1 })]), [
      `${ADMIN} client-port`,
    ]);
    assert.deepEqual(reasons([seenKind(ADMIN, 40_000)]), [`${ADMIN} good`]);
  });
});
