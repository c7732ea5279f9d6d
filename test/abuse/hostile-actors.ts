import assert from 'node:assert/strict';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { reviewOf } from './bodies.ts';
import type { HostileAnswer } from './hostile-child.ts';
import { HIDDEN, type HostileWorld, TENANT, VICTIM } from './hostile-world.ts';

/** Rejects where the page (docs/security.md) says "can't" and it could. */
type Act = (world: HostileWorld) => Promise<unknown>;

export interface Actor {
  /** As docs/security.md calls it. */
  readonly who: string;
  /** Acts at a time, and milliseconds between two of each. */
  readonly hands: number;
  readonly pause: number;
  readonly acts: Readonly<Record<string, Act>>;
  /** Undoes what would be in the way of the next one. */
  readonly undo?: Act;
  /** Nodes that may be late or silent: the actor has them. */
  readonly has: readonly string[];
}

const V1 = 'nodewall.io/v1alpha1';
const SERVICE = 8443;
const WEBHOOK = 9443;

/** Refused, whatever the words: by the API server's rights. */
async function isForbidden(what: string, asked: Promise<unknown>): Promise<void> {
  const error = await asked.then(
    () => null,
    (reason: unknown) => reason as Error,
  );
  assert.ok(error !== null, `${what} is allowed`);
  assert.doesNotMatch(error.message, new RegExp(HIDDEN), what);
}

/** Told nothing of the policy that nobody of the five may know. */
function knowsNothing(what: string, { code, text }: HostileAnswer, allowed: readonly number[]): void {
  assert.ok(code === 0 || allowed.includes(code), `${what}: ${code} ${text.slice(0, 300)}`);
  assert.ok(!text.includes(HIDDEN), `${what} tells ${HIDDEN}`);
}

const ROLES = ['office', 'worker', 'control', 'nodewall-controller', 'web'];
const labelsOf = ({ dice }: HostileWorld): Record<string, string> => ({
  app: dice.one(ROLES),
  role: dice.one(ROLES),
  'app.kubernetes.io/name': dice.one(ROLES),
});
const nameOf = ({ dice }: HostileWorld, most: number): string => `x${dice.number(most)}`;
const inTenant = (kind: string, apiVersion: string, name: string, rest: object, labels = {}): string =>
  JSON.stringify({ apiVersion, kind, metadata: { name, namespace: TENANT, labels }, ...rest });

