import assert from 'node:assert/strict';
import type { Names } from './flow.ts';
import { type Answer, type Flow, oracle } from './oracle.ts';

/** `verdict reason policy#ruleIndex` of an answer; `Allow default` where no rule decided. */
function summary(answer: Answer): string {
  const decided = answer.policy === null ? '' : ` ${answer.policy}#${answer.ruleIndex}`;
  return `${answer.verdict} ${answer.reason}${decided}`;
}

/** The apiVersion of our own objects. */
export const ours = 'nodewall.io/v1alpha1';
/** The apiVersion of Antrea's. */
export const antrea = 'crd.antrea.io/v1beta1';
/** An appliedTo that leaves no Node out. */
export const everyNode = [{ nodeSelector: {} }];

/** A policy for every Node with priority 5 unless the spec says otherwise. */
export function policy(name: string, spec: object, apiVersion = ours): object {
  const kind = 'ClusterNetworkPolicy';
  return { apiVersion, kind, metadata: { name }, spec: { priority: 5, appliedTo: everyNode, ...spec } };
}

/** A custom Tier. */
export function tier(name: string, priority: number, apiVersion = ours): object {
  return { apiVersion, kind: 'Tier', metadata: { name }, spec: { priority } };
}

/** A Pod with as much of a status as the case needs. */
export function pod(
  name: string,
  namespace: string,
  rest: { labels?: object; spec?: object; status: object },
): object {
  const metadata = { name, namespace, labels: rest.labels ?? {} };
  return { apiVersion: 'v1', kind: 'Pod', metadata, spec: rest.spec ?? {}, status: rest.status };
}

/** Two Nodes, n1 being the one that judges; a declared namespace; pods of all sorts. */
export const cluster = [
  {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: 'n1',
      labels: { role: 'worker', zone: 'a' },
      annotations: { 'nodewall.io/addresses': ' 10.0.0.11 ,nonsense, fd00::b' },
    },
    status: {
      addresses: [
        { type: 'InternalIP', address: '10.0.0.1' },
        { type: 'InternalIP', address: 'fd00::1' },
        { type: 'Hostname', address: '10.0.0.99' },
      ],
    },
  },
  {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'n2', labels: { role: 'control' } },
    status: { addresses: [{ type: 'ExternalIP', address: '203.0.113.2' }] },
  },
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', labels: { team: 'red' } } },
  pod('web', 'shop', {
    labels: { app: 'web' },
    status: { podIP: '10.9.9.9', podIPs: [{ ip: '10.1.0.1' }, { ip: 'fd01::1' }] },
  }),
  pod('web', 'lost', { labels: { app: 'web' }, status: { podIP: '10.1.0.2' } }),
  pod('acct', 'shop', { spec: { serviceAccountName: 'bot' }, status: { podIP: '10.1.0.3' } }),
  pod('host', 'shop', { labels: { app: 'web' }, spec: { hostNetwork: true }, status: { podIP: '10.1.0.4' } }),
  pod('done', 'shop', { labels: { app: 'web' }, status: { phase: 'Succeeded', podIP: '10.1.0.5' } }),
  pod('dead', 'shop', { labels: { app: 'web' }, status: { phase: 'Failed', podIP: '10.1.0.6' } }),
  { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'bare' }, status: { podIP: '10.1.0.7' } },
  pod('new', 'shop', { labels: { app: 'web' }, status: { phase: 'Pending' } }),
];

/**
 * claim, the policies, the flow (ingress unless it says), what is expected, the configuration, what
 * names resolve to.
 */
export type Row = [
  claim: string,
  objects: object[],
  flow: Partial<Flow>,
  expected: string,
  config?: object,
  names?: Names,
];

/** One test for each row, on node n1 of the cluster. */
export function checkRows(tables: Readonly<Record<string, readonly Row[]>>): void {
  for (const [name, rows] of Object.entries(tables)) {
    describe(name, () => {
      for (const [claim, objects, flow, expected, config = {}, names = {}] of rows) {
        it(`${claim} -> ${expected}`, () => {
          const judge = oracle({ objects: [...objects, ...cluster], node: 'n1', config, names });
          assert.equal(summary(judge({ direction: 'ingress', ...flow })), expected);
        });
      }
    });
  }
}

/** A Service. */
export function service(name: string, namespace: string, spec: object): object {
  return { apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec };
}
