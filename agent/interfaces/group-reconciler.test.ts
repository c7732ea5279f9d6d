import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { NftError, RouteEvent } from 'nftables-napi';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { type FakeLinks, fakeLinks } from '../../test/fake/fake-links.ts';
import { runs } from '../../test/properties/runs.ts';
import type { Attachments, LinkAttachment } from './attachment.ts';
import { classifier, type OwnedGroup } from './classify.ts';
import {
  GroupReconciler,
  type InterfaceGroupChange,
  releaseGroups,
  toOwnedGroups,
} from './group-reconciler.ts';

interface Watched {
  readonly links: FakeLinks;
  readonly reconciler: GroupReconciler;
  readonly changed: InterfaceGroupChange[][];
  readonly refused: string[];
  readonly failed: string[];
  /** The names of the links, as often as they were reported. */
  readonly known: readonly string[];
  readonly clock: ReturnType<typeof fakeClock>;
  /** Gives an interface an address of its own; no event says so. */
  attach(name: string): void;
  held(): readonly OwnedGroup[];
  /** Delivers all events and waits until nothing is left to do. */
  settle(): Promise<void>;
}

const classify = classifier(DEFAULT_CONFIG);

function watched(
  remembered: readonly OwnedGroup[] = [],
  links?: FakeLinks,
  read?: () => Promise<Attachments>,
): Watched {
  let reconciler: GroupReconciler | null = null;
  const fake = links ?? fakeLinks((events: readonly RouteEvent[]) => reconciler?.tell(events));
  const changed: InterfaceGroupChange[][] = [];
  const refused: string[] = [];
  const failed: string[] = [];
  let held = remembered;
  const clock = fakeClock();
  const attached = new Map<number, LinkAttachment>();
  const known: string[] = [];
  reconciler = new GroupReconciler({
    links: fake,
    classify,
    remembered,
    attachments: read ?? (async () => new Map(attached)),
    clock,
    events: {
      changed: (changes) => void changed.push([...changes]),
      known: (all) => void known.push(Array.from(all, ({ name }) => name).join(' ')),
      owned(now) {
        held = now;
      },
      refused: ({ name }, { code }: NftError) => void refused.push(`${name} ${code}`),
      failed: (error, retryIn) => void failed.push(`${error.message} ${retryIn}`),
    },
  });
  const own = reconciler;
  return {
    links: fake,
    reconciler,
    changed,
    refused,
    failed,
    known,
    clock,
    attach: (name) => void attached.set(fake.link(name).index, { by: 'address', gateways: [] }),
    held: () => held,
    async settle() {
      do await own.idle();
      while (fake.deliver() > 0);
    },
  };
}

