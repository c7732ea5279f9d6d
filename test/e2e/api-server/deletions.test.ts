/**
 * Tiers and ClusterGroups are deleted while policies and Guardrails use them, on a real API server:
 * nothing in force changes, also where the controller is killed in the same moment.
 */

import assert from 'node:assert/strict';
import type { PolicyStatus } from '../../../apis/policy-status.ts';
import type { GuardrailStatus } from '../../../apis/validate/guardrail.ts';
import { removeAll } from '../../cluster/admin-api.ts';
import type { TestCluster } from '../../cluster/cluster.ts';
import { succeeds, until } from '../../kernel/until.ts';
import { install } from '../installed.ts';
import { apiServer } from '../labs.ts';
import { group, guardrail, OneController, policy } from '../one-controller.ts';

const HEAD = 'apiVersion: nodewall.io/v1alpha1\n';
const CLOSED = guardrail(
  'closed',
  'mustDeny: [{name: telnet, direction: ingress, from: [{group: office}], ports: [{port: 23}]}]',
);
const FILES = {
  guardrail: guardrail(
    'closed',
    'mustAllow: [{name: ssh, direction: ingress, from: [{group: office}], ports: [{port: 22}]}]',
  ),
  policy: policy(
    'telnet',
    'tier: late, ingress: [{name: telnet, action: Drop, from: [{group: all}], ports: [{port: 23}]}]',
  ),
  parent: `${HEAD}kind: ClusterGroup\nmetadata: {name: all}\nspec: {childGroups: [office]}`,
  child: group('office', '198.51.100.0/24'),
  tier: `${HEAD}kind: Tier\nmetadata: {name: late}\nspec: {priority: 20}`,
} as const;
type Name = keyof typeof FILES;
const ALL = Object.keys(FILES) as Name[];
const manifest = (names: readonly Name[]): string => names.map((name) => FILES[name]).join('\n---\n');
const KINDS = ['ngr', 'ncnp', 'ncg', 'ntier'];
const USED = ['ncg/office', 'ncg/all', 'ntier/late'];

