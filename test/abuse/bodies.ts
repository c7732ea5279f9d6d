/** The largest bodies of reviews, each a list, map or text that some step reads. */
import { MOST } from '../../apis/schema/crd-parts.ts';
import {
  WEBHOOK_STEPS,
  type WebhookStep,
} from '../../controller/kubeapi/certificates/webhook-configurations.ts';

/** Characters of the part that is repeated: the body stays below the size that is refused. */
const SIZE = 4_000_000;
/** As many items as fit, as text between commas. */
function fill(item: (index: number) => string): string {
  const items: string[] = [];
  for (let length = 0; length < SIZE; length += (items.at(-1)?.length ?? 0) + 1)
    items.push(item(items.length));
  return items.join(',');
}
const cidr = (index: number): string => `"10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}/32"`;
const object = (kind: string, spec: string, metadata = '"name":"p"'): string =>
  `{"apiVersion":"nodewall.io/v1alpha1","kind":"${kind}","metadata":{${metadata}},"spec":{${spec}}}`;
const policy = (spec: string): string =>
  object('ClusterNetworkPolicy', `"priority":1,"appliedTo":[{"nodeSelector":{}}],${spec}`);
const group = (spec: string): string => object('ClusterGroup', spec);
const rule = (fields: string): string => policy(`"egress":[{"action":"Drop",${fields}}]`);
const peer = (fields: string): string => rule(`"to":[{${fields}}]`);
const selector = (fields: string): string => peer(`"podSelector":{${fields}}`);
const egressPolicy = (fields: string): string =>
  object('EgressPolicy', `"appliedTo":[{"podSelector":{}}],${fields}`, '"name":"p","namespace":"n"');
const egressGateway = (fields: string): string =>
  object('EgressGateway', `"nodeSelector":{"matchLabels":{"a":"b"}},${fields}`);
const long = (text: string): string => text.repeat(SIZE / text.length);