describe('GroupReconciler', () => {
  let it_: Watched;
  const group = (name: string) => it_.links.link(name).group;
  beforeEach(async () => {
    it_ = watched();
    it_.links.deliver();
    await it_.reconciler.reconcileAll();
  });

  it('sets the groups of existing interfaces at start', async () => {
    it_ = watched();
    it_.links.addPodPair('veth1');
    it_.links.add('eth0');
    await it_.reconciler.reconcileAll();
    assert.deepEqual([group('veth1'), group('eth0')], [8, 0]);
  });

  it('reports the links at start, and after each burst of events', async () => {
    it_.links.add('eth0');
    await it_.settle();
    assert.equal(it_.known.at(-1), 'lo eth0');
    it_.links.add('red', { kind: 'vrf' });
    await it_.settle();
    assert.equal(it_.known.at(-1), 'lo eth0 red');
    it_.links.remove(it_.links.link('eth0').index);
    await it_.settle();
    assert.equal(it_.known.at(-1), 'lo red');
  });

  for (const from of ['here', 'there'] as const) {
    it(`sets a new pod's veth, made from ${from}`, async () => {
      const index = it_.links.addPodPair('veth1', from);
      await it_.settle();
      assert.equal(group('veth1'), 8);
      assert.equal(it_.reconciler.groupOf(index), 8);
      assert.deepEqual(it_.held(), [{ index, name: 'veth1', group: 8 }]);
      assert.deepEqual(
        it_.changed.flat().map(({ name, before, group: now }) => [name, before, now]),
        [['veth1', 0, 8]],
      );
    });
  }

  it('a veth made here, then one end moved: no event reports the host’s end', async () => {
    const [host, pod] = it_.links.addPair('veth1', 'tmp1');
    await it_.settle();
    assert.equal(group('veth1'), 0);
    it_.links.moveAway(pod);
    await it_.settle();
    assert.equal(group('veth1'), 8);
    it_.links.bringBack(host, 'back');
    await it_.settle();
    assert.equal(group('veth1'), 0);
    assert.deepEqual(it_.held(), []);
  });

  it('a bridge follows its ports', async () => {
    const bridge = it_.links.add('br7', { kind: 'bridge', isUp: true });
    const pod = it_.links.addPodPair('veth1');
    await it_.settle();
    assert.equal(group('br7'), 0);
    it_.links.change(pod, { master: bridge });
    await it_.settle();
    assert.equal(group('br7'), 8);
    const nic = it_.links.add('eth1');
    it_.links.change(nic, { master: bridge });
    await it_.settle();
    assert.equal(group('br7'), 0);
    it_.links.change(nic, { master: null });
    await it_.settle();
    assert.equal(group('br7'), 8);
    it_.links.remove(pod);
    await it_.settle();
    assert.equal(group('br7'), 0);
  });

  it('a burst is set from its events, without a full read', async () => {
    for (let i = 0; i < 200; i++) it_.links.addPodPair(`veth${i}`);
    await it_.settle();
    assert.equal(it_.links.calls.set.flat().length, 200);
    assert.equal(it_.links.calls.get, 0);
  });

  it('links that must be read are set in portions, the first before all are read', async () => {
    for (let i = 0; i < 200; i++) it_.links.addPodPair(`veth${i}`, 'there');
    await it_.settle();
    assert.ok(it_.links.calls.set.length > 1, `${it_.links.calls.set.length} calls`);
    assert.ok(it_.links.calls.set.every((changes) => changes.length <= 32));
    assert.equal(it_.links.calls.set.flat().length, 200);
  });

  it("a third party's group is kept, before and after nodewall's", async () => {
    const early = it_.links.addPodPair('veth1');
    it_.links.setForeign(early, 5);
    const late = it_.links.addPodPair('veth2');
    it_.links.change(late, { isUp: true });
    await it_.settle();
    it_.links.setForeign(late, 6);
    await it_.settle();
    assert.deepEqual([group('veth1'), group('veth2')], [5, 6]);
    assert.deepEqual(it_.held(), []);
    it_.links.setForeign(late, 0);
    await it_.settle();
    assert.equal(group('veth2'), 8);
  });

  it("a group that is set between the event and nodewall's change is noticed", async () => {
    const index = it_.links.addPodPair('veth1');
    it_.links.deliver();
    // The kernel has the group before we read the link; there is no event, since the link is down.
    it_.links.setForeign(index, 5);
    await it_.settle();
    assert.equal(group('veth1'), 5);
    assert.deepEqual([it_.held(), it_.refused], [[], []]);
  });

  it("a group that is set right before nodewall's change stays", async () => {
    const index = it_.links.addPodPair('veth1');
    const { setGroups } = it_.links;
    it_.links.setGroups = (changes) => {
      it_.links.setGroups = setGroups;
      it_.links.setForeign(index, 5);
      return setGroups(changes);
    };
    await it_.settle();
    assert.equal(group('veth1'), 5);
    assert.deepEqual([it_.held(), it_.refused], [[], []]);
  });

  it('a group that was set earlier without an event is noticed', async () => {
    const bridge = it_.links.add('br7', { kind: 'bridge' });
    await it_.settle();
    await it_.reconciler.reconcileAll();
    it_.links.setForeign(bridge, 5);
    it_.links.change(it_.links.addPodPair('veth1'), { master: bridge });
    await it_.settle();
    assert.equal(group('br7'), 5);
  });

  it('a read that an event overtakes does not count', async () => {
    const bridge = it_.links.add('br7', { kind: 'bridge', isUp: true });
    const pod = it_.links.addPodPair('veth1');
    await it_.settle();
    const { links } = it_.links;
    it_.links.links = async () => {
      const old = await links();
      it_.links.change(pod, { master: bridge });
      it_.links.deliver();
      it_.links.links = links;
      return old;
    };
    await it_.reconciler.reconcileAll();
    await it_.settle();
    assert.equal(group('br7'), 8);
  });

  it("nodewall's group is set again after a third party resets it to 0", async () => {
    const index = it_.links.addPodPair('veth1');
    it_.links.change(index, { isUp: true });
    await it_.settle();
    it_.links.setForeign(index, 0);
    await it_.settle();
    assert.equal(group('veth1'), 8);
  });

  it('a full read finds changes without an event', async () => {
    const index = it_.links.addPodPair('veth1');
    await it_.settle();
    it_.links.setForeign(index, 0);
    await it_.settle();
    assert.equal(group('veth1'), 0, 'a link that is down');
    await it_.reconciler.reconcileAll();
    assert.equal(group('veth1'), 8);
  });

  it('an address that is added later counts at its event', async () => {
    it_.links.addPodPair('late');
    await it_.settle();
    it_.clock.pass(10_000);
    await it_.settle();
    it_.attach('late');
    it_.reconciler.networkChanged();
    await it_.settle();
    it_.clock.pass(251);
    await it_.settle();
    assert.equal(group('late'), 0);
  });

  it('an address that is added later is found soon if its event is lost', async () => {
    it_.links.addPodPair('late');
    await it_.settle();
    assert.equal(group('late'), 8);
    it_.attach('late');
    it_.clock.pass(2000);
    await it_.settle();
    assert.equal(group('late'), 0);
  });

  it('sets no group while addresses cannot be read', async () => {
    let isBroken = true;
    it_ = watched([], undefined, async () => {
      if (isBroken) throw new Error('no sockets');
      return new Map();
    });
    it_.links.addPodPair('veth1');
    await it_.reconciler.reconcileAll();
    assert.deepEqual([group('veth1'), it_.failed], [0, ['no sockets 1000']]);
    isBroken = false;
    it_.clock.pass(1000);
    await it_.settle();
    assert.equal(group('veth1'), 8);
  });

  it('an address that is added with the carrier, just after all addresses were read, is found soon', async () => {
    const index = it_.links.addPodPair('late');
    await it_.settle();
    it_.clock.pass(10_000);
    await it_.settle();
    it_.links.addPodPair('other');
    await it_.settle();
    it_.clock.pass(100);
    it_.attach('late');
    it_.links.change(index, { isUp: true });
    await it_.settle();
    it_.clock.pass(250);
    await it_.settle();
    assert.equal(group('late'), 0);
  });

  it("a bridge that gets its carrier and the node's address is not a bridge of pods", async () => {
    const bridge = it_.links.add('br7', { kind: 'bridge', isUp: true });
    it_.links.change(it_.links.addPodPair('veth1'), { master: bridge });
    await it_.settle();
    assert.equal(group('br7'), 8);
    it_.clock.pass(10_000);
    await it_.settle();
    it_.clock.pass(10_000);
    it_.attach('br7');
    // The event reports no changed field.
    it_.links.change(bridge, { isUp: true });
    await it_.settle();
    assert.equal(group('br7'), 0);
  });

  it('lost events lead to a full read', async () => {
    const index = it_.links.addPodPair('veth1');
    it_.links.overrun();
    await it_.settle();
    assert.equal(group('veth1'), 8);
    it_.links.remove(index);
    it_.links.overrun();
    await it_.settle();
    assert.deepEqual([it_.reconciler.groupOf(index), it_.held()], [null, []]);
  });

  it('a removed link is no error', async () => {
    const index = it_.links.addPodPair('veth1');
    const { setGroups } = it_.links;
    it_.links.setGroups = (changes) => {
      it_.links.remove(index);
      return setGroups(changes);
    };
    await it_.settle();
    assert.deepEqual([it_.refused, it_.failed, it_.changed, it_.held()], [[], [], [], []]);
  });

  it('a refusal is logged once, and retried with the next full read', async () => {
    it_.links.refuse('EPERM');
    const index = it_.links.addPodPair('veth1');
    await it_.settle();
    it_.links.change(index, { isUp: true });
    await it_.settle();
    assert.deepEqual(it_.refused, ['veth1 EPERM']);
    assert.deepEqual(it_.held(), []);
    it_.links.refuse(null);
    await it_.reconciler.reconcileAll();
    assert.equal(group('veth1'), 8);
  });

  it('a failed list is retried', async () => {
    it_.links.addPodPair('veth1');
    it_.links.failList();
    await it_.reconciler.reconcileAll();
    assert.deepEqual(it_.failed, ['EINTR 1000']);
    it_.clock.pass(1000);
    await it_.settle();
    assert.equal(group('veth1'), 8);
  });

  it('knows names and groups, and the names of removed links', async () => {
    const index = it_.links.addPodPair('veth1');
    await it_.settle();
    it_.links.change(index, { name: 'renamed' });
    await it_.settle();
    assert.deepEqual([it_.reconciler.nameOf(index), it_.reconciler.groupOf(index)], ['renamed', 8]);
    assert.equal(it_.held()[0]?.name, 'renamed');
    it_.links.remove(index);
    await it_.settle();
    assert.deepEqual([it_.reconciler.nameOf(index), it_.reconciler.groupOf(index)], ['renamed', null]);
    assert.equal(it_.reconciler.nameOf(9999), null);
  });

  it('of earlier runs, only groups that are as they left them belong to nodewall', async () => {
    const [ours, renamed, foreign, bridge] = ['veth1', 'veth2', 'veth3', 'br7'].map((name) =>
      it_.links.add(name, { kind: 'bridge', isUp: true }),
    ) as [number, number, number, number];
    for (const index of [ours, renamed, bridge]) it_.links.setForeign(index, 8);
    it_.links.setForeign(foreign, 5);
    const remembered = [
      { index: ours, name: 'veth1', group: 8 },
      { index: renamed, name: 'before', group: 8 },
      { index: foreign, name: 'veth3', group: 8 },
      { index: 777, name: 'gone', group: 8 },
    ];
    const next = watched(remembered, it_.links);
    await next.reconciler.reconcileAll();
    // Our link no longer matches; the others are foreign.
    assert.deepEqual(['veth1', 'veth2', 'veth3', 'br7'].map(group), [0, 8, 5, 8]);
    assert.deepEqual(next.held(), []);
  });

  it('release resets exactly the groups that nodewall set', async () => {
    it_.links.addPodPair('veth1');
    const other = it_.links.addPodPair('veth2');
    it_.links.setForeign(other, 8);
    await it_.settle();
    const released = await releaseGroups(it_.links, [
      ...it_.held(),
      { index: other, name: 'other', group: 8 },
    ]);
    assert.deepEqual(
      released.map(({ name }) => name),
      ['veth1'],
    );
    assert.deepEqual([group('veth1'), group('veth2')], [0, 8]);
  });

  it('reads only entries of the saved form', () => {
    const good = { index: 1, name: 'a', group: 8 };
    assert.deepEqual(toOwnedGroups([good, null, 3, { index: '1' }, { ...good, group: 'x' }]), [good]);
    assert.deepEqual(toOwnedGroups({ a: 1 }), []);
  });
});

