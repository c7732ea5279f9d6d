import assert from 'node:assert/strict';
import { type ClusterObjects, NO_OBJECTS, type Pod } from '../../apis/objects.ts';
import type { Log } from '../../lib/process/log.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { compiler } from '../compile/compile.ts';
import type { Snapshot } from '../watch/source.ts';
import { Compiling } from './compiling.ts';

const SNAPSHOT: Snapshot = { objects: NO_OBJECTS, problems: [], files: 0, complete: true };

describe('compiling', () => {
  function compiling(failures: number) {
    const said: string[] = [];
    let made = 0;
    const one = new Compiling({
      hub: {
        publish: () => said.push('publish') && 0,
        setEndpoints: () => void said.push('endpoints'),
        revision: 'a.1',
      },
      statuses: { publish: (_snapshot, _compiled, revision) => void said.push(`statuses of ${revision}`) },
      metrics: {
        compiled: () => void said.push('measured'),
        published: () => {},
        failed: () => void said.push('failed'),
        delayed: () => void said.push('delayed'),
      },
      log: { error: (text: string) => said.push(text) } as unknown as Log,
      clock: fakeClock(),
      compiler: () => {
        made++;
        if (made > failures) return compiler();
        const fault = (): never => {
          throw new Error('a fault');
        };
        return Object.assign(fault, { prepare: fault });
      },
      sayProblems: () => void said.push('problems'),
      published: () => void said.push('published'),
    });
    return { one, said };
  }
  const FAULT = ['failed', 'internal error; agents keep the published rules'];
  const GOOD = ['endpoints', 'publish', 'measured', 'statuses of a.1', 'published'];

  it('publishes, then calls back', () => {
    const { one, said } = compiling(0);
    one.deliver(SNAPSHOT);
    assert.deepEqual(said, ['problems', ...GOOD]);
    assert.equal(one.snapshot, SNAPSHOT);
  });

  it('retries once from scratch after an internal error', () => {
    const { one, said } = compiling(1);
    one.deliver(SNAPSHOT);
    assert.deepEqual(said, ['problems', ...FAULT, ...GOOD]);
  });

  it('keeps the published state after two internal errors, and continues with the next snapshot', () => {
    const { one, said } = compiling(2);
    one.deliver(SNAPSHOT);
    assert.deepEqual(said.splice(0), ['problems', ...FAULT, ...FAULT]);
    assert.equal(one.snapshot, null);
    one.deliver(SNAPSHOT);
    assert.deepEqual(said, ['problems', ...GOOD]);
  });

  it('says once which Services have endpoints that no pod has, and counts them', () => {
    const said: object[] = [];
    const counts: number[] = [];
    const nothing = () => {};
    const one = new Compiling({
      hub: { publish: () => 0, setEndpoints: nothing, revision: 'a.1' },
      statuses: { publish: nothing },
      metrics: {
        compiled: (_, { ignoredEndpoints }) => void counts.push(ignoredEndpoints),
        published: nothing,
        failed: nothing,
        delayed: nothing,
      },
      log: { warn: (_: string, fields: object) => said.push(fields) } as unknown as Log,
      clock: fakeClock(),
      sayProblems: nothing,
      published: nothing,
    });
    const web = { namespace: 'shop', name: 'web' };
    const egress = [{ action: 'Allow' as const, toServices: [web] }];
    const spec = { priority: 1, appliedTo: [{ nodeSelector: {} }], egress };
    const slice = { kind: 'EndpointSlice', namespace: 'shop', name: 'web-1', service: 'web' } as const;
    const objects: ClusterObjects = {
      ...NO_OBJECTS,
      services: [{ kind: 'Service', ...web, selector: null, clusterIPs: [], ports: [] }],
      endpointSlices: [
        { ...slice, addresses: ['10.1.0.1', '203.0.113.9'], ports: [{ protocol: 'TCP', port: 80 }] },
      ],
      policies: [
        {
          ...{ kind: 'ClusterNetworkPolicy', apiGroup: 'nodewall.io', name: 'p', uid: '', generation: 0 },
          spec,
        },
      ],
    };
    const pod = (name: string, address: string): Pod => {
      const rest = { labels: {}, serviceAccount: 'default', addresses: [address] };
      return { kind: 'Pod', namespace: 'shop', name, ...rest };
    };
    const states = [
      [pod('a', '10.1.0.1')],
      [],
      [pod('a', '10.1.0.1'), pod('b', '203.0.113.9')],
      [pod('a', '10.1.0.1')],
    ];
    for (const pods of states) one.deliver({ ...SNAPSHOT, objects: { ...objects, pods } });
    assert.deepEqual(counts, [1, 2, 0, 1]);
    const fields = { stage: 'compile', name: 'shop/web', count: 1, ignored: ['203.0.113.9'] };
    assert.deepEqual(said, [fields, fields]);
    assert.deepEqual(one.leftOutServices, ['shop/web']);
  });
});
