import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CONTROLLERS_PATH } from '../../apis/controller-state.ts';
import { type BundleManifest, SupportBundle } from '../../lib/process/bundle.ts';
import type { KubeApi, KubeRequest } from '../kubeapi/kube-api.ts';
import { KubeError } from '../kubeapi/kube-error.ts';
import { collectCluster } from './cluster-bundle.ts';

const NODES = Array.from({ length: 20 }, (_, i) => `worker-${i + 1}`);
const SILENT = 'worker-7';
const LEAST_SECRETS = 40;

/** Each call is one more credential, of one of several forms. */
function planting() {
  const planted: string[] = [];
  const forms = [
    (i: number) => `hunter${i}`,
    (i: number) => `planted-secret-${String(i).padStart(4, '0')}`,
    (i: number) => `eyJhbGciOiJSUzI1NiJ9.eyJzdWIi${i}.c2ln`,
    (i: number) => `AKIA${i}IOSFODNN7EXAMPLE`,
  ];
  const plant = (isWord = false): string => {
    const i = planted.length + 10;
    // A word that is like any other can be known by its key only.
    const form = forms[isWord ? 0 : 1 + (i % 3)];
    const secret = form?.(i) ?? assert.fail();
    planted.push(secret);
    return secret;
  };
  return { plant, planted };
}

