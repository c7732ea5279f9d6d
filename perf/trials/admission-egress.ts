/** Answers about egress gateways and policies beside many pods, which change all the time. */
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { type ClusterObjects, NO_OBJECTS } from '../../apis/objects.ts';
import type { AdmissionStep } from '../../controller/webhook/admission.ts';
import { AdmissionProcess } from '../../controller/webhook/admission-process.ts';
import { reviewOf } from '../../test/abuse/bodies.ts';
import { fakeGateway, fakeNode, fakePod, fakePolicy } from '../../test/fake/egress-objects.ts';
import { processorTimeOf } from '../measure/process.ts';
import { answer, trialInput } from './trial.ts';

const {
  pods: podCount,
  policies: policyCount,
  hasNetworks,
} = trialInput<{
  pods: number;
  policies: number;
  /** Whether Nodes say the networks of their pods. */
  hasNetworks: boolean;
}>();
const NODES = 1000;
const GATEWAYS = 100;
const ROUNDS = 40;

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const byte = (n: number, shift: number): number => (n >> shift) & 255;
const podAddress = (i: number): string =>
  `10.${64 + byte(i % NODES, 8)}.${byte(i % NODES, 0)}.${1 + Math.floor(i / NODES)}`;

let objects: ClusterObjects = {
  ...NO_OBJECTS,
  nodes: range(NODES).map((i) => {
    const podCIDRs = hasNetworks ? [`10.${64 + byte(i, 8)}.${byte(i, 0)}.0/24`] : [];
    return fakeNode(`node-${i}`, [`172.16.${byte(i, 8)}.${byte(i, 0)}`], { podCIDRs });
  }),
  namespaces: range(500).map((i) => ({
    kind: 'Namespace',
    name: `team-${i}`,
    labels: { team: `${i % 50}` },
  })),
  pods: range(podCount).map((i) => fakePod(`team-${i % 500}/pod-${i}`, [podAddress(i)])),
  egressGateways: range(GATEWAYS).map((i) => fakeGateway(`gateway-${i}`, { ranges: [`198.18.${i}.0/24`] })),
  egressPolicies: range(policyCount).map((i) => {
    const ipv4 = `198.18.${i % GATEWAYS}.${1 + Math.floor(i / GATEWAYS)}`;
    const address = { allocation: 'Fixed', fixed: { ipv4 }, count: 1 } as const;
    return fakePolicy(`team-${i % 500}/policy-${i}`, { gateway: `gateway-${i % GATEWAYS}`, address }, [ipv4]);
  }),
};

const HEAD = '"apiVersion":"nodewall.io/v1alpha1"';
const POLICY = `{${HEAD},"kind":"EgressPolicy","metadata":{"namespace":"team-1","name":"new"},"spec":{"appliedTo":[{"podSelector":{}}],"gateway":"gateway-7","to":["203.0.113.0/24","192.0.2.0/28"],"address":{"allocation":"Fixed","ipv4":"198.18.7.200"}}}`;
const gateway = (pool: string): string =>
  `{${HEAD},"kind":"EgressGateway","metadata":{"name":"new"},"spec":{"nodeSelector":{"matchLabels":{"a":"b"}},"allowedNamespaces":{},"addresses":{"pools":[{"ranges":["${pool}"]}]}}}`;

const admission = new AdmissionProcess({ time: 60_000, heap: 256 });

async function ask(object: string, step: AdmissionStep, allowed = true): Promise<number> {
  const body = [Buffer.from(reviewOf(object))];
  const world = {
    objects,
    failsafe: DEFAULT_CONFIG.failsafe,
    believesAnyServer: false,
    interfaceGroups: [],
    egress: DEFAULT_EGRESS_CONFIG,
  };
  const began = performance.now();
  const found = await admission.admit({ body, step, world, source: 'a', isWanted: () => true });
  const took = performance.now() - began;
  if (found?.text.includes(`"allowed":${allowed}`) !== true) throw new Error(found?.text ?? 'no answer');
  return took;
}

/** A pod is replaced by another one. */
function churn(i: number): void {
  const pods = [...objects.pods];
  pods[(i * 7919) % pods.length] = fakePod(`team-1/new-${i}`, [podAddress((i * 7919) % pods.length)]);
  objects = { ...objects, pods };
}

const sorted = (times: number[]): number => times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)] ?? 0;

admission.start();
const first = await ask(POLICY, 'validate');
await ask(gateway('203.0.113.0/24'), 'validate');
const policyTimes: number[] = [];
const gatewayTimes: number[] = [];
const before = process.threadCpuUsage();
const childBefore = await processorTimeOf(admission.pid ?? 0);
for (let i = 0; i < ROUNDS; i++) {
  churn(2 * i);
  policyTimes.push(await ask(POLICY, 'validate'));
  churn(2 * i + 1);
  gatewayTimes.push(await ask(gateway('203.0.113.0/24'), 'validate'));
}
const { user, system } = process.threadCpuUsage(before);
const main = (user + system) / 1000 / (2 * ROUNDS);
const child = ((await processorTimeOf(admission.pid ?? 0)) - childBefore) * (1000 / (2 * ROUNDS));
await ask(gateway('10.64.0.0/30'), 'validate', false);
admission.close();
answer({ first, policy: sorted(policyTimes), gateway: sorted(gatewayTimes), main, child });
