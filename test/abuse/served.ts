/**
 * A process with the servers of a controller, for a cluster that is made up: port 8443, the webhook
 * and the port of health and metrics. Measures the delays of its own main thread, as the Lease and
 * heartbeats would have them.
 */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { compile } from '../../controller/compile/compile.ts';
import { firstOf, frontProxyAuthenticator, isFrontProxy } from '../../controller/publish/auth.ts';
import { Hub } from '../../controller/publish/hub.ts';
import type { ServerLimits } from '../../controller/publish/limits.ts';
import { NodeReports } from '../../controller/publish/node-reports.ts';
import { controlPlaneServer } from '../../controller/publish/server.ts';
import type { AdmissionObjects } from '../../controller/webhook/admission.ts';
import { AdmissionProcess } from '../../controller/webhook/admission-process.ts';
import { webhookServer } from '../../controller/webhook/server.ts';
import { serveMetrics } from '../../lib/process/metrics-server.ts';
import { plainStep } from './bodies.ts';
import type { Ports } from './clients.ts';
import { identityOf } from './clients.ts';
import { rssOfTree } from './memory.ts';

export interface ServedInput {
  readonly key: string;
  readonly cert: string;
  /** Of the front proxy. */
  readonly clientCa: string;
  readonly limits?: Partial<ServerLimits>;
}

/** Since the last call. */
export interface ServedStats {
  /** Bytes, of the process and its children. */
  readonly rss: number;
  /** The worst delay of a timer (milliseconds). */
  readonly delay: number;
  readonly watchers: number;
  readonly failures: readonly string[];
}

const NODES = 20;
const TICK = 20;
const FRONT_PROXY = {
  allowedNames: ['front-proxy-client'],
  usernameHeaders: ['X-Remote-User'],
  uidHeaders: [],
  groupHeaders: ['X-Remote-Group'],
  extraHeaderPrefixes: [],
};

const { key, cert, clientCa, limits = {} } = JSON.parse(process.argv[2] ?? '') as ServedInput;
const hub = new Hub({ gate: true });
hub.publish(compile({ ...NO_OBJECTS, ...objects() }));
const failures: string[] = [];
const server = controlPlaneServer({
  hub,
  authenticate: firstOf(
    frontProxyAuthenticator(() => FRONT_PROXY),
    async ({ headers }) => identityOf(headers.authorization),
  ),
  authorise: async ({ username }) => ({ allowed: username !== 'nobody', reason: '' }),
  isFrontProxy: (socket) => isFrontProxy(socket, FRONT_PROXY),
  metrics: {
    authenticate: async ({ headers }) => identityOf(headers.authorization),
    contentType: 'text/plain',
    // More than the kernel's buffers hold.
    allNodes: async () => ({ text: 'nodewall_test 1\n' }),
    text: async () => `nodewall_test 1\n${'#'.repeat(24 << 20)}\n`,
  },
  onReport() {},
  reports: new NodeReports(performance.now.bind(performance)),
  authenticatePeer: async () => null,
  tls: { key, cert, clientCa },
  limits,
  streams: { heartbeat: 500 },
});
const agents = (await server.listen(0, '0.0.0.0')).port;
const admission = new AdmissionProcess();
const world = {
  objects: objects(),
  failsafe: DEFAULT_CONFIG.failsafe,
  interfaceGroups: [],
  believesAnyServer: false,
};
const webhook = webhookServer(
  { key, cert },
  {
    stepOf: plainStep,
    admit: (request) => admission.admit(request),
    world: () => world,
    changed: async () => {},
    latest: async () => null,
    onFailure: ({ message }) => failures.push(message),
  },
).listen(0, '0.0.0.0');
await once(webhook, 'listening');
const health = await serveMetrics({
  listen: ':0',
  registry: new Registry(),
  isLocal: true,
  healthy: () => null,
  ready: () => null,
});
let delay = 0;
let last = performance.now();
setInterval(() => {
  const time = performance.now();
  delay = Math.max(delay, time - last - TICK);
  last = time;
}, TICK);
process.on('message', (order) => {
  if (order === 'change') {
    hub.setGate(!hub.gate);
    return;
  }
  const stats: ServedStats = {
    rss: rssOfTree(process.pid),
    delay,
    watchers: hub.watchers,
    failures: failures.splice(0),
  };
  delay = 0;
  process.send?.(stats);
});
process.on('disconnect', () => process.exit());
const ports: Ports = { agents, webhook: (webhook.address() as AddressInfo).port, health: health.port };
process.send?.(ports);

function objects(): AdmissionObjects {
  const rules = Array.from({ length: 200 }, (_, index) => {
    return { action: 'Drop', ports: [{ protocol: 'TCP', port: index + 1 }] };
  });
  const policies = Array.from({ length: 20 }, (_, index) => {
    const { object } = validateObject({
      apiVersion: 'nodewall.io/v1alpha1',
      kind: 'ClusterNetworkPolicy',
      metadata: { name: `policy-${index}` },
      spec: { priority: index + 1, appliedTo: [{ nodeSelector: {} }], ingress: rules },
    });
    return object?.kind === 'ClusterNetworkPolicy' ? object : [];
  });
  const nodes = Array.from({ length: NODES }, (_, index) => {
    return { kind: 'Node', name: `node-${index}`, labels: {}, addresses: [`192.0.2.${index}`] } as const;
  });
  return { ...NO_OBJECTS, nodes, policies: policies.flat() };
}
