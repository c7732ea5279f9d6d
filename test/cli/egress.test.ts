import assert from 'node:assert/strict';
import { type FakeApi, type FakeObject, fakeApi } from '../fake/fake-api.ts';
import { hosted } from './command-host.ts';
import { createFolder, type Folder } from './folder.ts';

const RECORDS = 'docs/examples/egress-records.jsonl';
const EXAMPLE = ['--manifests', 'docs/examples/egress'];
const SLICES = '/apis/discovery.k8s.io/v1/endpointslices';
const GATEWAYS = '/apis/nodewall.io/v1alpha1/egressgateways';

describe('nodewall egress', function () {
  this.timeout(60_000);

  describe('who', () => {
    const who = async (...args: readonly string[]) => {
      const { status, stdout, stderr } = await hosted('egress', 'who', ...args, '-o', 'json');
      const { bindings = [] } = stdout === '' ? {} : JSON.parse(stdout);
      return { status, stderr, found: bindings.map(({ src }: { src: string }) => src), bindings };
    };

    it('finds who had an address and port at a time, whole seconds included', async () => {
      const at = (time: string) => who('198.51.100.20:40001', RECORDS, '--at', time);
      assert.deepEqual((await at('2026-11-23T22:10:01Z')).found, ['10.244.1.7']);
      assert.deepEqual((await at('2026-11-23T22:10:09.731Z')).found, []);
      assert.deepEqual((await at('2026-11-23T23:00:00Z')).found, ['10.244.1.9']);
      const { status, found, stderr } = await who('198.51.100.20', RECORDS);
      assert.deepEqual([status, found], [0, ['10.244.1.7', '10.244.1.9']]);
      assert.equal(stderr, 'connections may be missing: the agent started at 2026-11-23T22:00:00.000000Z\n');
      const none = await who('198.51.100.20:1', RECORDS);
      assert.deepEqual([none.status, none.found], [0, []]);
      assert.match(none.stderr, /^no record of 198\.51\.100\.20:1$/m);
    });

    it('names pods, and refuses what is no address, and records that are not there', async () => {
      const named = await who('198.51.100.20:40001', RECORDS, ...EXAMPLE);
      const [known, unknown] = named.bindings;
      assert.deepEqual([known.podNow, known.policyNow], ['shop/pay-1', 'shop/bank']);
      assert.deepEqual([unknown.podNow, unknown.policyNow], [undefined, undefined]);
      assert.equal((await who('bank:443', RECORDS)).status, 2);
      assert.equal((await who('198.51.100.20:70000', RECORDS)).status, 2);
      assert.equal((await who('198.51.100.20', RECORDS, '--at', 'noon')).status, 2);
      const { status, stderr } = await who('198.51.100.20:1', '--state-dir', '/nowhere');
      assert.equal(status, 1);
      assert.match(stderr, /Set log\.egressConnections/);
    });
  });

  it('stages of a node with egress gateways are printed in every form', async () => {
    const node = [...EXAMPLE, '--node', 'worker-1'];
    const state = await hosted('dump', 'state', ...node);
    assert.deepEqual([state.status, state.stderr], [0, '']);
    const { egress } = JSON.parse(state.stdout);
    const compiled = JSON.parse((await hosted('compile', ...node, '-o', 'json')).stdout);
    assert.deepEqual(egress.classes, compiled.egress.classes);
    const rules = await hosted('compile', ...node, '-o', 'iptables');
    assert.equal(rules.status, 0, rules.stderr);
    assert.match(
      rules.stdout,
      /^# Egress gateways need the dataplane nftables: their rules are not here\.$/m,
    );
    assert.match(rules.stdout, /^# iptables-restore --noflush$/m);
  });

  it('status has gateways and policies of manifests', async () => {
    const { status, stdout } = await hosted('egress', 'status', ...EXAMPLE, '-o', 'json');
    assert.equal(status, 0);
    const { gateways, policies } = JSON.parse(stdout);
    assert.deepEqual(gateways[0].nodes, [
      { name: 'edge-1', ready: true, reason: null },
      { name: 'edge-2', ready: true, reason: null },
    ]);
    const { gateway, addresses, nodes } = policies[1];
    assert.deepEqual(
      [gateway, addresses, nodes],
      ['internet', ['198.51.100.20', '2001:db8:100::14'], ['edge-2']],
    );
    assert.deepEqual(policies[2].unavailable, { ipv4: null, ipv6: 'no-family' });
  });

  describe('of a cluster', () => {
    let api: FakeApi;
    let folder: Folder;
    let kubeconfig: string;
    let patches: unknown[];
    const gateway = (owner: string): FakeObject => ({
      metadata: { name: 'edge', uid: 'u' },
      spec: { nodeSelector: { matchLabels: { a: 'b' } } },
      status: {
        nodes: [{ name: 'edge-1', ready: owner === 'edge-1', reason: 'Drained' }],
        slots: [{ name: '0', node: owner, epoch: 3, addresses: [] }],
      },
    });

    before(async () => {
      folder = await createFolder();
      api = await fakeApi();
      kubeconfig = await folder.writeBeside(
        'kubeconfig',
        JSON.stringify({
          apiVersion: 'v1',
          kind: 'Config',
          'current-context': 'c',
          users: [{ name: 'u', user: {} }],
          clusters: [{ name: 'c', cluster: { server: api.server, 'insecure-skip-tls-verify': true } }],
          contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
        }),
      );
      api.put('/api/v1/nodes', { metadata: { name: 'edge-1', labels: { a: 'b' } } });
      for (const list of ['/api/v1/namespaces', '/api/v1/pods', '/api/v1/services', SLICES, GATEWAYS])
        api.install(list);
    });
    beforeEach(() => {
      patches = [];
      let isDrained = false;
      api.put(GATEWAYS, gateway('edge-1'));
      api.answers = (request, response) => {
        // The slot moves once somebody has seen that it has not moved.
        if (isDrained && request.method === 'GET' && request.url?.startsWith(GATEWAYS)) {
          isDrained = false;
          response.once('finish', () => api.put(GATEWAYS, gateway('edge-2')));
        }
        if (request.method !== 'PATCH') return false;
        let text = '';
        request.on('data', (part) => {
          text += part;
        });
        request.on('end', () => {
          patches.push([request.url, JSON.parse(text).metadata.annotations]);
          response.setHeader('content-type', 'application/json');
          response.end('{}');
          isDrained = text.includes('"true"');
        });
        return true;
      };
    });
    after(async () => {
      await api.close();
      await folder.close();
    });
    const run = (...args: readonly string[]) =>
      hosted('egress', ...args, '--kubeconfig', kubeconfig, '-o', 'json');

    it('status is that of its statuses', async () => {
      const { status, stdout, stderr } = await run('status');
      assert.equal(status, 0, stderr);
      const [edge] = JSON.parse(stdout).gateways;
      assert.deepEqual(edge.slots, [{ name: '0', node: 'edge-1', epoch: 3, addresses: [] }]);
    });

    it('drain marks the node and waits until its slots have moved', async () => {
      const { status, stdout, stderr } = await run('drain', 'edge-1');
      assert.equal(status, 0, stderr);
      const { milliseconds, ...result } = JSON.parse(stdout);
      assert.deepEqual(result, { node: 'edge-1', drain: true, slots: ['edge/0'], left: [] });
      assert.ok(milliseconds > 0);
      assert.match(stderr, /^edge-1 still serves edge\/0$/m);
      assert.deepEqual(patches, [['/api/v1/nodes/edge-1', { 'nodewall.io/egress-drain': 'true' }]]);
    });

    it('drain ends with 1 if slots are left, and --undo removes the mark', async () => {
      api.answers = (request, response) => {
        if (request.method !== 'PATCH') return false;
        response.setHeader('content-type', 'application/json');
        response.end('{}');
        return true;
      };
      const { status, stdout } = await run('drain', 'edge-1', '--timeout', '1');
      assert.deepEqual([status, JSON.parse(stdout).left], [1, ['edge/0']]);
      assert.equal((await run('drain', 'edge-1', '--undo')).status, 0);
    });
  });

  it('drain needs a cluster', async () => {
    const { status, stderr } = await hosted('egress', 'drain', 'edge-1');
    assert.equal(status, 2);
    assert.match(stderr, /no cluster is known: neither --kubeconfig/);
  });
});
