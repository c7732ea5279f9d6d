import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { emptyNodeState, type NodeState } from '../../apis/compiled.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import type { Probe } from './probes.ts';
import { RoundBefore } from './round-before.ts';

const address = '127.0.0.1';

describe('the round before a change', () => {
  let server: Server;
  let clock: FakeClock;
  let probes: readonly Probe[];
  let rounds: number;
  let round: RoundBefore;

  beforeEach(async () => {
    server = createServer((socket) => socket.on('error', () => {}).resume()).listen(0, address);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    probes = [
      { kind: 'outward', name: 'open', attempts: [{ kind: 'tcp', address, port }] },
      { kind: 'outward', name: 'closed', attempts: [{ kind: 'tcp', address, port: 1 }] },
      { kind: 'inward', name: 'ssh', flow: null },
    ];
    clock = fakeClock();
    rounds = 0;
    round = new RoundBefore({
      clock,
      probes() {
        rounds++;
        return probes;
      },
    });
  });
  afterEach(() => server.close());

  /** The names of those that passed. */
  async function passed(state: NodeState): Promise<string[]> {
    return [...(await round.results(state))].filter(([, error]) => error === null).map(([name]) => name);
  }

  const [first, second, third] = ['a', 'b', 'c'].map(emptyNodeState) as [NodeState, NodeState, NodeState];

  it('has the outward probes that pass, until its state is judged', async () => {
    assert.deepEqual(await passed(first), []);
    round.make(first);
    assert.deepEqual(await passed(first), ['open']);
    round.forget(first);
    assert.deepEqual(await passed(first), []);
  });

  it('is made once for a burst of states, and again for a later one', async () => {
    round.make(first);
    clock.pass(899);
    round.make(second);
    assert.equal(rounds, 1);
    clock.pass(1);
    round.make(third);
    assert.equal(rounds, 2);
    assert.deepEqual(await passed(second), ['open']);
    assert.deepEqual(await passed(third), ['open']);
  });

  it('stays for a state that is submitted before an earlier one is judged', async () => {
    round.make(first);
    clock.pass(100);
    round.make(second);
    clock.pass(900);
    round.make(third);
    round.forget(first);
    assert.deepEqual(await passed(second), ['open']);
    round.forget(second);
    assert.deepEqual(await passed(third), ['open']);
    assert.equal(rounds, 2);
  });

  it('is not made before a state that is not tried, and forgotten with it', async () => {
    round.make(first);
    round.skip(second);
    assert.equal(rounds, 1);
    round.forget(second);
    assert.deepEqual(await passed(first), []);
  });

  it('is made again after the confirmed state: the rules in force are others then', () => {
    round.make(first);
    round.skip(second);
    round.make(third);
    assert.equal(rounds, 2);
  });

  it('says which probes failed, and which were not made', async () => {
    round.make(first);
    const results = await round.results(first);
    assert.deepEqual([...results.keys()], ['open', 'closed']);
    assert.match(results.get('closed') ?? '', /ECONNREFUSED/);
    assert.deepEqual([...(await round.results(first))].length, 2);
    round.forget(first);
    assert.equal((await round.results(first)).size, 0);
  });

  it('has what passed before any of the states: a probe that the first one denies counts', async () => {
    round.make(first);
    await passed(first);
    server.close();
    clock.pass(900);
    round.make(second);
    assert.deepEqual(await passed(second), ['open']);
  });
});
