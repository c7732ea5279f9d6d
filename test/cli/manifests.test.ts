import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NODEWALL } from '../program.ts';
import { run } from './command.ts';
import { hosted } from './command-host.ts';
import { closing, createFolder, type Folder, INVALID, NODE, POLICIES } from './folder.ts';

let folder: Folder;
beforeEach(async () => {
  folder = await createFolder();
});
afterEach(() => folder.close());

const at = (...args: readonly string[]) => [...args, '--manifests', folder.manifests];

describe('nodewall validate', function () {
  this.timeout(60_000);

  it('prints nothing and exits with 0 for valid manifests', async () => {
    await folder.write('node.yaml', [NODE]);
    await folder.write('a.json', [closing('a', 80)]);
    const { status, stdout, stderr } = await hosted(...at('validate'));
    assert.deepEqual([status, stdout], [0, '']);
    assert.match(stderr, /2 files, 1 valid policy, 0 errors, 0 warnings/);
  });

  it('accepts an empty directory as "no policies"', async () => {
    const { status, stdout } = await hosted(...at('validate', '-o', 'json'));
    assert.equal(status, 0);
    assert.deepEqual(JSON.parse(stdout), { valid: true, files: 0, policies: 0, problems: [] });
  });

  it('warns of pods that the configuration hides from other Nodes', async () => {
    const other = { ...NODE, metadata: { ...NODE.metadata, name: 'other' } };
    const pods = { name: 'pods', action: 'Reject', from: [{ podSelector: {}, namespaceSelector: {} }] };
    const { spec: before, ...policy } = closing('a', 80) as { spec: object };
    const spec = { ...before, ingress: [{ ...pods, ports: [{ port: 80 }] }] };
    await folder.write('a.json', [NODE, other, { ...policy, spec }]);
    const config = join(folder.path, 'config.yaml');
    await writeFile(config, 'masquerade: {enabled: true}');
    const { stdout } = await hosted(...at('validate', '--config', config));
    assert.match(stdout, /spec\.ingress\[0\]: warning: selects pods, and masquerade of the configuration/);
    await writeFile(config, 'masquerade: {enabled: true, except: [0.0.0.0/0, "::/0"]}');
    assert.doesNotMatch((await hosted(...at('validate', '--config', config))).stdout, /selects pods/);
  });

  it('says which family a rule leaves open, or does not open, where a Node has both', async () => {
    const from = [{ ipBlock: { cidr: '0.0.0.0/0' } }];
    const { spec: before, ...policy } = closing('a', 80) as { spec: object };
    const ingress = [
      { action: 'Allow', from: [{ ipBlock: { cidr: '10.0.0.0/8' } }], ports: [{ port: 443 }] },
      { action: 'Drop', from },
    ];
    await folder.write('a.json', [{ ...policy, spec: { ...before, ingress } }]);
    await folder.write('node.yaml', [NODE]);
    const severed = (await hosted(...at('validate'))).stdout;
    assert.match(severed, /ingress\[1\]: warning: closes SSH \(TCP port 22\) over IPv4 too;/);
    assert.doesNotMatch(severed, /IPv6/);
    const addresses = [...NODE.status.addresses, { type: 'InternalIP', address: '2001:db8::11' }];
    await folder.write('node.yaml', [{ ...NODE, status: { addresses } }]);
    const { status, stdout } = await hosted(...at('validate'));
    assert.equal(status, 0);
    assert.match(
      stdout,
      /ingress\[0\]: warning: has peers of IPv4 alone, so it does not open IPv6, which cp-1 has too;/,
    );
    assert.match(
      stdout,
      /ingress\[1\]: warning: has peers of IPv4 alone, so it leaves IPv6 open, which cp-1 has too;/,
    );
  });

  it('names the objects of other firewalls once for a kind, with the first file', async () => {
    const policies = ['x', 'y'].map((name) => {
      return { apiVersion: 'projectcalico.org/v3', kind: 'GlobalNetworkPolicy', metadata: { name } };
    });
    await folder.write('b.json', policies);
    const first = await folder.write('a.json', [{ ...policies[0], metadata: { name: 'w' } }]);
    await folder.write('c.json', [
      { ...policies[0], apiVersion: 'cilium.io/v2', kind: 'CiliumNetworkPolicy' },
    ]);
    const { status, stdout, stderr } = await hosted(...at('validate'));
    assert.equal(status, 0);
    const [calico, cilium, ...more] = stdout.trimEnd().split('\n');
    assert.ok(
      calico?.startsWith(`${first}:1: GlobalNetworkPolicy/w: notice: is of projectcalico.org, `),
      calico,
    );
    assert.match(calico ?? '', / \(one of 3 such objects in 2 files\)$/);
    assert.match(
      cilium ?? '',
      /c\.json:1: CiliumNetworkPolicy\/x: notice: is of cilium\.io, .* takes its place$/,
    );
    assert.deepEqual(more, []);
    assert.match(stderr, /0 errors, 0 warnings, 2 notices/);
    const { problems } = JSON.parse((await hosted(...at('validate', '-o', 'json'))).stdout);
    assert.equal(problems.length, 2);
    assert.ok(!('perKind' in problems[0]));
  });

  it('reads standard input, as behind kustomize build', async () => {
    const command = [NODEWALL, 'validate', '--manifests', '-'];
    const documents = [NODE, closing('a', 80)].map((one) => JSON.stringify(one)).join('\n---\n');
    const { status, stderr } = await run(command, { stdin: documents });
    assert.equal(status, 0, stderr);
    assert.match(stderr, /1 file, 1 valid policy, 0 errors, 0 warnings/);
    const wrong = await run(command, { stdin: documents.replace('"priority"', '"piority"') });
    assert.equal(wrong.status, 1);
    assert.match(wrong.stdout, /^standard input:\d+: ClusterNetworkPolicy\/a: spec\.piority: unknown field/m);
    const agent = await hosted('agent', '--manifests', '-', '--state-dir', folder.manifests);
    assert.equal(agent.status, 2);
    assert.match(agent.stderr, /give a file or directory, not -/);
  });

  it('reads JSON of kubectl and of jq from standard input, one value after the other', async () => {
    const items = [NODE, closing('a', 80)];
    const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items }, null, 2);
    const values = items.map((one) => JSON.stringify(one)).join('\n');
    for (const stdin of [list, values]) {
      const { stderr } = await run([NODEWALL, 'validate', '--manifests', '-'], { stdin });
      assert.match(stderr, /1 file, 1 valid policy, 0 errors, 0 warnings/);
    }
    const compiled = await run([NODEWALL, 'compile', '--manifests', '-', '--node', 'cp-1'], {
      stdin: values,
    });
    assert.match(compiled.stdout, /a\/close/);
    const twice = await run([NODEWALL, 'validate', '--manifests', '-'], {
      stdin: values.replace('"priority"', '"priority":1,"priority"'),
    });
    assert.match(twice.stdout, /^standard input:2: is not valid JSON: the field "priority" appears twice$/m);
  });

  it('reads no more of standard input than of a file, and wants something', async () => {
    for (const [stdin, reason] of [
      ['', 'it is empty; see whether the command before it failed'],
      [' '.repeat(64 * 1024 * 1024 + 1), 'it has more than 67108864 bytes (64 MiB)'],
    ] as const) {
      const { status, stdout } = await run([NODEWALL, 'validate', '--manifests', '-'], { stdin });
      assert.deepEqual([status, stdout], [1, `standard input: can't be read: ${reason}\n`]);
    }
    const { status, stderr } = await run([NODEWALL, 'explain', '--manifests', '-', '--to-port', '22']);
    assert.equal(status, 1);
    assert.match(
      stderr,
      /^standard input: can't be read: .*\nnodewall: the manifests cannot be read; see above$/m,
    );
  });

  it('gives standard input to one option alone', async () => {
    for (const args of [
      ['diff', '-', '-'],
      ['explain', '--manifests', '-', '--flows', '-'],
    ]) {
      const { status, stderr } = await hosted(...args);
      assert.equal(status, 2);
      assert.match(stderr, /^nodewall: only one of .* can be standard input$/m);
    }
  });

  it('warns at the policy if pods would lose the API server', async () => {
    const labels = { 'node-role.kubernetes.io/control-plane': '' };
    const node = { ...NODE, metadata: { name: 'cp-1', labels }, spec: { podCIDRs: ['10.244.0.0/24'] } };
    await folder.write('node.yaml', [node]);
    const rules = (cidr: string) =>
      `apiVersion: nodewall.io/v1alpha1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\nspec:\n  priority: 5\n  appliedTo: [{nodeSelector: {}}]\n  ingress:\n    - {action: Allow, from: [{ipBlock: {cidr: ${cidr}}}], ports: [{port: 6443}]}\n    - {action: Drop}\n`;
    const file = await folder.write('p.yaml', rules('192.0.2.0/24'));
    const { status, stdout } = await hosted(...at('validate'));
    assert.equal(status, 0);
    const line = `${file}:1: ClusterNetworkPolicy/p: spec.ingress[1]: warning: closes the API server (TCP 6443) to pods`;
    assert.ok(stdout.includes(line), stdout);
    await folder.write('p.yaml', rules('10.244.0.0/16'));
    assert.doesNotMatch((await hosted(...at('validate'))).stdout, /closes the API server/);
  });

  it('prints every problem of every file, and exits with 1', async () => {
    const text =
      'apiVersion: nodewall.io/v1alpha1\nkind: ClusterNetworkPolicy\nmetadata: {name: two}\nspec:\n  priority: 5\n  appliedTo: [{nodeSelector: {}}]\n  ingress:\n    - {name: r, action: Drop, ports: [{protocol: TCP, port: 80, endPort: 79}]}\n';
    const two = await folder.write('two.yaml', text);
    const one = await folder.write('sub/one.json', [INVALID]);
    const half = await folder.write('half.yml', 'kind: [');
    const { status, stdout } = await hosted(...at('validate'));
    assert.equal(status, 1);
    const lines = stdout.trimEnd().split('\n');
    assert.ok(
      lines.some((line) =>
        line.startsWith(`${two}:8: ClusterNetworkPolicy/two: spec.ingress[0].ports[0].endPort: `),
      ),
      stdout,
    );
    assert.ok(
      lines.some((line) => line.startsWith(`${one}:1: ClusterNetworkPolicy/broken: spec.priority: `)),
      stdout,
    );
    assert.ok(
      lines.some((line) => line.startsWith(`${half}:`)),
      stdout,
    );
    for (const line of lines) assert.match(line, /^\/\S+:\d+: /);
    const parsed = JSON.parse((await hosted(...at('validate', '-o', 'json'))).stdout);
    assert.equal(parsed.valid, false);
    assert.equal(parsed.problems.length, lines.length);
    for (const problem of parsed.problems) {
      assert.deepEqual(
        ['severity', 'file', 'line', 'kind', 'name', 'path', 'message'].filter((key) => !(key in problem)),
        [],
      );
    }
  });

  it('exits with 0 for warnings only', async () => {
    await folder.write('a.json', [
      {
        apiVersion: 'nodewall.io/v1alpha1',
        kind: 'ClusterNetworkPolicy',
        metadata: { name: 'a' },
        spec: {
          priority: 5,
          appliedTo: [{ nodeSelector: {} }],
          ingress: [
            {
              name: 'r',
              action: 'Drop',
              from: [{ ipBlock: { cidr: '10.0.0.5/8' } }],
              ports: [{ protocol: 'TCP', port: 1 }],
            },
          ],
        },
      },
    ]);
    const { status, stdout } = await hosted(...at('validate'));
    assert.equal(status, 0);
    assert.match(stdout, /10\.0\.0\.5\/8/);
  });

  it('accepts files and directories, and several of them', async () => {
    const file = await folder.write('a.json', [closing('a', 80)]);
    const other = join(folder.path, 'other');
    await mkdir(other);
    const { status, stdout } = await hosted(
      'validate',
      '--manifests',
      file,
      '--manifests',
      other,
      '-o',
      'json',
    );
    assert.deepEqual([status, JSON.parse(stdout).files], [0, 1]);
  });

  for (const command of [
    ['validate'],
    ['compile', '--node', 'cp-1'],
    ['explain', '--node', 'cp-1', '--flow', '{"direction":"ingress"}'],
  ]) {
    it(`${command[0]}: a missing directory exits with 1 and is named`, async () => {
      const { status, stdout, stderr } = await hosted(...command, '--manifests', '/no/such/directory');
      assert.equal(status, 1);
      assert.match(stdout + stderr, /\/no\/such\/directory/);
      assert.doesNotMatch(stderr, /\n +at /);
    });
  }
});

