import assert from 'node:assert/strict';
import type { EgressGatewayStatus } from '../../../apis/egress/objects.ts';
import type { TestCluster } from '../../cluster/cluster.ts';
import { until } from '../../kernel/until.ts';
import { oneController } from '../labs.ts';
import type { OneController } from '../one-controller.ts';

interface PolicyStatus {
  readonly conditions?: readonly {
    readonly type: string;
    readonly reason: string;
    readonly message: string;
  }[];
}

const HEAD = 'apiVersion: nodewall.io/v1alpha1\n';
const gateway = (name: string, range: string, more = ''): string =>
  `${HEAD}kind: EgressGateway\nmetadata: {name: ${name}}\nspec: {nodeSelector: {matchLabels: {a: b}}, addresses: {pools: [{ranges: ["${range}"]}]}, allowedNamespaces: {matchLabels: {team: shop}}${more}}`;
const policy = (namespace: string, name: string, spec: string): string =>
  `${HEAD}kind: EgressPolicy\nmetadata: {name: ${name}, namespace: ${namespace}}\nspec: {appliedTo: [{podSelector: {}}], ${spec}}`;
const fixed = (address: string): string => `gateway: out, address: {allocation: Fixed, ipv4: ${address}}`;
const OUT = gateway('out', '198.51.100.1-198.51.100.9', ', default: true');
const OBJECTS = `
apiVersion: v1
kind: Node
metadata: {name: n4}
spec: {podCIDR: 10.244.1.0/24, podCIDRs: [10.244.1.0/24]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: shop}}
---
apiVersion: v1
kind: Namespace
metadata: {name: dev}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tenant}
rules: [{apiGroups: [nodewall.io], resources: [egresspolicies], verbs: [get, create, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tenant}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
`;
/** As docs/egress.md has it. */
const USE = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: use-egress-gateway-out}
rules: [{apiGroups: [nodewall.io], resources: [egressgateways], resourceNames: [out], verbs: [use]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: use-egress-gateway-out, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: use-egress-gateway-out}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
`;

/** At its end the controller is gone. */
describe('the webhook’s checks of egress gateways, on a real API server', function () {
  this.timeout(120_000);
  const begun = oneController.use();
  let controller: OneController;
  let cluster: TestCluster;

  before(async () => {
    controller = begun();
    ({ cluster } = controller);
    await cluster.apply(OBJECTS);
    const knowsNode = async (): Promise<boolean> => {
      const { stderr } = await send(gateway('inside', '10.244.1.9'), '--dry-run=server');
      return stderr.includes('denied the request');
    };
    await until('the webhook knows the pod network', knowsNode, { detail: controller.log });
  });

  const send = (manifest: string, ...more: string[]): ReturnType<TestCluster['kubectl']> =>
    cluster.kubectl(['apply', '--server-side', '-f', '-', ...more], { stdin: manifest });

  async function refused(manifest: string, message: RegExp, ...more: string[]): Promise<void> {
    const { code, stderr } = await send(manifest, ...more);
    assert.equal(code, 1, 'allowed');
    assert.match(stderr, message);
  }

  async function allowed(manifest: string, ...more: string[]): Promise<void> {
    const { code, stderr } = await send(manifest, ...more);
    assert.equal(code, 0, stderr);
  }

  it('refuse what other objects make wrong, with the messages of validate', async () => {
    // A policy in the same file as its gateway arrives before the watch has shown that.
    await allowed(`${OUT}\n---\n${policy('shop', 'bank', fixed('198.51.100.1'))}`);
    const early = await send(policy('shop', 'early', 'gateway: in'));
    assert.equal(early.code, 0, early.stderr);
    assert.match(
      early.stderr,
      /^Warning: EgressPolicy\/\S+: spec\.gateway: there is no EgressGateway "in".*is dropped$/m,
    );
    await cluster.kubectl(['delete', 'egresspolicies.nodewall.io', '-n', 'shop', 'early']);
    await Promise.all([
      refused(policy('dev', 'p', 'gateway: out'), /does not admit namespace dev: its allowedNamespaces/),
      refused(
        policy('shop', 'p', fixed('198.51.100.77')),
        /198\.51\.100\.77 is not in the pools of EgressGateway out/,
      ),
      refused(
        policy('shop', 'p', fixed('198.51.100.1')),
        /198\.51\.100\.1 is taken by EgressPolicy shop\/bank/,
      ),
      refused(
        policy('shop', 'p', 'gateway: out, to: ["2001:db8::/64"]'),
        /has no IPv6 address, so nothing gets there/,
      ),
      refused(policy('shop', 'p', 'gateway: out, to: [10.244.1.0/25]'), /is wholly inside the cluster/),
      refused(
        gateway('two', '198.51.100.9'),
        /198\.51\.100\.9 overlaps 198\.51\.100\.1-198\.51\.100\.9 of EgressGateway out/,
      ),
      refused(
        gateway('two', '10.244.1.9'),
        /10\.244\.1\.9 overlaps the pod network 10\.244\.1\.0\/24 of Node n4/,
      ),
      refused(gateway('two', '10.96.0.1'), /overlaps .*(ServiceCIDR|Service default\/kubernetes)/),
      refused(gateway('two', '203.0.113.1', ', default: true'), /EgressGateway out is the default too/),
    ]);
  });

  it('keep the addresses that policies have', async () => {
    await until('the policy has its address', async () => {
      const { status } = await cluster.get<{ status?: { addresses?: string[] } }>(
        ...['egresspolicies.nodewall.io', 'bank', '--namespace=shop'],
      );
      return status?.addresses?.[0] === '198.51.100.1';
    });
    const smaller = gateway('out', '198.51.100.2-198.51.100.9', ', default: true');
    await until('the webhook knows it', async () => (await send(smaller, '--dry-run=server')).code === 1);
    await refused(
      smaller,
      /out: spec\.addresses: would lose addresses in use\nEgressPolicy\/shop\/bank: has 198\.51\.100\.1;/,
    );
    const { code, stderr } = await cluster.kubectl(['delete', 'egressgateways.nodewall.io', 'out']);
    assert.equal(code, 1);
    assert.match(
      stderr,
      /\(Conflict\).*EgressGateway\/out: is in use\nEgressPolicy\/shop\/bank: has 198\.51\.100\.1;/,
    );
  });

  it('demand the right to use the gateway for an address of one’s own', async () => {
    const own = policy('shop', 'pay', fixed('198.51.100.3'));
    await refused(
      own,
      /webhook "use\.nodewall\.io" denied the request: EgressPolicy\/shop\/pay: spec\.address: user jane lacks the right to use EgressGateway out \(RBAC verb use on egressgateways\.nodewall\.io\)/,
      '--as=jane',
    );
    await allowed(policy('shop', 'shared', 'gateway: out'), '--as=jane');
    await cluster.apply(USE);
    // The API server and the controller remember for a second that it was not so.
    const mail = policy('shop', 'mail', fixed('198.51.100.4'));
    await until('jane has the right', async () => (await send(mail, '--as=jane')).code === 0);
  });

  it('leave a released address to its holder, and the policy that wants it waits', async () => {
    const gone = await cluster.kubectl(['delete', 'egresspolicies.nodewall.io', 'bank', '--namespace=shop']);
    assert.equal(gone.code, 0, gone.stderr);
    const released = '198.51.100.1';
    await until('the gateway holds it back', async () => {
      const { status } = await cluster.get<{ status?: EgressGatewayStatus }>(
        'egressgateways.nodewall.io',
        'out',
      );
      const record = status?.addresses?.find(({ address }) => address === released);
      return record?.policy === 'shop/bank' && record.heldUntil !== undefined;
    });
    await allowed(policy('shop', 'next', fixed(released)));
    await until('the policy waits', async () => {
      const { status } = await cluster.get<{ status?: PolicyStatus }>(
        ...['egresspolicies.nodewall.io', 'next', '--namespace=shop'],
      );
      const said = status?.conditions?.find(({ type }) => type === 'AddressAllocated');
      return said?.reason === 'AddressHeld' && said.message.includes(`${released} until `);
    });
  });

  it('let nobody choose an address while no controller answers, and all else pass', async () => {
    await controller.close();
    await refused(
      policy('shop', 'late', fixed('198.51.100.5')),
      /failed calling webhook "use\.nodewall\.io"/,
    );
    await allowed(policy('shop', 'late', 'gateway: out'));
    const { code } = await cluster.kubectl([
      'delete',
      'egresspolicies.nodewall.io',
      'next',
      '--namespace=shop',
    ]);
    assert.equal(code, 0);
  });
});
