import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import type { KubeApiClient } from '../../../controller/kubeapi/kube-api.ts';
import { apiAs } from '../../cluster/admin-api.ts';
import type { TestCluster } from '../../cluster/cluster.ts';
import { until } from '../../kernel/until.ts';
import { ROOT } from '../../structure/source-file.ts';
import { AGENT_API_CALLS, API_CALLS, type ApiCall } from '../api-calls.ts';
import { apiServer } from '../labs.ts';

const KUSTOMIZE = join(ROOT, 'deploy/kustomize');
const CONTROLLER = 'system:serviceaccount:nodewall-system:nodewall-controller';
const AGENT = 'system:serviceaccount:nodewall-system:nodewall-agent';

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly annotations?: object };
}

interface AccessReview {
  readonly status: { readonly allowed: boolean };
}

const keyOf = ({ kind, metadata }: Manifest): string =>
  `${kind} ${metadata.namespace ?? ''}/${metadata.name}`;

function parse(text: string): Manifest[] {
  return parseAllDocuments(text).map((document) => document.toJS() as Manifest);
}

describe('deploy on a real API server', function () {
  this.timeout(120_000);
  const begun = apiServer.use();
  let cluster: TestCluster;
  let api: KubeApiClient;
  before(async () => {
    cluster = begun();
    api = apiAs(cluster);
    const { code, stderr } = await cluster.kubectl(['apply', '-f', join(ROOT, 'deploy/rbac.yaml')]);
    assert.equal(code, 0, stderr);
  });
  after(() => api?.close());

  const built = new Map<string, Promise<string>>();
  /** A folder of deploy/kustomize, as kubectl builds it: once. */
  function build(folder: string): Promise<string> {
    const text = built.get(folder) ?? kustomize(folder);
    built.set(folder, text);
    return text;
  }

  async function kustomize(folder: string): Promise<string> {
    const { code, stdout, stderr } = await cluster.kubectl(['kustomize', join(KUSTOMIZE, folder)]);
    assert.equal(code, 0, stderr);
    return stdout;
  }

  it('applies as a whole', async () => {
    const { code, stderr } = await cluster.kubectl(['apply', '--server-side', '-k', join(KUSTOMIZE, 'base')]);
    assert.equal(code, 0, stderr);
    for (const object of ['deployment/nodewall-controller', 'daemonset/nodewall-agent']) {
      await cluster.get('--namespace=nodewall-system', object);
    }
  });

  for (const folder of [
    'overlays/fail-closed',
    'overlays/single-node',
    'overlays/iptables',
    'overlays/enforce',
  ]) {
    it(`${folder} applies over it`, async () => {
      const stdin = await build(folder);
      const { code, stderr } = await cluster.kubectl(
        ['apply', '--server-side', '--dry-run=server', '-f', '-'],
        { stdin },
      );
      assert.equal(code, 0, stderr);
    });
  }

  describe('the controllers’ account', () => {
    const WEBHOOKS = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/nodewall';
    let controller: KubeApiClient;
    before(async () => {
      const token = await cluster.token('nodewall-system/nodewall-controller');
      controller = apiAs({ kubeconfig: await cluster.kubeconfigFor('controller', { token }) });
    });
    after(() => controller?.close());
    const patchWebhooks = (...body: readonly object[]) =>
      controller.request({ method: 'PATCH', path: WEBHOOKS, body });
    const set = (path: string, value: unknown) => ({ op: 'add', path, value });
    const refusal = /may change nothing but the caBundle and the path of webhook configurations/;

    it('may change caBundles of the webhook configurations', async () => {
      for (const bundle of ['Y2VydGlmaWNhdGU=', 'bmV4dA==']) {
        await patchWebhooks(
          ...[0, 1, 2].map((index) => set(`/webhooks/${index}/clientConfig/caBundle`, bundle)),
        );
      }
    });

    it('may change paths of the webhook configurations, to secret ones', async () => {
      const path = (step: string) => `/${step}/123-${'0a'.repeat(32)}`;
      await patchWebhooks(
        set('/webhooks/0/clientConfig/service/path', path('validate')),
        set('/webhooks/1/clientConfig/service/path', path('validate')),
        set('/webhooks/2/clientConfig/service/path', path('use')),
      );
    });

    it('may change the path of a webhook at a URL, and nothing else of that', async () => {
      const url = 'https://controller.example:9443';
      const at = '/webhooks/0/clientConfig';
      const { webhooks } = await cluster.get<{ webhooks: { clientConfig: { service: object } }[] }>(
        'validatingwebhookconfiguration',
        'nodewall',
      );
      const change = (...body: readonly object[]) => api.request({ method: 'PATCH', path: WEBHOOKS, body });
      await change({ op: 'remove', path: `${at}/service` }, set(`${at}/url`, url));
      const secret = `/validate/123-${'0a'.repeat(32)}`;
      await patchWebhooks(set(`${at}/url`, `${url}${secret}`));
      for (const other of [
        `${url}/validate`,
        `https://other.example:9443${secret}`,
        `https://controller.example${secret}`,
      ]) {
        await assert.rejects(patchWebhooks(set(`${at}/url`, other)), refusal, other);
      }
      const { service } = webhooks[0]?.clientConfig ?? {};
      await change({ op: 'remove', path: `${at}/url` }, set(`${at}/service`, service));
    });

    for (const [what, operation] of Object.entries({
      'a path to one that is known': set('/webhooks/0/clientConfig/service/path', '/validate'),
      'the port': set('/webhooks/0/clientConfig/service/port', 443),
      'the Service': set('/webhooks/0/clientConfig/service/namespace', 'default'),
      rules: set('/webhooks/0/rules/0/resources', ['*']),
      'the failurePolicy': set('/webhooks/0/failurePolicy', 'Fail'),
      'a namespaceSelector': set('/webhooks/0/namespaceSelector', { matchLabels: { a: 'b' } }),
      matchConditions: { op: 'remove', path: '/webhooks/2/matchConditions' },
      'the number of webhooks': { op: 'remove', path: '/webhooks/1' },
      labels: set('/metadata/labels', { other: 'x' }),
      annotations: set('/metadata/annotations', { other: 'x' }),
      finalizers: set('/metadata/finalizers', ['example.com/x']),
    })) {
      it(`may not change ${what} there`, async () => {
        await assert.rejects(patchWebhooks(operation), refusal);
      });
    }

    it('is alone in that', async () => {
      const body = [set('/webhooks/0/failurePolicy', 'Fail')];
      await api.request({ method: 'PATCH', path: WEBHOOKS, query: { dryRun: 'All' }, body });
    });

    it('may register its own aggregated API, served by its Service', async () => {
      const register = (service: object) => {
        const body = {
          apiVersion: 'apiregistration.k8s.io/v1',
          kind: 'APIService',
          metadata: { name: 'v1alpha1.controlplane.nodewall.io' },
          spec: {
            group: 'controlplane.nodewall.io',
            version: 'v1alpha1',
            groupPriorityMinimum: 1000,
            versionPriority: 15,
            caBundle: 'Y2VydGlmaWNhdGU=',
            service,
          },
        };
        const path = `/apis/apiregistration.k8s.io/v1/apiservices/${body.metadata.name}`;
        const query = { fieldManager: 'kubectl', dryRun: 'All' };
        return controller.request({ method: 'PATCH', path, query, body, isApply: true });
      };
      const own = { namespace: 'nodewall-system', name: 'nodewall-controller', port: 443 };
      await register(own);
      for (const other of [
        { ...own, namespace: 'default' },
        { ...own, name: 'other' },
      ]) {
        await assert.rejects(register(other), /served by Service nodewall-controller/);
      }
    });
  });

  it('an agent may delete the aggregated API only while it is unavailable', async () => {
    const name = 'v1alpha1.controlplane.nodewall.io';
    const spec = { group: 'controlplane.nodewall.io', version: 'v1alpha1' };
    const priorities = { groupPriorityMinimum: 1000, versionPriority: 15 };
    const service = { namespace: 'nodewall-system', name: 'nodewall-controller', port: 443 };
    const isAvailable = async (): Promise<string> => {
      interface Conditions {
        readonly status?: { readonly conditions?: readonly { readonly status: string }[] };
      }
      const { status } = await cluster.get<Conditions>('apiservice', name);
      return status?.conditions?.[0]?.status ?? '';
    };
    const deletedByAgent = () =>
      cluster.kubectl(['delete', `--as=${AGENT}`, '--dry-run=server', '--wait=false', 'apiservice', name]);
    // One without a Service is the API server's own, and always available.
    for (const [more, available] of [
      [{}, 'True'],
      [{ service, caBundle: 'Y2VydGlmaWNhdGU=' }, 'False'],
    ] as const) {
      await cluster.apply(
        JSON.stringify({
          apiVersion: 'apiregistration.k8s.io/v1',
          kind: 'APIService',
          metadata: { name },
          spec: { ...spec, ...priorities, ...more },
        }),
      );
      await until(`available: ${available}`, async () => (await isAvailable()) === available);
      const { code, stderr } = await deletedByAgent();
      assert.equal(code === 0, available === 'False', stderr);
      if (code !== 0) assert.match(stderr, /only while the API server finds it unavailable/);
    }
    await cluster.remove('apiservice', name);
  });

  it('names the agents’ ConfigMap by its content, in agent and controller', async () => {
    const text = await build('base');
    const [, name = ''] = /^ {2}name: (nodewall-agent-[a-z0-9]{10})$/m.exec(text) ?? [];
    assert.equal(text.split(`name: ${name}\n`).length - 1, 3, name);
    assert.ok(!text.includes('image: nodewall\n'));
  });

  it('overlays change what they say, and nothing else', async () => {
    const base = new Map(parse(await build('base')).map((each) => [keyOf(each), JSON.stringify(each)]));
    const changes = async (folder: string): Promise<string[]> => {
      const objects = parse(await build(folder));
      const kept = new Set(objects.map(keyOf));
      const gone = [...base.keys()].filter((key) => !kept.has(key)).map((key) => `- ${key}`);
      const other = objects.flatMap((each) => {
        const before = base.get(keyOf(each));
        if (before === JSON.stringify(each)) return [];
        return [`${before === undefined ? '+' : '~'} ${keyOf(each)}`];
      });
      return [...gone, ...other].sort();
    };
    assert.deepEqual(await changes('overlays/fail-closed'), [
      '~ MutatingWebhookConfiguration /nodewall',
      '~ ValidatingWebhookConfiguration /nodewall',
    ]);
    assert.deepEqual(await changes('overlays/single-node'), [
      '- PodDisruptionBudget nodewall-system/nodewall-controller',
      '~ Deployment nodewall-system/nodewall-controller',
    ]);
    assert.deepEqual(await changes('overlays/enforce'), ['+ ConfigMap nodewall-system/nodewall-config']);
    const withoutHash = (line: string) => line.replace(/(nodewall-agent)-[a-z0-9]{10}$/, '$1');
    assert.deepEqual((await changes('overlays/iptables')).map(withoutHash), [
      '+ ConfigMap nodewall-system/nodewall-agent',
      '- ConfigMap nodewall-system/nodewall-agent',
      '~ DaemonSet nodewall-system/nodewall-agent',
      '~ Deployment nodewall-system/nodewall-controller',
    ]);
    assert.deepEqual(await changes('overlays/certmanager'), [
      '+ Certificate nodewall-system/nodewall-ca',
      '+ Certificate nodewall-system/nodewall-controller',
      '+ Issuer nodewall-system/nodewall-ca',
      '+ Issuer nodewall-system/nodewall-selfsigned',
      '- Role nodewall-system/nodewall-controller-ca',
      '- RoleBinding nodewall-system/nodewall-controller-ca',
      '~ Deployment nodewall-system/nodewall-controller',
      '~ MutatingWebhookConfiguration /nodewall',
      '~ ValidatingWebhookConfiguration /nodewall',
    ]);
  });

  async function may(
    user: string,
    { verb, group, resource, name, namespace }: Omit<ApiCall, 'from' | 'verb'> & { verb: string },
  ): Promise<boolean> {
    const [plain = '', subresource] = resource.split('/');
    const resourceAttributes = {
      verb,
      group,
      resource: plain,
      ...(subresource === undefined ? {} : { subresource }),
      ...(name === undefined ? {} : { name }),
      ...(namespace === undefined ? {} : { namespace }),
    };
    const groups = [
      'system:serviceaccounts',
      'system:serviceaccounts:nodewall-system',
      'system:authenticated',
    ];
    const review = {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: { user, groups, resourceAttributes },
    };
    const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews';
    const { status } = await api.request<AccessReview>({ method: 'POST', path, body: review });
    return status.allowed;
  }

  it('gives controller and agent the rights they need', async () => {
    const plain = ({ from, ...call }: ApiCall): string => JSON.stringify(Object.entries(call).sort());
    const ofAgent = new Set(AGENT_API_CALLS.map(plain));
    for (const call of API_CALLS) {
      assert.equal(await may(CONTROLLER, call), true, JSON.stringify(call));
      assert.equal(await may(AGENT, call), ofAgent.has(plain(call)), JSON.stringify(call));
    }
    for (const call of AGENT_API_CALLS) assert.equal(await may(AGENT, call), true, JSON.stringify(call));
  });

  it('gives the agent no other rights', async () => {
    const namespace = 'nodewall-system';
    const beyond = [
      { verb: 'list', group: '', resource: 'configmaps', namespace },
      { verb: 'patch', group: '', resource: 'configmaps', namespace, name: 'nodewall-config' },
      { verb: 'get', group: '', resource: 'secrets', namespace, name: 'nodewall-ca' },
      { verb: 'list', group: '', resource: 'pods' },
      { verb: 'delete', group: '', resource: 'pods', namespace },
      { verb: 'create', group: 'events.k8s.io', resource: 'events', namespace: 'default' },
      { verb: 'delete', group: 'apiregistration.k8s.io', resource: 'apiservices', name: 'v1.apps' },
      { verb: 'create', group: 'apiregistration.k8s.io', resource: 'apiservices' },
    ];
    for (const call of beyond) assert.equal(await may(AGENT, call), false, JSON.stringify(call));
  });

  it('gives the controller no other rights', async () => {
    const beyond = [
      { verb: 'get', group: '', resource: 'secrets', namespace: 'nodewall-system', name: 'other' },
      { verb: 'list', group: '', resource: 'secrets', namespace: 'nodewall-system' },
      { verb: 'get', group: '', resource: 'secrets', namespace: 'kube-system', name: 'nodewall-ca' },
      { verb: 'list', group: '', resource: 'configmaps' },
      { verb: 'update', group: '', resource: 'nodes' },
      { verb: 'delete', group: 'nodewall.io', resource: 'clusternetworkpolicies' },
      { verb: 'patch', group: 'nodewall.io', resource: 'clusternetworkpolicies' },
      {
        verb: 'patch',
        group: 'admissionregistration.k8s.io',
        resource: 'validatingwebhookconfigurations',
        name: 'other',
      },
      {
        verb: 'delete',
        group: 'admissionregistration.k8s.io',
        resource: 'validatingwebhookconfigurations',
        name: 'nodewall',
      },
      { verb: 'create', group: 'apiregistration.k8s.io', resource: 'apiservices' },
      { verb: 'create', group: 'apiregistration.k8s.io', resource: 'apiservices', name: 'v1.other.io' },
      { verb: 'create', group: '', resource: 'serviceaccounts/token', namespace: 'nodewall-system' },
      { verb: 'impersonate', group: '', resource: 'users' },
    ];
    for (const call of beyond) assert.equal(await may(CONTROLLER, call), false, JSON.stringify(call));
  });

  it('has Dockerfile and manifests of one version', () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const text = readFileSync(join(KUSTOMIZE, 'base/kustomization.yaml'), 'utf8');
    assert.match(text, new RegExp(`newTag: ${version}\n`));
  });
});