/** Steps refer to links by number; steps that are not possible are skipped. */
const step = fc.record({
  what: fc.constantFrom(
    'pod here',
    'pod there',
    'pair',
    'bridge',
    'nic',
    'away',
    'back',
    'up',
    'down',
    'port',
    'no port',
    'rename',
    'foreign',
    'foreign zero',
    'remove',
    'overrun',
    'deliver',
    'deliver',
    'turn',
    'turn',
    'settle',
  ),
  at: fc.nat(12),
  to: fc.nat(12),
});

describe('any order of events', function () {
  this.timeout(120_000);

  it('leads to the same groups as a fresh list', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const one = watched();
        const { links, reconciler } = one;
        void reconciler.reconcileAll();
        for (const [i, { what, at, to }] of steps.entries()) await play(one, what, `n${i}`, at, to);
        await one.settle();
        const told = links.all().filter(({ index }) => !links.isSilent(index));
        assert.deepEqual(groupsOf(told), expected(links, told), 'after the events');
        await reconciler.reconcileAll();
        await one.settle();
        assert.deepEqual(groupsOf(links.all()), expected(links, links.all()), 'after a list');
        assert.deepEqual(
          one.held().map(({ index }) => index),
          links
            .all()
            .flatMap(({ index, group }) => (group !== 0 && links.setter(index) === 'us' ? [index] : [])),
        );
      }),
      { numRuns: runs(400) },
    );
  });
});

