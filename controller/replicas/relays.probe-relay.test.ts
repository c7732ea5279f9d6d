import assert from 'node:assert/strict';
import type { InwardResult } from '../../apis/probes.ts';
import type { PassedProbes } from '../publish/peer-calls.ts';
import { ProbeRelay } from './relays.ts';

const SSH: InwardResult = {
  name: 'ssh',
  prober: 'b',
  address: '192.0.2.1',
  source: null,
  error: null,
};
const ANSWER = { id: '1', error: null, source: null };

describe('ProbeRelay', () => {
  const sent: [string, PassedProbes][] = [];
  const answers = new Map<string, readonly InwardResult[]>();
  const relay = new ProbeRelay({
    peers: () => ['x', 'y', 'z'],
    async send(peer, passed) {
      sent.push([peer, passed]);
      return answers.get(peer) ?? assert.fail('no route');
    },
  });
  beforeEach(() => {
    sent.length = 0;
    answers.clear();
  });

  it('asks one controller after the other for what none has made yet', async () => {
    answers.set('y', [SSH, { name: 'web', notMade: 'it does not lead' }]);
    answers.set('z', []);
    const made = await relay.ask('a', { probes: [{ name: 'ssh' }, { name: 'web' }], milliseconds: 1 });
    assert.deepEqual(made, [SSH]);
    const names = sent.map(([peer, passed]) => [
      peer,
      passed.kind === 'question' ? passed.probes.map(({ name }) => name) : null,
    ]);
    assert.deepEqual(names, [
      ['x', ['ssh', 'web']],
      ['y', ['ssh', 'web']],
      ['z', ['web']],
    ]);
  });

  it('passes an answer on to all', () => {
    relay.answered('b', ANSWER);
    assert.deepEqual(
      sent.map(([peer]) => peer),
      ['x', 'y', 'z'],
    );
  });
});
