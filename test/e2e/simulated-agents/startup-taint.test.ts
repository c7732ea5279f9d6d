import assert from 'node:assert/strict';
import { until } from '../../kernel/until.ts';
import { readSource } from '../../structure/source-file.ts';
import { simulated } from '../labs.ts';
import type { RolloutBed } from '../rollout-bed.ts';

interface TaintedNode {
  readonly spec: { readonly taints?: readonly { readonly key: string }[] };
}

/** One controller knows a startup taint, and agents run. */
describe('a startup taint, on a real API server', function () {
  this.timeout(60_000);
  const begun = simulated.use();
  let bed: RolloutBed;
  before(() => {
    bed = begun();
  });

  const keys = async (): Promise<readonly string[]> => {
    const { spec } = (await bed.cluster.get('node/n1')) as unknown as TaintedNode;
    return (spec.taints ?? []).map(({ key }) => key);
  };
  const taint = (...added: readonly string[]) => {
    const taints = added.map((key) => ({ key, effect: 'NoSchedule' }));
    return bed.cluster.kubectl(['patch', 'node', 'n1', '-p', JSON.stringify({ spec: { taints } })]);
  };

  it('stays while the controller may not remove it, which its log says; then it is removed alone', async () => {
    await taint('nodewall.io/agent-not-ready', 'example.com/gpu');
    const said = 'cannot remove the startup taint of a node; trying again';
    await until('the log says so', async () => bed.logs().includes(said), { detail: bed.logs });
    assert.ok((await keys()).includes('nodewall.io/agent-not-ready'));
    await bed.cluster.apply(readSource('deploy/kustomize/overlays/startup-taint/taints.yaml'));
    const rest = async () => (await keys()).join() === 'example.com/gpu';
    await until('it is removed', rest, { limit: 30_000, detail: bed.logs });
    await taint();
  });
});
