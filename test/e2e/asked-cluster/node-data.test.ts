/**
 * What only nodes know, asked for with a user's own rights: nodewall status, top, explain, rules,
 * names, interfaces, log and bundle.
 */

import assert from 'node:assert/strict';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { NODE_VIEWS_PATH } from '../../../apis/stream.ts';
import type { CheckLine } from '../../../lib/process/check-line.ts';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { until } from '../../kernel/until.ts';
import { NODEWALL } from '../../program.ts';
import { ROOT } from '../../structure/source-file.ts';
import { type AskedBed, NODE } from '../asked-bed.ts';
import { askedCluster } from '../labs.ts';
import { closed, type Story } from '../story-bed.ts';

/** One thing that `nodewall check` must find, while controllers run. */
interface Break {
  readonly what: string;
  /** The line that says it. */
  readonly check: string;
  readonly state: CheckLine['state'];
  readonly message: RegExp;
  break(story: Story): Promise<unknown>;
  repair(story: Story): Promise<unknown>;
}

const SYSTEM = '--namespace=nodewall-system';
const KUBE_SYSTEM = '--namespace=kube-system';
const WEBHOOK = 'validatingwebhookconfiguration/nodewall';

const patched = (object: readonly string[], patch: unknown): ((story: Story) => Promise<unknown>) => {
  const type = Array.isArray(patch) ? 'json' : 'merge';
  return ({ kubectl }) => kubectl('patch', ...object, `--type=${type}`, '-p', JSON.stringify(patch));
};
const configMap =
  (name: string, data: Readonly<Record<string, string>>, namespace = 'kube-system') =>
  ({ applied }: Story) =>
    applied({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data });
const removed =
  (...object: readonly string[]) =>
  ({ kubectl }: Story) =>
    kubectl('delete', ...object, '--wait=false');
const kernelOf =
  (kernelVersion: string) =>
  ({ cluster }: Story) =>
    cluster.patchStatus(['node/worker-1'], {
      nodeInfo: { kernelVersion, operatingSystem: 'linux', architecture: 'amd64' },
    });
const failurePolicy = (value: string) =>
  patched([WEBHOOK], [{ op: 'replace', path: '/webhooks/0/failurePolicy', value }]);

