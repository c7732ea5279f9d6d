import assert from 'node:assert/strict';
import type { LeaseAnswer, LeaseRequest } from '../../../apis/heartbeat.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { LeaseRelay } from './lease-relay.ts';

const request = (node: string): LeaseRequest => ({ node, boot: 'b', sent: 1, held: [], ready: [] });
const NOTHING: LeaseAnswer = { grants: [] };

describe('LeaseRelay', () => {
  function relay(peers: readonly string[]) {
    const clock = fakeClock();
    const sent: string[] = [];
    const leading = new Set<string>();
    const failing = new Set<string>();
    const one = new LeaseRelay({
      clock,
      peers: () => peers,
      async send(peer, { requests }) {
        sent.push(`${peer}: ${requests.map(({ node }) => node).join(' ')}`);
        if (failing.has(peer)) throw new Error('no route');
        return { answers: requests.map(() => (leading.has(peer) ? NOTHING : null)) };
      },
    });
    const pass = async (...nodes: string[]) => {
      const answers = nodes.map((node) => one.pass(request(node)));
      clock.pass(5);
      return { answers: await Promise.all(answers), sent: sent.splice(0) };
    };
    return { clock, leading, failing, pass };
  }

  it('finds the controller that leads, and asks it first from then on', async () => {
    const { leading, failing, pass } = relay(['x', 'y']);
    leading.add('y');
    assert.deepEqual(await pass('a', 'b'), { answers: [NOTHING, NOTHING], sent: ['x: a b', 'y: a b'] });
    assert.deepEqual(await pass('a'), { answers: [NOTHING], sent: ['y: a'] });
    leading.delete('y');
    leading.add('x');
    assert.deepEqual(await pass('a'), { answers: [NOTHING], sent: ['y: a', 'x: a'] });
    failing.add('x');
    leading.add('y');
    assert.deepEqual((await pass('a')).sent, ['x: a', 'y: a']);
  });

  it('answers nothing while none leads, and does not ask all the time', async () => {
    const { clock, leading, pass } = relay(['x']);
    assert.deepEqual(await pass('a'), { answers: [null], sent: ['x: a'] });
    leading.add('x');
    assert.deepEqual(await pass('a'), { answers: [null], sent: [] });
    clock.pass(100);
    assert.deepEqual((await pass('a')).answers, [NOTHING]);
  });
});