/** What is sent, and a part of the answer. */
export const BODIES: Readonly<Record<string, readonly [body: string, answer: RegExp]>> = {
  'equal rules without names': [policy(`"ingress":[${fill(() => '{"action":"Allow"}')}]`), /at most 500/],
  'different rules without names': [
    policy(`"ingress":[${fill((n) => `{"action":"Drop","from":[{"ipBlock":{"cidr":${cidr(n)}}}]}`)}]`),
    /at most 500/,
  ],
  'rules with the same name': [
    policy(`"egress":[${fill(() => '{"action":"Drop","name":"a"}')}]`),
    /at most 500/,
  ],
  'empty rules': [policy(`"ingress":[${fill(() => '{}')}]`), /at most 500/],
  'rules that are numbers': [policy(`"ingress":[${fill(() => '1')}]`), /at most 500/],
  peers: [rule(`"to":[${fill((n) => `{"ipBlock":{"cidr":${cidr(n)}}}`)}]`), /at most 500/],
  exceptions: [peer(`"ipBlock":{"cidr":"10.0.0.0/8","except":[${fill(cidr)}]}`), /at most 32/],
  ports: [rule(`"ports":[${fill((n) => `{"protocol":"TCP","port":${(n % 65_535) + 1}}`)}]`), /at most 100/],
  'ports of unknown protocols': [rule(`"ports":[${fill(() => '{"protocol":"TCPX"}')}]`), /at most 100/],
  Services: [rule(`"toServices":[${fill((n) => `{"name":"s${n}","namespace":"n"}`)}]`), /at most 100/],
  labels: [selector(`"matchLabels":{${fill((n) => `"k${n}":"v"`)}}`), /at most 100/],
  'label expressions': [
    selector(`"matchExpressions":[${fill((n) => `{"key":"k${n}","operator":"Exists"}`)}]`),
    /at most 100/,
  ],
  'values of a label': [
    selector(`"matchExpressions":[{"key":"k","operator":"In","values":[${fill((n) => `"v${n}"`)}]}]`),
    /at most 1000/,
  ],
  'items of appliedTo': [
    object('ClusterNetworkPolicy', `"priority":1,"appliedTo":[${fill((n) => `{"group":"g${n}"}`)}]`),
    /at most 100/,
  ],
  'blocks of a group': [group(`"ipBlocks":[${fill((n) => `{"cidr":${cidr(n)}}`)}]`), /at most 2500/],
  'child groups': [group(`"childGroups":[${fill((n) => `"g${n}"`)}]`), /at most 1000/],
  'unknown fields of a spec': [policy(fill((n) => `"ingres${n}":1`)), /more than 100 problems/],
  'unknown fields of a rule': [rule(fill((n) => `"por${n}":1`)), /more than 100 problems/],
  'labels of the object': [
    object(
      'ClusterNetworkPolicy',
      '"priority":1,"appliedTo":[{"nodeSelector":{}}]',
      `"name":"p","labels":{${fill((n) => `"a${n}":"b"`)}}`,
    ),
    /"allowed":true/,
  ],
  'destinations of an EgressPolicy': [egressPolicy(`"to":[${fill(cidr)}]`), /at most 256/],
  'exceptions of an EgressPolicy': [egressPolicy(`"except":[${fill(cidr)}]`), /at most 256/],
  'ranges of an EgressGateway': [
    egressGateway(`"addresses":{"pools":[{"ranges":[${fill(cidr)}]}]}`),
    /at most 64/,
  ],
  'pools of an EgressGateway': [
    egressGateway(`"addresses":{"pools":[${fill((n) => `{"ranges":[${cidr(n)}]}`)}]}`),
    /at most 32/,
  ],
  'a range': [egressGateway(`"addresses":{"pools":[{"ranges":["::-${long('f:')}"]}]}`), /"allowed":false/],
  'a name of a gateway': [egressPolicy(`"gateway":"${long('a-')}"`), /"allowed":false/],
  'a namespace': [
    object('EgressPolicy', '"appliedTo":[{"podSelector":{}}]', `"name":"p","namespace":"${long('a')}"`),
    /"allowed":false/,
  ],
  'a name': [object('Tier', '"priority":7', `"name":"${long('a.')}"`), /"allowed":false/],
  'a name of a rule': [rule(`"name":"${long('a-')}!"`), /"allowed":false/],
  // No Tier has such a name, which the API server refuses later: here the policy waits for one.
  'a tier': [policy(`"tier":"${long('a')}"`), /"allowed":true/],
  'a DNS name': [peer(`"fqdn":"${long('a.')}!"`), /"allowed":false/],
  'a wildcard of DNS names': [peer(`"fqdn":"${long('*.')}"`), /"allowed":false/],
  'an IPv4 network': [peer(`"ipBlock":{"cidr":"${long('1.')}"}`), /"allowed":false/],
  'an IPv6 network': [peer(`"ipBlock":{"cidr":"${long(':1')}"}`), /"allowed":false/],
  'a name of a group': [peer(`"group":"${long('a-')}"`), /"allowed":false/],
  'a key of a label': [selector(`"matchLabels":{"${long('a-')}!":"x"}`), /"allowed":false/],
  'an action': [policy(`"ingress":[{"action":"${long('Drop')}"}]`), /"allowed":false/],
  'a kind': [object(long('Tier'), '"priority":7'), /"allowed":false/],
};

/** Nobody's object: refused before it is parsed, which would need half a gigabyte. */
export const NESTED: readonly string[] = [
  object('ClusterNetworkPolicy', `"appliedTo":${long('[')}${long(']')}`),
  object('Tier', `"priority":${long('{"a":')}1${'}'.repeat(SIZE / 5)}`),
];

/** The AdmissionReview of a new object; without a user if none is given. */
export function reviewOf(object: string, username = ''): string {
  const user = username === '' ? '' : `,"userInfo":{"username":"${username}"}`;
  return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","object":${object},"oldObject":null${user}}}`;
}

const items = <T>(count: number, item: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => item(index));

/** A rule with the most ports, which overlap those of all other rules, as their source ports do. */
export const onStairs = (index: number): object => ({
  ports: items(MOST.ports, (port) => {
    const first = 1 + index * MOST.ports + port;
    const [last, sourcePort] = [65_000, first];
    return { protocol: 'TCP', port: first, endPort: last, sourcePort, sourceEndPort: last };
  }),
});

/** The largest policies that are allowed, of which every pair of rules could be compared. */
export function largest(name: string, ofPort: (index: number) => object): object {
  const rules = items(MOST.rules, (index) => ({ action: 'Drop', ...ofPort(index) }));
  const spec = { priority: 1, appliedTo: [{ nodeSelector: {} }], ingress: rules, egress: rules };
  return { apiVersion: 'nodewall.io/v1alpha1', kind: 'ClusterNetworkPolicy', metadata: { name }, spec };
}
export const onPort = (index: number): object => ({ ports: [{ protocol: 'TCP', port: index + 1 }] });

/** Paths that anybody can guess (`/mutate`, `/validate`, `/use`), for tests of the answers. */
export function plainStep(path: string): WebhookStep | null {
  return WEBHOOK_STEPS.find((step) => path === `/${step}`) ?? null;
}
