import assert from 'node:assert/strict';
import { IptablesError } from '../apply/iptables/tools.ts';
import { holdRules, type Remains, removeAll, removeEach } from './dataplane.ts';

const HIDDEN = new IptablesError('NOT_PERMITTED', 'needs CAP_NET_RAW');

/** A place that has rules of ours, has none, or answers with an error. */
function place(name: string, answer: boolean | Error): Remains {
  const said = (): boolean => {
    if (answer instanceof Error) throw answer;
    return answer;
  };
  return {
    name,
    holdsRules: async () => said(),
    remove: async () => (said() ? [`rules of ${name}`] : []),
  };
}

describe('what dataplanes of ours hold', () => {
  const chosen = place('table', false);

  async function holds(all: readonly Remains[], others: readonly Remains[]) {
    const warned: string[] = [];
    const warn = (message: string, fields?: object) =>
      void warned.push(`${message} ${JSON.stringify(fields)}`);
    return { is: await holdRules({ all, others }, 'n1', { warn } as never), warned };
  }

  it('is asked of every place until one says yes', async () => {
    const never = place('never asked', new Error('asked'));
    const others = [place('legacy', true), never];
    assert.deepEqual(await holds([chosen, ...others], others), { is: true, warned: [] });
    assert.deepEqual(await holds([chosen], []), { is: false, warned: [] });
  });

  it('is nothing where this process may not look, with a warning; elsewhere it is still asked', async () => {
    const [hidden, sets] = [place('legacy', HIDDEN), place('ipset', true)];
    const { is, warned } = await holds([chosen, hidden, sets], [hidden, sets]);
    assert.equal(is, true);
    assert.match(warned.join(), /^cannot look .*"node":"n1","where":"legacy","error":"needs CAP_NET_RAW"\}$/);
    assert.equal((await holds([chosen, hidden], [hidden])).is, false);
  });

  it('must be known of the chosen dataplane, and other errors are no answer', async () => {
    const own = place('legacy', HIDDEN);
    await assert.rejects(holds([chosen, own], [chosen]), HIDDEN);
    const broken = place('nft', new Error('locked'));
    await assert.rejects(holds([chosen, broken], [broken]), /locked/);
  });
});

describe('removing what dataplanes of ours hold', () => {
  it('tries every place, whatever one of them says', async () => {
    const [hidden, broken] = [place('legacy', HIDDEN), place('nft', new Error('locked'))];
    const { removed, hidden: unseen, failed } = await removeEach([broken, hidden, place('table', true)]);
    assert.deepEqual(removed, ['rules of table']);
    assert.deepEqual(unseen, [{ from: hidden, error: HIDDEN }]);
    assert.deepEqual(
      failed.map(({ from }) => from),
      [broken],
    );
  });

  it('of all goes on where it may not look, and says where', async () => {
    const hidden = place('legacy', HIDDEN);
    assert.deepEqual(await removeAll([hidden, place('table', true)]), {
      removed: ['rules of table'],
      hidden: [{ from: hidden, error: HIDDEN }],
    });
  });

  it('of all throws what failed, the first as the cause', async () => {
    const [one, two] = [new Error('locked'), new Error('no memory')];
    await assert.rejects(removeAll([place('a', one), place('b', false)]), one);
    await assert.rejects(
      removeAll([place('a', one), place('b', two), place('c', one)]),
      (error: Error) => error.message === 'locked; no memory' && error.cause === one,
    );
  });
});
