import assert from 'node:assert/strict';
import { type Bounds, FlowInventory, inventoryText, parseInventory } from './flow-inventory.ts';
import type { SeenFlow } from './flow-kind.ts';

const DAY = 86_400_000;
const NOW = 1000 * DAY;
const SMALL: Bounds = { kinds: 100, peers: 4, networks: 2, ports: 3, newcomers: 1_000, age: 7 * DAY };

function flow(changes: Partial<SeenFlow> = {}): SeenFlow {
  return {
    direction: 'ingress',
    traffic: 'Host',
    verdict: 'Allow',
    protocol: 6,
    group: 0,
    peer: '198.51.100.1',
    port: 443,
    type: null,
    code: null,
    local: '192.0.2.1',
    srcPort: 40_000,
    originalDst: null,
    originalPort: null,
    ...changes,
  };
}

function see(inventory: FlowInventory, changes: Partial<SeenFlow>, now = NOW): void {
  const one = flow(changes);
  inventory.seen(inventory.kindOf(one, now), one, { now, connections: 1 });
}

const texts = (inventory: FlowInventory): string[] =>
  inventory.kinds().map(({ peer, fold, last, connections }) => {
    return `${peer} ${fold.ports === 'own' ? (last.port ?? `${last.type}/${last.code}`) : 'all'} ${connections}`;
  });

