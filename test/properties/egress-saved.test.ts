import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stateStore } from '../../agent/run/state-store.ts';
import { compile } from '../../controller/compile/compile.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import { createLog } from '../../lib/process/log.ts';
import { egressOf, SOME_EGRESS } from './egress-model.ts';
import { NO_CLUSTER } from './publish-model.ts';

describe('the state directory of a node with egress gateways', () => {
  let stateDir: string;
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'nodewall-egress-'));
  });
  afterEach(() => rm(stateDir, { recursive: true }));

  it('has what the node does, and an agent with the gate off does not take it up', async () => {
    const log = createLog({ logLevel: 'error', logFormat: 'json' });
    for (const node of ['a', 'b'] as const) {
      const store = (hasEgress: boolean) => stateStore({ stateDir, node, log, hasEgress });
      const state = nodeView({ ...compile(NO_CLUSTER), egress: egressOf(SOME_EGRESS, undefined) }, node);
      const saving = store(true);
      saving.state(state);
      await saving.flush();
      const { egress } = (await store(true).readState()) ?? assert.fail();
      assert.ok(egress !== undefined);
      const plain = (value: typeof egress) => ({ ...value, arrivals: new Map(value.arrivals) });
      assert.deepEqual(plain(egress), plain(state.egress ?? assert.fail()));
      assert.equal((await store(false).readState())?.egress, undefined);
    }
  });
});
