/**
 * A controller's publish stage with a cluster that is made up: answers to what it is told over IPC
 * until that ends.
 */
import {
  type ClusterNetworkPolicy,
  type ClusterObjects,
  NO_OBJECTS,
  type Node,
  type Pod,
} from '../../apis/objects.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { REVIEW_QUEUE, type TokenReviewStatus, tokenAuthenticator } from '../../controller/publish/auth.ts';
import { Hub } from '../../controller/publish/hub.ts';
import { AGENT_USER } from '../../controller/publish/limits.ts';
import { NodeReports } from '../../controller/publish/node-reports.ts';
import { controlPlaneServer } from '../../controller/publish/server.ts';
import { FairQueue } from '../../lib/process/fair-queue.ts';
import {
  addressAfter,
  digestOfState,
  POOLS,
  type PublishServerInput,
  ruleAfter,
  type ServerAnswer,
  type ServerOrder,
  toPosition,
} from '../measure/publish.ts';
import { trialInput } from './trial.ts';

const MEMBERS = 10;
const CROWD = 1000;
const RULES_A_POLICY = 10;

const { nodes, rulesOfAll, rulesOfPool, port, key, cert, ...input } = trialInput<PublishServerInput>();
let { changes } = input;
const next = compiler();
const hub = new Hub({
  gate: true,
  watches: () => toPosition(changes).map((newest) => ({ newest, reached: newest })),
});
let objects = changed(cluster());
hub.publish(next(objects));
const queue = new FairQueue(REVIEW_QUEUE);
const server = controlPlaneServer({
  hub,
  authenticate: tokenAuthenticator({
    audiences: [],
    now: performance.now.bind(performance),
    date: Date.now,
    queue,
    review,
  }),
  authorise: async () => ({ allowed: false, reason: '' }),
  onReport() {},
  reports: new NodeReports(() => performance.now()),
  authenticatePeer: async () => null,
  tls: { key, cert },
  streams: { heartbeat: 3_600_000 },
});
const address = await server.listen(port, '127.0.0.1');
say({ is: 'ready', at: now(), port: address.port });
process.on('message', (order: ServerOrder) => {
  switch (order.to) {
    case 'change': {
      const at = now();
      const before = process.threadCpuUsage();
      changes = { ...changes, [order.kind]: 1 + changes[order.kind] };
      objects = changed(objects);
      const compiled = next(objects);
      const compiledAt = now();
      hub.publish(compiled);
      const published = now() - compiledAt;
      const { user, system } = process.threadCpuUsage(before);
      say({ is: 'changed', at, compiled: compiledAt - at, published, cpu: user + system });
      break;
    }
    case 'stats': {
      const { watchers, sentBytes, unsentBytes } = server.stats();
      say({ is: 'stats', watchers, sentBytes, unsentBytes });
      break;
    }
    case 'views':
      say({ is: 'views', digests: order.nodes.map((node) => digestOfState(hub.view(node))) });
      break;
  }
});
process.once('SIGTERM', () => server.close().then(() => process.exit()));
process.on('disconnect', () => process.exit());

function say(answer: ServerAnswer): void {
  process.send?.(answer);
}

/** Microseconds, the same clock in every process of the machine. */
function now(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/** What the API server would say, after a moment. */
async function review({ token }: { token: string }): Promise<TokenReviewStatus> {
  await new Promise((resolve) => {
    setTimeout(resolve, 2);
  });
  const [, claims = ''] = token.split('.');
  const { node } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { node: string };
  const extra = { 'authentication.kubernetes.io/node-name': [node] };
  return { authenticated: true, user: { username: AGENT_USER, extra } };
}

/**
 * Policies for all nodes and for pools; a list of pods for each rule, and one of `CROWD` that the
 * first rule names.
 */
function cluster(): ClusterObjects {
  const everywhere = policies('all', rulesOfAll, undefined);
  const pools = Array.from({ length: POOLS }, (_, pool) => policies(`pool-${pool}`, rulesOfPool, pool));
  const lists = [...everywhere, ...pools.flat()].flatMap(({ name }) =>
    Array.from({ length: RULES_A_POLICY }, (_, rule) => `${name}-${rule}`),
  );
  const crowd = Array.from({ length: CROWD }, (_, i) => pod('crowd', i, 200));
  const others = lists.flatMap((app, list) =>
    Array.from({ length: MEMBERS }, (_, i) => pod(app, list * MEMBERS + i, 10)),
  );
  return {
    ...NO_OBJECTS,
    nodes: Array.from({ length: nodes }, (_, i): Node => {
      const addresses = [`192.168.${i >> 8}.${i & 255}`, `fd00:168::${i.toString(16)}`];
      return { kind: 'Node', name: `node-${i}`, labels: { pool: `pool-${i % POOLS}` }, addresses };
    }),
    namespaces: [{ kind: 'Namespace', name: 'shop', labels: {} }],
    pods: [...crowd, ...others],
    policies: [...everywhere, ...pools.flat()],
  };
}

/** With the pod and the rule as they are after `changes`. */
function changed(before: ClusterObjects): ClusterObjects {
  const { pods, policies } = before;
  const [first] = policies;
  const [rule, ...rules] = first?.spec.ingress ?? [];
  if (first === undefined || rule === undefined) throw new Error('there is no rule');
  const ports = [{ protocol: 'TCP', port: 20_000 + (changes.rules % 20_000) }] as const;
  const spec = { ...first.spec, ingress: [{ ...rule, name: ruleAfter(changes), ports }, ...rules] };
  const isSame = rule.name === ruleAfter(changes);
  return {
    ...before,
    pods: pods.with(0, { ...pod('crowd', 0, 200), addresses: [addressAfter(changes).join('.')] }),
    policies: isSame ? policies : policies.with(0, { ...first, generation: 1 + changes.rules, spec }),
  };
}

function policies(prefix: string, rules: number, pool: number | undefined): ClusterNetworkPolicy[] {
  return Array.from({ length: rules / RULES_A_POLICY }, (_, index): ClusterNetworkPolicy => {
    const name = `${prefix}-${index}`;
    const nodeSelector = pool === undefined ? {} : { matchLabels: { pool: `pool-${pool}` } };
    const ingress = Array.from({ length: RULES_A_POLICY }, (_, i) => ({
      name: `rule-${i}`,
      action: 'Allow' as const,
      from: [
        { podSelector: { matchLabels: { app: name === 'all-0' && i === 0 ? 'crowd' : `${name}-${i}` } } },
      ],
      ports: [{ protocol: 'TCP' as const, port: 1000 + index * RULES_A_POLICY + i }],
    }));
    const spec = { priority: 1 + index, appliedTo: [{ nodeSelector }], ingress };
    return { kind: 'ClusterNetworkPolicy', apiGroup: 'nodewall.io', name, uid: name, generation: 1, spec };
  });
}

function pod(app: string, index: number, net: number): Pod {
  const addresses = [`10.${net + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`];
  const labels = { app };
  return {
    kind: 'Pod',
    namespace: 'shop',
    name: `${app}-${index}`,
    labels,
    serviceAccount: 'default',
    addresses,
  };
}
