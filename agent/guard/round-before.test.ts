import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
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
  async function passed(number: number): Promise<string[]> {
    return [...(await round.results(number))].filter(([, error]) => error === null).map(([name]) => name);
  }

  it('has the outward probes that pass, until its state is judged', async () => {
    assert.deepEqual(await passed(0), []);
    const first = round.make();
    assert.deepEqual(await passed(first), ['open']);
    round.forget(first);
    assert.deepEqual(await passed(first), []);
  });

  it('is made once for a burst of states, and again for a later one', async () => {
    round.make();
    clock.pass(899);
    const second = round.make();
    assert.equal(rounds, 1);
    clock.pass(1);
    const third = round.make();
    assert.equal(rounds, 2);
    assert.deepEqual(await passed(second), ['open']);
    assert.deepEqual(await passed(third), ['open']);
  });

  it('stays for a state that is submitted before an earlier one is judged', async () => {
    const first = round.make();
    clock.pass(100);
    const second = round.make();
    clock.pass(900);
    const third = round.make();
    round.forget(first);
    assert.deepEqual(await passed(second), ['open']);
    round.forget(second);
    assert.deepEqual(await passed(third), ['open']);
    assert.equal(rounds, 2);
  });

  it('is not made before a state that is not tried, and forgotten with it', async () => {
    const first = round.make();
    const second = round.skip();
    assert.equal(rounds, 1);
    round.forget(second);
    assert.deepEqual(await passed(first), []);
  });

  it('is made again after the confirmed state: the rules in force are others then', () => {
    round.make();
    round.skip();
    round.make();
    assert.equal(rounds, 2);
  });

  it('says which probes failed, and which were not made', async () => {
    const first = round.make();
    const results = await round.results(first);
    assert.deepEqual([...results.keys()], ['open', 'closed']);
    assert.match(results.get('closed') ?? '', /ECONNREFUSED/);
    assert.deepEqual([...(await round.results(first))].length, 2);
    round.forget(first);
    assert.equal((await round.results(first)).size, 0);
  });

  it('has what passed before any of the states: a probe that the first one denies counts', async () => {
    const first = round.make();
    await passed(first);
    server.close();
    clock.pass(900);
    const second = round.make();
    assert.deepEqual(await passed(second), ['open']);
  });
});
