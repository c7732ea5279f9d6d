import assert from 'node:assert/strict';
import type { RouteEvent, RouteObject } from 'nftables-napi';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { FakeRoutes, FakeWireGuard, toRead } from '../../../test/fake/fake-routes.ts';
import { EXAMPLE } from '../../../test/generate/netstate.ts';
import { NetstateKeeper } from './netstate-keeper.ts';
import { NetstateReconciler } from './netstate-reconciler.ts';

function setUp() {
  const clock = fakeClock();
  const kernel = new FakeRoutes();
  const told = { drifted: [] as string[], problems: [] as number[], trouble: [] as string[] };
  let listener: ((events: readonly RouteEvent[]) => void) | null = null;
  const settings = new Map<string, string>();
  const keeper = new NetstateKeeper({
    reconciler: new NetstateReconciler(
      kernel,
      {
        read: (path) => settings.get(path) ?? '',
        async write(path, value) {
          settings.set(path, value);
        },
      },
      new FakeWireGuard(),
    ),
    clock,
    open(heard) {
      listener = heard;
      return {
        close() {
          listener = null;
        },
      };
    },
    drifted: (operations) => told.drifted.push(...operations),
    problems: (problems) => told.problems.push(problems.length),
    troubled: (trouble) => told.trouble.push(trouble),
  });
  const say = (...events: RouteEvent[]): void => listener?.(events);
  /** Another program removes objects, and the kernel tells. */
  const remove = (is: (object: RouteObject) => boolean): void => {
    const removed = kernel.objects.filter(is);
    kernel.remove(is);
    say(...removed.map((object) => ({ event: 'removed', object: toRead(object) }) as const));
  };
  /** Until all that was started is done. */
  const settle = async (): Promise<void> => {
    for (let i = 0; i < 200; i++) await Promise.resolve();
  };
  return { clock, kernel, told, keeper, say, remove, settle, isOpen: () => listener !== null };
}

const isRule = ({ kind }: RouteObject): boolean => kind === 'rule';

describe('NetstateKeeper', () => {
  it('does nothing before the first state, and repairs after events from then on', async () => {
    const { clock, kernel, told, keeper, say, remove, settle, isOpen } = setUp();
    assert.equal(isOpen(), false);
    assert.equal(kernel.readings, 0);
    await keeper.apply(EXAMPLE);
    const { readings } = kernel;
    say(...kernel.objects.map((object) => ({ event: 'present', object: toRead(object) }) as const));
    await settle();
    assert.equal(kernel.readings, readings, 'its own events');
    remove(isRule);
    await settle();
    assert.equal(told.drifted.length, 4);
    assert.equal(kernel.objects.filter(isRule).length, 4);
    remove(({ kind }) => kind === 'nexthop');
    await settle();
    clock.pass(50);
    await settle();
    assert.equal(kernel.objects.length, 12);
    await keeper.close();
    assert.equal(isOpen(), false);
  });

  it('compares everything once a minute, and after lost events', async () => {
    const { clock, kernel, told, keeper, say, settle } = setUp();
    await keeper.apply(EXAMPLE);
    await settle();
    kernel.remove(isRule);
    clock.pass(60_000);
    await settle();
    assert.equal(told.drifted.length, 4);
    kernel.remove(isRule);
    say({ event: 'overrun' });
    await settle();
    assert.deepEqual(told.trouble, ['overrun']);
    assert.equal(told.drifted.length, 8);
    await keeper.close();
  });

  it('tries again what was refused, and tells of problems once, and of their end', async () => {
    const { clock, kernel, told, keeper, settle } = setUp();
    kernel.refusal = { kind: 'rule', code: 'EPERM', text: 'Operation not permitted' };
    await keeper.apply(EXAMPLE);
    for (const wait of [1_000, 2_000]) {
      clock.pass(wait);
      await settle();
    }
    assert.deepEqual(told.problems, [4]);
    kernel.refusal = null;
    clock.pass(4_000);
    await settle();
    assert.deepEqual(told.problems, [4, 0]);
    assert.equal(kernel.objects.filter(isRule).length, 4);
    await keeper.close();
    assert.deepEqual(clock.waiting(), []);
  });
});
