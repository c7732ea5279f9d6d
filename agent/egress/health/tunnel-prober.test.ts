import assert from 'node:assert/strict';
import type { Echo, EchoReply } from 'nftables-napi';
import type { TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { PROBE_INTERVAL, TunnelProber } from './tunnel-prober.ts';

const ends = (...nodes: readonly string[]): ReadonlyMap<string, TunnelEnd> =>
  new Map(nodes.map((node, i) => [node, { node, address: `192.0.2.${i}`, mac: `0e:00:00:00:00:0${i}` }]));

/** Gateways on the wire: each answers what it is asked, unless it is silent. */
function lab(lost: readonly string[] = []) {
  const clock = fakeClock();
  const silent = new Set<number>();
  const events: string[] = [];
  let waiting: EchoReply[] = [];
  let opened = 0;
  let asked = 0;
  let failure: Error | null = null;
  let forge = (echo: Echo): Partial<EchoReply> => ({ data: echo.data });
  const prober = new TunnelProber({
    clock,
    identifier: 7,
    secret: Uint8Array.of(1, 2, 3),
    lost,
    open() {
      opened++;
      if (failure !== null) throw failure;
      return {
        request(echo) {
          if (failure !== null) throw failure;
          asked++;
          if (!silent.has(echo.address[15] ?? 0)) waiting.push({ ...echo, age: 0, ...forge(echo) });
        },
        replies: () => waiting.splice(0, 2),
        close() {},
      };
    },
    changed: (node, isLost) => void events.push(`${node} ${isLost ? 'lost' : 'back'}`),
    hindered: (error) => void events.push(error === null ? 'asking' : error.message),
  });
  return {
    prober,
    events,
    silent,
    turns: (count: number) => {
      for (let i = 0; i < count; i++) clock.pass(PROBE_INTERVAL);
    },
    advance: (milliseconds: number) => clock.pass(milliseconds),
    fail(error: Error | null) {
      failure = error;
    },
    forged(how: typeof forge) {
      forge = how;
    },
    drop() {
      waiting = [];
    },
    counts: () => ({ opened, asked }),
  };
}

describe('TunnelProber', () => {
  it('reads so many replies of a flood, and goes on', () => {
    const clock = fakeClock();
    const flood = { address: new Uint8Array(16), identifier: 1, sequence: 1, data: Uint8Array.of(1) };
    let reads = 0;
    const prober = new TunnelProber({
      clock,
      identifier: 7,
      secret: Uint8Array.of(1),
      changed() {},
      hindered() {},
      lost: [],
      open: () => ({
        request() {},
        replies() {
          return ++reads < 10_000 ? [{ ...flood, age: 0 }] : [];
        },
        close() {},
      }),
    });
    prober.ask(ends('a'));
    clock.pass(PROBE_INTERVAL);
    // A whole buffer has about 400.
    assert.ok(reads > 1_000 && reads < 10_000, `${reads}`);
    prober.close();
  });

  it('begins with what an earlier process knew as lost, until it answers', () => {
    const { prober, events, turns } = lab(['b', 'gone']);
    assert.deepEqual(prober.lost(), ['b', 'gone']);
    prober.ask(ends('a', 'b'));
    assert.deepEqual(prober.lost(), ['b']);
    turns(5);
    assert.deepEqual(prober.lost(), []);
    assert.deepEqual(events, ['b back']);
  });

  it('takes a gateway for lost after three questions without an answer, and back after five answers', () => {
    const { prober, events, silent, turns } = lab();
    prober.ask(ends('a', 'b', 'c'));
    turns(10);
    assert.deepEqual(events, []);
    silent.add(1);
    turns(3);
    assert.deepEqual(events, [], 'the first of them was answered');
    turns(1);
    assert.deepEqual([events, prober.lost()], [['b lost'], ['b']]);
    silent.delete(1);
    turns(5);
    assert.deepEqual(prober.lost(), ['b']);
    turns(1);
    assert.deepEqual([events, prober.lost()], [['b lost', 'b back'], []]);
  });

  it('asks each gateway once in 200 ms, through one socket', () => {
    const { prober, turns, counts } = lab();
    prober.ask(ends('a', 'b'));
    prober.ask(ends('a', 'b'));
    turns(4);
    assert.deepEqual(counts(), { opened: 1, asked: 2 * 5 });
    prober.ask(new Map());
    turns(4);
    assert.deepEqual(counts(), { opened: 1, asked: 2 * 5 });
  });

  it('takes nobody for lost because it was itself stopped', () => {
    const { prober, events, advance, turns } = lab();
    prober.ask(ends('a'));
    for (let i = 0; i < 5; i++) advance(10_000);
    turns(3);
    assert.deepEqual(events, []);
  });

  it('takes a late answer for one', () => {
    const { prober, events, turns, forged } = lab();
    forged((echo) => ({ sequence: Math.max(0, echo.sequence - 4) }));
    prober.ask(ends('a'));
    turns(20);
    assert.deepEqual(prober.lost(), []);
    // The first ones came before anything was asked four turns before.
    assert.ok(events.every((event) => event === 'a lost' || event === 'a back'));
  });

  for (const [what, forge] of Object.entries<(echo: Echo) => Partial<EchoReply>>({
    'another identifier': () => ({ identifier: 8 }),
    'other data': () => ({ data: Uint8Array.of(1, 2, 4) }),
    'an address that it did not ask': () => ({ address: new Uint8Array(16) }),
    'a number that it did not ask': (echo) => ({ sequence: echo.sequence + 1 }),
  })) {
    it(`ignores an answer with ${what}`, () => {
      const { prober, turns, forged } = lab();
      forged(forge);
      prober.ask(ends('a'));
      turns(4);
      assert.deepEqual(prober.lost(), ['a']);
    });
  }

  it('judges nobody while it cannot ask, says so once, and opens another socket', () => {
    const { prober, events, turns, fail, counts } = lab();
    prober.ask(ends('a'));
    turns(2);
    fail(new Error('no device'));
    turns(20);
    assert.deepEqual(events, ['no device']);
    assert.deepEqual(prober.lost(), []);
    fail(null);
    turns(20);
    assert.deepEqual([events, prober.lost()], [['no device', 'asking'], []]);
    assert.ok(counts().opened >= 1);
  });

  it('begins anew with a node that has another end, and forgets nodes that it asks no more', () => {
    const { prober, turns, silent } = lab();
    silent.add(0);
    prober.ask(ends('a', 'b'));
    turns(4);
    assert.deepEqual(prober.lost(), ['a']);
    prober.ask(new Map([['a', { node: 'a', address: '192.0.2.9', mac: '0e:00:00:00:00:09' }]]));
    assert.deepEqual(prober.lost(), []);
    assert.deepEqual([...prober.roundTrips().keys()], ['a']);
  });
});