/** Those of a list are broken at the same time: each says something on a line of its own. */
const BREAKS: readonly (readonly Break[])[] = [
  [
    {
      what: 'a kernel that is too old',
      check: 'nodes',
      state: 'problem',
      message: /worker-1 \(4\.19\.0\)/,
      break: kernelOf('4.19.0'),
      repair: kernelOf('6.1.0'),
    },
    {
      what: 'kube-proxy in IPVS mode',
      check: 'service proxy',
      state: 'warning',
      message: /IPVS/,
      break: configMap('kube-proxy', { 'config.conf': 'kind: KubeProxyConfiguration\nmode: "ipvs"\n' }),
      repair: removed('configmap/kube-proxy', KUBE_SYSTEM),
    },
    {
      what: 'another host firewall',
      check: 'other firewalls',
      state: 'warning',
      message: /Cilium's host firewall/,
      break: configMap('cilium-config', { 'enable-host-firewall': 'true' }),
      repair: removed('configmap/cilium-config', KUBE_SYSTEM),
    },
    {
      what: 'a namespace where agents cannot start',
      check: 'pod security',
      state: 'problem',
      message: /enforces baseline/,
      break: patched(['namespace/nodewall-system'], {
        metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } },
      }),
      repair: patched(['namespace/nodewall-system'], {
        metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } },
      }),
    },
    {
      what: 'a definition of another version',
      check: 'definitions',
      state: 'problem',
      message: /of another version: tiers\.nodewall\.io/,
      break: patched(
        ['crd/tiers.nodewall.io'],
        [
          {
            op: 'add',
            path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/other',
            value: { type: 'string' },
          },
        ],
      ),
      repair: patched(
        ['crd/tiers.nodewall.io'],
        [{ op: 'remove', path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/other' }],
      ),
    },
    {
      what: 'a failurePolicy that was changed in one place',
      check: 'webhooks',
      state: 'warning',
      message: /not as installed: .*validate\.nodewall\.io Fail/,
      break: failurePolicy('Fail'),
      repair: failurePolicy('Ignore'),
    },
    {
      what: 'agents that do not start',
      check: 'pods',
      state: 'problem',
      message: /DaemonSet nodewall-agent: 0 of 0 ready/,
      break: ({ applied }) =>
        applied({
          apiVersion: 'apps/v1',
          kind: 'DaemonSet',
          metadata: { name: 'nodewall-agent', namespace: 'nodewall-system' },
          spec: {
            selector: { matchLabels: { a: 'b' } },
            template: {
              metadata: { labels: { a: 'b' } },
              spec: { containers: [{ name: 'agent', image: 'i' }] },
            },
          },
        }),
      repair: removed('daemonset/nodewall-agent', SYSTEM),
    },
    {
      what: 'a node that is off',
      check: 'agents',
      state: 'problem',
      message: /nothing is enforced \(nodewall off\) on worker-1/,
      break: async ({ agents }) => await agents['worker-1']?.run('off'),
      repair: async ({ agents }) => await agents['worker-1']?.run('on'),
    },
    {
      what: 'a table of others that drops',
      check: 'other tables',
      state: 'warning',
      message: /worker-1 \(inet others in\)/,
      break: ({ machine }) =>
        machine('worker-1').namespace.run(['nft', '-f', '-'], {
          stdin:
            'table inet others { chain in { type filter hook input priority 10; policy drop; accept; }; }\n',
        }),
      repair: ({ machine }) =>
        machine('worker-1').namespace.run(['nft', 'delete', 'table', 'inet', 'others']),
    },
  ],
  [
    {
      what: 'Cilium in place of kube-proxy',
      check: 'service proxy',
      state: 'warning',
      message: /Cilium replaces/,
      break: configMap('cilium-config', { 'kube-proxy-replacement': 'true' }),
      repair: removed('configmap/cilium-config', KUBE_SYSTEM),
    },
    {
      what: 'a feature gate that nothing sets',
      check: 'feature gate',
      state: 'warning',
      message: /does not set it/,
      break: configMap('nodewall-config', { 'config.yaml': '' }, 'nodewall-system'),
      repair: ({ setGate }) => setGate(true),
    },
  ],
];

/** In this bed controllers are no pods, and agents have no failsafe list for egress. */
const EXPECTED = ['pods', 'failsafe list', 'networks'];

