import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { validateObject } from '../../../apis/validate/object.ts';
import type { KubeApiClient } from '../../../controller/kubeapi/kube-api.ts';
import { isKubeError } from '../../../controller/kubeapi/kube-error.ts';
import { nodewall } from '../../cli/command.ts';
import { apiAs, removeAll } from '../../cluster/admin-api.ts';
import type { TestCluster } from '../../cluster/cluster.ts';
import { type Written, writtenObjects } from '../../docs/written-objects.ts';
import { until } from '../../kernel/until.ts';
import { ROOT } from '../../structure/source-file.ts';
import { apiServer } from '../labs.ts';

const PLURALS: Readonly<Record<string, string>> = {
  ClusterNetworkPolicy: 'clusternetworkpolicies',
  ClusterGroup: 'clustergroups',
  Tier: 'tiers',
  EgressGateway: 'egressgateways',
  EgressPolicy: 'egresspolicies',
  ClusterEgressPolicy: 'clusteregresspolicies',
  Guardrail: 'guardrails',
};

const KINDS = ['ncnp', 'ncg', 'ntier', 'negw', 'ncegp', 'ngr'];

/**
 * Bad objects that the API server takes, as their pages of test/invalid call them: the webhook and
 * the compiler refuse them.
 */
const LEFT_TO_THE_WEBHOOK = [
  'egress-policy.md: addresses that are no source outside',
  'egresspeer.md: an fqdn of 254 characters',
  'egresspeer.md: an fqdn that is an IPv4 address',
  'peer.md: except of the other family',
  'peer.md: except outside cidr',
  'peer.md: except that is not a CIDR',
  'peer.md: except the whole of cidr',
  'peer.md: except wider than cidr',
  'port.md: port null',
  'rule.md: duplicate names in one direction',
  'rule.md: duplicate names in two directions',
  'rule.md: from without a value would be any address',
  'rule.md: ports without a value would be every port',
  'selector.md: a label key of 64 characters',
  'selector.md: a label key with a space',
  'selector.md: a label key with an upper-case prefix',
  'selector.md: a label key with two slashes',
  'spec.md: egress without a value',
];

/** As docs/command-line.md has it. */
const LISTED =
  'nodes,pods,namespaces,services,endpointslices,clusternetworkpolicies,tiers.nodewall.io,clustergroups.nodewall.io';