describe('a flow inventory', () => {
  it('tells kinds apart by all that rules test, and not by the client’s port', () => {
    const inventory = new FlowInventory(NOW);
    const different: readonly Partial<SeenFlow>[] = [
      {},
      { direction: 'egress' },
      { traffic: 'NodePort' },
      { verdict: 'Drop' },
      { protocol: 17 },
      { peer: '198.51.100.2' },
      { port: 444 },
      { group: 8 },
      { protocol: 1, port: null, type: 8, code: 0 },
      { protocol: 1, port: null, type: 13, code: 0 },
      { protocol: 253, port: null },
      { peer: '2001:db8::1' },
    ];
    for (const changes of different) see(inventory, changes);
    assert.equal(inventory.size, different.length);
    for (const changes of different) see(inventory, { ...changes, srcPort: 50_000, local: '192.0.2.2' });
    assert.deepEqual(
      inventory.kinds().map(({ connections }) => connections),
      different.map(() => 2),
    );
  });

  it('folds many peers of a service to networks, and then to one', () => {
    const inventory = new FlowInventory(NOW, SMALL);
    for (let i = 1; i <= 6; i++) see(inventory, { peer: `198.51.100.${i}` });
    for (const net of [7, 8, 9]) see(inventory, { peer: `203.0.${net}.1` });
    for (let i = 1; i <= 5; i++) see(inventory, { peer: `2001:db8::${i}` });
    assert.deepEqual(texts(inventory), [
      ...[1, 2, 3, 4].map((i) => `198.51.100.${i} 443 1`),
      ...['198.51.100.0/24 443 2', '203.0.7.0/24 443 1', '0.0.0.0/0 443 2'],
      ...[1, 2, 3, 4].map((i) => `2001:db8::${i} 443 1`),
      '2001:db8::/64 443 1',
    ]);
    see(inventory, { peer: '198.51.100.1' });
    see(inventory, { peer: '198.51.100.9', port: 80 });
    assert.ok(texts(inventory).includes('198.51.100.1 443 2'), 'what is known stays exact');
    assert.ok(texts(inventory).includes('198.51.100.9 80 1'), 'another service has room of its own');
  });

  it('folds many ports of a peer, and types of ICMP', () => {
    const inventory = new FlowInventory(NOW, SMALL);
    for (let port = 1; port <= 9; port++) see(inventory, { port });
    for (let type = 1; type <= 5; type++) see(inventory, { protocol: 1, port: null, type, code: 0 });
    see(inventory, { peer: '198.51.100.2', port: 9 });
    assert.deepEqual(texts(inventory), [
      ...[1, 2, 3].map((port) => `198.51.100.1 ${port} 1`),
      '198.51.100.1 all 6',
      ...[1, 2, 3].map((type) => `198.51.100.1 ${type}/0 1`),
      '198.51.100.1 all 2',
      '198.51.100.2 9 1',
    ]);
  });

  it('adds few new kinds a minute once half of it is used, and leaves out the oldest', () => {
    const bounds = { ...SMALL, newcomers: 5 };
    const inventory = new FlowInventory(NOW, bounds);
    const scan = (from: number, count: number, now: number): void => {
      for (let i = from; i < from + count; i++)
        see(inventory, { peer: `10.${i >> 8}.${i & 255}.1`, port: 1 + i }, now);
    };
    for (let i = 0; i < 50; i++) see(inventory, { peer: `192.0.2.${i}`, port: 1000 + i });
    scan(0, 1_000, NOW + 1);
    assert.equal(inventory.size, 51, 'one kind for the whole scan');
    assert.ok(texts(inventory).includes('0.0.0.0/0 all 1000'));
    assert.equal(inventory.missed.leftOut, 0);
    for (let minute = 1; minute <= 12; minute++) scan(minute * 1_000, 1_000, NOW + 60_000 * minute);
    assert.ok(inventory.size <= bounds.kinds, `${inventory.size} kinds`);
    assert.ok(inventory.missed.leftOut > 0);
    const old = inventory.kinds().filter(({ peer }) => peer.startsWith('192.0.2.'));
    assert.equal(old.length, 50 - inventory.missed.leftOut, 'the oldest are left out first');
  });

  it('leaves out no kind that is seen daily for one of a scan', () => {
    const inventory = new FlowInventory(NOW, SMALL);
    const daily = [1, 2, 3].map((i) => ({ peer: `192.0.2.${i}`, port: 1_000 * i }));
    for (const one of daily) see(inventory, one);
    for (const one of daily) see(inventory, one, NOW + DAY);
    for (let i = 1; i <= 1_000; i++)
      see(inventory, { peer: `10.${i >> 8}.${i & 255}.1`, port: i }, NOW + DAY + 60_000 * i);
    assert.equal(inventory.size, SMALL.kinds);
    const own = ['192.0.2.1 1000 2', '192.0.2.2 2000 2', '192.0.2.3 3000 2'];
    assert.deepEqual(texts(inventory).slice(0, 3), own);
    // With nothing else to leave out, those that were seen longest ago.
    const lasting = new FlowInventory(NOW, { ...SMALL, kinds: 3 });
    for (const [i, one] of daily.entries()) {
      see(lasting, one, NOW + i);
      see(lasting, one, NOW + DAY + i);
    }
    see(lasting, { peer: '192.0.2.9' }, NOW + 2 * DAY);
    assert.deepEqual(texts(lasting), [...own.slice(1), '192.0.2.9 443 1']);
    assert.equal(lasting.missed.leftOut, 1);
  });

  it('keeps the newest if the clock was set back, and says of what it has left out that it is gone', () => {
    const inventory = new FlowInventory(NOW, { ...SMALL, kinds: 2, newcomers: 10 });
    const [first, second] = ['10.0.0.1', '10.0.0.2'].map((peer, i) => {
      const kind = inventory.kindOf(flow({ peer }), NOW + i);
      return kind;
    });
    const newest = inventory.kindOf(flow({ peer: '10.0.0.3' }), NOW - DAY);
    assert.deepEqual([first?.isGone, second?.isGone, newest.isGone], [true, false, false]);
  });

  it('folds newcomers beyond the limit into what is there, the most exact first', () => {
    const inventory = new FlowInventory(NOW, { ...SMALL, kinds: 6, peers: 1, newcomers: 3 });
    for (const peer of ['10.0.0.1', '10.0.1.1', '10.0.2.1']) see(inventory, { peer });
    see(inventory, { peer: '10.0.1.7' });
    see(inventory, { peer: '10.9.9.9', port: 1 });
    assert.deepEqual(texts(inventory), [
      '10.0.0.1 443 1',
      '10.0.1.0/24 443 2',
      '10.0.2.0/24 443 1',
      '0.0.0.0/0 all 1',
    ]);
    // In the next minute there is room; an address that has a kind of its own stays exact.
    see(inventory, { peer: '10.0.0.1' }, NOW + 60_000);
    see(inventory, { peer: '10.0.0.1', port: 2 }, NOW + 60_000);
    assert.ok(texts(inventory).includes('10.0.0.1 443 2') && texts(inventory).includes('10.0.0.1 2 1'));
  });

  it('puts no kind in the place of one that is there', () => {
    const inventory = new FlowInventory(NOW, SMALL);
    see(inventory, {});
    const [kind] = inventory.kinds();
    assert.ok(kind !== undefined);
    inventory.restore({ ...kind, connections: 77 });
    assert.deepEqual(texts(inventory), ['198.51.100.1 443 1']);
  });

  it('has room again when kinds are too old', () => {
    const inventory = new FlowInventory(NOW, SMALL);
    for (let i = 1; i <= 5; i++) see(inventory, { peer: `198.51.100.${i}` });
    inventory.expire(NOW + 7 * DAY);
    assert.equal(inventory.size, 5);
    inventory.expire(NOW + 7 * DAY + 1);
    assert.equal(inventory.size, 0);
    see(inventory, { peer: '198.51.100.9' });
    assert.deepEqual(texts(inventory), ['198.51.100.9 443 1']);
  });
});