/** At its end a node is silent, and more of them are. */
kernelSuite('what only nodes know, asked for in a cluster', () => {
  const bed = askedCluster.use();
  let story: Story;
  let kubeconfigs: AskedBed['kubeconfigs'];
  let nodewall: AskedBed['nodewall'];
  let printed: AskedBed['printed'];

  before(async () => {
    ({ story, kubeconfigs, nodewall, printed } = bed());
    await bed().renewed();
  });

  it('gives the counters of a node, whichever controller has its agent', async () => {
    for (const node of [NODE, 'worker-2']) {
      const { rules } = await printed('rules', '--node', node);
      assert.deepEqual(
        rules.map(({ policy, rule }: { policy: string; rule: string }) => `${policy}/${rule}`),
        ['web/close'],
      );
      const counts = (await printed('rules', '--node', node, '--unused')).rules.length;
      assert.equal(counts, node === NODE ? 0 : 1, 'only one was called');
    }
    // On one node of both it was.
    assert.deepEqual((await printed('rules', '--all-nodes', '--unused')).rules, []);
    const young = await nodewall('jane', 'rules', '--node', 'worker-2', '--unused', '30d');
    assert.equal(
      young.stdout,
      '0 of 1 rules: no packet matched in 30d.\n1 more without a hit are counted for less time than that.\n',
    );
    const never = await nodewall('jane', 'rules', '--node', 'worker-2', '--unused');
    assert.match(never.stdout, /^ingress +application +web\/close +Drop +never +2\d{3}-\S+Z +1$/m);
    assert.match(never.stdout, /^1 of 1 rules: no packet matched since they are counted\.$/m);
    const { stdout } = await nodewall('jane', 'rules', '--node', NODE);
    assert.match(stdout, /ingress +application +web\/close +Drop +\d/);
  });

  it('explains a verdict by the rules that are in force there', async () => {
    const flow = (dstPort: number) =>
      JSON.stringify({ direction: 'ingress', src: '203.0.113.9', protocol: 'tcp', dstPort });
    const { verdict, policy, rule } = await printed('explain', '--node', NODE, '--flow', flow(80));
    assert.deepEqual([verdict, policy, rule], ['Drop', 'web', 'close']);
    assert.equal((await printed('explain', '--node', NODE, '--flow', flow(81))).verdict, 'Allow');
    const { stdout } = await nodewall('jane', 'explain', '--node', NODE, '--flow', flow(80));
    assert.match(stdout, /^ingress tcp on worker-1: 203\.0\.113\.9 to any address port 80$/m);
    const wrong = await nodewall('jane', 'explain', '--node', NODE, '--flow', '{"direction":"in"}');
    assert.deepEqual([wrong.status, /--flow: .*direction/.test(wrong.stderr)], [1, true], wrong.stderr);
  });

  it('shows what is dropped now, on all nodes together', async () => {
    const asking = nodewall('jane', 'top', '--all-nodes', '--interval', '3', '-o', 'json');
    let isOver = false;
    const over = asking.finally(() => {
      isOver = true;
    });
    while (!isOver) await story.sees('other0', NODE, 80, 'closed');
    const { status, stdout, stderr } = await over;
    assert.deepEqual([status, stderr], [0, '']);
    const [{ policy, action, nodes, packetsPerSecond } = assert.fail(stdout), ...rest] = JSON.parse(stdout);
    assert.deepEqual([policy, action, nodes, rest], ['web', 'Drop', [NODE], []]);
    assert.ok(packetsPerSecond > 0);
    const idle = await nodewall('jane', 'top', '--node', 'cp-1', '--interval', '1');
    assert.deepEqual(
      [idle.status, idle.stdout],
      [0, 'No rule that drops or rejects matched a packet in 1 s.\n'],
    );
  });

  it('gives names and interfaces', async () => {
    assert.deepEqual((await printed('names', '--node', NODE)).names, []);
    const names = (await printed('interfaces', '--node', NODE)).map(({ name }: { name: string }) => name);
    assert.ok(names.includes('lo') && names.length > 1, names.join());
  });

  it('gives records of one node and of all, filtered there', async () => {
    const { stdout } = await nodewall(
      'jane',
      'log',
      '--node',
      NODE,
      '--policy',
      'web',
      '-n',
      '1',
      '-o',
      'json',
    );
    const { node, verdict, dstPort } = JSON.parse(stdout);
    assert.deepEqual([node, verdict, dstPort], [NODE, 'Drop', 80]);
    const all = await nodewall('jane', 'log', '--all-nodes', '--verdict', 'Drop');
    assert.match(all.stdout, /^worker-1 {2}\S+ {2}Drop .*web\/close {2}label=web$/m);
    const allowed = ['log', '--node', NODE, '--policy', 'web', '--verdict', 'Allow'];
    assert.equal((await nodewall('jane', ...allowed)).stdout, '');
    const wrong = await nodewall('jane', 'log', '--node', NODE, '--to-port', 'x');
    assert.equal(wrong.status, 2);
    assert.match(wrong.stderr, /^nodewall: --to-port: "x" is not a port such as 22,/);
  });

  it('follows what happens on all nodes', async () => {
    const argv = [NODEWALL, 'log', '--all-nodes', '--follow', '-n', '0', '--kubeconfig', kubeconfigs.jane];
    const child = story.controlPlane.spawn(argv);
    try {
      let text = '';
      child.stdout?.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      await until(
        'a new record is shown',
        async () => {
          await story.sees('other1', 'worker-2', 80, 'closed');
          return text.includes('worker-2  ');
        },
        { detail: () => text },
      );
      const times = text.split('\n').filter((line) => line !== '');
      assert.equal(new Set(times).size, times.length, 'each once');
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('shows the state of the cluster, problems first', async () => {
    const well = await nodewall('jane', 'status');
    assert.deepEqual(
      [well.status, well.stdout],
      [0, 'nodes       3 Enforced\npolicies    1 Realized\nguardrails  none\nNo problems.\n'],
    );
    await story.agents[NODE]?.run('off', '--reason', 'a test');
    await until('the node is off', async () => (await nodewall('jane', 'status')).status === 1);
    const { stdout } = await nodewall('jane', 'status');
    assert.match(stdout, /^Node\/worker-1 {2}.*Off {3}.*nodewall off: a test; nothing is enforced$/m);
    assert.match(stdout, /^nodes {7}2 Enforced, 1 Off$/m);
  });

  let last = '';

  /** What `nodewall check` says. */
  async function checked(...args: readonly string[]) {
    const { status, stdout, stderr } = await nodewall('admin', 'check', '-o', 'json', ...args);
    assert.ok(status === 0 || status === 1, stderr);
    const { of, lines }: { of: string; lines: CheckLine[] } = JSON.parse(stdout);
    assert.equal(status, lines.some(({ state }) => state === 'problem') ? 1 : 0);
    last = stdout;
    return { of, lines };
  }

  it('checks what is installed, each thing broken once', async function () {
    this.timeout(600_000);
    for (const name of ['cp-1', 'worker-1', 'worker-2'])
      await story.cluster.patchStatus([`node/${name}`], {
        nodeInfo: { kernelVersion: '6.1.0', operatingSystem: 'linux', architecture: 'amd64' },
      });
    await story.agents[NODE]?.run('on');
    const isWell = async (): Promise<boolean> =>
      (await checked()).lines.every(({ state, check }) => state === 'ok' || EXPECTED.includes(check));
    await until('all is well', isWell, { detail: () => last });
    for (const round of BREAKS) {
      for (const { break: breakIt } of round) await breakIt(story);
      let missed: readonly string[] = [];
      const areFound = async (): Promise<boolean> => {
        const { lines } = await checked();
        const isFound = ({ check, state, message }: Break) =>
          lines.some((one) => one.check === check && one.state === state && message.test(one.message));
        missed = round.filter((one) => !isFound(one)).map(({ what }) => what);
        return missed.length === 0;
      };
      await until('each thing is found', areFound, { detail: () => `not: ${missed.join(', ')}\n${last}` });
      for (const { repair } of round) await repair(story);
    }
    await until('all is well again', isWell, { detail: () => last });
  });

  it('checks a cluster before the installation, with the rights of its user', async () => {
    const { of, lines } = await checked('--before');
    assert.deepEqual([of, lines.filter(({ state }) => state === 'problem')], ['before', []]);
    assert.ok(lines.some(({ check, state }) => check === 'your rights' && state === 'ok'));
    const { status, stdout } = await nodewall('mallory', 'check', '--before');
    assert.equal(status, 1);
    assert.match(stdout, /^problem {2}your rights +you may not create clusterrolebindings, /m);
    assert.match(stdout, /^warning {2}nodes +cannot be checked: .*RBAC needs/m);
  });

  it('refuses who may not, and names the right', async () => {
    for (const args of [
      ['rules', '--node', NODE],
      ['log', '--node', NODE],
      ['flows', '--node', NODE],
      ['status'],
    ]) {
      const { status, stderr } = await nodewall('mallory', ...args);
      assert.deepEqual([status, stderr.includes('403 Forbidden')], [3, true], stderr);
      assert.match(stderr, /RBAC needs .*(nodeviews|clusternetworkpolicies|guardrails)/);
    }
  });

  it('says that there is no such policy', async () => {
    const { status, stderr } = await nodewall('jane', 'rollout', 'status', 'no-such');
    assert.deepEqual([status, stderr], [1, 'nodewall: there is no ClusterNetworkPolicy no-such\n']);
  });

  it('names a node that does not answer, and goes on', async () => {
    const { status, stdout, stderr } = await nodewall('jane', 'log', '--all-nodes');
    assert.deepEqual([status, stderr], [0, '']);
    await story.agents['worker-2']?.end('SIGKILL');
    await until('it is named', async () => {
      const { stderr: said } = await nodewall('jane', 'log', '--all-nodes');
      return /worker-2: .*no agent of worker-2 that answers is connected|worker-2: .*did not answer/.test(
        said,
      );
    });
    assert.match(stdout, /^worker-1 {2}/m);
  });

  it('collects what maintainers need, without what others planted, also where nodes are silent', async () => {
    const { cluster } = story;
    const nodes = Array.from({ length: 17 }, (_, i) => `silent-${i + 1}`);
    const planted = plantedObjects(nodes);
    await cluster.apply(planted.text, { force: true });
    const file = join(cluster.folder, 'bundle.tar.gz');
    const bundle = (...args: readonly string[]) =>
      nodewall('admin', 'bundle', '--file', file, '-o', 'json', ...args);

    // The controllers have every Node once that is said of them.
    await until('all nodes are known', async () => {
      const { items } = JSON.parse(
        await cluster.kubectl(['get', '--raw', NODE_VIEWS_PATH]).then((one) => one.stdout),
      );
      return items.length === nodes.length + 3;
    });
    await cluster.apply('apiVersion: v1\nkind: Node\nmetadata: {name: silent-18}');
    await until('too many nodes are refused', async () => {
      const { status, stderr } = await bundle();
      return status === 2 && /21 nodes: give --yes/.test(stderr);
    });

    // Written where it was asked before the controllers knew the last node.
    await rm(file, { force: true });
    const begun = performance.now();
    const { status, stdout, stderr } = await bundle('--yes', '--with-flows');
    assert.ok(performance.now() - begun < 60_000, 'it took too long');
    assert.equal(status, 0, stderr);
    const { bytes, missing, parts } = JSON.parse(stdout);
    assert.ok(bytes < 50_000_000);
    const found = (await story.controlPlane.run(['tar', '-xzOf', file])).stdout;
    for (const secret of planted.secrets) assert.ok(!found.includes(secret), secret);
    for (const part of [
      'objects/clusternetworkpolicies.jsonl',
      'objects/clusterroles.jsonl',
      'nodes/worker-1/counters.json',
      'nodes/worker-1/flows.jsonl',
      'api-server.json',
    ])
      assert.ok(
        parts.some(({ name }: { name: string }) => name === part),
        `${part}: ${stdout}`,
      );
    for (const text of ['"reason":"Planted"', '"policy": "web"', 'kernelVersion', '"verdict": "Drop"'])
      assert.ok(found.includes(text), text);
    const names: readonly string[] = parts.map(({ name }: { name: string }) => name);
    const controllers = names.filter((name) => /^controllers\/.*\/(?:state\.json|metrics\.txt)$/.test(name));
    assert.equal(controllers.length, 4, names.join());
    for (const text of [
      'nodewall_controller_leader 1',
      'nodewall_controller_leader 0',
      '"missingRights": []',
    ])
      assert.ok(found.includes(text), text);
    const silent = missing
      .map(({ what }: { what: string }) => what)
      .filter((one: string) => /^node /.test(one));
    assert.deepEqual(silent.sort(), [...nodes, 'silent-18', 'worker-2'].map((name) => `node ${name}`).sort());
  });

  it('says what is in the file, and what is missing, as docs/command-line.md shows', async () => {
    await story.agents['worker-2']?.end('SIGTERM');
    const file = join(story.cluster.folder, 'shown.tar.gz');
    const line = 'nodewall bundle --node worker-1 --node worker-2';
    const { status, stdout, stderr } = await nodewall('admin', ...line.split(' ').slice(1), '--file', file);
    assert.equal(status, 0);
    const printed = `${stderr}${stdout}`
      .replace(file, 'nodewall-bundle-2026-11-27T000000Z.tar.gz')
      // The bed names two controllers that do not run.
      .replaceAll(/^nodewall: missing: controller .*\n/gm, '')
      .replace('3 missing', '1 missing');
    const docs = await readFile(join(ROOT, 'docs/command-line.md'), 'utf8');
    const shown = docs.split(`$ ${line}\n`)[1]?.split('```')[0] ?? '';
    const stable = (text: string): string => text.replaceAll(/\d{4}-\S+Z|\d+(?= bytes)/g, 'N');
    assert.equal(stable(shown), stable(printed), printed);
  });

  it('refuses a Node that the cluster does not have', async () => {
    const file = join(story.cluster.folder, 'none.tar.gz');
    const { status, stderr } = await nodewall('admin', 'bundle', '--node', 'nope', '--file', file);
    assert.equal(status, 1);
    assert.match(stderr, /--node: the cluster has no Node "nope"/);
  });

  it('collects what its user may see', async () => {
    const file = join(story.cluster.folder, 'jane.tar.gz');
    const { status, stdout } = await nodewall('jane', 'bundle', '--node', NODE, '--file', file, '-o', 'json');
    const { parts, missing, leftOut } = JSON.parse(stdout);
    assert.equal(status, 0);
    assert.equal(leftOut[0].what, 'flows');
    assert.ok(
      parts.some(({ name }: { name: string }) => /^controllers\/.*\/state\.json$/.test(name)),
      stdout,
    );
    assert.ok(
      parts.some(({ name }: { name: string }) => name === `nodes/${NODE}/records.json`),
      stdout,
    );
    const pods = missing.find(({ what }: { what: string }) => what === 'pods');
    assert.match(pods.why, /RBAC needs .*pods.*403 Forbidden/);
  });
});

/** Objects of nodewall's namespace and others, with credentials where somebody may have put one. */
function plantedObjects(nodes: readonly string[]) {
  const secrets: string[] = [];
  const plant = (): string => {
    secrets.push(`planted${secrets.length}secret`);
    return secrets.at(-1) ?? '';
  };
  const metadata = (name: string, namespace?: string) => ({
    name,
    ...(namespace === undefined ? {} : { namespace }),
    labels: { key: plant() },
    annotations: { 'example.com/password': plant() },
  });
  const system = 'nodewall-system';
  const container = {
    name: 'agent',
    image: 'nodewall:test',
    env: [{ name: 'TOKEN', value: plant() }],
    args: [`--password=${plant()}`],
    command: ['nodewall', plant()],
  };
  const event = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: metadata('planted', system),
    type: 'Warning',
    reason: 'Planted',
    message: `pull with token ${plant()} from https://u:${plant()}@r.example.com/`,
    involvedObject: { kind: 'Pod', name: 'nodewall-agent-x1', namespace: system },
  };
  const configuration = `# password: ${plant()}\nguard: {probes: [{name: p, http: "http://127.0.0.1/?k=${plant()}"}]}\n`;
  const objects = [
    { apiVersion: 'v1', kind: 'Secret', metadata: metadata('s', system), stringData: { password: plant() } },
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: metadata('nodewall-agent', system),
      data: { 'config.yaml': configuration, 'other.conf': plant() },
    },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: metadata('nodewall-agent-x1', system),
      spec: { nodeName: NODE, containers: [container] },
    },
    event,
    { ...closed('planted', 81), metadata: metadata('planted') },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: {
        ...metadata('planted'),
        labels: { 'app.kubernetes.io/part-of': 'nodewall', key: plant() },
      },
      rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['list'] }],
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: metadata('planted', system),
      spec: { type: 'ExternalName', externalName: `${plant()}.example.com` },
    },
    ...nodes.map((name) => ({ apiVersion: 'v1', kind: 'Node', metadata: metadata(name) })),
  ];
  return { secrets, text: objects.map((one) => JSON.stringify(one)).join('\n---\n') };
}