describe('objects in use are deleted, on a real API server', function () {
  this.timeout(240_000);
  const begun = apiServer.use();
  let cluster: TestCluster;
  let controller: OneController;

  async function start(): Promise<void> {
    await removeAll(cluster, 'mutatingwebhookconfigurations', 'validatingwebhookconfigurations');
    controller = await OneController.start({ cluster });
    await controller.untilAsked();
  }
  before(async () => {
    cluster = begun();
    await succeeds(cluster.remove('configmap', 'nodewall-config', '--namespace=nodewall-system'));
    await install(cluster);
    await removeAll(cluster, ...KINDS, 'nodes');
    await start();
  });
  after(() => controller?.close());
  beforeEach(async () => {
    await applied(manifest(ALL));
    await untilWhole();
  });
  afterEach(() => removeAll(cluster, ...KINDS));

  /** Applies again while the Guardrail could not be checked in time. */
  async function applied(text: string): Promise<string> {
    let said = '';
    await until(
      'the manifest is stored',
      async () => {
        const { code, stderr } = await controller.apply(text);
        said = stderr;
        if (code !== 0) assert.match(stderr, /in time/);
        return code === 0;
      },
      { detail: () => said },
    );
    return said;
  }

  type Kept<T> = T & { readonly lastDefinitions?: Readonly<Record<string, string>> };

  const statusOf = async <T>(object: string): Promise<Kept<T> | undefined> =>
    (await cluster.get<{ status?: Kept<T> }>(object)).status;
  const kept = async (object: string): Promise<readonly string[]> =>
    Object.keys((await statusOf<object>(object))?.lastDefinitions ?? {});

  /** The policy is in force as it is written, and so is the Guardrail. */
  async function untilWhole(): Promise<void> {
    await until(
      'nothing is missing',
      async () => {
        const status = await statusOf<PolicyStatus>('ncnp/telnet');
        const guarded = await statusOf<GuardrailStatus>('ngr/closed');
        return (
          status?.desiredNodesRealized === 3 &&
          status.problems === undefined &&
          guarded?.phase === 'Holds' &&
          guarded.problems === undefined
        );
      },
      { detail: () => controller.log().slice(-4_000) },
    );
  }

  /** The present controller enforces the policy with what was deleted, which its status names. */
  async function untilKept(names = ''): Promise<PolicyStatus> {
    let status: PolicyStatus | undefined;
    await until(
      'the policy is in force with what was deleted',
      async () => {
        status = await statusOf<PolicyStatus>('ncnp/telnet');
        const isDeleted = status?.conditions.some(
          ({ type, message = '' }) => type === 'ReferencesExist' && message.includes(names),
        );
        const guarded = await statusOf<GuardrailStatus>('ngr/closed');
        return (
          isDeleted === true &&
          status?.phase === 'Pending' &&
          guarded?.phase === 'Holds' &&
          (guarded.problems?.length ?? 0) > 0
        );
      },
      { detail: () => `${JSON.stringify(status, null, 1)}\n${controller.log().slice(-4_000)}` },
    );
    assert.equal(status?.desiredNodesRealized, 3);
    return status;
  }

  for (const [title, names] of [
    ['what is used first', ALL.toReversed()],
    ['what uses it first', ALL],
    ['mixed', ['child', 'policy', 'parent', 'tier', 'guardrail']],
  ] as const)
    it(`kubectl deletes a file at once: ${title}`, async () => {
      const { code, stdout, stderr } = await cluster.kubectl(['delete', '-f', '-'], {
        stdin: manifest(names),
      });
      assert.equal(code, 0, stderr);
      assert.equal(stdout.trim().split('\n').length, names.length);
      // The webhook may not have seen the deletion of the users yet, and warn of them.
      if (title !== 'what uses it first') assert.match(stderr, /goes on with its last definition/);
      assert.equal((await cluster.kubectl(['get', 'ngr,ncnp,ncg,ntier', '-o', 'name'])).stdout, '');
    });

  it('goes on with what was deleted, also in a controller that starts after a kill', async () => {
    await applied(CLOSED);
    await untilWhole();
    const { code, stderr } = await cluster.kubectl(['delete', ...USED]);
    // Not a moment to write anything.
    await controller.close();
    assert.equal(code, 0, stderr);
    assert.match(
      stderr,
      /Warning: Tier\/late: in use: ClusterNetworkPolicy\/telnet: spec\.tier: there is no Tier "late"/,
    );
    const stored = (await kept('ncnp/telnet')).map((key) => key.split('/')[1]);
    assert.deepEqual([...new Set(stored)].sort(), ['all', 'late', 'office']);
    assert.deepEqual([...new Set((await kept('ngr/closed')).map((key) => key.split('/')[1]))], ['office']);
    await start();
    // The controller before may have written a status while not all were deleted.
    const status = await untilKept('ClusterGroup all, ClusterGroup office, Tier late');
    const { lastTransitionTime = '' } =
      status.conditions.find(({ type }) => type === 'ReferencesExist') ?? {};
    assert.ok(Math.abs(Date.parse(lastTransitionTime) - Date.now()) < 120_000);
    assert.match(controller.log(), /stay in force as they were defined last/);
    const metrics = await controller.process.metrics();
    assert.match(metrics, /^nodewall_controller_deleted_objects_in_use 3$/m);
    await until('an Event says so', async () => {
      const { stdout } = await cluster.kubectl(['get', 'events', '-n', 'default', '-o', 'name']);
      return stdout.includes('event') && (await hasEvent());
    });
    // Another that names it waits, and an edit that still names it does.
    const other = await applied(
      policy('other', 'ingress: [{name: r, action: Drop, from: [{group: office}]}]'),
    );
    assert.match(other, /there is no ClusterGroup "office"/);
    await until('the other one waits', async () => {
      const said = await statusOf<PolicyStatus>('ncnp/other');
      return said?.phase === 'Pending' && said.enforcedGeneration === undefined;
    });
    // Again, with another definition: both follow.
    await applied(`${manifest(['tier', 'parent'])}\n---\n${group('office', '203.0.113.0/24')}`);
    await untilWhole();
    await until('nothing is kept any more', async () => {
      return (await kept('ncnp/telnet')).length + (await kept('ngr/closed')).length === 0;
    });
  });

  async function hasEvent(): Promise<boolean> {
    const { items } = await cluster.get<{
      items: { reason: string; regarding?: object; involvedObject?: object }[];
    }>('events');
    return items.some(({ reason }) => reason === 'ReferenceDeleted');
  }

  it('keeps what a CustomResourceDefinition takes along, and an edit ends it', async () => {
    await cluster.kubectl(['delete', 'crd', 'clustergroups.nodewall.io']);
    await untilKept();
    await until('it is in the status', async () => (await kept('ncnp/telnet')).length > 0);
    await controller.close();
    await start();
    await untilKept();
    await applied(
      policy('telnet', 'tier: late, ingress: [{name: telnet, action: Drop, ports: [{port: 23}]}]'),
    );
    await until('nothing is missing', async () => {
      const status = await statusOf<PolicyStatus>('ncnp/telnet');
      return status?.problems === undefined && (await kept('ncnp/telnet')).length === 0;
    });
  });

  it('refuses the deletion of what is in use while no controller can write it', async () => {
    await controller.close();
    const { code, stderr } = await cluster.kubectl(['delete', 'ntier', 'late']);
    assert.equal(code, 1);
    assert.match(stderr, /failed calling webhook "validate\.deletions\.nodewall\.io"/);
    assert.equal((await cluster.kubectl(['delete', 'ncnp', 'telnet'])).code, 0);
    await start();
  });
});
