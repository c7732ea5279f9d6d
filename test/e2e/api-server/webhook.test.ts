import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import {
  type ClusterGroup,
  type ClusterNetworkPolicy,
  NO_OBJECTS,
  type Tier,
} from '../../../apis/objects.ts';
import { validateObject } from '../../../apis/validate/object.ts';
import {
  publishToWebhooks,
  WebhookPaths,
} from '../../../controller/kubeapi/certificates/webhook-configurations.ts';
import type { KubeApiClient } from '../../../controller/kubeapi/kube-api.ts';
import type { AdmissionWorld } from '../../../controller/webhook/admission.ts';
import { AdmissionProcess } from '../../../controller/webhook/admission-process.ts';
import { latestWorld } from '../../../controller/webhook/latest.ts';
import { webhookServer } from '../../../controller/webhook/server.ts';
import { systemClock } from '../../../lib/process/clock.ts';
import { apiAs, removeAll, webhooksAt } from '../../cluster/admin-api.ts';
import { createAuthority } from '../../cluster/certificates.ts';
import type { TestCluster } from '../../cluster/cluster.ts';
import { until } from '../../kernel/until.ts';
import { ROOT } from '../../structure/source-file.ts';
import { apiServer } from '../labs.ts';

const HEAD = 'apiVersion: nodewall.io/v1alpha1\n';
const policy = (spec: string): string =>
  `${HEAD}kind: ClusterNetworkPolicy\nmetadata: {name: p}\nspec: {priority: 5, appliedTo: [{nodeSelector: {}}], ${spec}}`;

