/** Acts of those who write to the API server: a tenant, and a kubelet. */
import assert from 'node:assert/strict';
import { HIDDEN, type HostileWorld, TENANT, VICTIM } from './hostile-world.ts';

/** Rejects where the page (docs/security.md) says "can't" and it could. */
export type Act = (world: HostileWorld) => Promise<unknown>;

export const V1 = 'nodewall.io/v1alpha1';

/** Refused, whatever the words: by the API server's rights. */
async function isForbidden(what: string, asked: Promise<unknown>): Promise<void> {
  const error = await asked.then(
    () => null,
    (reason: unknown) => reason as Error,
  );
  assert.ok(error !== null, `${what} is allowed`);
  assert.doesNotMatch(error.message, new RegExp(HIDDEN), what);
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

export const TENANTS_ACTS: Readonly<Record<string, Act>> = {
  'labels pods': async (world) => {
    const name = nameOf(world, 50);
    const spec = { containers: [{ name: 'c', image: 'i' }] };
    await world.tenant.apply(inTenant('Pod', 'v1', name, { spec }, labelsOf(world)), { force: true });
    // A kubelet and its CNI give it an address of the tenant's network.
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

export const ownNode = [`node/${VICTIM}`];
const addressesOf = (world: HostileWorld): string[] => {
  const { story, dice } = world;
  const others = [story.machine('worker-1').v4, story.machine('cp-1').v4, '10.96.0.1', '10.244.9.7'];
  const odd = ['0.0.0.0', '127.0.0.1', '224.0.0.1', '255.255.255.255', '::', 'fe80::1', dice.address()];
  return Array.from({ length: dice.number(20) }, () => dice.one([...others, ...odd]));
};

export const KUBELETS_ACTS: Readonly<Record<string, Act>> = {
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