const TENANTS_ACTS: Readonly<Record<string, Act>> = {
  'labels pods': async (world) => {
    const name = nameOf(world, 50);
    const spec = { containers: [{ name: 'c', image: 'i' }] };
    await world.tenant.apply(inTenant('Pod', 'v1', name, { spec }, labelsOf(world)), { force: true });
    // What a kubelet and its CNI give it: an address of the tenant's network.
    const podIP = `10.244.9.${1 + world.dice.number(250)}`;
    await world.kubelet.patchStatus([`pod/${name}`, `--namespace=${TENANT}`], {
      phase: 'Running',
      podIP,
      podIPs: [{ ip: podIP }],
    });
  },
  'deletes pods': (world) => world.tenant.remove('pod', nameOf(world, 50), `--namespace=${TENANT}`),
  'writes Services': (world) =>
    world.tenant.apply(
      inTenant('Service', 'v1', nameOf(world, 20), {
        spec: { selector: labelsOf(world), ports: [{ name: 'p', port: 1 + world.dice.number(65_535) }] },
      }),
      { force: true },
    ),
  'writes EndpointSlices of any address': (world) => {
    const { dice } = world;
    const endpoints = Array.from({ length: 1 + dice.number(100) }, () => ({ addresses: [dice.address()] }));
    const name = nameOf(world, 20);
    const labels = { 'kubernetes.io/service-name': name };
    const rest = { addressType: 'IPv4', endpoints, ports: [{ name: 'p', port: 80, protocol: 'TCP' }] };
    return world.tenant.apply(inTenant('EndpointSlice', 'discovery.k8s.io/v1', name, rest, labels), {
      force: true,
    });
  },
  'writes EgressPolicies of many networks': (world) => {
    const { dice } = world;
    const to = Array.from({ length: 1 + dice.number(256) }, () => ({
      ipBlock: { cidr: `${dice.address().replace(/\d+$/, '0')}/24` },
    }));
    const spec = { appliedTo: [{ podSelector: {} }], to, action: 'Drop' };
    return world.tenant.apply(inTenant('EgressPolicy', V1, nameOf(world, 300), { spec }), { force: true });
  },
  'deletes EgressPolicies': (world) =>
    world.tenant.remove('egresspolicies.nodewall.io', nameOf(world, 300), `--namespace=${TENANT}`),
  'writes objects that are no objects': (world) => {
    const spec = { appliedTo: world.dice.bytes(3_000), to: [[[[{}]]]] };
    const written = world.tenant.apply(inTenant('EgressPolicy', V1, nameOf(world, 9), { spec }));
    return isForbidden('nonsense', written);
  },
  'writes policies of nodes': (world) => {
    const spec = { priority: 1, appliedTo: [{ nodeSelector: {} }], ingress: [{ action: 'Allow' }] };
    const object = { apiVersion: V1, kind: 'ClusterNetworkPolicy', metadata: { name: 'tenants' }, spec };
    return isForbidden('a policy of nodes', world.tenant.apply(JSON.stringify(object)));
  },
  'reads policies': ({ tenant }) =>
    isForbidden('reading policies', tenant.get('clusternetworkpolicies.nodewall.io')),
  'reads views of nodes': ({ tenant }) =>
    isForbidden('reading views', tenant.get('nodeviews.controlplane.nodewall.io')),
  'reads the CA and its key': ({ tenant }) =>
    isForbidden('reading Secrets', tenant.get('secret', 'nodewall-ca', '--namespace=nodewall-system')),
  // A right to all resources of a namespace is one to the Namespace itself.
  'labels its namespace': ({ tenant, dice }) =>
    tenant.label(['namespace', TENANT], { role: dice.one(ROLES), team: dice.one(ROLES) }),
  'labels another namespace': ({ tenant }) =>
    isForbidden('labelling', tenant.label(['namespace', 'default'], { role: 'office' })),
  'writes the gate': ({ tenant }) => {
    const metadata = { name: 'nodewall-config', namespace: 'nodewall-system' };
    const data = { 'config.yaml': 'featureGates: {NodeNetworkPolicy: false}' };
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data };
    return isForbidden('the gate', tenant.apply(JSON.stringify(object), { force: true }));
  },
};

const ownNode = [`node/${VICTIM}`];
const addressesOf = (world: HostileWorld): string[] => {
  const { story, dice } = world;
  const others = [story.machine('worker-1').v4, story.machine('cp-1').v4, '10.96.0.1', '10.244.9.7'];
  const odd = ['0.0.0.0', '127.0.0.1', '224.0.0.1', '255.255.255.255', '::', 'fe80::1', dice.address()];
  return Array.from({ length: dice.number(20) }, () => dice.one([...others, ...odd]));
};

const KUBELETS_ACTS: Readonly<Record<string, Act>> = {
  'claims addresses for its Node': (world) => {
    const own = world.story.machine(VICTIM);
    const claimed = [...new Set([own.v4, own.v6, ...addressesOf(world)])];
    const addresses = claimed.map((address) => ({
      type: world.dice.one(['InternalIP', 'ExternalIP']),
      address,
    }));
    return world.kubelet.patchStatus(ownNode, { addresses });
  },
  'labels its Node': (world) =>
    world.kubelet.label(['node', VICTIM], { role: world.dice.one(['worker', 'gateway']) }),
  'claims addresses for its pods': async (world) => {
    const name = `k${world.dice.number(20)}`;
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'default', labels: labelsOf(world) },
    };
    const spec = { nodeName: VICTIM, containers: [{ name: 'c', image: 'i' }] };
    await world.kubelet.apply(JSON.stringify({ ...pod, spec }), { force: true });
    const podIPs = [...new Set(addressesOf(world))].slice(0, 2).map((ip) => ({ ip }));
    const status = { phase: world.dice.one(['Running', 'Pending', 'Succeeded']), podIPs };
    await world.kubelet.patchStatus([`pod/${name}`, '--namespace=default'], status);
  },
  'annotates its Node': async ({ kubelet, dice }) => {
    const annotations = {
      'nodewall.io/addresses': dice.one(['0.0.0.0', `${dice.address()}, ::1`, dice.bytes(900)]),
    };
    const object = { apiVersion: 'v1', kind: 'Node', metadata: { name: VICTIM, annotations } };
    await kubelet.apply(JSON.stringify(object), { force: true });
  },
};

