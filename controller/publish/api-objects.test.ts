import assert from 'node:assert/strict';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { JSON_TYPE, REPORT, ServerBed } from '../../test/fake/server-bed.ts';

const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';

describe('node views as objects', () => {
  const { start, ask } = new ServerBed();

  it('shows views as objects, as a list and as a Table', async () => {
    const running = await start();
    const put = {
      method: 'PUT',
      headers: JSON_TYPE,
      body: JSON.stringify(REPORT),
    };
    await ask(running, `${NODE_VIEWS_PATH}/cp-1/status`, 'agent.cp-1', put);
    const counts = { rules: 1, addressSets: 3, serviceSets: 0 };
    const list = (await ask(running, NODE_VIEWS_PATH, 'user.a')).body as { items: { metadata: object }[] };
    const metadata = (name: string) => ({ name, resourceVersion: 'e.1' });
    assert.deepEqual(list.items, [
      {
        kind: 'NodeView',
        apiVersion: 'controlplane.nodewall.io/v1alpha1',
        metadata: metadata('cp-1'),
        counts,
        status: REPORT,
      },
      {
        kind: 'NodeView',
        apiVersion: 'controlplane.nodewall.io/v1alpha1',
        metadata: metadata('cp-2'),
        counts: { rules: 0, addressSets: 2, serviceSets: 0 },
      },
    ]);
    const { body: one } = await ask(running, `${NODE_VIEWS_PATH}/cp-1`, 'user.a');
    const { view } = one as { view: { rules: { source: object }[]; addressSets: { members: string[] }[] } };
    assert.equal(view.rules.length, 1);
    assert.ok(view.addressSets.some(({ members }) => members.join() === '10.0.0.0,10.0.0.1'));
    const headers = { accept: TABLE };
    running.pass(61);
    const { body: table } = await ask(running, NODE_VIEWS_PATH, 'user.a', { headers });
    const { kind, rows, columnDefinitions } = table as {
      kind: string;
      rows: { cells: unknown[] }[];
      columnDefinitions: object[];
    };
    assert.equal(kind, 'Table');
    assert.deepEqual(
      rows.map(({ cells }) => cells),
      [
        ['cp-1', 1, 3, 'Enforced', 0, '61s', '0.1.0', 'e.1'],
        ['cp-2', 0, 2, 'Unknown', 0, '<none>', '<none>', '<none>'],
      ],
    );
    assert.equal(columnDefinitions.length, rows[0]?.cells.length);
    const { body: single } = await ask(running, `${NODE_VIEWS_PATH}/cp-2`, 'user.a', { headers });
    assert.equal((single as typeof table & { rows: object[] }).rows.length, 1);
    const filtered = `${NODE_VIEWS_PATH}?fieldSelector=metadata.name%3Dcp-2&limit=500`;
    const { body: some } = await ask(running, filtered, 'user.a');
    assert.equal((some as { items: object[] }).items.length, 1);
  });
});
