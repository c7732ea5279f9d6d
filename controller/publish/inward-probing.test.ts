import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import type { InwardProbeConfig } from '../../apis/config.ts';
import type { AskedProbe, InwardResult, PeerAnswer } from '../../apis/probes.ts';
import type { ProbeUpdate } from '../../apis/stream.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { InwardProbing, PeerQuestions } from './inward-probing.ts';

const OUTCOME = { error: null, source: '192.0.2.2' } as const;
const SSH: InwardProbeConfig = { name: 'ssh', from: 'peer', family: null, target: { kind: 'tcp', port: 22 } };

describe('inward probing', () => {
  let server: Server;
  let clock: FakeClock;
  let sent: [string, ProbeUpdate][];
  let connected: Set<string>;
  let passedOn: unknown[];
  let isLeader: boolean;
  let elsewhere: InwardResult[];
  let probing: InwardProbing;

  beforeEach(async () => {
    server = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const target = { kind: 'tcp', port } as const;
    clock = fakeClock();
    [sent, connected, passedOn, isLeader, elsewhere] = [[], new Set(['a', 'b', 'c']), [], true, []];
    const streams = {
      probers: () => [...connected],
      send: (node: string, update: ProbeUpdate) => sent.push([node, update]) > 0,
    };
    probing = new InwardProbing({
      probes: [SSH, { name: 'web', from: 'controller', family: 4, target }],
      addressesOf: (node) => (node === 'a' ? ['2001:db8::1', '127.0.0.1'] : []),
      ownPort: (name, node) => (name === 'to-api-server' && node === 'a' ? 6443 : null),
      isLeader: () => isLeader,
      self: 'controller-0',
      questions: new PeerQuestions({ streams, clock, random: () => 0 }),
      elsewhere: {
        async ask(node, { probes }) {
          passedOn.push([node, probes.map(({ name }) => name)]);
          return elsewhere;
        },
        answered: (prober, { id }) => void passedOn.push([prober, id]),
      },
    });
  });
  afterEach(() => server.close());

  async function results(...probes: readonly AskedProbe[]): Promise<readonly InwardResult[]> {
    return (await probing.answer('a', { probes, milliseconds: 1_000 })).results;
  }

  function answer(from: string, id = sent.at(-1)?.[1].id ?? ''): PeerAnswer {
    const given = { id, ...OUTCOME };
    probing.answered(from, given);
    return given;
  }

  it('connects to the address of the Node object, as the leader', async () => {
    const made = { prober: 'controller-0', address: '127.0.0.1', source: '127.0.0.1', error: null };
    assert.deepEqual(await results({ name: 'web' }), [{ name: 'web', ...made }]);
    server.close();
    await once(server, 'close');
    const [refused] = await results({ name: 'web' });
    assert.match((refused as { error: string }).error, /ECONNREFUSED/);
  });

  it('asks one other agent, which answers by itself', async () => {
    const asked = results({ name: 'ssh' });
    const [[prober, update] = assert.fail()] = sent;
    assert.deepEqual([prober, update.target], ['b', { kind: 'tcp', port: 22, address: '2001:db8::1' }]);
    answer('b');
    assert.deepEqual(await asked, [{ name: 'ssh', prober: 'b', address: '2001:db8::1', ...OUTCOME }]);
    const again = results({ name: 'ssh', prober: 'c' });
    assert.equal(sent.at(-1)?.[0], 'c');
    answer('c');
    assert.equal(((await again)[0] as { prober: string }).prober, 'c');
  });

  it('has another agent connect to the API server of a node that has one', async () => {
    const asked = results({ name: 'to-api-server' });
    const [[prober, update] = assert.fail()] = sent;
    assert.deepEqual([prober, update.target], ['b', { kind: 'tcp', port: 6443, address: '2001:db8::1' }]);
    answer('b');
    assert.equal('notMade' in ((await asked)[0] ?? assert.fail()), false);
    assert.deepEqual(await results({ name: 'to-controller' }), [
      { name: 'to-controller', notMade: 'the controller knows no such server on the node' },
    ]);
    assert.equal(sent.length, 1);
  });

  it('takes an answer only of the agent that it asked', async () => {
    const asked = results({ name: 'ssh' });
    const { id } = answer('c');
    assert.deepEqual(passedOn, [['c', id]], 'another replica may have asked c');
    clock.pass(2_000);
    assert.deepEqual(await asked, [{ name: 'ssh', notMade: 'b did not answer' }]);
    answer('b', id);
    assert.equal(passedOn.length, 3, 'the probe too, since nobody here made it');
  });

  it('makes nothing that the configuration or the Node object does not name', async () => {
    assert.deepEqual(await results({ name: 'other' }), [
      { name: 'other', notMade: "the controller's configuration has no such probe to nodes in guard.probes" },
    ]);
    const { results: ofStranger } = await probing.answer('z', { probes: [{ name: 'web' }], milliseconds: 1 });
    assert.deepEqual(ofStranger, [{ name: 'web', notMade: 'the Node object has no such address' }]);
    assert.deepEqual(sent, []);
  });

  it('asks the other replicas for what it cannot make itself', async () => {
    isLeader = false;
    connected = new Set(['a']);
    const made = { name: 'web', prober: 'controller-1', address: '127.0.0.1', ...OUTCOME };
    elsewhere = [made];
    assert.deepEqual(await results({ name: 'web' }, { name: 'ssh' }), [
      made,
      { name: 'ssh', notMade: 'no other agent is free to make it' },
    ]);
    assert.deepEqual(passedOn, [['a', ['web', 'ssh']]]);
    const here = await probing.answerHere('a', { probes: [{ name: 'ssh', prober: 'b' }], milliseconds: 1 });
    assert.deepEqual(here, [{ name: 'ssh', notMade: 'b is away' }]);
    assert.equal(passedOn.length, 1, 'not asked in a circle');
  });

  it('asks one agent for a few at the same time only', async () => {
    connected = new Set(['b']);
    const all = Array.from({ length: 12 }, () => results({ name: 'ssh' }));
    assert.equal(sent.length, 8);
    for (const [, { id }] of sent) answer('b', id);
    const made = (await Promise.all(all)).flat().filter((one) => !('notMade' in one));
    assert.equal(made.length, 8);
  });
});
