import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { type ClusterObjects, NO_OBJECTS } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/identity.ts';
import { cidr, policy, tcp } from '../../test/kernel/manifests.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import type { ObjectChange } from './changed-objects.ts';
import { IMPACT_LIMITS, ImpactOverrunError, ImpactProcess } from './impact-process.ts';

const NODE = {
  ...{ apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1' } },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
};
const SSH = {
  ...{ apiVersion: 'nodewall.io/v1alpha1', kind: 'Guardrail', metadata: { name: 'ssh' } },
  spec: { nodeSelector: {}, mustAllow: [{ direction: 'ingress', ports: [{ port: 22 }] }] },
};
const drop = (port: number, ...from: object[]) =>
  policy('p', { ingress: [{ name: 'r', action: 'Drop', from, ports: [tcp(port)] }] });

describe('the process that evaluates changes', function () {
  this.timeout(20_000);
  let objects: ClusterObjects | null = null;
  const impact = new ImpactProcess(DEFAULT_CONFIG, () => objects);
  after(() => impact.close());

  function added(manifest: object): ObjectChange {
    const [next] = toClusterObjects([manifest]).policies;
    if (next === undefined) throw new Error('no policy');
    return { kind: 'ClusterNetworkPolicy', identity: identityOf(next), next };
  }

  it('knows nothing before the objects are known', async () => {
    await assert.rejects(impact.violations(), /not known/);
  });

  it('names the Guardrail that a change would break, or the verdicts that it changes', async () => {
    objects = toClusterObjects([NODE, SSH]);
    assert.equal((await impact.violations()).size, 0);
    const { broken } = await impact.change(added(drop(22)));
    assert.deepEqual([broken?.guardrail, broken?.violation.rule?.policy], ['ssh', 'p']);
    const { broken: none, lines } = await impact.change(added(drop(80, cidr('198.51.100.0/24'))));
    assert.equal(none, null);
    assert.match(lines[0] ?? '', /^changes Allow \(no rule\) into Drop \(p\/r\): ingress tcp port 80 from/);
  });

  it('names the rules of a policy that earlier rules leave nothing to decide', async () => {
    const halves = [cidr('0.0.0.0/1'), cidr('128.0.0.0/1')];
    const rules = [...halves, cidr('0.0.0.0/0')].map((peer, i) => ({
      ...{ name: `r${i}`, from: [peer], ports: [tcp(80)] },
      action: i === 2 ? ('Allow' as const) : ('Drop' as const),
    }));
    const { lines } = await impact.change(added(policy('q', { ingress: rules })));
    assert.equal(
      lines[0],
      'spec.ingress[2]: on n1: decides nothing: q/r0, q/r1 match all of its flows first',
    );
    assert.match(lines[1] ?? '', /^changes Allow/);
  });

  it('follows the objects, and refuses nothing for what is broken already', async () => {
    objects = toClusterObjects([NODE, SSH, drop(22)]);
    const violations = await impact.violations();
    assert.deepEqual([...violations.keys()], ['ssh']);
    assert.equal((await impact.change(added(drop(22)))).broken, null);
  });

  it('ends at its limit, and answers again afterwards', async () => {
    const short = new ImpactProcess(DEFAULT_CONFIG, () => objects, { ...IMPACT_LIMITS, change: 1 });
    objects = { ...NO_OBJECTS };
    await assert.rejects(short.change(added(drop(22))), ImpactOverrunError);
    assert.equal((await short.violations()).size, 0);
    short.close();
  });
});
