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

  it('has the outward probes that pass, until it is forgotten', async () => {
    assert.deepEqual(await round.passed(), []);
    round.make();
    assert.deepEqual(await round.passed(), ['open']);
    round.forget();
    assert.deepEqual(await round.passed(), []);
  });

  it('is made once for a burst of states, and again for a later one', async () => {
    round.make();
    clock.pass(899);
    round.make();
    assert.equal(rounds, 1);
    clock.pass(1);
    round.make();
    assert.equal(rounds, 2);
    assert.deepEqual(await round.passed(), ['open', 'open']);
  });

  it('is made at once after an earlier one was forgotten', async () => {
    round.make();
    await round.passed();
    round.forget();
    round.make();
    assert.deepEqual(await round.passed(), ['open']);
    assert.equal(rounds, 2);
  });

  it('has what passed before any of the states: a probe that the first one denies counts', async () => {
    round.make();
    await round.passed();
    server.close();
    clock.pass(900);
    round.make();
    assert.deepEqual(await round.passed(), ['open']);
  });
});