describe('nodewall compile', function () {
  this.timeout(60_000);
  beforeEach(async () => {
    await folder.write('objects.json', [NODE, ...POLICIES]);
  });

  it('shows the rules in order as a table', async () => {
    const { status, stdout } = await hosted(...at('compile', '--node', 'cp-1'));
    assert.equal(status, 0);
    const [header, ...rows] = stdout.trimEnd().split('\n');
    assert.match(header ?? '', /direction +tier +priority +policy\/rule +action/);
    assert.deepEqual(
      rows.map((row) => /\S+\/\S+/.exec(row)?.[0]),
      ['allow-api/from-office', 'allow-api/no-ssh', 'deny/all', 'deny/smtp'],
    );
    for (const row of rows) assert.equal(row, row.trimEnd());
  });

  it('prints one JSON document with the documented fields', async () => {
    const { status, stdout } = await hosted(...at('compile', '--node', 'cp-1', '-o', 'json'));
    assert.equal(status, 0);
    const { node, rules, addressSets } = JSON.parse(stdout);
    assert.equal(node, 'cp-1');
    assert.deepEqual(
      rules.map(
        ({
          direction,
          tier,
          tierPriority,
          priority,
          policy,
          rule,
          ruleIndex,
          action,
          mode,
          traffic,
        }: Record<string, unknown>) =>
          [direction, tier, tierPriority, priority, policy, rule, ruleIndex, action, mode, traffic].join(' '),
      ),
      [
        'ingress securityops 100 10 allow-api from-office 0 Allow Enforce Host',
        'ingress securityops 100 10 allow-api no-ssh 1 Reject Enforce Host',
        'ingress application 250 5 deny all 0 Drop Enforce Host',
        'egress application 250 5 deny smtp 0 Drop Enforce Host',
      ],
    );
    assert.equal(new Set(rules.map(({ id }: { id: string }) => id)).size, 4);
    const [set] = rules[0].addressSets;
    assert.deepEqual(addressSets[set].members, ['10.0.0.0/24']);
    assert.deepEqual(Object.keys(addressSets), [set]);
    assert.deepEqual(rules[0].services, [{ protocol: 'tcp', ports: [6443, 6443] }]);
    assert.deepEqual(rules[2].services, []);
  });

  it('prints the nft text that the agent would load, the same for any order of files', async () => {
    const { status, stdout } = await hosted(...at('compile', '--node', 'cp-1', '-o', 'nft'));
    assert.equal(status, 0);
    assert.match(stdout, /^table inet nodewall \{\n[\s\S]*comment "allow-api\/from-office"[\s\S]*\n\}\n$/);
    await folder.write('objects.json', [...POLICIES].reverse());
    await folder.write('z/node.json', [NODE]);
    assert.equal((await hosted(...at('compile', '--node', 'cp-1', '-o', 'nft'))).stdout, stdout);
  });

  it('prints the input for ipset and both iptables, each under its command, the same for any order of files', async () => {
    const compile = () => hosted(...at('compile', '--node', 'cp-1', '-o', 'iptables'));
    const { status, stdout } = await compile();
    assert.equal(status, 0);
    const [before, sets = '', v4 = '', v6 = ''] = stdout.split(/^# .*\n/m);
    assert.deepEqual(stdout.match(/^# .*/gm), [
      '# ipset restore',
      '# iptables-restore --noflush',
      '# ip6tables-restore --noflush',
    ]);
    assert.equal(before, '');
    // The failsafe list's: Nodes, and controllers, of which there are none.
    assert.match(
      sets,
      /^create (nodewall-\S+) hash:ip family inet .*\nadd \1 192\.0\.2\.11\ncreate nodewall-\S+ hash:ip family inet .*\n$/,
    );
    for (const text of [v4, v6]) assert.match(text, /^\*filter\n[\s\S]*"deny\/all"[\s\S]*\nCOMMIT\n$/);
    assert.match(v4, /^-A NODEWALL-in-tcp-to-fs .*--match-set nodewall-\S+ src .*--comment failsafe/m);
    assert.match(v4, /"allow-api\/from-office"/);
    assert.doesNotMatch(v6, /from-office|match-set/);
    await folder.write('objects.json', [...POLICIES].reverse());
    await folder.write('z/node.json', [NODE]);
    assert.equal((await compile()).stdout, stdout);
  });

  it('names the known nodes for an unknown one, and exits with 1', async () => {
    const { status, stdout, stderr } = await hosted(...at('compile', '--node', 'cp-2'));
    assert.deepEqual([status, stdout], [1, '']);
    assert.match(stderr, /no manifest declares Node cp-2; declared: cp-1/);
  });

  it('leaves out an invalid policy and names it; --strict exits with 1', async () => {
    await folder.write('bad.json', [INVALID]);
    for (const [args, expected] of [
      [[], 0],
      [['--strict'], 1],
    ] as const) {
      const { status, stdout, stderr } = await hosted(
        ...at('compile', '--node', 'cp-1', '-o', 'json', ...args),
      );
      assert.equal(status, expected);
      assert.equal(JSON.parse(stdout).rules.length, 4);
      assert.match(stderr, /bad\.json:1: ClusterNetworkPolicy\/broken: spec\.priority: /);
    }
  });

  it('rejects an invalid configuration, with every problem', async () => {
    const config = await folder.writeBeside('config.yaml', 'dispatch: fast\nnonsense: 1\n');
    const { status, stdout, stderr } = await hosted(...at('compile', '--node', 'cp-1', '--config', config));
    assert.deepEqual([status, stdout], [1, '']);
    assert.match(stderr, /dispatch/);
    assert.match(stderr, /nonsense/);
    const missing = await hosted(...at('compile', '--node', 'cp-1', '--config', '/no/such/file'));
    assert.equal(missing.status, 1);
    assert.match(missing.stderr, /\/no\/such\/file/);
  });
});

describe('nodewall dump', function () {
  this.timeout(60_000);
  beforeEach(async () => {
    await folder.write('objects.json', [NODE, ...POLICIES]);
  });

  it('prints the value of each stage', async () => {
    const objects = JSON.parse((await hosted(...at('dump', 'objects'))).stdout);
    assert.deepEqual(
      objects.policies.map(({ name }: { name: string }) => name),
      ['allow-api', 'deny'],
    );
    const wire = (await hosted(...at('dump', 'wire', '--node', 'cp-1'))).stdout.trimEnd().split('\n');
    const types = wire.map((line) => JSON.parse(line).type);
    assert.equal(types[0], 'node');
    assert.equal(types.at(-1), 'bookmark');
    const state = JSON.parse((await hosted(...at('dump', 'state', '--node', 'cp-1'))).stdout);
    assert.equal(state.rules.length, 4);
    const text = (await hosted(...at('dump', 'transaction', '--node', 'cp-1', '--from-empty'))).stdout;
    assert.match(text, /^# prepare\nadd table inet nodewall\n[\s\S]*# swap\n/);
  });
});
