import assert from 'node:assert/strict';
import { AUTHORITY_LIFE, makeAuthority } from '../kubeapi/certificates/issue.ts';
import type { KubeApi, KubeRequest } from '../kubeapi/kube-api.ts';
import { KubeError } from '../kubeapi/kube-error.ts';
import { checkCluster } from './cluster-check.ts';
import { reportedPlatforms } from './node-checks.ts';

const NOW = Date.UTC(2026, 0, 2);
const SYSTEM = '/api/v1/namespaces/nodewall-system';
const LEASE = '/apis/coordination.k8s.io/v1/namespaces/nodewall-system/leases/nodewall-controller';
const API_SERVICE = '/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.controlplane.nodewall.io';
const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const CONFIG = `${SYSTEM}/configmaps/nodewall-config`;
const POLICIES = `${ADMISSION}/validatingadmissionpolicies/clusternetworkpolicies.nodewall.io`;
const DEPLOYMENT = '/apis/apps/v1/namespaces/nodewall-system/deployments/nodewall-controller';
const WITHOUT_API = {
  spec: { template: { spec: { containers: [{ args: ['controller', '--no-aggregated-api'] }] } } },
};
const VIEWS = '/apis/controlplane.nodewall.io/v1alpha1/nodeviews';

type Answers = Readonly<Record<string, unknown>>;

/** An API server with these answers, by path; anything else is absent. */
function api(answers: Answers): KubeApi {
  return (async ({ method, path }: KubeRequest) => {
    const answer = answers[path];
    if (answer instanceof Error) throw answer;
    if (answer === undefined)
      throw new KubeError(`${method} ${path}: absent`, { status: 404, reason: 'NotFound' });
    return answer;
  }) as KubeApi;
}

const BARE: Answers = {
  '/version': { gitVersion: 'v1.35.4' },
  '/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication': {
    data: { 'requestheader-client-ca-file': 'x' },
  },
  '/api/v1/nodes': {
    items: [
      {
        metadata: { name: 'a' },
        status: { nodeInfo: { kernelVersion: '6.1.0', operatingSystem: 'linux', architecture: 'amd64' } },
      },
      {
        metadata: { name: 'w' },
        status: { nodeInfo: { kernelVersion: '10.0.2', operatingSystem: 'windows' } },
      },
    ],
  },
  '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews': { status: { allowed: true } },
};

const report = (node: string, more: object = {}) => ({
  metadata: { name: node },
  status: {
    node,
    revision: '1',
    enforced: '1',
    enabled: true,
    failing: [],
    policies: 1,
    hostAddresses: [],
    version: '0.1.0',
    dataplane: 'nftables',
    time: new Date(NOW).toISOString(),
    ...more,
  },
});
const machine = (seconds = 0, more: object = {}) => ({
  time: new Date(NOW + seconds * 1000).toISOString(),
  configuration: { failsafe: { ingress: [{}], egress: [{}] } },
  otherChains: { chains: [] },
  ...more,
});

const INSTALLED: Answers = {
  ...BARE,
  [LEASE]: { spec: { holderIdentity: 'c-1', renewTime: new Date(NOW - 1_000).toISOString() } },
  [VIEWS]: { items: [report('a'), report('b'), report('c')] },
  [`${VIEWS}/a/machine`]: machine(),
  [`${VIEWS}/b/machine`]: machine(),
  [`${VIEWS}/c/machine`]: machine(),
};

async function lines(answers: Answers, before = false) {
  const options = { request: api(answers), before, version: '0.1.0', now: () => NOW };
  return await checkCluster(options);
}

const madeAt = (hour: number) => ({ metadata: { creationTimestamp: `2026-11-01T0${hour}:00:00Z` } });
const podOf = (name: string, serviceAccountName: string, hour: number) => ({
  metadata: { ...madeAt(hour).metadata, name },
  spec: { serviceAccountName },
});

