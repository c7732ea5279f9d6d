import assert from 'node:assert/strict';
import { NODEWALL } from '../program.ts';
import { run } from './command.ts';
import { hosted } from './command-host.ts';
import { createFolder } from './folder.ts';

const MANIFESTS = ['--manifests', 'docs/examples/egress'];
const FLOW = { traffic: 'Egress', pod: 'shop/pay-1', dst: '203.0.113.5' };

const explain = (flow: object, ...args: readonly string[]) =>
  hosted('explain', ...MANIFESTS, '--flow', JSON.stringify(flow), ...args);

describe('nodewall explain of egress flows', function () {
  this.timeout(60_000);

  it('needs no --node, which changes nothing', async () => {
    const { status, stdout, stderr } = await explain(FLOW, '-o', 'json');
    const { considered, node, ...answer } = JSON.parse(stdout);
    assert.equal(status, 0);
    assert.deepEqual(answer, {
      verdict: 'Gateway',
      policy: 'shop/bank',
      gateway: 'internet',
      address: '198.51.100.20',
      reason: 'policy',
    });
    assert.match(node, /^edge-[12]$/);
    assert.deepEqual(
      considered.map(({ policy, mismatch, outcome }: Record<string, string>) => [policy, mismatch, outcome]),
      [
        ['mirror', 'destination', 'no match'],
        ['shop/bank', null, 'decided'],
      ],
    );
    assert.match(stderr, /^feature gate EgressGateway is off/m);
    const named = await explain(FLOW, '-o', 'json', '--node', 'worker-1');
    assert.equal(named.stdout, stdout);
  });

  it('says nothing of the gate where it is on', async () => {
    const folder = await createFolder();
    const config = await folder.writeBeside('config.yaml', 'featureGates: {EgressGateway: true}\n');
    assert.equal((await explain(FLOW, '--config', config)).stderr, '');
    await folder.close();
  });

  it('reads well', async () => {
    const { stdout } = await explain({ ...FLOW, dst: '1.1.1.1', protocol: 'tcp', dstPort: 443 });
    assert.deepEqual(stdout.split('\n'), [
      'egress gateways, tcp: pod shop/pay-1 to 1.1.1.1 port 443',
      '',
      '#  stage      priority  policy      action   outcome',
      '1  Override   1000      mirror      Direct   no match: destination',
      '2  Namespace  1000      shop/bank   Gateway  no match: destination',
      '3  Default    1000      everything  Gateway  decided',
      '',
      'Gateway: policy everything, gateway spread, one of the nodes edge-1, edge-2, one of the addresses 192.0.2.11, 192.0.2.12',
      '',
    ]);
  });

  it('answers both kinds of flows of one file, in their order', async () => {
    const flows = [
      FLOW,
      { direction: 'ingress', protocol: 'tcp', dstPort: 22 },
      { traffic: 'Egress', pod: 'shop/none', dst: '1.1.1.1' },
      { traffic: 'Egress', src: '10.244.1.8', dst: '1.1.1.1' },
    ];
    const stdin = flows.map((flow) => JSON.stringify(flow)).join('\n');
    const args = [NODEWALL, 'explain', ...MANIFESTS, '--flows', '-', '-o', 'json'];
    const { status, stdout, stderr } = await run([...args, '--node', 'edge-1'], { stdin });
    const [first, second, third, fourth] = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      [first.verdict, second.verdict, fourth.verdict, fourth.reason],
      ['Gateway', 'Allow', 'Drop', 'unknown-pod'],
    );
    assert.equal(third.error, 'standard input:3: pod: there is no running pod shop/none in the manifests');
    assert.match(stderr, /there is no running pod shop\/none/);
    assert.equal(status, 1);
    const without = await run(args, { stdin });
    assert.equal(without.status, 2);
    assert.match(without.stderr, /give --node NAME: the manifests declare/);
  });

  it('names every wrong field', async () => {
    const wrong = { traffic: 'Egress', pod: 'shop', src: 'x', dstPort: '9', originalDst: '1.1.1.1' };
    const { status, stderr } = await explain(wrong);
    assert.equal(status, 1);
    for (const part of [
      'pod: "shop" is not valid; must be "namespace/name" of a pod',
      'src: "x" is not valid; must be an IP address',
      'dstPort: "9" is not valid',
      'originalDst: unknown field; a flow of traffic Egress has traffic, pod, src, dst,',
      'dst: is required',
      'pod, src: exactly one of the two is required',
    ])
      assert.ok(stderr.includes(part), `${part}\n${stderr}`);
    const mixed = await explain({ traffic: 'Egress', src: '10.0.0.1', dst: '2001:db8::1' });
    assert.match(mixed.stderr, /src, dst: 10\.0\.0\.1 and 2001:db8::1 are not of one IP family/);
  });
});

describe('nodewall compile of egress gateways', function () {
  this.timeout(60_000);

  it('shows what the node steers and takes', async () => {
    const at = (node: string, ...args: string[]) => hosted('compile', ...MANIFESTS, '--node', node, ...args);
    const { stdout } = await at('worker-1');
    assert.match(stdout, /^Egress gateways on worker-1: tunnel address 192\.0\.2\.21, 0 pod addresses/m);
    assert.match(stdout, /^10\.244\.1\.7 +203\.0\.113\.0\/24 +shop\/bank +slot \d+ to edge-[12]$/m);
    const { egress } = JSON.parse((await at('edge-1', '-o', 'json')).stdout);
    assert.deepEqual(Object.keys(egress.arrivals), ['10.244.1.7']);
    assert.ok(egress.inside.includes('10.96.0.0/12'));
  });
});