function groupsOf(links: readonly { name: string; group: number }[]): [string, number][] {
  return links.map(({ name, group }) => [name, group]);
}

/** Foreign groups stay; all other links get the group they would get from group 0. */
function expected(links: FakeLinks, wanted: readonly { index: number }[]): [string, number][] {
  const isOther = (index: number, group: number) => links.setter(index) === 'other' && group !== 0;
  const clean = links.all().map((link) => (isOther(link.index, link.group) ? link : { ...link, group: 0 }));
  const decisions = classify(clean, { held: new Map(), attachments: new Map() });
  return decisions
    .filter(({ link }) => wanted.some(({ index }) => index === link.index))
    .map(({ link, group }) => [link.name, group]);
}

async function play(one: Watched, what: string, name: string, at: number, to: number): Promise<void> {
  const { links } = one;
  const all = links.all().filter(({ isLoopback }) => !isLoopback);
  const link = all[at % Math.max(1, all.length)];
  const other = all[to % Math.max(1, all.length)];
  if (what === 'pod here') links.addPodPair(name, 'here');
  else if (what === 'pod there') links.addPodPair(name, 'there');
  else if (what === 'pair') links.addPair(name, `${name}p`);
  else if (what === 'bridge') links.add(name, { kind: 'bridge' });
  else if (what === 'nic') links.add(name);
  else if (what === 'deliver') links.deliver(1 + to);
  else if (what === 'turn')
    for (let i = 0; i < to % 4; i++) await new Promise((resolve) => setImmediate(resolve));
  else if (what === 'settle') await one.settle();
  else if (what === 'overrun') links.overrun();
  else if (link === undefined || other === undefined) return;
  else if (what === 'up' || what === 'down') links.change(link.index, { isUp: what === 'up' });
  else if (what === 'rename') links.change(link.index, { name });
  else if (what === 'foreign') links.setForeign(link.index, 5);
  else if (what === 'foreign zero') links.setForeign(link.index, 0);
  else if (what === 'remove') links.remove(link.index);
  else if (what === 'no port') links.change(link.index, { master: null });
  else if (what === 'port' && other.kind === 'bridge' && link.kind !== 'bridge')
    links.change(link.index, { master: other.index });
  else if (what === 'away' && link.kind === 'veth' && link.peer !== null && link.peerNamespace === null)
    links.moveAway(link.index);
  else if (what === 'back' && link.peerNamespace !== null) links.bringBack(link.index, name);
}
