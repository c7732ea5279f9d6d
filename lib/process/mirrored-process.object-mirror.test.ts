import assert from 'node:assert/strict';
import { listChange } from '../sharing/lists.ts';
import { MirrorReceiver, MirrorSender } from './mirrored-process.ts';

interface Named {
  readonly name: string;
  readonly cost?: number;
}
type Lists = Readonly<Record<'a' | 'b', readonly Named[]>>;
const EMPTY: Lists = { a: [], b: [] };

describe('the mirror of lists', () => {
  let sender: MirrorSender;
  let receiver: MirrorReceiver<Lists>;
  let sent: Lists;
  beforeEach(() => {
    sender = new MirrorSender((object) => (object as Named).cost ?? 1);
    receiver = new MirrorReceiver(EMPTY);
    sent = EMPTY;
  });

  /** Returns the number of objects in each update; the order of `a` matters. */
  function send(a: readonly Named[], b: readonly Named[] = sent.b): number[] {
    const changes = [
      { list: 'a', ...listChange<object>(sent.a, a), inOrder: a },
      { list: 'b', ...listChange<object>(sent.b, b) },
    ];
    sent = { a, b };
    return structuredClone([...sender.updates(changes)]).map((update) => {
      receiver.receive(update);
      return update.added.length;
    });
  }

  it('has each state in order, and sends each object once', () => {
    const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ name })) as [Named, Named, Named];
    for (const [list, count] of [
      [[a, b], 2],
      [[a, b], 0],
      [[b, a], 0],
      [[c, b], 1],
      [[], 0],
      [[c, a, b], 3],
    ] as const) {
      assert.equal(
        send(list).reduce((sum, one) => sum + one, 0),
        count,
      );
      assert.deepEqual(receiver.lists().a, list);
    }
  });

  it('has an object that is in two lists, until the last one loses it', () => {
    const both = { name: 'both' };
    send([both], [both]);
    send([], [both]);
    assert.deepEqual(receiver.lists(), { a: [], b: [both] });
    send([both], []);
    assert.deepEqual(receiver.lists(), { a: [both], b: [] });
  });

  it('sends many objects in parts, by what they cost', () => {
    const small = Array.from({ length: 1200 }, (_, i) => ({ name: `s${i}` }));
    const large = Array.from({ length: 4 }, (_, i) => ({ name: `l${i}`, cost: 300 }));
    assert.deepEqual(send(small, large), [500, 500, 200, 2, 2]);
    assert.deepEqual(receiver.lists(), { a: small, b: large });
  });

  it('returns what did not change as the same lists', () => {
    send([{ name: 'a' }], [{ name: 'b' }]);
    const before = receiver.lists();
    assert.equal(receiver.lists(), before);
    send([]);
    assert.equal(receiver.lists().b, before.b);
    assert.deepEqual(receiver.lists().a, []);
  });

  it('keeps what is shared in place of what was received', () => {
    const one = { name: 'one' };
    receiver = new MirrorReceiver(EMPTY, () => one);
    send([{ name: 'a' }]);
    assert.equal(receiver.lists().a[0], one);
  });
});