/** Both may write EgressPolicies of a namespace, ann with addresses of gateway `out`. */
const RIGHTS = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: default}
rules: [{apiGroups: [nodewall.io], resources: [egresspolicies], verbs: [create, get, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writer, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: use-out, namespace: default}
rules: [{apiGroups: [nodewall.io], resources: [egressgateways], resourceNames: [out], verbs: [use]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: use-out, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: use-out}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
`;
const ADDRESSES = [
  ['jane', 'out', 'Shared'],
  ['jane', 'out', 'Dedicated'],
  ['ann', 'out', 'Dedicated'],
  ['ann', 'other', 'Dedicated'],
  ['ann', undefined, 'Dedicated'],
] as const;

/** The API server leaves out the status of an object that is created. */
function nodesOf(folder: string): { readonly name: string; readonly status: object }[] {
  const documents = parseAllDocuments(readFileSync(join(folder, 'nodes.yaml'), 'utf8'));
  return documents.map((document) => {
    const { metadata, status } = document.toJS() as { metadata: { name: string }; status: object };
    return { name: metadata.name, status };
  });
}

function invalidObjects(): Written[] {
  return writtenObjects().filter(({ isValid }) => !isValid);
}

function namespaceOf({ raw }: Pick<Written, 'raw'>): string {
  const { namespace } = (raw.metadata ?? {}) as { namespace?: string };
  return namespace ?? 'default';
}

describe('deploy/crds on a real API server', function () {
  this.timeout(120_000);
  const begun = apiServer.use();
  let cluster: TestCluster;
  let api: KubeApiClient;
  before(async () => {
    cluster = begun();
    const applied = await cluster.kubectl(['apply', '--server-side', '-f', `${ROOT}/deploy/crds`]);
    assert.equal(applied.code, 0, applied.stderr);
    const namespaces = new Set(
      writtenObjects()
        .filter(({ isValid }) => isValid)
        .map(namespaceOf),
    );
    const items = [...namespaces].map((name) => ({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name },
    }));
    await cluster.apply(JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    const waited = await cluster.kubectl([
      'wait',
      '--for=condition=Established',
      '--timeout=60s',
      'crd',
      '--all',
    ]);
    assert.equal(waited.code, 0, waited.stderr);
    api = apiAs(cluster);
  });
  after(async () => {
    api?.close();
    await removeAll(cluster, 'nodes', ...KINDS);
  });

  /** What the API server says against it, as kubectl would ask; null where it would store it. */
  async function refusal({ raw }: Pick<Written, 'raw'>, isDry = true): Promise<string | null> {
    const within = raw.kind === 'EgressPolicy' ? `namespaces/${namespaceOf({ raw })}/` : '';
    const path = `/apis/nodewall.io/v1alpha1/${within}${PLURALS[String(raw.kind)]}`;
    const query = { fieldValidation: 'Strict', ...(isDry ? { dryRun: 'All' } : {}) };
    try {
      await api.request({ method: 'POST', path, query, body: raw });
      return null;
    } catch (error) {
      if (!isKubeError(error) || error.status === 0 || error.status >= 500) throw error;
      return error.message;
    }
  }

  it('accepts what validate accepts', async () => {
    const valid = writtenObjects().filter(({ isValid }) => isValid);
    assert.ok(valid.length > 80, `${valid.length}`);
    for (const object of valid) assert.equal(await refusal(object), null, object.from);
  });

  it('rejects what validate rejects, except for checks beyond a schema', async () => {
    const invalid = invalidObjects();
    assert.ok(invalid.length > 150, `${invalid.length}`);
    const taken: string[] = [];
    for (const object of invalid) {
      if ((await refusal(object)) === null) taken.push(object.from.replace('test/invalid/', ''));
    }
    assert.deepEqual([...new Set(taken)].sort(), LEFT_TO_THE_WEBHOOK);
  });

  it('with admission policies, refuses all that validate refuses, and nothing that it accepts', async () => {
    const policies = `${ROOT}/deploy/kustomize/components/admission-policies/policies.yaml`;
    const left = invalidObjects().filter(({ from }) =>
      LEFT_TO_THE_WEBHOOK.includes(from.replace('test/invalid/', '')),
    );
    const applied = await cluster.kubectl(['apply', '--server-side', '-f', policies]);
    assert.equal(applied.code, 0, applied.stderr);
    try {
      // Each policy is in force by itself, a moment after it was stored.
      for (const object of invalidObjects())
        await until(`${object.from} is refused`, async () => (await refusal(object)) !== null);
      for (const object of writtenObjects().filter(({ isValid }) => isValid))
        assert.equal(await refusal(object), null, object.from);
      await cluster.apply(RIGHTS);
      const answers: Record<string, boolean> = {};
      for (const [user, gateway, allocation] of ADDRESSES) {
        const spec = { gateway, appliedTo: [{ podSelector: {} }], address: { allocation } };
        const metadata = { name: 'own', namespace: 'default' };
        const stdin = JSON.stringify({
          apiVersion: 'nodewall.io/v1alpha1',
          kind: 'EgressPolicy',
          metadata,
          spec,
        });
        const argv = ['create', '--dry-run=server', `--as=${user}`, '-f', '-'];
        const { code, stderr } = await cluster.kubectl(argv, { stdin });
        if (code !== 0) assert.match(stderr, /needs the right to use the gateway \(RBAC verb use/);
        answers[`${user} ${gateway ?? 'the default one'} ${allocation}`] = code === 0;
      }
      assert.deepEqual(answers, {
        'jane out Shared': true,
        'jane out Dedicated': false,
        'ann out Dedicated': true,
        'ann other Dedicated': false,
        'ann the default one Dedicated': false,
      });
      assert.match(await whileDeleted(), /needs the right to use the gateway/);
    } finally {
      await cluster.kubectl(['delete', '-f', policies]);
      for (const object of left)
        await until(`${object.from} is accepted again`, async () => (await refusal(object)) === null);
    }
  });

  it('asks the webhook about the right to an address while a finalizer keeps the policy too', async () => {
    const webhooks = `${ROOT}/deploy/kustomize/base/webhooks.yaml`;
    await cluster.apply(RIGHTS);
    await cluster.apply(readFileSync(webhooks, 'utf8'));
    try {
      const noAnswer = /failed calling webhook "use\.nodewall\.io"/;
      await until('the webhook is asked', async () => noAnswer.test(await whileDeleted()));
    } finally {
      await cluster.kubectl(['delete', '-f', webhooks]);
    }
  });

  /**
   * The refusal of an address of its own for a policy that is being deleted; its finalizer can be
   * removed then.
   */
  async function whileDeleted(): Promise<string> {
    const metadata = { name: 'kept', namespace: 'default', finalizers: ['example.com/kept'] };
    const spec = { gateway: 'out', appliedTo: [{ podSelector: {} }] };
    await cluster.apply(
      JSON.stringify({ apiVersion: 'nodewall.io/v1alpha1', kind: 'EgressPolicy', metadata, spec }),
    );
    const deleted = await cluster.kubectl(['delete', 'negp', 'kept', '--wait=false']);
    assert.equal(deleted.code, 0, deleted.stderr);
    const patch = (body: object) =>
      cluster.kubectl(['patch', 'negp', 'kept', '--as=jane', '--type=merge', `-p=${JSON.stringify(body)}`]);
    const { stderr } = await patch({ spec: { address: { allocation: 'Dedicated' } } });
    const freed = await patch({ metadata: { finalizers: null } });
    assert.equal(freed.code, 0, freed.stderr);
    return stderr;
  }

  it('are printed by kubectl so that diff compares them with the files they came from', async () => {
    const example = join(ROOT, 'deploy/examples/flagship');
    const applied = await cluster.kubectl(['apply', '-f', example]);
    assert.equal(applied.code, 0, applied.stderr);
    for (const node of nodesOf(example)) await cluster.patchStatus([`node/${node.name}`], node.status);
    const { stdout } = await cluster.kubectl(['get', LISTED, '-A', '-o', 'yaml']);
    const folder = await mkdtemp(join(tmpdir(), 'nodewall-diff-'));
    try {
      await writeFile(join(folder, 'old.yaml'), stdout);
      const compared = await nodewall('diff', join(folder, 'old.yaml'), example);
      assert.deepEqual(compared, { status: 0, stdout: 'No verdict differs.\n', stderr: '' });
      const changed = await nodewall('diff', join(folder, 'old.yaml'), join(ROOT, 'docs/examples/diff'));
      assert.equal(changed.status, 1);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('never silently drops a field whose absence widens a rule', async () => {
    const selector = { matchLabels: { role: null }, matchExpressions: null };
    const raw = {
      apiVersion: 'nodewall.io/v1alpha1',
      kind: 'ClusterNetworkPolicy',
      metadata: { name: 'nothing' },
      spec: {
        priority: 1,
        appliedTo: [{ nodeSelector: selector }],
        ingress: [
          { action: 'Allow', from: null, ports: [{ port: null, endPort: null }], protocols: null },
          {
            action: 'Allow',
            from: [{ ipBlock: { cidr: '10.0.0.0/8', except: null } }, { podSelector: selector }],
          },
        ],
        egress: null,
      },
    };
    assert.equal(await refusal({ raw }, false), null);
    const stored = await cluster.get<{ spec: object }>('ncnp', 'nothing');
    assert.deepEqual(stored.spec, { ...raw.spec, tier: 'application', mode: 'Enforce', traffic: 'Host' });
    const paths = validateObject(stored).problems.map(({ path }) => path.join('.'));
    assert.deepEqual([...new Set(paths)].sort(), [
      'spec.appliedTo.0.nodeSelector.matchExpressions',
      'spec.appliedTo.0.nodeSelector.matchLabels.role',
      'spec.egress',
      'spec.ingress.0.from',
      'spec.ingress.0.ports.0.endPort',
      'spec.ingress.0.ports.0.port',
      'spec.ingress.0.protocols',
      'spec.ingress.1.from.0.ipBlock.except',
      'spec.ingress.1.from.1.podSelector.matchExpressions',
      'spec.ingress.1.from.1.podSelector.matchLabels.role',
    ]);
  });

  it('reports errors as text', async () => {
    const policy = (spec: object): Pick<Written, 'raw'> => ({
      raw: {
        apiVersion: 'nodewall.io/v1alpha1',
        kind: 'ClusterNetworkPolicy',
        metadata: { name: 'p' },
        spec: { priority: 1, appliedTo: [{ nodeSelector: {} }], ...spec },
      },
    });
    const rule = (more: object): Pick<Written, 'raw'> => policy({ ingress: [{ action: 'Allow', ...more }] });
    const expected: readonly [Pick<Written, 'raw'>, RegExp][] = [
      [policy({ appliedTo: [] }), /spec: Invalid value: .*appliedTo is missing: select the Nodes/],
      [
        rule({ appliedTo: [{ nodeSelector: {} }] }),
        /rules have an appliedTo although spec\.appliedTo is set/,
      ],
      [
        rule({ ports: [{ port: 5, endPort: 4 }] }),
        /ports\[0\]: .*endPort needs port, and must not be below it/,
      ],
      [rule({ from: [{}] }), /from\[0\]: .*needs exactly one kind of peer/],
      [
        rule({ from: [{ podSelector: {}, nodeSelector: {} }] }),
        /from\[0\]: .*needs exactly one kind of peer/,
      ],
      [rule({ from: [{ fqdn: 'a.io' }] }), /from\[0\]\.fqdn: .*is only allowed in egress rules/],
      [
        rule({ from: [{ ipBlock: { cidr: '10.0.0.0' } }] }),
        /ipBlock\.cidr: .*is not a valid CIDR; for example 10\.0\.0\.0\/8/,
      ],
      [
        policy({ tier: 'Baseline', ingress: [{ action: 'Pass' }] }),
        /Pass is not allowed in the baseline tier/,
      ],
      [
        policy({ traffic: 'NodePort', egress: [{ action: 'Drop' }] }),
        /NodePort traffic has ingress rules only/,
      ],
      [rule({ l7Protocols: [] }), /l7Protocols: .*is not supported for Nodes/],
    ];
    for (const [object, message] of expected) assert.match((await refusal(object)) ?? '', message);
  });

  it('rejects a policy with more rules than it can check', async () => {
    const ingress = Array.from({ length: 501 }, () => ({ action: 'Allow' }));
    const raw = {
      apiVersion: 'nodewall.io/v1alpha1',
      kind: 'ClusterNetworkPolicy',
      metadata: { name: 'long' },
      spec: { priority: 1, appliedTo: [{ nodeSelector: {} }], ingress },
    };
    assert.match((await refusal({ raw })) ?? '', /spec\.ingress: Too many: 501: must have at most 500 items/);
    raw.spec.ingress.pop();
    assert.equal(await refusal({ raw }), null);
  });

  it("rejects a change of a tier's priority", async () => {
    const tier = (priority: number): string =>
      `{apiVersion: nodewall.io/v1alpha1, kind: Tier, metadata: {name: mine}, spec: {priority: ${priority}}}`;
    await cluster.apply(tier(20));
    await assert.rejects(cluster.apply(tier(21)), /a tier's priority can't be changed; create another tier/);
    await assert.rejects(
      cluster.apply(tier(250).replace('mine', 'other')),
      /belong to the built-in tiers; choose another/,
    );
    await cluster.apply(tier(250).replace('mine', 'application'));
  });

  it('shows a policy by its short name, with defaults and progress', async () => {
    await cluster.apply(
      'apiVersion: nodewall.io/v1alpha1\nkind: ClusterNetworkPolicy\nmetadata: {name: shown}\n' +
        'spec: {priority: 5, appliedTo: [{nodeSelector: {}}], ingress: [{action: Allow, ports: [{port: 80}]}]}',
    );
    const { spec } = await cluster.get<{ spec: object }>('ncnp', 'shown');
    assert.deepEqual(spec, {
      priority: 5,
      tier: 'application',
      mode: 'Enforce',
      traffic: 'Host',
      appliedTo: [{ nodeSelector: {} }],
      ingress: [{ action: 'Allow', ports: [{ port: 80 }] }],
    });
    const status = { phase: 'Realizing', desiredNodesRealized: 3, currentNodesRealized: 2 };
    await cluster.patchStatus(['ncnp/shown'], status);
    const wide = await cluster.kubectl(['get', 'ncnp', 'shown', '-o', 'wide']);
    assert.match(
      wide.stdout,
      /^NAME +TIER +PRIORITY +DESIRED +CURRENT +PHASE +ROLLOUT +MODE +TRAFFIC +AGE\n/,
    );
    // kubectl looks a category up in what it has learned of the server before.
    const { stdout } = await cluster.kubectl(['get', 'nodewall', '--no-headers']);
    assert.match(stdout, /clusternetworkpolicy\.nodewall\.io\/shown +application +5 +3 +2 +Realizing +\S+/);
  });

  it('shows egress gateways and policies by their short names, with defaults and status', async () => {
    await cluster.apply(
      'apiVersion: nodewall.io/v1alpha1\nkind: EgressGateway\nmetadata: {name: out}\n' +
        'spec: {nodeSelector: {matchLabels: {node-restriction.kubernetes.io/egress: b}}, addresses: {pools: [{ranges: [203.0.113.0/28]}]}}\n' +
        '---\napiVersion: nodewall.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: pay, namespace: default}\n' +
        'spec: {gateway: out, appliedTo: [{podSelector: {}}], address: {allocation: Dedicated}}',
    );
    const { spec } = await cluster.get<{ spec: object }>('negp', 'pay');
    assert.deepEqual(spec, {
      gateway: 'out',
      appliedTo: [{ podSelector: {} }],
      address: { allocation: 'Dedicated', count: 1 },
      action: 'Gateway',
      whenUnavailable: 'Drop',
      priority: 1000,
      mode: 'Enforce',
    });
    const status = { addresses: ['203.0.113.1'], desiredNodesRealized: 3, currentNodesRealized: 2 };
    await cluster.patchStatus(['negp/pay'], status);
    const shown = await cluster.kubectl(['get', 'negp', 'pay']);
    assert.match(shown.stdout, /^NAME +GATEWAY +ACTION +PRIORITY +ADDRESSES +DESIRED +CURRENT +MODE +AGE\n/);
    assert.match(shown.stdout, /pay +out +Gateway +1000 +\["203.0.113.1"\] +3 +2 /);
    const slots = [{ name: 'a', node: 'gw-1', epoch: 1, addresses: ['203.0.113.1'] }];
    await cluster.patchStatus(['negw/out'], { slots, usage: { ipv4: { total: '14', used: 1 } } });
    const { stdout } = await cluster.kubectl(['get', 'negw', 'out', '--no-headers']);
    assert.match(stdout, /out +Failover +false +1 /);
    const stored = await cluster.get<{ status: object }>('negw', 'out');
    const { object, problems } = validateObject(stored, { egress: true });
    assert.deepEqual(problems, []);
    assert.deepEqual(object?.kind === 'EgressGateway' ? object.status : null, { nodes: [], slots });
  });

  it('explains every field', async () => {
    for (const [field, text] of [
      ['ncnp.spec.ingress.from.ipBlock.except', /CIDRs inside cidr that are left out/],
      ['ncnp.status.failingNodes.reason', /The reason that the node reported/],
      ['ncg.spec.childGroups', /Names of ClusterGroups/],
      ['ntier.spec.priority', /1 to 252 and unique/],
      ['negw.spec.addresses.pools.ranges', /IP, IP-IP or CIDR/],
      ['negp.status.owners', /The nodes that have these addresses now/],
      ['ncegp.spec.stage', /before all EgressPolicies/],
    ] as const) {
      const { code, stdout, stderr } = await cluster.kubectl(['explain', field]);
      assert.equal(code, 0, stderr);
      assert.match(stdout, text);
    }
  });
});
