import assert from 'node:assert/strict';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { reviewOf } from './bodies.ts';
import type { HostileAnswer } from './hostile-child.ts';
import { HIDDEN, type HostileWorld, VICTIM } from './hostile-world.ts';
import { type Act, KUBELETS_ACTS, ownNode, TENANTS_ACTS, V1 } from './hostile-writers.ts';

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

const SERVICE = 8443;
const WEBHOOK = 9443;

/** Told nothing of the policy that nobody of the five may know. */
function knowsNothing(what: string, { code, text }: HostileAnswer, allowed: readonly number[]): void {
  assert.ok(code === 0 || allowed.includes(code), `${what}: ${code} ${text.slice(0, 300)}`);
  assert.ok(!text.includes(HIDDEN), `${what} tells ${HIDDEN}`);
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}`, 'content-type': 'application/json' });

const report = ({ dice }: HostileWorld, node: string): string => {
  const text = (): string => dice.bytes(500);
  return JSON.stringify({
    node,
    revision: dice.one(['e.1', text()]),
    enforced: 'e.1',
    enabled: dice.number(2) === 0,
    policies: dice.number(1e6),
    version: text(),
    dataplane: 'nftables',
    time: new Date(0).toISOString(),
    failing: Array.from({ length: dice.number(120) }, () => ({
      apiGroup: 'nodewall.io',
      policy: dice.one([HIDDEN, 'web', text()]),
      rule: text(),
      reason: text(),
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
      kind: 'udp',
      host: addressOf(world),
      port: world.dice.one([7790, 7791]),
      bytes: world.dice.bytes(1_400),
    }),
  'connects everywhere': (world) =>
    world.nobody.do({
      kind: 'tcp',
      host: addressOf(world),
      port: world.dice.one(PORTS),
      bytes: world.dice.bytes(2_000),
      hold: 2_000,
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
      kind: 'tcp',
      host: addressOf(world),
      port: world.dice.one(PORTS),
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
      kind: 'udp',
      host: addressOf(world),
      port: world.dice.one([7790, 7791]),
      bytes: world.dice.bytes(1_400),
    }),
  'sends as a Node': async (world) => {
    const { namespace } = world.story.machine('other1');
    const host = world.story.machine('worker-1');
    const claimed = world.dice.one([world.story.machine('cp-1').v4, host.v4, '127.0.0.2', '10.244.9.9']);
    const address = ['ip', 'address', 'add', `${claimed}/32`, 'dev', 'lo'];
    await namespace.run(address, { anyStatus: true });
    const script = `exec 3<>/dev/tcp/${host.v4}/80`;
    await namespace.run(['timeout', '1', 'bash', '--norc', '-c', script], { anyStatus: true });
    await namespace.run(address.with(2, 'del'), { anyStatus: true });
  },
};

export const ACTORS: readonly Actor[] = [
  {
    who: 'A stranger who reaches every port',
    hands: 12,
    pause: 30,
    has: [],
    acts: STRANGERS_ACTS,
  },
  {
    who: 'A tenant with every right in one namespace',
    hands: 4,
    pause: 50,
    has: [],
    acts: TENANTS_ACTS,
  },
  {
    who: 'A compromised kubelet',
    hands: 2,
    pause: 100,
    has: [VICTIM],
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
    who: 'The token of an agent, stolen',
    hands: 8,
    pause: 30,
    has: [VICTIM],
    acts: TOKENS_ACTS,
  },
  {
    who: "A process in a Node's network namespace, without capabilities",
    hands: 6,
    pause: 50,
    has: [],
    acts: PROCESS_ACTS,
  },
];