/** A cluster of 20 nodes, with credentials wherever somebody may have put one. */
function cluster(plant: (isWord?: boolean) => string): KubeApi & { readonly requests: KubeRequest[] } {
  const requests: KubeRequest[] = [];
  const annotations = () => ({
    'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify({ password: plant(true) }),
  });
  const metadata = (name: string) => ({ name, labels: { key: plant() }, annotations: annotations() });
  const container = (name: string) => ({
    name,
    image: 'nodewall:0.1.0',
    env: [{ name: 'TOKEN', value: plant(true) }],
    args: [`--token=${plant(true)}`],
    command: [plant()],
  });
  const pod = (name: string, of: string, nodeName: string) => ({
    metadata: metadata(name),
    spec: { nodeName, containers: [container(of)] },
    status: {
      phase: 'Running',
      message: `refused: Authorization: Bearer ${plant(true)}`,
      containerStatuses: [{ name: of, restartCount: 1, ready: true }],
    },
  });
  const ready = {
    nodes: NODES.map((name, i) =>
      i < 2
        ? { metadata: metadata(name), status: { nodeInfo: { kernelVersion: '6.1.0' } } }
        : { metadata: { name } },
    ),
    nodeviews: NODES.map((name, i) => ({
      metadata: { name },
      status: i === 0 ? { off: `password ${plant(true)}`, other: plant(), enabled: true } : {},
    })),
    pods: [
      pod('nodewall-controller-abcd1', 'controller', 'worker-1'),
      pod('nodewall-agent-x1', 'agent', 'worker-1'),
    ],
    clusternetworkpolicies: [
      {
        metadata: metadata('web'),
        spec: { priority: 1, ingress: [{ name: 'close-0001-web', action: 'Drop' }] },
        status: { phase: 'Failed', problems: [`cannot reach https://jane:${plant(true)}@example.com/`] },
      },
    ],
    daemonsets: [
      {
        metadata: metadata('nodewall-agent'),
        spec: {
          template: {
            spec: { containers: [container('agent')], volumes: [{ configMap: { name: 'nodewall-agent' } }] },
          },
        },
      },
    ],
    deployments: [
      {
        metadata: metadata('nodewall-controller'),
        spec: { replicas: 2, template: { spec: { containers: [container('controller')] } } },
      },
    ],
    events: [
      {
        metadata: metadata('e'),
        reason: 'Failed',
        message: `pull of https://r.example.com/?key=${plant(true)}: ${plant()}`,
      },
    ],
    clusterroles: [
      {
        metadata: metadata('nodewall-controller'),
        rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['list'] }],
      },
    ],
    services: [
      { metadata: metadata('nodewall-controller'), spec: { externalName: plant(), ports: [{ port: 443 }] } },
    ],
    leases: [
      { metadata: metadata('nodewall-controller'), spec: { holderIdentity: 'nodewall-controller-abcd1' } },
    ],
    apiservices: [{ metadata: metadata('a'), spec: { caBundle: plant(), service: { name: 's' } } }],
  };
  const answers: Readonly<Record<string, unknown>> = {
    machine: {
      kernel: '6.18.44',
      environment: { TOKEN: plant(true) },
      configuration: {
        dataplane: 'nftables',
        guard: {
          probes: [{ name: 'p', target: { kind: 'http', url: `http://u:${plant(true)}@h/`, port: 80 } }],
        },
        password: plant(true),
      },
      metrics: `nodewall_agent_off 0\nother_metric{token="${plant(true)}"} 1\n`,
    },
    counters: { node: 'n', rules: [{ policy: 'web', rule: 'close-0001-web', packets: 7, note: plant() }] },
    names: { saved: null, names: [{ name: 'example.com', failing: `token=${plant(true)}`, addresses: [] }] },
    interfaces: [{ name: 'eth0', index: 2, alias: plant() }],
    records: { records: [{ time: 't', src: '10.0.0.9', payload: plant() }], isCut: false },
    flows: {
      node: 'n',
      since: '2026-01-01T00:00:00Z',
      liveAt: null,
      isCut: false,
      kinds: 1,
      note: plant(true),
      flows: [
        {
          direction: 'ingress',
          traffic: 'Host',
          peer: '10.0.0.8',
          protocol: 'tcp',
          port: 443,
          flow: { direction: 'ingress', src: '10.0.0.8', protocol: 'tcp', dstPort: 443 },
          decision: {
            verdict: 'Allow',
            policy: 'web',
            rule: 'close-0001-web',
            said: plant(),
            ruleIndex: 0,
            tier: 'application',
            reason: 'rule',
            skipped: [],
          },
          firstSeen: '2026-01-01T00:00:00Z',
          lastSeen: '2026-01-01T00:00:00Z',
          verdict: 'Allow',
          connections: 3,
          live: 1,
          sni: plant(true),
        },
      ],
      missed: { leftOut: 0, overruns: 0, busySeconds: 0 },
    },
  };
  const settings: Readonly<Record<string, string>> = {
    'nodewall-agent': `# password: ${plant(true)}\nguard: {probes: [{name: p, http: "http://127.0.0.1/?k=${plant()}"}]}\n`,
    'nodewall-config': 'featureGates: {NodeNetworkPolicy: true}',
  };
  const log = [
    `DB_PASSWORD=${plant(true)}`,
    JSON.stringify({ timestamp: '2026-01-01T00:00:00Z', level: 'info', message: 'started', env: plant() }),
    JSON.stringify({
      level: 'warn',
      message: `the token ${plant(true)} was refused`,
      node: 'worker-1',
      error: `GET https://x:${plant(true)}@10.0.0.1/: ${plant()}`,
    }),
    `Error: cannot use ${plant()}`,
    '    at file:///app/agent/run/state-store.ts:12:34',
  ].join('\n');

  const controllers = {
    items: [
      {
        metadata: metadata('nodewall-controller-abcd1'),
        state: {
          name: 'nodewall-controller-abcd1',
          version: '0.1.0',
          token: plant(true),
          gates: { NodeNetworkPolicy: true, password: plant() },
          missingRights: [`it may not list pods: token ${plant(true)} was refused`],
          watches: [{ resource: 'pods', state: 'waiting', failures: { forbidden: 3 }, error: plant() }],
          metrics: `nodewall_controller_leader 1\nother_metric{token="${plant(true)}"} 1\n`,
        },
      },
      { metadata: { name: '10.0.0.2:8443' }, problem: `no answer: password ${plant(true)}` },
    ],
  };

  const answer = (wanted: KubeRequest): unknown => {
    const { path } = wanted;
    const last = path.slice(path.lastIndexOf('/') + 1);
    if (path === '/version') return { gitVersion: 'v1.35.4', secret: { a: plant(true) } };
    if (path === CONTROLLERS_PATH) return controllers;
    if (path.endsWith('/log')) return log;
    if (path.includes('/configmaps/')) return { data: { 'config.yaml': settings[last], other: plant() } };
    if (path.includes('/nodeviews/')) {
      const [node, about] = path.split('/nodeviews/')[1]?.split('/') ?? [];
      if (about === undefined) return { metadata: metadata(node ?? ''), view: { rules: [] } };
      if (node === SILENT)
        throw new KubeError(`the agent of ${SILENT} did not answer in 4 s`, {
          status: 503,
          reason: 'ServiceUnavailable',
        });
      return answers[about];
    }
    return { items: ready[last as keyof typeof ready] ?? [] };
  };
  const request = (async (wanted: KubeRequest) => {
    requests.push(wanted);
    return answer(wanted);
  }) as KubeApi;
  return Object.assign(request, { requests });
}

