/** Inventories of many nodes, one after another, and the policies that are made of them. */
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { NodeFlow } from '../../apis/node-flows.ts';
import { NO_OBJECTS, type Node, type Pod } from '../../apis/objects.ts';
import { guarantees } from '../../cli/advise.ts';
import { AdviceCollector } from '../../controller/advise/advice-collector.ts';
import { advise } from '../../controller/advise/advise.ts';
import { NOW, seenKind, seenOn } from '../../test/fake/record.ts';
import type { AdviseInput } from '../measure/advise.ts';
import { answer, timed, trialInput } from './trial.ts';

const input = trialInput<AdviseInput>();
const PORTS = 40;
const PODS_A_NODE = 10;

const nodes = Array.from(
  { length: input.nodes },
  (_, i): Node => ({
    kind: 'Node',
    name: `n-${i}`,
    labels: { 'kubernetes.io/hostname': `n-${i}` },
    addresses: [`10.${i >> 8}.${i & 255}.1`],
  }),
);
const pods = Array.from(
  { length: input.nodes * PODS_A_NODE },
  (_, i): Pod => ({
    kind: 'Pod',
    namespace: `ns-${i % 50}`,
    name: `p-${i}`,
    serviceAccount: 'default',
    labels: { app: `app-${i % 200}`, 'pod-template-hash': `h${i}` },
    addresses: [`10.${100 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`],
  }),
);

function peerOf(node: number, k: number): string {
  const i = Math.floor(k / PORTS);
  if (input.peers === 'distinct')
    return `${20 + ((node * 31 + k) % 180)}.${(k * 7 + node) % 256}.${k % 256}.${node % 256}`;
  const [one, pod] = [nodes[(node + i) % nodes.length], pods[(node * 7 + i) % pods.length]];
  const addresses = [one?.addresses[0], pod?.addresses[0], `172.16.${i >> 8}.${i & 255}`];
  return addresses[i % addresses.length] ?? '';
}

function kindsOf(node: number): NodeFlow[] {
  return Array.from({ length: input.kinds }, (_, k) =>
    seenKind(peerOf(node, k), 1_000 + (k % PORTS), { direction: k % 2 === 0 ? 'ingress' : 'egress' }),
  );
}

const objects = { ...NO_OBJECTS, nodes, pods };
const collector = new AdviceCollector(objects, DEFAULT_CONFIG.interfaceGroups.pods);
const guarantee = guarantees(objects, DEFAULT_CONFIG);
let cpu = 0;
for (const [i, { name }] of nodes.entries()) {
  const flows = seenOn(name, ...kindsOf(i));
  cpu += (await timed(() => collector.add(name, flows, guarantee(name)))).cpu;
}
const made = await timed(() =>
  advise(collector, objects, {
    directions: ['ingress', 'egress'],
    maxCidrs: 4,
    tier: 'application',
    priority: 1000,
    unheard: { silent: [], notAsked: [] },
    now: NOW,
  }),
);
const rules = made.result.roles.map(({ policies }) =>
  policies.reduce((sum, { ingress, egress }) => sum + ingress.length + egress.length, 0),
);
answer({
  perKind: (1000 * cpu) / (input.nodes * input.kinds),
  made: made.cpu,
  roles: rules.length,
  rules: Math.max(...rules),
});