const bearer = (token: string) => ({ authorization: `Bearer ${token}`, 'content-type': 'application/json' });

const report = ({ dice }: HostileWorld, node: string): string => {
  const text = (): string => dice.bytes(500);
  return JSON.stringify({
    ...{ node, revision: dice.one(['e.1', text()]), enforced: 'e.1', enabled: dice.number(2) === 0 },
    ...{
      policies: dice.number(1e6),
      version: text(),
      dataplane: 'nftables',
      time: new Date(0).toISOString(),
    },
    failing: Array.from({ length: dice.number(120) }, () => ({
      ...{ apiGroup: 'nodewall.io', policy: dice.one([HIDDEN, 'web', text()]), rule: text(), reason: text() },
      since: new Date(0).toISOString(),
    })),
    hostAddresses: Array.from({ length: dice.number(64) }, () => dice.address()),
  });
};

function asked(world: HostileWorld, path: string, more: object = {}): Promise<HostileAnswer> {
  const { story, stranger, stolen } = world;
  const headers = bearer(stolen.controllers);
  return stranger.do({ kind: 'https', host: story.address, port: SERVICE, path, headers, ...more });
}

const of = (node: string, part = ''): string => `${NODE_VIEWS_PATH}/${node}${part}`;
const watchOf = (node: string): string =>
  `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name%3D${node}`;
/** Busy, refused by its own limits, or not served. */
const LIMITED = [429, 503];

const TOKENS_ACTS: Readonly<Record<string, Act>> = {
  'reads its own view': async (world) =>
    knowsNothing('its view', await asked(world, of(VICTIM)), [200, ...LIMITED]),
  'watches its own view': async (world) => {
    knowsNothing('its watch', await asked(world, watchOf(VICTIM)), [200, ...LIMITED]);
  },
  'reads and watches others': async (world) => {
    const node = world.dice.one(['worker-1', 'cp-1']);
    const path = world.dice.one([
      of(node),
      watchOf(node),
      NODE_VIEWS_PATH,
      of(node, '/records'),
      of(node, '/counters'),
    ]);
    knowsNothing(path, await asked(world, path), [401, 403, 404, ...LIMITED]);
  },
  'reads metrics and the state of controllers': async (world) => {
    const path = world.dice.one([
      '/metrics',
      '/metrics/nodes',
      '/console',
      '/apis/controlplane.nodewall.io/v1alpha1/controllers',
    ]);
    knowsNothing(path, await asked(world, path), [200, 301, 302, 401, 403, 404, 405, ...LIMITED]);
  },
  'reports for its node': async (world) => {
    const more = { method: 'PUT', body: report(world, VICTIM) };
    knowsNothing('a report', await asked(world, of(VICTIM, '/status'), more), [
      204,
      400,
      413,
      422,
      ...LIMITED,
    ]);
  },
  'reports for others': async (world) => {
    const more = { method: 'PUT', body: report(world, 'worker-1') };
    knowsNothing(
      'a report for another',
      await asked(world, of('worker-1', '/status'), more),
      [403, 413, 429],
    );
  },
  'answers and holds leases for others': async (world) => {
    const part = world.dice.one(['/answer', '/lease', '/probes', '/probeanswer']);
    const body = JSON.stringify({
      node: 'worker-1',
      id: '1',
      boot: 'b',
      sent: 1,
      held: [],
      ready: [],
      results: [],
    });
    knowsNothing(
      part,
      await asked(world, of('worker-1', part), { method: 'POST', body }),
      [403, 404, 405, 429],
    );
  },
  'speaks as another controller': async (world) => {
    const path = `/apis/controlplane.nodewall.io/v1alpha1/${world.dice.one(['nodereports', 'probes', 'questions', 'leases'])}`;
    knowsNothing(
      path,
      await asked(world, path, { method: 'POST', body: '{"requests":[]}' }),
      [400, 401, 403, 404, 405],
    );
  },
  'asks the API server for what it may not': async (world) => {
    const { story, stranger, stolen, dice } = world;
    const path = dice.one([
      '/api/v1/namespaces/nodewall-system/secrets/nodewall-ca',
      '/api/v1/nodes',
      '/api/v1/pods',
      '/api/v1/namespaces/nodewall-system/configmaps',
    ]);
    const port = Number(new URL(story.cluster.server).port);
    const how = { host: story.address, port, path, headers: bearer(stolen.api) };
    knowsNothing(path, await stranger.do({ kind: 'https', ...how }), [403, 429]);
  },
};