/** The state and the message of one line. */
async function line(check: string, answers: Answers): Promise<string> {
  const found = (await lines(answers)).lines.filter((one) => one.check === check);
  return found.map(({ state, message }) => `${state}: ${message}`).join('\n');
}

describe('a check of a cluster', () => {
  it('is one before the installation where nothing is installed', async () => {
    const { of, lines: found } = await lines(BARE);
    assert.equal(of, 'before');
    assert.deepEqual(
      found.map(({ state }) => state),
      found.map(() => 'ok'),
      JSON.stringify(found),
    );
    assert.equal((await lines(INSTALLED)).of, 'installed');
    assert.equal((await lines(INSTALLED, true)).of, 'before');
  });

  it('finds what is wrong before the installation', async () => {
    const wrong: readonly (readonly [check: string, answers: Answers, said: RegExp])[] = [
      [
        'API server',
        { '/version': { gitVersion: 'v1.31.9' } },
        /^problem: Kubernetes v1\.31\.9 is older than 1\.32/,
      ],
      ['API server', { '/version': {} }, /^problem/],
      [
        'aggregation',
        { '/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication': { data: {} } },
        /^problem: the API server has no --requestheader-client-ca-file/,
      ],
      [
        'nodes',
        { '/api/v1/nodes': new KubeError('forbidden', { status: 403, reason: 'Forbidden' }) },
        /^warning: cannot be checked: forbidden/,
      ],
      [
        'nodes',
        {
          '/api/v1/nodes': {
            items: [
              {
                metadata: { name: 'r' },
                status: {
                  nodeInfo: { kernelVersion: '6.1', operatingSystem: 'linux', architecture: 'riscv64' },
                },
              },
            ],
          },
        },
        /^problem: no image for: r \(riscv64\)/,
      ],
      [
        'service proxy',
        { '/apis/crd.projectcalico.org/v1/felixconfigurations/default': { spec: { bpfEnabled: true } } },
        /^warning: Calico's eBPF mode/,
      ],
      [
        'other firewalls',
        { '/apis/crd.projectcalico.org/v1/hostendpoints': { items: [{}] } },
        /^warning: Calico's HostEndpoints/,
      ],
      [
        'your rights',
        { '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews': { status: { allowed: false } } },
        /^problem: you may not create clusterrolebindings, .* and 8 more/,
      ],
      ['pod security', { [SYSTEM]: { metadata: { labels: {} } } }, /^warning: .* no level of its own/],
    ];
    for (const [check, answers, said] of wrong)
      assert.match(await line(check, { ...BARE, ...answers }), said, JSON.stringify(answers));
  });

  it('finds what is wrong with controllers and agents', async () => {
    const old = new Date(NOW - 300_000).toISOString();
    const wrong: readonly (readonly [check: string, answers: Answers, said: RegExp])[] = [
      [
        'controllers',
        { [LEASE]: { spec: { holderIdentity: 'c-1', renewTime: old } } },
        /^problem: no controller leads/,
      ],
      ['aggregated API', {}, /^problem: it is not registered/],
      ['aggregated API', { [DEPLOYMENT]: WITHOUT_API }, /^ok: it is off; a controller's pod answers/],
      [
        'agents',
        { [VIEWS]: new KubeError('404 NotFound', { status: 404, reason: 'NotFound' }) },
        /^warning: cannot be checked: 404 NotFound/,
      ],
      [
        'tokens',
        {
          [`${SYSTEM}/pods`]: {
            items: [
              podOf('c-1', 'nodewall-controller', 1),
              podOf('c-2', 'nodewall-controller', 3),
              podOf('a-1', 'nodewall-agent', 3),
              podOf('other', 'other', 1),
            ],
          },
          [`${SYSTEM}/serviceaccounts/nodewall-controller`]: madeAt(2),
          [`${SYSTEM}/serviceaccounts/nodewall-agent`]: madeAt(3),
        },
        /^problem: ServiceAccount nodewall-controller was made again after these pods began.*: c-1\nok: of ServiceAccount nodewall-agent/,
      ],
      [
        'tokens',
        { [`${SYSTEM}/pods`]: { items: [podOf('a-1', 'nodewall-agent', 3)] } },
        /^problem: there is no ServiceAccount nodewall-agent: .* no token of its 1 pods/,
      ],
      [
        'feature gate',
        {},
        /^problem: it has no value \(there is no ConfigMap nodewall-config\); 3 nodes go on enforcing, new ones do not$/,
      ],
      [
        'feature gate',
        { [CONFIG]: { data: { 'config.yaml': 'featureGates: {}' } }, [VIEWS]: { items: [] } },
        /^warning: it has no value \(ConfigMap nodewall-config does not set it\): nothing is enforced$/,
      ],
      [
        'feature gate',
        {
          [VIEWS]: new KubeError('404 NotFound', { status: 404, reason: 'NotFound' }),
          [CONFIG]: { data: { 'config.yaml': 'featureGates: {NodeNetworkPolicy: perhaps}' } },
        },
        /^problem: it has no value \(config\.yaml:1: .*\); nodes that enforce go on, new ones do not$/,
      ],
      [
        'feature gate',
        {
          [LEASE]: {
            metadata: { annotations: { 'nodewall.io/feature-gate': 'NodeNetworkPolicy=true' } },
            spec: { holderIdentity: 'c-1', renewTime: new Date(NOW).toISOString() },
          },
        },
        /^warning: there is no ConfigMap nodewall-config; the last value, on, holds$/,
      ],
      [
        'feature gate EgressGateway',
        { [VIEWS]: { items: [report('a', { egress: { tunnel: '10.0.0.2' } })] } },
        /^problem: it has no value; 1 node goes on steering as before/,
      ],
      ['webhooks', {}, /^problem: there is no mutating and no validating configuration/],
      ['webhooks', { [POLICIES]: {} }, /^ok: policies of the API server take their place/],
      ['certificates', {}, /^problem: there is no ConfigMap nodewall-ca/],
      [
        'certificates',
        { [`${SYSTEM}/configmaps/nodewall-ca`]: { data: { 'ca.crt': 'x' } } },
        /^problem: .* no certificate/,
      ],
      ['agents', { [VIEWS]: { items: [] } }, /^problem: the controllers know no Node/],
      [
        'agents',
        {
          [VIEWS]: {
            items: [report('a', { time: old }), { metadata: { name: 'b' } }, report('c', { enforced: '0' })],
          },
        },
        /^problem: no agent has ever reported from b\nproblem: no report for minutes from a\nwarning: .* yet on c$/,
      ],
      [
        'agent versions',
        { [VIEWS]: { items: [report('a', { version: '0.2.3' })] } },
        /^warning: other than 0\.1\.0: a/,
      ],
      [
        'agent versions',
        { [VIEWS]: { items: [report('a', { version: '0.3.0' })] } },
        /^problem: more than one minor .*a \(0\.3\.0\)/,
      ],
      ['agent versions', { [VIEWS]: { items: [report('a', { version: '?' })] } }, /^problem/],
      [
        'clocks',
        { [`${VIEWS}/b/machine`]: machine(-20) },
        /^warning: apart from the other nodes: b \(-20\.0 s\)/,
      ],
      ['clocks', { [`${VIEWS}/b/machine`]: machine(120) }, /^problem: .*b \(120\.0 s\)/],
      [
        'clocks',
        Object.fromEntries(['a', 'b', 'c'].map((node) => [`${VIEWS}/${node}/machine`, machine(90)])),
        /^warning: those of the nodes and of this machine are 90\.0 s apart/,
      ],
      ['answers of agents', { [`${VIEWS}/b/machine`]: undefined }, /^warning: none from b \(/],
      [
        'failsafe list',
        { [`${VIEWS}/c/machine`]: machine(0, { configuration: {} }) },
        /^warning: empty .* on c:/,
      ],
    ];
    for (const [check, answers, said] of wrong)
      assert.match(await line(check, { ...INSTALLED, ...answers }), said, JSON.stringify(answers));
    for (const check of [
      'controllers',
      'agents',
      'agent versions',
      'clocks',
      'failsafe list',
      'other tables',
    ])
      assert.match(await line(check, INSTALLED), /^ok: /, check);
  });

  it('finds CAs that end, and caBundles that are of another', async () => {
    const authority = async (days: number): Promise<string> =>
      (await makeAuthority(new Date(NOW - AUTHORITY_LIFE + days * 86_400_000))).certificate;
    const [ours, others, near, ended] = await Promise.all([
      authority(700),
      authority(699),
      authority(9),
      authority(-1),
    ]);
    const ca = (text: string): Answers => ({
      [`${SYSTEM}/configmaps/nodewall-ca`]: { data: { 'ca.crt': text } },
    });
    const certificates = (text: string): Promise<string> =>
      line('certificates', { ...INSTALLED, ...ca(text) });
    assert.match(await certificates(`${ended}${ours}`), /^ok: the CA is valid until 2027-12/);
    assert.match(await certificates(near), /^warning: the CA is valid until 2026-01-11/);
    assert.match(await certificates(ended), /^problem: the CA is valid until 2026-01-01/);

    const bundle = (text: string): string => Buffer.from(text).toString('base64');
    const available = { conditions: [{ type: 'Available', status: 'True' }] };
    const hook = (name: string, failurePolicy: string, text: string, path = secretPath(name)) => ({
      name,
      failurePolicy,
      clientConfig: { caBundle: bundle(text), service: { path } },
    });
    const served = (text: string, path?: string): Answers => ({
      ...INSTALLED,
      ...ca(ours),
      [API_SERVICE]: { spec: { caBundle: bundle(text) }, status: available },
      [`${ADMISSION}/mutatingwebhookconfigurations/nodewall`]: {
        webhooks: [hook('mutate.nodewall.io', 'Ignore', ours)],
      },
      [`${ADMISSION}/validatingwebhookconfigurations/nodewall`]: {
        webhooks: [
          hook('validate.nodewall.io', 'Ignore', ours),
          hook('validate.deletions.nodewall.io', 'Fail', ours),
          hook('use.nodewall.io', 'Fail', text, path),
        ],
      },
    });
    assert.match(await line('aggregated API', served(ours)), /^ok: available/);
    assert.match(await line('webhooks', served(ours)), /^ok: failurePolicy Ignore/);
    assert.match(await line('aggregated API', served(others)), /^problem: its caBundle is not the CA/);
    assert.match(
      await line('webhooks', served(`${ours}${others}`)),
      /^problem: the caBundle of use\.nodewall\.io/,
    );
    assert.match(await line('webhooks', served('')), /^problem: the caBundle of use\.nodewall\.io/);
    assert.match(await line('webhooks', served(ours, '/use')), /^problem: the path of use\.nodewall\.io/);
  });

  it('has what Nodes need to carry pods, as their agents reported', async () => {
    const row = { entry: 'udp/8472', reason: 'vxlan flannel.1' };
    const platform = [row, { entry: 'udp/51820', addresses: 2, reason: 'wireguard wg0' }, row];
    const items = [
      { metadata: { name: 'a' }, status: { platform } },
      { metadata: { name: 'b' }, status: {} },
      { metadata: { name: 'c' } },
    ];
    assert.deepEqual(await reportedPlatforms(api({ [VIEWS]: { items } })), [['a', 'udp/8472']]);
  });

  it('has the worst first', async () => {
    const { lines: found } = await lines(INSTALLED);
    const states = found.map(({ state }) => state);
    assert.deepEqual(
      states,
      states.toSorted((a, b) => 'pwo'.indexOf(a[0] ?? '') - 'pwo'.indexOf(b[0] ?? '')),
    );
    assert.equal(states[0], 'problem');
  });
});

/** As a controller writes it for a webhook of this name. */
function secretPath(name: string): string {
  return `/${name.split('.')[0]}/1-${'a'.repeat(64)}`;
}