describe('a saved inventory', () => {
  const whole = (): FlowInventory => {
    const inventory = new FlowInventory(NOW, SMALL);
    for (let i = 1; i <= 6; i++) see(inventory, { peer: `198.51.100.${i}`, originalDst: '192.0.2.9' });
    see(inventory, { protocol: 58, peer: '2001:db8::1', port: null, type: 128, code: 0 });
    inventory.missed.overruns = 3;
    return inventory;
  };

  it('is the same again', () => {
    const before = whole();
    const { node, inventory } = parseInventory(inventoryText(before, 'n1'), NOW + 1, SMALL);
    assert.equal(node, 'n1');
    assert.deepEqual(inventory.kinds(), before.kinds());
    assert.deepEqual([inventory.since, inventory.missed], [before.since, before.missed]);
    see(inventory, { peer: '198.51.100.77' });
    assert.ok(texts(inventory).includes('198.51.100.0/24 443 3'), 'and folds as before');
  });

  it('loses what is too old, and has no more than the bound', () => {
    const text = inventoryText(whole(), 'n1');
    assert.equal(parseInventory(text, NOW + 8 * DAY, SMALL).inventory.size, 0);
    assert.equal(parseInventory(text, NOW, { ...SMALL, kinds: 2 }).inventory.size, 2);
  });

  it('has no time that is still to come: the clock was set back, or the file is damaged', () => {
    const text = inventoryText(whole(), 'n1').replaceAll(/"(lastSeen|firstSeen|since)":\d+/g, '"$1":9e15');
    const { inventory } = parseInventory(text, NOW, SMALL);
    const times = inventory.kinds().map(({ firstSeen, lastSeen }) => [firstSeen, lastSeen]);
    assert.deepEqual([inventory.since, ...new Set(times.flat())], [NOW, NOW]);
    const earlier = text.replaceAll('"lastSeen":9e15', `"lastSeen":${NOW - 1}`);
    const [kind] = parseInventory(earlier, NOW, SMALL).inventory.kinds();
    assert.deepEqual([kind?.firstSeen, kind?.lastSeen], [NOW - 1, NOW - 1]);
  });

  it('is refused if it is none', () => {
    const text = inventoryText(whole(), 'n1');
    for (const [from, to] of [
      ['"format":1', '"format":2'],
      ['"node":"n1"', '"node":7'],
      ['"direction":"ingress"', '"direction":"in"'],
      ['"198.51.100.1"', '"198.51.100.1.5"'],
      ['"port":443', '"port":70000'],
      ['"fold":["address","own"]', '"fold":["address"]'],
      ['"connections":1', '"connections":-1'],
      ['}\n{', '}\n['],
    ] as const)
      assert.throws(() => parseInventory(text.replace(from, to), NOW), TypeError, from);
  });
});