/** Of a cluster without policies, groups and tiers. */
describe('the webhook before a real API server', function () {
  this.timeout(120_000);
  const begun = apiServer.use();
  let cluster: TestCluster;
  let api: KubeApiClient;
  let server: Server;
  const admission = new AdmissionProcess();
  let world: AdmissionWorld;
  const failures: Error[] = [];

  /** What the controller's watch would see. */
  async function see(): Promise<void> {
    const { items } = await cluster.get<{ items: unknown[] }>('ncnp,ncg,ntier');
    const objects = items.map((item) => validateObject(item).object);
    const of = <T>(kind: string): T[] => objects.filter((object) => object?.kind === kind) as T[];
    world = {
      ...world,
      objects: {
        ...NO_OBJECTS,
        policies: of<ClusterNetworkPolicy>('ClusterNetworkPolicy'),
        groups: of<ClusterGroup>('ClusterGroup'),
        tiers: of<Tier>('Tier'),
      },
    };
  }

  before(async () => {
    world = {
      objects: NO_OBJECTS,
      failsafe: DEFAULT_CONFIG.failsafe,
      believesAnyServer: false,
      interfaceGroups: ['pods', 'clusternet'],
    };
    cluster = begun();
    api = apiAs(cluster);
    await cluster.kubectl(['apply', '--server-side', '-f', `${ROOT}/deploy/crds`]);
    await cluster.established();
    const authority = await createAuthority('webhook');
    const pair = await authority.issue({ commonName: 'localhost', names: ['localhost'], usage: 'server' });
    const paths = new WebhookPaths(systemClock);
    paths.setKey(pair.key);
    server = webhookServer(
      { cert: pair.certificate, key: pair.key },
      {
        stepOf: (path) => paths.stepOf(path),
        admit: (request) => admission.admit(request),
        world: () => world,
        changed: see,
        latest: latestWorld({ request: api.request, isCurrent: () => true }),
        deletions: {
          async fresh() {
            await see();
            return true;
          },
          // What a controller writes then is in deletions.test.ts.
          keep: async ({ users }) => `is in use by ${users.map(({ name }) => name).join(', ')}`,
        },
        onFailure: (error) => failures.push(error),
      },
    ).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await cluster.apply(await webhooksAt(`https://localhost:${port}`));
    const { certificate: certificates } = authority;
    const { changed, absent } = await publishToWebhooks(api.request, { certificates, paths });
    assert.deepEqual([changed.length, absent.length], [2, 0]);
    // The API server reads the configurations anew within a second or so.
    await until('the webhook is asked', async () => {
      const { stderr } = await apply(policy('tier: baseline, ingress: [{name: r, action: Pass}]'));
      return stderr.includes('denied the request');
    });
  });
  after(async () => {
    api?.close();
    server?.closeAllConnections();
    server?.close();
    admission.close();
    await cluster.remove('mutatingwebhookconfiguration', 'nodewall');
    await cluster.remove('validatingwebhookconfiguration', 'nodewall');
    await removeAll(cluster, 'ncnp');
  });

  function apply(manifest: string): ReturnType<TestCluster['kubectl']> {
    return cluster.kubectl(['apply', '--server-side', '-f', '-'], { stdin: manifest });
  }

  it('rejects with the messages of validate, before the schema check', async () => {
    const { code, stderr } = await apply(
      policy(
        'ingress: [{action: Drop, ports: [{port: 5, endPort: 4}], from: [{ipBlock: {cidr: 10.0.0.0}}]}]',
      ),
    );
    assert.equal(code, 1);
    assert.equal(
      stderr,
      'The request is invalid: admission webhook "mutate.nodewall.io" denied the request: ' +
        'ClusterNetworkPolicy/p: spec.ingress[0].from[0].ipBlock.cidr: "10.0.0.0" is not a valid CIDR; for this address alone write 10.0.0.0/32\n' +
        'ClusterNetworkPolicy/p: spec.ingress[0].ports[0].endPort: 4 is below port 5; the range must end where it starts or later\n',
    );
  });

  it('rejects a list key without a value', async () => {
    const { stderr } = await apply(policy('ingress: [{action: Allow, from: }]'));
    assert.match(
      stderr,
      /denied the request: ClusterNetworkPolicy\/p: spec\.ingress\[0\]\.from: must be a list, not null/,
    );
  });

  it('fills in rule names, and warns', async () => {
    const { code, stdout, stderr } = await apply(policy('ingress: [{action: Allow}, {action: Drop}]'));
    assert.equal(code, 0, stderr);
    assert.match(stdout, /clusternetworkpolicy\.nodewall\.io\/p serverside-applied/);
    assert.match(
      stderr,
      /^Warning: ClusterNetworkPolicy\/p: spec\.ingress\[1\](?: \([\w-]+\))?: names no ports, so it does not close what the failsafe/m,
    );
    const { spec } = await cluster.get<{ spec: { tier: string; ingress: { name: string }[] } }>('ncnp', 'p');
    assert.equal(spec.tier, 'application');
    assert.deepEqual(
      spec.ingress.map(({ name }) => name.replace(/\w{7}$/, '')),
      ['ingress-allow-', 'ingress-drop-'],
    );
    assert.equal((await cluster.kubectl(['delete', 'ncnp', 'p'])).code, 0);
    await see();
  });

  it('accepts a Tier with the policy that uses it, and keeps it as long as the policy exists', async () => {
    const tier = `${HEAD}kind: Tier\nmetadata: {name: mine}\nspec: {priority: 20}`;
    const { code, stderr } = await apply(`${tier}\n---\n${policy('tier: mine')}`);
    assert.equal(code, 0, stderr);
    await see();
    const kept = await cluster.kubectl(['delete', 'ntier', 'mine']);
    assert.equal(kept.code, 1);
    assert.match(
      kept.stderr,
      /^Error from server \(Conflict\): admission webhook "validate\.deletions\.nodewall\.io" denied the request: Tier\/mine: is in use by p$/m,
    );
    const { code: gone, stderr: why } = await cluster.kubectl(['delete', 'ncnp/p', 'ntier/mine']);
    assert.equal(gone, 0, why);
  });

  it('takes a file that has a group and what uses it in any order, and says what is missing', async () => {
    const group = `${HEAD}kind: ClusterGroup\nmetadata: {name: office}\nspec: {ipBlocks: [{cidr: 10.0.0.0/24}]}`;
    const user = policy('ingress: [{name: a, action: Allow, from: [{group: office}]}]');
    const stdin = `${group}\n---\n${user}`;
    const dry = await cluster.kubectl(['apply', '--dry-run=server', '-f', '-'], { stdin });
    assert.equal(dry.code, 0, dry.stderr);
    assert.match(dry.stderr, /there is no ClusterGroup "office".*is not enforced/);
    // Status 1 of diff is a difference.
    const diff = await cluster.kubectl(['diff', '-f', '-'], { stdin });
    assert.equal(diff.code, 1, diff.stderr);
    assert.match(diff.stdout, /^\+kind: ClusterNetworkPolicy/m);
    const both = await apply(`${user}\n---\n${group}`);
    assert.equal(both.code, 0, both.stderr);
    assert.match(both.stderr, /^Warning: .*there is no ClusterGroup "office".*is not enforced$/m);
    // Right after the group, which the watches may not have yet, nothing is missing.
    await removeAll(cluster, 'ncnp');
    await see();
    await removeAll(cluster, 'ncg');
    const sorted = await apply(stdin);
    assert.doesNotMatch(sorted.stderr, /there is no/);
    await see();
    const gone = await cluster.kubectl(['delete', '--dry-run=server', '-f', '-'], { stdin });
    assert.equal(gone.code, 0, gone.stderr);
    assert.match(gone.stderr, /in use: ClusterNetworkPolicy\/p: spec\.ingress/);
    assert.equal((await cluster.kubectl(['delete', 'ncg', 'office'])).code, 1);
    await removeAll(cluster, 'ncnp');
    await see();
    assert.equal((await cluster.kubectl(['delete', 'ncg', 'office'])).code, 0);
    await see();
  });

  it('does not block requests when it is down, as deploy/ configures it', async () => {
    server.closeAllConnections();
    server.close();
    const { code, stderr } = await apply(policy('ingress: [{action: Allow}]'));
    assert.equal(code, 0, stderr);
    assert.deepEqual(failures, []);
  });
});