const PORTS = [22, 80, 443, 2379, 6443, 7790, 7791, 8080, SERVICE, WEBHOOK, 9001, 9002, 9003, 9412, 10_250];
const addressOf = ({ story, dice }: HostileWorld): string =>
  dice.one([story.address, ...story.nodes.map(({ v4 }) => v4), ...story.nodes.map(({ v6 }) => v6)]);

const PROCESS_ACTS: Readonly<Record<string, Act>> = {
  'takes ports': ({ nobody, dice }) =>
    nobody.do({
      kind: 'listen',
      at: { port: dice.one([9412, 7790, 7791, 10_250, 1024 + dice.number(60_000)]) },
      for: 3_000,
    }),
  'takes the name of the agent’s socket': ({ nobody }) =>
    nobody.do({ kind: 'listen', at: { path: '\0nodewall-agent' }, for: 3_000 }),
  'speaks into the tunnel': (world) =>
    world.nobody.do({
      ...{ kind: 'udp', host: addressOf(world), port: world.dice.one([7790, 7791]) },
      bytes: world.dice.bytes(1_400),
    }),
  'connects everywhere': (world) =>
    world.nobody.do({
      ...{ kind: 'tcp', host: addressOf(world), port: world.dice.one(PORTS) },
      ...{ bytes: world.dice.bytes(2_000), hold: 2_000 },
    }),
  'reads the rules': async ({ nobody }) => {
    const { code, text } = await nobody.do({ kind: 'exec', argv: ['nft', 'list', 'ruleset'] });
    assert.ok(code !== 0 && !text.includes('nodewall'), `nft lists rules: ${text.slice(0, 300)}`);
  },
  'changes the rules': async ({ nobody }) => {
    const { code } = await nobody.do({ kind: 'exec', argv: ['nft', 'delete', 'table', 'inet', 'nodewall'] });
    assert.notEqual(code, 0);
  },
  'kills the agent': async ({ nobody, agentPid }) => {
    const { code } = await nobody.do({ kind: 'exec', argv: ['kill', '-9', String(await agentPid())] });
    assert.notEqual(code, 0);
  },
  'reads the agent’s state': async ({ nobody, story, dice }) => {
    const file = dice.one(['node-state.jsonl', 'guard.json', 'agent.sock', 'records.jsonl']);
    const path = `${story.cluster.folder}/${VICTIM}.state/${file}`;
    const { code, text } = await nobody.do({ kind: 'exec', argv: ['cat', path] });
    assert.ok(code !== 0, `${path}: ${text.slice(0, 200)}`);
  },
  'steers the agent': async ({ nobody, story, dice }) => {
    const command = dice.one(['off', 'cleanup', 'confirm', 'flush']);
    const argv = [
      process.execPath,
      'bin/nodewall',
      command,
      '--state-dir',
      `${story.cluster.folder}/${VICTIM}.state`,
    ];
    const { code, text } = await nobody.do({ kind: 'exec', argv });
    assert.notEqual(code, 0, `${command}: ${text}`);
  },
};

