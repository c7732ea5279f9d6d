import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PolicyStatus } from '../../../apis/policy-status.ts';
import { nodewall } from '../../cli/command.ts';
import { until } from '../../kernel/until.ts';
import { oneController } from '../labs.ts';
import { group, guardrail, type OneController, policy } from '../one-controller.ts';

const SSH = 'mustAllow: [{name: ssh, direction: ingress, ports: [{port: 22}]}]';
const BREAKS = 'ingress: [{name: no-ssh, action: Drop, ports: [{port: 22}]}]';

describe('Guardrails in a cluster, on a real API server', function () {
  this.timeout(60_000);
  const begun = oneController.use();
  let bed: OneController;

  before(async () => {
    bed = begun();
    await bed.untilAsked();
  });
  after(() => bed.cluster.remove('guardrails', 'access'));

  it('have the phase Holds, and refuse a policy that breaks one', async () => {
    assert.equal((await bed.apply(guardrail('access', SSH))).code, 0);
    const { violations } = await bed.phase('access', 'Holds');
    assert.deepEqual(violations, []);
    const refused = await bed.apply(policy('p', BREAKS));
    assert.notEqual(refused.code, 0);
    assert.match(
      refused.stderr,
      /ClusterNetworkPolicy\/p: would break Guardrail\/access on n1: \{"direction":"ingress".*"dstPort":22\} is decided by p\/no-ssh; to store it all the same: kubectl delete guardrail access/,
    );
  });

  it('let pass what breaks none; the difference is a warning, also of a dry run', async () => {
    const spec =
      'ingress: [{name: web, action: Drop, from: [{ipBlock: {cidr: 198.51.100.0/24}}], ports: [{port: 80}]}]';
    const dry = await bed.apply(policy('p', spec), '--dry-run=server');
    assert.equal(dry.code, 0, dry.stderr);
    assert.match(
      dry.stderr,
      /Warning: changes Allow \(no rule\) into Drop \(p\/web\): ingress tcp port 80 from 198\.51\.100\.0\/24 on n1 and 2 more/,
    );
    assert.equal((await bed.apply(policy('p', spec))).code, 0);
  });

  it('refuse the deletion of a policy that one needs, and of no other', async () => {
    const closed = guardrail('closed', 'mustDeny: [{direction: ingress, ports: [{port: 23}]}]');
    const needed = policy('needed', 'ingress: [{name: telnet, action: Drop, ports: [{port: 23}]}]');
    assert.equal((await bed.apply(`${needed}\n---\n${closed}`)).code, 0);
    await bed.phase('closed', 'Holds');
    const refused = await bed.cluster.kubectl(['delete', 'ncnp', 'needed']);
    assert.match(
      refused.stderr,
      /ClusterNetworkPolicy\/needed: would break Guardrail\/closed on n1: .* is decided by no rule; to delete it all the same: kubectl delete guardrail closed/,
    );
    for (const object of ['ngr/closed', 'ncnp/needed']) {
      const { code, stderr } = await bed.cluster.kubectl(['delete', object]);
      assert.equal(code, 0, stderr);
    }
  });

  it('are asked about a policy that waited when what it waits for is created, not before', async () => {
    const waits = BREAKS.replace('action', 'from: [{group: late}], action');
    const stored = await bed.apply(policy('waits', waits));
    assert.equal(stored.code, 0, stored.stderr);
    assert.match(stored.stderr, /there is no ClusterGroup "late".*this version is not enforced/);
    await until('it waits', async () => {
      const { status } = await bed.cluster.get<{ status?: PolicyStatus }>('ncnp/waits');
      return status?.phase === 'Pending' && /"late"/.test(status.problems?.join() ?? '');
    });
    await bed.phase('access', 'Holds');
    const refused = await bed.apply(group('late', '0.0.0.0/0'));
    assert.match(
      refused.stderr,
      /ClusterGroup\/late: would break Guardrail\/access on n1: .* is decided by waits\/no-ssh/,
    );
    await bed.cluster.remove('ncnp', 'waits');
    await until('nothing waits', async () => (await bed.apply(group('late', '0.0.0.0/0'))).code === 0);
    await bed.cluster.remove('ncg', 'late');
  });

  it('wait themselves for a group, and say so', async () => {
    const named = SSH.replace('ports', 'from: [{group: office}], ports');
    const { code, stderr } = await bed.apply(guardrail('office', named));
    assert.equal(code, 0, stderr);
    assert.match((await bed.phase('office', 'Pending')).problems?.join() ?? '', /no ClusterGroup "office"/);
    await bed.apply(group('office', '198.51.100.0/24'));
    assert.equal((await bed.phase('office', 'Holds')).problems, undefined);
    await bed.cluster.remove('guardrails', 'office');
    await bed.cluster.remove('ncg', 'office');
  });

  it('are Broken soon after a change that admission cannot see', async () => {
    const some =
      'ingress: [{name: no-ssh, action: Drop, ports: [{port: 22}], appliedTo: [{nodeSelector: {matchLabels: {role: db}}}]}]';
    const spec = policy('db', some).replace(' appliedTo: [{nodeSelector: {}}],', '');
    assert.equal((await bed.apply(spec)).code, 0);
    await bed.cluster.kubectl(['label', 'node', 'n2', 'role=db', '--overwrite']);
    const started = performance.now();
    const { violations } = await bed.phase('access', 'Broken');
    // Within a second, on a machine that has no other work; a look every so often would take
    // longer.
    const seconds = (performance.now() - started) / 1000;
    assert.ok(seconds < 15, `${seconds} s`);
    process.stdout.write(`      Broken after ${seconds.toFixed(2)} s\n`);
    assert.deepEqual(
      violations.map(({ node, item, rule }) => [node, item, rule?.policy]),
      [['n2', 'mustAllow[0]', 'db']],
    );
    await until('there is an Event', async () => {
      const { stdout } = await bed.cluster.kubectl(['get', 'events', '-n', 'default']);
      return /GuardrailBroken\s+guardrail\/access\s+on n2: /.test(stdout);
    });
    const metrics = await bed.process.metrics();
    assert.match(metrics, /^nodewall_controller_guardrails_broken 1$/m);
    // What is broken already refuses nothing.
    assert.equal((await bed.apply(policy('p', BREAKS), '--dry-run=server')).code, 0);
    await bed.cluster.kubectl(['label', 'node', 'n2', 'role=worker', '--overwrite']);
    await bed.phase('access', 'Holds');
  });

  it('are the other side of diff --against-cluster', async () => {
    const { stdout, status } = await nodewall(
      ...['diff', '--against-cluster', 'deploy/examples/flagship/protect-api.yaml'],
      ...['--kubeconfig', bed.cluster.kubeconfig, '-o', 'json'],
    );
    assert.equal(status, 1);
    const { groups } = JSON.parse(stdout);
    assert.deepEqual(
      groups.map(({ nodes }: { nodes: string[] }) => nodes),
      [['n1', 'n2', 'n3']],
    );
  });

  it('have the Nodes of lint and validate --against-cluster', async () => {
    const manifests = ['--manifests', 'deploy/examples/flagship/protect-api.yaml'];
    const ofNode = await nodewall('lint', ...manifests, '--node', 'n1');
    assert.match(ofNode.stderr, /no manifest declares Node n1/);
    const asked = [...manifests, '--against-cluster', '--kubeconfig', bed.cluster.kubeconfig];
    assert.equal((await nodewall('lint', ...asked, '--node', 'n1')).stderr, '');
    const { problems } = JSON.parse((await nodewall('validate', ...asked, '-o', 'json')).stdout);
    const unknown = problems.filter(({ message }: { message: string }) => /there is no/.test(message));
    assert.deepEqual(unknown, []);
    const directory = await mkdtemp(join(tmpdir(), 'nodewall-'));
    const file = join(directory, 'named.yaml');
    const named = 'ingress: [{name: r, action: Drop, from: [{group: there}, {group: absent}]}]';
    await writeFile(file, policy('named', named));
    await bed.apply(group('there', '198.51.100.0/24'));
    const reads = async (): Promise<string> => {
      const args = ['validate', '--manifests', file, '--against-cluster'];
      return (await nodewall(...args, '--kubeconfig', bed.cluster.kubeconfig)).stdout;
    };
    const missing = /^.*from\[1\]\.group: warning: there is no ClusterGroup "absent".*not enforced\n$/;
    assert.match(await reads(), missing);
    assert.match((await nodewall('validate', '--manifests', file)).stdout, /group: there is no .*"there"/);
    await rm(directory, { recursive: true });
    await bed.cluster.remove('ncg', 'there');
  });
});
