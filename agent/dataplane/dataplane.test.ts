import assert from 'node:assert/strict';
import { IptablesError } from '../apply/iptables/tools.ts';
import { holdRules, type LeftOvers, removeAll, removeEach } from './dataplane.ts';

const HIDDEN = new IptablesError('NOT_PERMITTED', 'needs CAP_NET_RAW');

/** A place that has rules of ours, has none, or answers with an error. */
function place(name: string, answer: boolean | Error): LeftOvers {
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

describe('rules of nodewall in any dataplane', () => {
  const chosen = place('table', false);

  async function holds(all: readonly LeftOvers[], others: readonly LeftOvers[]) {
    const warned: string[] = [];
    const warn = (message: string, fields?: object) =>
      void warned.push(`${message} ${JSON.stringify(fields)}`);
    return { is: await holdRules({ all, others }, 'n1', { warn } as never), warned };
  }

  it('are looked for in every place until one has some', async () => {
    const never = place('never asked', new Error('asked'));
    const others = [place('legacy', true), never];
    assert.deepEqual(await holds([chosen, ...others], others), { is: true, warned: [] });
    assert.deepEqual(await holds([chosen], []), { is: false, warned: [] });
  });

  it('count as none where this process may not look, with a warning; other places are still checked', async () => {
    const [hidden, sets] = [place('legacy', HIDDEN), place('ipset', true)];
    const { is, warned } = await holds([chosen, hidden, sets], [hidden, sets]);
    assert.equal(is, true);
    assert.match(
      warned.join(),
      /^cannot check another dataplane .*"node":"n1","dataplane":"legacy","error":"needs CAP_NET_RAW"\}$/,
    );
    assert.equal((await holds([chosen, hidden], [hidden])).is, false);
  });

  it('must be readable in the chosen dataplane; other errors are thrown', async () => {
    const own = place('legacy', HIDDEN);
    await assert.rejects(holds([chosen, own], [chosen]), HIDDEN);
    const broken = place('nft', new Error('locked'));
    await assert.rejects(holds([chosen, broken], [broken]), /locked/);
  });
});

describe('removing rules of nodewall in all dataplanes', () => {
  it('tries every place, even after errors', async () => {
    const [hidden, broken] = [place('legacy', HIDDEN), place('nft', new Error('locked'))];
    const { removed, hidden: unseen, failed } = await removeEach([broken, hidden, place('table', true)]);
    assert.deepEqual(removed, ['rules of table']);
    assert.deepEqual(unseen, [{ from: hidden, error: HIDDEN }]);
    assert.deepEqual(
      failed.map(({ from }) => from),
      [broken],
    );
  });

  it('continues where it may not look, and names the place', async () => {
    const hidden = place('legacy', HIDDEN);
    assert.deepEqual(await removeAll([hidden, place('table', true)]), {
      removed: ['rules of table'],
      hidden: [{ from: hidden, error: HIDDEN }],
    });
  });

  it('throws all errors, the first as the cause', async () => {
    const [one, two] = [new Error('locked'), new Error('no memory')];
    await assert.rejects(removeAll([place('a', one), place('b', false)]), one);
    await assert.rejects(
      removeAll([place('a', one), place('b', two), place('c', one)]),
      (error: Error) => error.message === 'locked; no memory' && error.cause === one,
    );
  });
});