const STRANGERS_ACTS: Readonly<Record<string, Act>> = {
  'sends anything to any port': (world) =>
    world.stranger.do({
      ...{ kind: 'tcp', host: addressOf(world), port: world.dice.one(PORTS) },
      bytes: world.dice.one([
        world.dice.bytes(8_000),
        'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1 + world.dice.number(300)),
        `GET /apis HTTP/1.1\r\nX: ${'x'.repeat(7_000)}`,
      ]),
      hold: 1_000 + world.dice.number(4_000),
    }),
  'asks the port for agents': async (world) => {
    const path = world.dice.one([
      '/',
      '/metrics',
      '/apis',
      of('worker-1'),
      watchOf('worker-1'),
      '/console',
      '/healthz',
    ]);
    const headers = bearer(
      world.dice.one(['', world.dice.bytes(200).replace(/[^a-z]/g, ''), 'eyJhbGciOiJSUzI1NiJ9.e30.x']),
    );
    knowsNothing(path, await asked(world, path, { headers }), [
      200,
      301,
      302,
      400,
      401,
      403,
      404,
      405,
      431,
      ...LIMITED,
    ]);
  },
  'asks the webhook': async (world) => {
    const { story, stranger, dice } = world;
    const path = dice.one(['/validate', '/mutate', '/use', '/', `/${dice.number(1e9)}/validate`]);
    const policy = { apiVersion: V1, kind: 'ClusterNetworkPolicy', metadata: { name: 'x' } };
    const body = reviewOf(
      JSON.stringify({ ...policy, spec: { priority: 1, appliedTo: [{ nodeSelector: {} }] } }),
    );
    const headers = { 'content-type': 'application/json' };
    const how = { host: story.address, port: WEBHOOK, path, method: 'POST', headers, body };
    knowsNothing(path, await stranger.do({ kind: 'https', ...how }), [404, 431]);
  },
  'speaks into the tunnel': (world) =>
    world.stranger.do({
      ...{ kind: 'udp', host: addressOf(world), port: world.dice.one([7790, 7791]) },
      bytes: world.dice.bytes(1_400),
    }),
  'sends as a Node': async (world) => {
    const { namespace } = world.story.machine('other1');
    const host = world.story.machine('worker-1');
    const claimed = world.dice.one([world.story.machine('cp-1').v4, host.v4, '127.0.0.2', '10.244.9.9']);
    const address = ['ip', 'address', 'add', `${claimed}/32`, 'dev', 'lo'];
    await namespace.run(address, { anyStatus: true });
    const script = `exec 3<>/dev/tcp/${host.v4}/80`;
    await namespace.run(['timeout', '1', 'bash', '-c', script], { anyStatus: true });
    await namespace.run(address.with(2, 'del'), { anyStatus: true });
  },
};

export const ACTORS: readonly Actor[] = [
  {
    ...{ who: 'A stranger who reaches every port', hands: 12, pause: 30, has: [] },
    acts: STRANGERS_ACTS,
  },
  {
    ...{ who: 'A tenant with every right in one namespace', hands: 4, pause: 50, has: [] },
    acts: TENANTS_ACTS,
  },
  {
    ...{ who: 'A compromised kubelet', hands: 2, pause: 100, has: [VICTIM] },
    acts: KUBELETS_ACTS,
    async undo({ story, kubelet }) {
      const { v4, v6 } = story.machine(VICTIM);
      const object = { apiVersion: 'v1', kind: 'Node', metadata: { name: VICTIM, annotations: {} } };
      await kubelet.apply(JSON.stringify(object), { force: true });
      await kubelet.label(['node', VICTIM], { role: 'worker' });
      await kubelet.patchStatus(ownNode, {
        addresses: [v4, v6].map((address) => ({ type: 'InternalIP', address })),
      });
    },
  },
  {
    ...{ who: 'The token of an agent, stolen', hands: 8, pause: 30, has: [VICTIM] },
    acts: TOKENS_ACTS,
  },
  {
    ...{ who: "A process in a Node's network namespace, without capabilities", hands: 6, pause: 50, has: [] },
    acts: PROCESS_ACTS,
  },
];
