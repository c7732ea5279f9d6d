import assert from 'node:assert/strict';
import { NODEWALL } from '../program.ts';
import { run } from './command.ts';
import { hosted } from './command-host.ts';
import { createFolder, type Folder, INVALID, NODE, POLICIES } from './folder.ts';

const flow = (fields: object) =>
  JSON.stringify({
    direction: 'ingress',
    src: '198.51.100.7',
    dst: '192.0.2.11',
    protocol: 'tcp',
    ...fields,
  });

describe('nodewall explain', function () {
  this.timeout(60_000);
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
    await folder.write('objects.json', [NODE, ...POLICIES]);
  });
  after(() => folder.close());

  const explain = (...args: readonly string[]) =>
    hosted('explain', '--manifests', folder.manifests, '--node', 'cp-1', ...args);
  const answer = async (fields: object) =>
    JSON.parse((await explain('--flow', flow(fields), '-o', 'json')).stdout);

  it('warns about fqdn peers without addresses, with --names and without', async () => {
    const names = await folder.writeBeside('names.yaml', 'Registry.example.com.: [192.0.2.80]\n');
    const args = ['--manifests', 'docs/examples/fqdn/manifests', '--node', 'node-0', '--flow', flow({})];
    assert.match(
      (await hosted('explain', ...args)).stderr,
      /^no address is known for \*\.cdn\.example\.com, registry\.example\.com: .* --names FILE$/m,
    );
    assert.match(
      (await hosted('explain', ...args, '--names', names)).stderr,
      /^no address is known for \*\.cdn\.example\.com: .* in \S+names\.yaml$/m,
    );
  });

  it('says that a port is one of health checks, where the Node itself answers', async () => {
    const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web', namespace: 'default' } };
    const ports = [{ port: 443, nodePort: 30_443, protocol: 'TCP' }];
    await folder.write('web.json', [{ ...service, spec: { healthCheckNodePort: 32_181, ports } }]);
    const asked = async (fields: object) => (await explain('--flow', flow(fields))).stdout;
    const is =
      /^(Allow|Drop): .*; TCP 32181 is the healthCheckNodePort of Service default\/web, where the Node itself answers/;
    assert.match(await asked({ dstPort: 32_181 }), new RegExp(`${is.source}$`, 'm'));
    const asNodePort = { traffic: 'NodePort', dstPort: 32_181 };
    assert.match(
      await asked(asNodePort),
      new RegExp(`${is.source}, so this is no NodePort traffic: ask without "traffic"$`, 'm'),
    );
    assert.equal((await answer(asNodePort)).healthCheckOf, 'default/web');
    for (const other of [{ dstPort: 32_182 }, { protocol: 'udp', dstPort: 32_181 }])
      assert.equal((await answer(other)).healthCheckOf, undefined);
    await folder.write('web.json', []);
  });

  it('gives the verdict, the rule and the reason', async () => {
    const { considered, ...rest } = await answer({ dstPort: 22 });
    assert.deepEqual(rest, {
      verdict: 'Reject',
      policy: 'allow-api',
      rule: 'no-ssh',
      ruleIndex: 1,
      tier: 'securityops',
      reason: 'rule',
      skipped: [],
    });
    assert.deepEqual(
      considered.map(({ rule, outcome }: Record<string, string>) => `${rule} ${outcome}`),
      ['from-office no match', 'no-ssh decided'],
    );
    const { considered: none, ...open } = await answer({
      direction: 'egress',
      dstPort: 80,
      src: '192.0.2.11',
      dst: '198.51.100.7',
    });
    assert.deepEqual(open, {
      verdict: 'Allow',
      policy: null,
      rule: null,
      ruleIndex: null,
      tier: null,
      reason: 'default',
      skipped: [],
    });
    assert.equal(none.length, 1);
  });

  it('reports that the failsafe list changed the verdict', async () => {
    const found = await answer({ src: '192.0.2.11', dst: '192.0.2.12', dstPort: 10250 });
    assert.deepEqual(
      [found.verdict, found.reason, found.skipped],
      ['Allow', 'failsafe', [{ policy: 'deny', rule: 'all' }]],
    );
  });

  it('reports that as text, too', async () => {
    const { status, stdout } = await explain('--flow', flow({ dstPort: 22, srcPort: 40000 }));
    assert.equal(status, 0);
    assert.match(stdout, /^ingress tcp on cp-1: 198\.51\.100\.7 port 40000 to 192\.0\.2\.11 port 22\n/);
    assert.match(stdout, /allow-api\/from-office .*no match/);
    assert.match(stdout, /\nReject: rule allow-api\/no-ssh \(tier securityops\)\n$/);
  });

  for (const [what, text, message] of [
    ['no JSON', '{', /--flow: /],
    ['no object', '[]', /a flow is a JSON object/],
    ['no direction', '{"dstPort":1}', /direction: is required/],
    [
      'an unknown field',
      '{"direction":"ingress","port":1}',
      /port: unknown field; a flow has direction, src/,
    ],
    [
      'a port out of range',
      flow({ dstPort: 65536 }),
      /dstPort: 65536 is not valid; must be a number from 0 to 65535/,
    ],
    ['two families', flow({ src: '::1' }), /not of one IP family/],
    ['no address', flow({ src: '10.0.0' }), /src: "10\.0\.0" is not valid/],
  ] as const) {
    it(`exits with 1 for a flow with ${what}`, async () => {
      const { status, stdout, stderr } = await explain('--flow', text);
      assert.deepEqual([status, stdout], [1, '']);
      assert.match(stderr, message);
    });
  }

  it('answers flows line by line in order, and continues after an invalid one', async () => {
    const ports = Array.from({ length: 3000 }, (_, i) => 1 + (i % 60));
    const lines = ports.map((dstPort) => flow({ dstPort }));
    lines[1500] = '{"direction":"sideways"}';
    const file = await folder.writeBeside(
      'flows.jsonl',
      `${lines.slice(0, 10).join('\n')}\n\n${lines.slice(10).join('\n')}\n`,
    );
    const { status, stdout, stderr } = await explain('--flows', file, '-o', 'json');
    assert.equal(status, 1);
    assert.match(stderr, /flows\.jsonl:1502: direction: "sideways" is not valid/);
    const answers = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.equal(answers.length, 3000);
    for (const [i, found] of answers.entries()) {
      if (i === 1500) assert.match(found.error, /sideways/);
      else assert.equal(found.rule, ports[i] === 22 ? 'no-ssh' : 'all', `line ${i}`);
    }
  });

  it('reads flows from standard input, and accepts empty input', async () => {
    const args = [
      NODEWALL,
      'explain',
      '--manifests',
      folder.manifests,
      '--node',
      'cp-1',
      '--flows',
      '-',
      '-o',
      'json',
    ];
    const { status, stdout } = await run(args, { stdin: flow({ dstPort: 22 }) });
    assert.deepEqual([status, JSON.parse(stdout).rule], [0, 'no-ssh']);
    const none = await run(args);
    assert.deepEqual([none.status, none.stdout], [0, '']);
  });

  it('exits with 1 for a missing file of flows', async () => {
    const { status, stderr } = await explain('--flows', '/no/such/file');
    assert.equal(status, 1);
    assert.match(stderr, /--flows: .*\/no\/such\/file/);
  });

  it('leaves out an invalid policy; --strict exits with 1', async () => {
    const other = await createFolder();
    await other.write('objects.json', [NODE, INVALID]);
    for (const [args, expected] of [
      [[], 0],
      [['--strict'], 1],
    ] as const) {
      const { status, stdout, stderr } = await hosted(
        'explain',
        '--manifests',
        other.manifests,
        '--node',
        'cp-1',
        '--flow',
        flow({}),
        '-o',
        'json',
        ...args,
      );
      assert.equal(status, expected);
      assert.equal(JSON.parse(stdout).verdict, 'Allow');
      assert.match(stderr, /ClusterNetworkPolicy\/broken/);
    }
    await other.close();
  });
});
