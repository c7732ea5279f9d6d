import assert from 'node:assert/strict';
import type { TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { type AnswerRoute, formerRoutes } from './answer-routes.ts';

const END: TunnelEnd = { node: 'n', address: '192.0.2.1', mac: '0e:00:00:00:00:01' };
const former = (...destinations: readonly string[]) =>
  new Map(destinations.map((one) => [one, END] as const));
const route = (destination: string): AnswerRoute => ({
  family: destination.includes(':') ? 6 : 4,
  destination,
  node: 'm',
});

describe('former ways back to pods', () => {
  it('are left out where there is one now, the same or a wider one', () => {
    const answers = former('10.0.2.0/24', '10.0.3.0/24', '10.0.4.7/32', 'fd00::7/128');
    const current = ['10.0.2.0/24', '10.0.3.0/25', '10.0.4.8/32', 'fd00:1::/64'].map(route);
    assert.deepEqual(
      formerRoutes(answers, current).map(({ destination }) => destination),
      ['10.0.3.0/24', '10.0.4.7/32', 'fd00::7/128'],
    );
  });

  it('of single pods stay where a network of another node has the address', () => {
    const current = [{ ...route('10.0.1.0/24'), node: 'm' }];
    const kept = (node: string) =>
      formerRoutes(new Map([['10.0.1.7/32', { ...END, node }]]), current).map(
        ({ destination }) => destination,
      );
    assert.deepEqual(kept('m'), []);
    assert.deepEqual(kept('n'), ['10.0.1.7/32']);
  });

  it('cost little where there are thousands of both', () => {
    const addresses = Array.from({ length: 16_000 }, (_, i) => `172.16.${i >> 8}.${i & 255}/32`);
    const networks = Array.from({ length: 1_000 }, (_, i) => route(`10.${i >> 8}.${i & 255}.0/24`));
    const before = process.cpuUsage();
    assert.equal(formerRoutes(former(...addresses), networks).length, addresses.length);
    // Each of one kind with each of the other takes more than three seconds.
    const { user } = process.cpuUsage(before);
    assert.ok(user < 1e6, `${user / 1000} ms of processor time`);
  });
});