/** The files of a bundle of the cluster, by their names. */
async function collected(request: KubeApi, withFlows: boolean) {
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-bundle-'));
  try {
    const path = join(folder, 'bundle.tar.gz');
    const bundle = new SupportBundle(path, { version: '0.1.0', now: 0 });
    const seen: string[] = [];
    const progress = (done: number, all: number): void => void seen.push(`${done}/${all}`);
    await collectCluster({ request, bundle, nodes: NODES, withFlows, progress });
    const manifest = await bundle.close();
    assert.equal(seen.at(-1), '22/22', '20 nodes, two pods');
    await promisify(execFile)('tar', ['-xzf', path, '-C', folder]);
    const names = [...manifest.parts.map(({ name }) => name), 'manifest.json'];
    const texts = names.map(
      async (name) => [name, await readFile(join(folder, 'bundle', name), 'utf8')] as const,
    );
    return { manifest, texts: new Map(await Promise.all(texts)) };
  } finally {
    await rm(folder, { recursive: true });
  }
}

describe('support bundle of a cluster', function () {
  this.timeout(30_000);
  let manifest: BundleManifest;
  let texts: ReadonlyMap<string, string>;
  let requests: readonly KubeRequest[];
  const { plant, planted } = planting();

  before(async () => {
    const request = cluster(plant);
    ({ manifest, texts } = await collected(request, true));
    requests = request.requests;
  });

  it('has none of the credentials that are anywhere in it', () => {
    assert.ok(planted.length >= LEAST_SECRETS, `${planted.length}`);
    for (const [name, text] of texts)
      for (const secret of planted) assert.ok(!text.includes(secret), `${secret} in ${name}: ${text}`);
  });

  it('asks for no Secret', () => {
    assert.deepEqual(
      requests.filter(({ path, method }) => /secrets/.test(path) || method !== 'GET'),
      [],
    );
  });

  it('has what maintainers need', () => {
    const has = (name: string, text: string): void =>
      assert.ok(texts.get(name)?.includes(text), `${name}: ${texts.get(name)}`);
    has('api-server.json', 'v1.35.4');
    has('objects/clusternetworkpolicies.jsonl', '"ingress":[{"name":"close-0001-web","action":"Drop"}]');
    has('objects/nodes.jsonl', '6.1.0');
    has('objects/pods.jsonl', 'nodewall:0.1.0');
    has('objects/apiservices.jsonl', 'sha256:');
    has('settings/nodewall-config.json', '"NodeNetworkPolicy": true');
    has('settings/nodewall-agent.json', '"probes"');
    has('logs/nodewall-agent-x1/agent.jsonl', '"message":"started"');
    has('logs/nodewall-agent-x1/agent.jsonl', 'state-store.ts:12:34');
    has('logs/nodewall-agent-x1/agent.jsonl', '"linesLeftOut":1');
    has('logs/nodewall-agent-x1/agent-previous.jsonl', 'started');
    for (const node of NODES.filter((one) => one !== SILENT)) {
      has(`nodes/${node}/counters.json`, 'close-0001-web');
      has(`nodes/${node}/machine.json`, '"dataplane": "nftables"');
      has(`nodes/${node}/metrics.txt`, 'nodewall_agent_off 0');
      has(`nodes/${node}/records.json`, '10.0.0.9');
      has(`nodes/${node}/flows.jsonl`, '"peer":"10.0.0.8"');
    }
    const controller = 'controllers/nodewall-controller-abcd1';
    has(`${controller}/state.json`, '"NodeNetworkPolicy": true');
    has(`${controller}/state.json`, 'it may not list pods');
    has(`${controller}/metrics.txt`, 'nodewall_controller_leader 1');
    has('objects/clusterroles.jsonl', '"resources":["pods"]');
    has('objects/services.jsonl', '"ports":[{"port":443}]');
  });

  it('has a line for each kind of flow, after what they have in common', () => {
    const [first = '', second = '', ...rest] = (texts.get('nodes/worker-1/flows.jsonl') ?? '').split('\n');
    assert.deepEqual([JSON.parse(first).kinds, JSON.parse(second).port, rest], [1, 443, ['']]);
  });

  it('has no flows unless asked for them, and says so', async () => {
    const { plant: other } = planting();
    const request = cluster(other);
    const { manifest: without, texts: files } = await collected(request, false);
    assert.deepEqual(
      request.requests.filter(({ path }) => path.endsWith('/flows')),
      [],
    );
    assert.ok(![...files.values()].some((text) => text.includes('10.0.0.8')));
    assert.deepEqual(
      without.leftOut.map(({ what, why }) => [what, /--with-flows/.test(why)]),
      [['flows', true]],
    );
    assert.deepEqual(manifest.leftOut, []);
    assert.match(without.lookAt, /flows\.jsonl/);
  });

  it('names a node that does not answer, after one question', () => {
    assert.deepEqual(manifest.missing.map(({ what }) => what).sort(), [
      'controller 10.0.0.2:8443',
      `node ${SILENT}`,
    ]);
    const asked = requests.filter(({ path }) => path.includes(`/${SILENT}/`));
    assert.deepEqual(
      asked.map(({ path }) => path.split('/').at(-1)),
      ['machine'],
    );
  });
});
