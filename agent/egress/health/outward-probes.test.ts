import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Candidacy } from '../../../apis/egress/node-egress.ts';
import type { EgressProbe } from '../../../apis/egress/objects.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { OutwardProbes, openQuestion } from './outward-probes.ts';

const probe = (address: string): EgressProbe => ({ address, seconds: 5, failures: 3 });
const candidacy = (gateway: string, ...addresses: readonly string[]): Candidacy => ({
  gateway,
  source: 'Node',
  heartbeatMilliseconds: 500,
  probes: addresses.map(probe),
});

function lab() {
  const clock = fakeClock();
  const dead = new Set<string>();
  const events: string[] = [];
  let asked = 0;
  const probes = new OutwardProbes({
    clock,
    open: ({ address }) => ({
      result: () => !dead.has(address),
      ask: () => void asked++,
      close: () => void events.push(`closed ${address}`),
    }),
    changed: (gateway, isFailing) => void events.push(`${gateway} ${isFailing ? 'fails' : 'well'}`),
  });
  const turns = (count: number): void => {
    for (let i = 0; i < count; i++) clock.pass(5_000);
  };
  return { probes, dead, events, turns, asked: () => asked };
}

describe('OutwardProbes', () => {
  it('fail a gateway while all of its probes do', () => {
    const { probes, dead, events, turns } = lab();
    probes.ask([candidacy('g', '192.0.2.1', '192.0.2.2'), candidacy('h', '192.0.2.2'), candidacy('none')]);
    dead.add('192.0.2.2');
    turns(3);
    assert.deepEqual([events, [...probes.failing()]], [['h fails'], ['h']]);
    dead.add('192.0.2.1');
    turns(2);
    assert.deepEqual([...probes.failing()], ['h']);
    turns(1);
    assert.deepEqual(events, ['h fails', 'g fails']);
    dead.clear();
    turns(2);
    assert.deepEqual(events.slice(2).sort(), ['g well', 'h well']);
  });

  it('are asked once where gateways have the same, and no more without them', () => {
    const { probes, events, turns, asked } = lab();
    probes.ask([candidacy('g', '192.0.2.1'), candidacy('h', '192.0.2.1')]);
    turns(3);
    assert.equal(asked(), 4);
    probes.ask([]);
    turns(3);
    assert.deepEqual([asked(), events], [4, ['closed 192.0.2.1']]);
  });

  it('connect by TCP', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    assert.ok(address !== null && typeof address === 'object');
    const { port } = address;
    const question = openQuestion({ ...probe('127.0.0.1'), port }, 1, new Uint8Array(4));
    question.ask();
    await once(server, 'connection');
    // The client hears of it in a later turn of the loop.
    while (!question.result()) await new Promise(setImmediate);
    server.close();
    await once(server, 'close');
    question.ask();
    for (let i = 0; i < 50; i++) await new Promise(setImmediate);
    assert.equal(question.result(), false);
    question.close();
  });
});
