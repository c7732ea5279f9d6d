import assert from 'node:assert/strict';
import { IptablesError } from '../apply/iptables/tools.ts';
import { dataplaneMigration, type LeftOvers } from './dataplane.ts';

function leftOvers(
  name: string,
  found: readonly string[],
  failures = 0,
  error = new Error('locked'),
): LeftOvers & { calls(): number } {
  let calls = 0;
  return {
    name,
    calls: () => calls,
    holdsRules: async () => found.length > 0,
    async remove() {
      if (++calls <= failures) throw error;
      return [...found];
    },
  };
}

function setUp(...others: readonly LeftOvers[]) {
  const said: string[] = [];
  const settled = dataplaneMigration({ chosen: { name: 'iptables' }, others }, 'n1', {
    info: (message: string, fields: object) => said.push(`${message} ${JSON.stringify(fields)}`),
    warn: (message: string, fields: object) => said.push(`warn: ${message} ${JSON.stringify(fields)}`),
  } as never);
  return { said, settled };
}

const NONE: ReadonlyMap<string, Error> = new Map();

describe('dataplane migration', () => {
  it('removes left-overs of other dataplanes once, and logs it', async () => {
    const [table, nothing] = [
      leftOvers('nftables', ['table inet nodewall']),
      leftOvers('iptables (legacy)', []),
    ];
    const { said, settled } = setUp(table, nothing);
    assert.deepEqual([await settled(NONE), await settled(NONE)], [true, true]);
    assert.deepEqual([table.calls(), nothing.calls()], [1, 1]);
    assert.deepEqual(said, [
      'removed the rules of the previous dataplane {"node":"n1","dataplane":"iptables","removed":["table inet nodewall"]}',
    ]);
  });

  it('retries only removals that failed', async () => {
    const [table, locked] = [leftOvers('nftables', ['t']), leftOvers('iptables (legacy)', ['c'], 1)];
    const { said, settled } = setUp(locked, table);
    assert.equal(await settled(NONE), false);
    assert.equal(await settled(NONE), true);
    assert.deepEqual([table.calls(), locked.calls()], [1, 2]);
    assert.match(
      said[0] ?? '',
      /^warn: cannot remove .*retrying.*"previous":"iptables \(legacy\)","error":"locked"/,
    );
    assert.match(said.at(-1) ?? '', /removed the rules of the previous dataplane .*"c"/);
  });

  it('makes no claim about places it may not look at, and asks once', async () => {
    const hidden = leftOvers(
      'iptables (legacy)',
      [],
      1,
      new IptablesError('NOT_PERMITTED', 'needs CAP_NET_RAW'),
    );
    const { said, settled } = setUp(hidden);
    assert.deepEqual([await settled(NONE), await settled(NONE)], [true, true]);
    assert.equal(hidden.calls(), 1);
    assert.match(
      said.join(),
      /^warn: cannot check another dataplane .*"dataplane":"iptables \(legacy\)","error":"needs CAP_NET_RAW"/,
    );
  });

  it('keeps the other dataplane while a policy fails, and logs it once', async () => {
    const [table, nothing] = [
      leftOvers('nftables', ['table inet nodewall']),
      leftOvers('iptables (legacy)', []),
    ];
    const { said, settled } = setUp(table, nothing);
    const failed = new Map([['nodewall.io/a', new Error('refused')]]);
    assert.deepEqual([await settled(failed), await settled(failed)], [true, true]);
    assert.deepEqual([table.calls(), said.length], [0, 1]);
    assert.match(
      said[0] ?? '',
      /^warn: .*must pass both.*"previous":\["nftables"\],"policies":\["nodewall.io\/a"\]/,
    );
    assert.equal(await settled(NONE), true);
    assert.match(said.at(-1) ?? '', /^removed the rules of the previous dataplane/);
  });
});
